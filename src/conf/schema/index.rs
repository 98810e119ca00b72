//! Finds the index of a biz by the text that a client sends.
//!
//! Invariant: the index is built once for each configuration, and a look-up allocates nothing. A
//! name never consists of digits only, so no id and no name are the same text.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Ids and names of a map's businesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BizIndex {
    ids: HashMap<u32, usize, BuildHasherDefault<Fnv>>,
    names: HashMap<Box<str>, usize, BuildHasherDefault<Fnv>>,
}

impl BizIndex {
    /// The index of these ids and names, in their order.
    pub fn new<'m>(bizs: impl Iterator<Item = (u32, &'m str)> + Clone) -> Self {
        let bizs = bizs.enumerate();
        BizIndex {
            ids: bizs.clone().map(|(at, (id, _))| (id, at)).collect(),
            names: bizs.map(|(at, (_, name))| (name.into(), at)).collect(),
        }
    }

    pub fn find(&self, text: &str) -> Option<usize> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            // An id has one text: 01001 is not 1001.
            let id = (!text.starts_with('0')).then_some(text)?.parse().ok()?;
            self.ids.get(&id).copied()
        } else {
            self.names.get(text).copied()
        }
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo). The names are short, and the operator chooses them, so no
/// client can make them collide.
#[derive(Debug, Clone)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::map::{Biz, KeyType, Map};

    fn biz(id: u32, name: &str) -> Biz {
        Biz::new(id, name, KeyType::String, Vec::new())
    }

    #[test]
    fn ids_and_names_are_found() {
        let map = Map::new(Vec::new(), vec![biz(1001, "login"), biz(4_294_967_295, "1-sms")]);
        assert_eq!(map.find_biz("1001"), Some(0));
        assert_eq!(map.find_biz("login"), Some(0));
        assert_eq!(map.find_biz("4294967295"), Some(1));
        assert_eq!(map.find_biz("1-sms"), Some(1));
        for unknown in ["", "1002", "+1001", " 1001", "Login", "4294968297", "99999999999999999999"]
        {
            assert_eq!(map.find_biz(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn an_id_with_a_leading_zero_is_no_id() {
        let map = Map::new(Vec::new(), vec![biz(1001, "login")]);
        for unknown in ["01001", "0001001", "0", "00"] {
            assert_eq!(map.find_biz(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn many_are_told_apart() {
        let bizs: Vec<Biz> = (1..=5000).map(|id| biz(id, &format!("biz-{id}"))).collect();
        let map = Map::new(Vec::new(), bizs);
        for id in 1..=5000 {
            assert_eq!(map.find_biz(&id.to_string()), Some(id - 1));
            assert_eq!(map.find_biz(&format!("biz-{id}")), Some(id - 1));
        }
    }

    #[test]
    fn equal_maps_are_equal() {
        let map = |name| Map::new(Vec::new(), vec![biz(1, name)]);
        assert_eq!(map("a"), map("a"));
        assert_ne!(map("a"), map("b"));
    }
}
