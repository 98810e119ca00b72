//! Chooses the descriptor of srv.xml that a call's descriptor is charged to: the most specific one.
//!
//! The names must be the same, in the same order and number. Among descriptors that match, an exact
//! value beats a prefix, a longer prefix beats a shorter one, and a prefix beats the bare name. The
//! leftmost difference decides.
//!
//! Invariant: the result does not depend on the order of the descriptors in srv.xml.

use std::collections::HashMap;

use crate::messages::Entry;
use frs_conf::{Domain, ValuePattern};

/// The descriptors of a domain, by their entries.
#[derive(Debug, Default)]
pub struct Matcher {
    root: PatternNode,
}

/// The entries that descriptors have in common up to this node.
#[derive(Debug, Default)]
struct PatternNode {
    /// The number of the descriptor that ends here.
    descriptor: Option<usize>,
    /// The next entries, by name.
    names: HashMap<String, Values>,
}

/// The nodes after a name, by the value.
#[derive(Debug, Default)]
struct Values {
    exact: HashMap<Vec<u8>, PatternNode>,
    /// The longest prefix first.
    prefixes: Vec<(String, PatternNode)>,
    any: Option<Box<PatternNode>>,
}

impl Matcher {
    /// The matcher of a domain.
    pub fn new(domain: &Domain) -> Matcher {
        let mut matcher = Matcher::default();
        for (number, descriptor) in domain.descriptors.iter().enumerate() {
            let mut node = &mut matcher.root;
            for entry in &descriptor.entries {
                let values = node.names.entry(entry.name.clone()).or_default();
                node = values.node(&entry.value);
            }
            node.descriptor = Some(number);
        }
        matcher
    }

    /// The number of the descriptor that these entries are charged to.
    pub fn find(&self, entries: &[Entry]) -> Option<usize> {
        self.root.find(entries)
    }
}

impl PatternNode {
    fn find(&self, entries: &[Entry]) -> Option<usize> {
        let [entry, rest @ ..] = entries else { return self.descriptor };
        let values = self.names.get(&entry.key)?;
        let exact = values.exact.get(&entry.value);
        let prefixes = values.prefixes.iter();
        let prefixes = prefixes.filter(|(prefix, _)| entry.value.starts_with(prefix.as_bytes()));
        let nodes = exact.into_iter().chain(prefixes.map(|(_, node)| node));
        let mut nodes = nodes.chain(values.any.as_deref());
        nodes.find_map(|node| node.find(rest))
    }
}

impl Values {
    /// The node of this pattern. It is created if there is none.
    fn node(&mut self, pattern: &ValuePattern) -> &mut PatternNode {
        match pattern {
            ValuePattern::Exact(value) => self.exact.entry(value.clone().into_bytes()).or_default(),
            ValuePattern::Any => self.any.get_or_insert_default(),
            ValuePattern::Prefix(prefix) => {
                let is_longer = |known: &(String, PatternNode)| known.0.len() > prefix.len();
                let first = self.prefixes.partition_point(is_longer);
                let found = self.prefixes.iter().position(|(known, _)| known == prefix);
                let at = found.unwrap_or_else(|| {
                    self.prefixes.insert(first, (prefix.clone(), PatternNode::default()));
                    first
                });
                &mut self.prefixes[at].1
            }
        }
    }
}

#[cfg(test)]
mod tests;
