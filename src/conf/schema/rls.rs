//! `<rls>`: what frs-envoy answers on, as checked types.
//!
//! Invariant: a descriptor that is limited names a biz of map.xml. Its key is made of names that
//! each occur once in its entries. Text stands between two values of a key, and begins with an
//! ASCII character that is no per cent sign.

/// What a call charges if one of its descriptors is over its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// Nothing.
    AllOrNone,
    /// The descriptors that are not over theirs.
    Each,
}

/// `<domain>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its descriptors. No two have the same entries.
    pub descriptors: Vec<Descriptor>,
}

/// `<descriptor>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// What it matches: one for each entry of a call's descriptor, in order.
    pub entries: Vec<Entry>,
    /// What it is charged to. None: it is unlimited.
    pub target: Option<Target>,
}

/// What a descriptor is charged to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The biz, by its name or id.
    pub biz: String,
    /// The key.
    pub key: Vec<KeyPart>,
    /// Charge even what is over a limit.
    pub force: bool,
}

impl Target {
    /// The bytes that are written `%XX` in the values of the key, so that no two rows of values
    /// make one key: the per cent sign, and what each text between two values begins with. None in
    /// a key of one value.
    pub fn escaped(&self) -> Vec<u8> {
        let is_value = |part: &KeyPart| matches!(part, KeyPart::Value(_));
        let first = self.key.iter().position(is_value);
        let (Some(first), Some(last)) = (first, self.key.iter().rposition(is_value)) else {
            return Vec::new();
        };
        let mut escaped = Vec::new();
        for part in &self.key[first..last] {
            if let KeyPart::Text(text) = part {
                escaped.extend(text.bytes().next());
            }
        }
        if !escaped.is_empty() {
            escaped.push(b'%');
        }
        escaped
    }
}

/// One word of `entries`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The values that it matches.
    pub value: ValuePattern,
}

/// The values that an entry matches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum ValuePattern {
    Exact(String),
    Prefix(String),
    Any,
}

/// A part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    /// This text.
    Text(String),
    /// The value of this entry, from 0.
    Value(usize),
}
