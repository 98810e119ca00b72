//! The format that a client prefers (RFC 9110, section 12.5.1).
//!
//! Invariant: Accept only chooses between the formats. A field that excludes both, or cannot be
//! parsed, has no effect.

use super::format::Format;

/// The preferences of all Accept fields of a head.
#[derive(Debug, Clone, Copy, Default)]
pub struct Accept {
    xml: Weight,
    json: Weight,
}

/// The weight of a format, and how specific the range is that sets it.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    closeness: u8,
    thousandths: u16,
}

impl Weight {
    /// Takes a more specific range. Of two equally specific ranges, the larger weight counts.
    fn take(&mut self, other: Weight) {
        if (other.closeness, other.thousandths) > (self.closeness, self.thousandths) {
            *self = other;
        }
    }
}

const ANY: u8 = 1;
const ANY_OF_TYPE: u8 = 2;
const EXACT: u8 = 3;

impl Accept {
    /// Adds a field. Several fields are equivalent to one list.
    #[inline]
    pub fn add(&mut self, value: &[u8]) {
        // Most clients send this value, which prefers neither format.
        if value == b"*/*" {
            let any = Weight { closeness: ANY, thousandths: 1000 };
            self.xml.take(any);
            self.json.take(any);
        } else {
            self.add_list(value);
        }
    }

    fn add_list(&mut self, value: &[u8]) {
        for element in value.split(|&byte| byte == b',') {
            let mut parts = element.split(|&byte| byte == b';');
            let range = parts.next().unwrap_or_default().trim_ascii();
            let Some(thousandths) = weight(parts) else { continue };
            let (closeness, xml, json) = match Format::of_media_type(range) {
                Some(format) => (EXACT, format == Format::Xml, format == Format::Json),
                None if range == b"*/*" => (ANY, true, true),
                None if range.eq_ignore_ascii_case(b"application/*") => (ANY_OF_TYPE, true, true),
                None if range.eq_ignore_ascii_case(b"text/*") => (ANY_OF_TYPE, true, false),
                None => continue,
            };
            let weight = Weight { closeness, thousandths };
            if xml {
                self.xml.take(weight);
            }
            if json {
                self.json.take(weight);
            }
        }
    }

    /// The preferred format, or `own` if the client prefers neither.
    #[inline]
    pub fn choose(&self, own: Format) -> Format {
        match self.xml.thousandths.cmp(&self.json.thousandths) {
            std::cmp::Ordering::Less => Format::Json,
            std::cmp::Ordering::Equal => own,
            std::cmp::Ordering::Greater => Format::Xml,
        }
    }
}

/// The weight among the parameters of a range. 1000 if there is none, `None` if it is invalid.
fn weight<'a>(parameters: impl Iterator<Item = &'a [u8]>) -> Option<u16> {
    for parameter in parameters {
        let parameter = parameter.trim_ascii();
        if let [b'q' | b'Q', b'=', value @ ..] = parameter {
            return thousandths(value);
        }
    }
    Some(1000)
}

/// Parses `0` or `1` and up to three decimals, at most 1.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut sum = u16::from(whole - b'0') * 1000;
    for (digit, place) in decimals.iter().zip([100, 10, 1]) {
        if !digit.is_ascii_digit() {
            return None;
        }
        sum += u16::from(digit - b'0') * place;
    }
    (sum <= 1000).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(fields: &[&str], own: Format) -> Format {
        let mut accept = Accept::default();
        fields.iter().for_each(|field| accept.add(field.as_bytes()));
        accept.choose(own)
    }

    #[test]
    fn the_format_that_is_wanted_more() {
        use Format::{Json, Xml};
        for (field, expected) in [
            ("application/json", Json),
            ("application/xml", Xml),
            ("text/xml", Xml),
            ("APPLICATION/Json", Json),
            ("text/*", Xml),
            ("application/json;q=0.5, application/xml;q=0.4", Json),
            ("application/json;q=0.4,application/xml;q=0.5", Xml),
            ("application/json;q=0.999, text/xml", Xml),
            ("application/xml;q=0.1, text/xml;q=0.9, application/json;q=0.5", Xml),
            ("application/json;Q=0.9, */*;q=0.8", Json),
            ("application/xml;q=0.9, */*;q=0.8", Xml),
            ("text/html, application/xml;q=0.9, */*;q=0.8", Xml),
            // The most specific range counts, not the largest weight.
            ("*/*, application/xml;q=0.5", Json),
            ("application/*, application/json;q=0.1", Xml),
            ("application/*;q=0.2, */*;q=0.9, text/xml;q=0.1", Json),
            ("application/xml;q=0, */*", Json),
            ("application/json;q=0, */*;q=0.001", Xml),
            ("application/json ; charset=utf-8 ; q=0.5 , application/xml ; q=0.4", Json),
            ("application/json;q=0.5;x=y, text/xml;q=0.4;q=1", Json),
            (", ,application/json,,", Json),
        ] {
            for own in [Xml, Json] {
                assert_eq!(chosen(&[field], own), expected, "{field}");
            }
        }
        assert_eq!(chosen(&["text/html", "application/json"], Xml), Json);
        assert_eq!(chosen(&["application/json;q=0.3", "application/xml;q=0.4"], Json), Xml);
        assert_eq!(chosen(&["*/*", "application/xml;q=0.5"], Xml), Json);
    }

    #[test]
    fn nothing_is_said_and_never_refused() {
        for field in [
            "",
            "*/*",
            "*/*;q=0.1",
            "application/*",
            "text/html",
            "application/json, application/xml",
            "application/json;q=0, application/xml;q=0",
            "application/xml;q=0",
            "*/*;q=0",
            "application/json;q=2",
            "application/json;q=1.001",
            "application/json;q=0.1234",
            "application/json;q=.5",
            "application/json;q=",
            "application/json;q=x",
            "application/json;q=-1",
            "application/jsonish",
            "json",
            "/",
            ";q=1",
        ] {
            for own in [Format::Xml, Format::Json] {
                assert_eq!(chosen(&[field], own), own, "{field}");
            }
        }
    }
}
