//! What a certificate says: the names of its owner, and when it is valid.
//!
//! Invariant: nothing here proves anything. The handshake has verified a client's certificate
//! before its names are read. Names are bounded, and free of control characters.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::bounds::{MAX_NAMES, MAX_NAMES_BYTES};

/// When a certificate is valid, in seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before_s: i64,
    /// The last second.
    pub not_after_s: i64,
}

impl Validity {
    /// The dates of a certificate in DER. `None` if it cannot be read.
    pub fn of(der: &[u8]) -> Option<Validity> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        Some(Validity {
            not_before_s: validity.not_before.timestamp(),
            not_after_s: validity.not_after.timestamp(),
        })
    }
}

/// Whether a certificate in DER has ended, or cannot be read.
pub fn has_ended(der: &[u8], now_s: i64) -> bool {
    Validity::of(der).is_none_or(|validity| validity.not_after_s < now_s)
}

/// The names of a certificate in DER, in its order: `CN=…` of the subject, then `DNS:…`, `URI:…`,
/// `IP:…` and `EMAIL:…` of the alternative names. Names beyond the bounds are left out.
pub fn names(der: &[u8]) -> Vec<String> {
    let mut names = Names::default();
    if let Ok((_, certificate)) = X509Certificate::from_der(der) {
        for name in certificate.subject().iter_common_name() {
            names.add("CN=", name.as_str().ok());
        }
        if let Ok(Some(alternatives)) = certificate.subject_alternative_name() {
            for name in &alternatives.value.general_names {
                match name {
                    GeneralName::DNSName(name) => names.add("DNS:", Some(name)),
                    GeneralName::URI(name) => names.add("URI:", Some(name)),
                    GeneralName::RFC822Name(name) => names.add("EMAIL:", Some(name)),
                    GeneralName::IPAddress(bytes) => {
                        names.add("IP:", address(bytes).map(|it| it.to_string()).as_deref());
                    }
                    _ => {}
                }
            }
        }
    }
    names.list
}

#[derive(Default)]
struct Names {
    list: Vec<String>,
    bytes: usize,
}

impl Names {
    fn add(&mut self, kind: &str, name: Option<&str>) {
        let Some(name) = name.filter(|name| !name.is_empty() && !name.contains(char::is_control))
        else {
            return;
        };
        let bytes = kind.len() + name.len();
        if self.list.len() < MAX_NAMES && self.bytes + bytes <= MAX_NAMES_BYTES {
            self.bytes += bytes;
            self.list.push([kind, name].concat());
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::testing::{Authority, Leaf};

    #[test]
    fn names_come_in_the_order_of_the_certificate() {
        let authority = Authority::new("ca");
        let leaf = Leaf {
            common_name: "billing",
            names: &["DNS:a.example", "URI:spiffe://x/y", "IP:10.0.0.1", "IP:::1", "EMAIL:a@b.c"],
            ..Leaf::default()
        };
        let expected = [
            "CN=billing",
            "DNS:a.example",
            "URI:spiffe://x/y",
            "IP:10.0.0.1",
            "IP:::1",
            "EMAIL:a@b.c",
        ];
        assert_eq!(names(&authority.sign(&leaf).der()), expected);
    }

    #[test]
    fn names_are_bounded_and_show_no_control_character() {
        let authority = Authority::new("ca");
        let many: Vec<String> = (0..200).map(|nth| format!("DNS:{nth}.example")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let der = authority.sign(&Leaf { names: &many, ..Leaf::default() }).der();
        assert_eq!(names(&der).len(), MAX_NAMES);
        let long = format!("URI:{}", "x".repeat(MAX_NAMES_BYTES));
        let leaf = Leaf { common_name: "a\nb", names: &[&long, "DNS:kept"], ..Leaf::default() };
        assert_eq!(names(&authority.sign(&leaf).der()), ["DNS:kept"]);
        assert_eq!(names(b"nothing"), Vec::<String>::new());
    }

    #[test]
    fn dates_are_those_of_the_certificate() {
        let leaf = Leaf { days: (-3, 9), ..Leaf::default() };
        let validity = Validity::of(&Authority::new("ca").sign(&leaf).der()).unwrap();
        assert_eq!(validity.not_after_s - validity.not_before_s, 12 * 86_400);
        assert_eq!(Validity::of(b"nothing"), None);
    }
}
