//! Reads and writes a document in either format.
//!
//! Invariant: this file only chooses the format; the formats do the reading and writing.

use super::format::{Bounds, Decoded, Format};
use super::{Error, Line, document_format, json, xml};
use frs_conf::Listen;
use frs_engine::{Answers, Command, Request};

/// Reads the document `body` into `request`, which is emptied first.
#[inline]
pub fn read(
    format: Format,
    body: &[u8],
    command: Command,
    bounds: Bounds,
    decoded: &mut Decoded,
    request: &mut Request,
) -> Result<(), Error> {
    match format {
        Format::Xml => xml::read(body, command, bounds, decoded, request),
        Format::Json => json::read(body, command, bounds, decoded, request),
    }
}

/// Appends the response document of `request`. `line` is scratch.
#[inline]
pub fn write(
    format: Format,
    out: &mut Vec<u8>,
    line: &mut Line,
    request: &Request,
    answers: &Answers,
) {
    match format {
        Format::Xml => document_format::write::<xml::Xml>(out, line, request, answers),
        Format::Json => document_format::write::<json::Json>(out, line, request, answers),
    }
}

/// Appends the document of an error of the whole request, which may name the address of the admin
/// plane. `line` is scratch.
pub fn write_error(
    format: Format,
    out: &mut Vec<u8>,
    line: &mut Line,
    error: &Error,
    admin: Option<&Listen>,
) {
    match format {
        Format::Xml => document_format::write_error::<xml::Xml>(out, line, error, admin),
        Format::Json => document_format::write_error::<json::Json>(out, line, error, admin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs_base::scan::Short;
    use frs_engine::{
        Answer, Figures, HistorySpan, ItemError, ItemOptions, LimitFigures, List, Mark, Noted,
        Verdict,
    };

    /// Names and their answer.
    struct Element {
        biz: String,
        key: String,
        result: Result<Verdict, ItemError>,
        has_details: bool,
    }

    fn written(format: Format, line: &mut Line, elements: &[&Element]) -> String {
        let figures =
            Figures { used: u64::MAX, max: u64::MAX, remaining: 7, reset_ms: Some(u64::MAX) };
        let (index, retry_ms) = (u16::MAX, Some(u64::MAX));
        let policy = "sliding-counter";
        let (mut request, mut answers) = (Request::default(), Answers::default());
        answers.refused = true;
        let history = HistorySpan::default();
        let limited = true;
        let error_thousandths = Some(999);
        let longest =
            LimitFigures { index, policy, figures, retry_ms, limited, error_thousandths, history };
        for _ in 0..2 {
            answers.details.push(longest, Some(std::iter::repeat_n(u32::MAX, 366)));
        }
        for Element { biz, key, result, has_details } in elements {
            request.push(biz, key, ItemOptions::ONE);
            let details = if *has_details { 0..2 } else { 0..0 };

            answers.items.push(Answer { biz: Some(0), result: *result, details, action: 0 });
        }
        let mut out = Vec::new();
        write(format, &mut out, line, &request, &answers);
        String::from_utf8(out).unwrap()
    }

    /// Text for which there is no room would silently be missing.
    #[test]
    fn the_longest_element_is_whole_however_full_the_line_is() {
        let most = Figures {
            used: u64::MAX,
            max: u64::MAX,
            remaining: u64::MAX,
            reset_ms: Some(u64::MAX),
        };
        let longest = Verdict {
            limited: true,
            shadow: true,
            banned: true,
            degraded: true,
            limit: u16::MAX,
            figures: most,
            list: Some(List::Allow),
            weight: Some(u32::MAX),
            retry_ms: Some(u64::MAX),
            noted: Noted::NOTHING
                .granting(i32::MAX as u32)
                .with(Mark::Repeated, true)
                .with(Mark::UnknownHold, true)
                .holding(Some(u64::MAX - 1)),
            ..Verdict::UNJUDGED
        };
        let of = |len: usize, result, has_details| {
            let (biz, key) = ("b".repeat(len), "k".repeat(len));
            Element { biz, key, result, has_details }
        };
        let longest = [false, true].map(|details| of(Short::MAX_BYTES, Ok(longest), details));
        let short = of(1, Err(ItemError::Full), false);
        // Their lengths differ by one byte each, up to the length of one more short element.
        let filling = [0, 1].map(|odd| {
            (1..=20).map(move |len| {
                let error = if odd == 0 { ItemError::Full } else { ItemError::Store };
                of(len, Err(error), false)
            })
        });
        let filling: Vec<Element> = filling.into_iter().flatten().collect();
        for (format, [head, between, tail]) in [
            (Format::Xml, ["<response refused=\"true\">", "", "</response>\n"]),
            (Format::Json, ["{\"refused\":true,\"items\":[", ",", "]}\n"]),
        ] {
            let mut line = Line::default();
            let mut alone = |element: &Element| {
                let text = written(format, &mut line, &[element]);
                let text = text.strip_prefix(head).and_then(|text| text.strip_suffix(tail));
                text.expect("a document of one element").to_owned()
            };
            let short_alone = alone(&short);
            assert!(short_alone.len() < 40, "{short_alone}");
            let longest_alone = longest.each_ref().map(&mut alone);
            assert!(longest_alone[0].len() > 300, "{longest_alone:?}");
            let filling_alone: Vec<String> = filling.iter().map(&mut alone).collect();
            for shorts in 0..110 {
                for (fill, fill_alone) in filling.iter().zip(&filling_alone) {
                    for (long, long_alone) in longest.iter().zip(&longest_alone) {
                        let mut elements = vec![&short; shorts];
                        let mut expected = vec![&short_alone[..]; shorts];
                        elements.extend([fill, long, long, &short]);
                        let texts = [fill_alone, long_alone, long_alone, &short_alone];
                        expected.extend(texts.map(String::as_str));
                        let expected = [head, &expected.join(between), tail].concat();
                        assert_eq!(written(format, &mut line, &elements), expected);
                    }
                }
            }
        }
    }
}
