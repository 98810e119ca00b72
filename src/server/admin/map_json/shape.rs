//! The attributes and children of the elements of map.xml, and the form of their values in JSON.
//!
//! Invariant: JSON would lack an attribute that is missing here, so a test compares these tables
//! with conf/map.xsd.

/// How JSON writes the value of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeKind {
    /// A string.
    Text,
    /// A number without decimals.
    Whole,
    /// A number with up to three decimals.
    Decimal,
    /// `true` or `false`.
    Flag,
}

/// The content of an element.
#[derive(Debug)]
pub struct JsonShape {
    /// The name of the element in XML.
    pub element: &'static str,
    /// The attributes of the element.
    pub attributes: &'static [(&'static str, AttributeKind)],
    /// The children of the element, any number of each.
    pub children: &'static [&'static JsonShape],
}

impl JsonShape {
    /// The name of the element's array in JSON.
    pub fn array(&self) -> String {
        format!("{}s", self.element)
    }

    /// The names of the members in JSON.
    pub fn members(&self) -> impl Iterator<Item = String> {
        let attributes = self.attributes.iter().map(|(name, _)| (*name).to_owned());
        attributes.chain(self.children.iter().map(|child| child.array()))
    }

    pub(super) fn attribute(&self, name: &str) -> Option<(&'static str, AttributeKind)> {
        self.attributes.iter().find(|(known, _)| *known == name).copied()
    }
}

use AttributeKind::{Decimal, Flag, Text, Whole};

/// `<map>`.
pub const MAP: JsonShape = JsonShape { element: "map", attributes: &[], children: &[&GROUP, &BIZ] };
/// `<group>`.
pub const GROUP: JsonShape = JsonShape {
    element: "group",
    attributes: &[
        ("name", Text),
        ("keys", Whole),
        ("files", Whole),
        ("key-nodes", Whole),
        ("chain", Whole),
        ("node-size", Whole),
        ("key-bytes", Whole),
        ("hash", Text),
        ("on-full", Text),
        ("backup", Text),
        ("spill", Flag),
        ("mirror", Text),
    ],
    children: &[],
};
/// `<biz>`.
pub const BIZ: JsonShape = JsonShape {
    element: "biz",
    attributes: &[
        ("id", Whole),
        ("name", Text),
        ("group", Text),
        ("key", Text),
        ("ipv6-prefix", Whole),
        ("mode", Text),
        ("share", Text),
        ("on-miss", Text),
        ("on-down", Text),
        ("wait", Text),
        ("hosts", Whole),
        ("once", Whole),
        ("once-for", Text),
        ("holds", Whole),
        ("hold-ttl", Text),
        ("on-lapse", Text),
    ],
    children: &[&LIMIT, &LISTED[0], &LISTED[1], &OVERRIDE, &REGISTER],
};
/// `<limit>`.
pub const LIMIT: JsonShape = JsonShape {
    element: "limit",
    attributes: &[
        ("policy", Text),
        ("scope", Text),
        ("max", Whole),
        ("interval", Text),
        ("unit", Text),
        ("tz", Text),
        ("at", Text),
        ("history", Whole),
        ("rate", Text),
        ("burst", Whole),
        ("per-call", Flag),
        ("most", Whole),
        ("max-period", Text),
        ("precision", Text),
        ("debt", Whole),
        ("ban", Text),
        ("on-exceed", Text),
    ],
    children: &[&WEIGHT],
};
/// `<weight>`.
pub const WEIGHT: JsonShape = JsonShape {
    element: "weight",
    attributes: &[("at", Whole), ("value", Decimal)],
    children: &[],
};
/// `<allow>` and `<deny>`.
pub const LISTED: [JsonShape; 2] = [
    JsonShape { element: "allow", attributes: &[("key", Text)], children: &[] },
    JsonShape { element: "deny", attributes: &[("key", Text)], children: &[] },
];
/// `<override>`.
pub const OVERRIDE: JsonShape = JsonShape {
    element: "override",
    attributes: &[("key", Text), ("limit", Whole), ("max", Whole)],
    children: &[],
};

/// `<register>`.
pub const REGISTER: JsonShape =
    JsonShape { element: "register", attributes: &[("text-bytes", Whole)], children: &[] };

/// All shapes.
#[cfg(any(test, feature = "testing"))]
pub const ALL: [&JsonShape; 9] =
    [&MAP, &GROUP, &BIZ, &LIMIT, &WEIGHT, &LISTED[0], &LISTED[1], &OVERRIDE, &REGISTER];
