//! `<rls>`: the domains and descriptors that frs-envoy answers for, as checked types.
//!
//! Invariant: a limited descriptor names a biz of map.xml. The names in its key and in its ids
//! occur exactly once in its entries. Text stands between two values of a key or an id, and begins
//! with an ASCII character other than the per cent sign. Each id has a value. What settles has a
//! hold.

/// What a call charges if one of its descriptors is over its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeMode {
    /// Nothing.
    AllOrNone,
    /// The descriptors that are not over their limits.
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
    /// Its entries. They match the entries of a call's descriptor one by one, in order.
    pub entries: Vec<DescriptorEntry>,
    /// The biz and key that it is charged to. `None` if it is unlimited.
    pub target: Option<ChargeTarget>,
}

/// The biz and key that a descriptor is charged to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeTarget {
    /// The biz, by its name or id.
    pub biz: String,
    /// The key.
    pub key: Template,
    /// Whether a use is charged even over a limit.
    pub force: bool,
    /// The id of the hold that the count belongs to.
    pub hold: Option<Template>,
    /// Whether the count is the true cost of the hold.
    pub settle: bool,
    /// The id under which a call is charged once, however often it arrives.
    pub once: Option<Template>,
}

/// A key or an id: text and the values of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(pub Vec<TemplatePart>);

impl Template {
    /// The bytes that values write as `%XX`, so that different values never make the same text: the
    /// per cent sign, and the first byte of each text between two values. Empty for a template of
    /// one value.
    pub fn escaped(&self) -> Vec<u8> {
        let is_value = |part: &TemplatePart| matches!(part, TemplatePart::Value(_));
        let first = self.0.iter().position(is_value);
        let (Some(first), Some(last)) = (first, self.0.iter().rposition(is_value)) else {
            return Vec::new();
        };
        let mut escaped = Vec::new();
        for part in &self.0[first..last] {
            if let TemplatePart::Text(text) = part {
                escaped.extend(text.bytes().next());
            }
        }
        if !escaped.is_empty() {
            escaped.push(b'%');
        }
        escaped
    }

    /// Whether it has the value of an entry.
    pub fn has_value(&self) -> bool {
        self.0.iter().any(|part| matches!(part, TemplatePart::Value(_)))
    }
}

/// One word of `entries`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptorEntry {
    /// The name of the entry.
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

/// A part of a key or an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// This text.
    Text(String),
    /// The value of this entry, from 0.
    Value(usize),
}
