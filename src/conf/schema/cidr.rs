//! Blocks of addresses.
//!
//! Invariant: an IPv4 address mapped into IPv6 is treated as that IPv4 address, both as a block and
//! as an address. A socket for both families shows its IPv4 peers in this form.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// Its first address.
    pub base: IpAddr,
    /// Number of leading bits that are compared.
    pub prefix: u8,
}

/// Why a text is not a block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// Not `ADDRESS` or `ADDRESS/BITS`.
    #[error("an address or a block of addresses such as 10.0.0.0/8 or fc00::/7")]
    Shape,
    /// The prefix has more bits than an address of its family.
    #[error("at most {most} leading bits")]
    Prefix {
        /// Bits of an address of this family.
        most: u8,
    },
    /// The address has bits after its prefix.
    #[error("{block} (an address without bits behind the prefix)")]
    Bits {
        /// The block that contains it.
        block: Cidr,
    },
}

impl Cidr {
    /// Loopback and the private networks of RFC 1918 and RFC 4193.
    pub const LOCAL: [Cidr; 6] = [
        Cidr::v4([127, 0, 0, 0], 8),
        Cidr { base: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix: 128 },
        Cidr::v4([10, 0, 0, 0], 8),
        Cidr::v4([172, 16, 0, 0], 12),
        Cidr::v4([192, 168, 0, 0], 16),
        Cidr { base: IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), prefix: 7 },
    ];

    const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Cidr {
        Cidr { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    /// Reads `ADDRESS/BITS`, or `ADDRESS` for a block of that address alone.
    pub fn parse(text: &str) -> Result<Cidr, CidrError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let base: IpAddr = address.parse().map_err(|_| CidrError::Shape)?;
        let most = if base.is_ipv4() { 32 } else { 128 };
        let prefix = match bits {
            None => most,
            Some(bits) if bits.is_empty() || !bits.bytes().all(|b| b.is_ascii_digit()) => {
                return Err(CidrError::Shape);
            }
            Some(bits) => {
                bits.parse().ok().filter(|&bits| bits <= most).ok_or(CidrError::Prefix { most })?
            }
        };
        let given = Cidr { base, prefix }.canonical();
        let block = Cidr { base: masked(given.base, given.prefix), prefix: given.prefix };
        if given == block { Ok(block) } else { Err(CidrError::Bits { block }) }
    }

    /// The block of `prefix` leading bits that contains an address.
    pub fn around(address: IpAddr, prefix: u8) -> Cidr {
        let address = address.to_canonical();
        Cidr { base: masked(address, prefix), prefix }
    }

    /// Whether it contains this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.base.is_ipv4() && masked(address, self.prefix) == self.base
    }

    fn canonical(self) -> Cidr {
        match (self.base.to_canonical(), self.base) {
            (base @ IpAddr::V4(_), IpAddr::V6(_)) if self.prefix >= 96 => {
                Cidr { base, prefix: self.prefix - 96 }
            }
            _ => self,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(block: &str, address: &str) -> bool {
        Cidr::parse(block).unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn blocks_hold_their_addresses() {
        assert!(holds("10.0.0.0/8", "10.255.0.1"));
        assert!(!holds("10.0.0.0/8", "11.0.0.0"));
        assert!(holds("0.0.0.0/0", "255.255.255.255"));
        assert!(!holds("0.0.0.0/0", "::1"));
        assert!(holds("::/0", "::1"));
        assert!(!holds("::/0", "127.0.0.1"));
        assert!(holds("192.0.2.7", "192.0.2.7"));
        assert!(!holds("192.0.2.7", "192.0.2.6"));
        assert!(holds("172.16.0.0/12", "172.31.255.255"));
        assert!(!holds("172.16.0.0/12", "172.32.0.0"));
        assert!(holds("fc00::/7", "fd12::1"));
        assert!(!holds("fc00::/7", "fe80::1"));
    }

    #[test]
    fn mapped_addresses_are_v4() {
        assert!(holds("127.0.0.0/8", "::ffff:127.0.0.1"));
        assert_eq!(Cidr::parse("::ffff:10.0.0.0/104"), Cidr::parse("10.0.0.0/8"));
        assert_eq!(Cidr::parse("::ffff:10.0.0.1"), Cidr::parse("10.0.0.1/32"));
        assert!(!holds("::/0", "::ffff:127.0.0.1"));
    }

    #[test]
    fn faults_say_what_was_expected() {
        let of = |text| Cidr::parse(text).unwrap_err().to_string();
        for shape in
            ["", "/8", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/+8", "10.0.0/8", "a/8", "1.2.3.4/8/8"]
        {
            assert!(of(shape).starts_with("an address or a block"), "{shape}");
        }
        assert_eq!(of("10.0.0.0/33"), "at most 32 leading bits");
        assert_eq!(of("::/129"), "at most 128 leading bits");
        assert_eq!(of("::/999999999999"), "at most 128 leading bits");
        assert_eq!(of("10.1.2.3/8"), "10.0.0.0/8 (an address without bits behind the prefix)");
    }

    #[test]
    fn local_networks() {
        let local = |text: &str| {
            let address = text.parse().unwrap();
            Cidr::LOCAL.iter().any(|block| block.contains(address))
        };
        for block in Cidr::LOCAL {
            assert_eq!(Cidr::parse(&block.to_string()), Ok(block));
        }
        assert!(local("127.1.2.3") && local("::1") && local("192.168.3.4") && local("fd00::1"));
        assert!(!local("8.8.8.8") && !local("2001:db8::1") && !local("169.254.0.1"));
    }
}
