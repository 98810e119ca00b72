//! Listed keys: finds the entry of a biz's lists that matches a key best.
//!
//! Invariant: all entries that match a key contain one another, so the narrowest one determines the
//! result. That result is worked out once, when the lists are prepared.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frs_conf::key::{KeyForm, KeyRef, MAX_KEY_WORDS};
use frs_conf::{Biz, Cidr, KeyType, ListRule, Pattern};

use super::List;
use super::rules::{MaxOverride, Rules};

/// The rule for a listed key, in place of its biz's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// The verdict of the list itself.
    Decided(List),
    /// Limits with other maxima, by their index.
    Limits(usize),
}

/// The prepared lists of a biz.
#[derive(Debug, Clone)]
pub struct Lists {
    listings: Vec<Listing>,
    /// Limits with other maxima, each set once.
    limits: Vec<Rules>,
    patterns: PatternIndex,
}

/// The listing of each pattern.
#[derive(Debug, Clone, Default)]
struct PatternIndex {
    exact: HashMap<Box<[u8]>, usize>,
    prefixes: HashMap<Box<[u8]>, usize>,
    /// Lengths of the prefixes, longest first.
    lengths: Vec<usize>,
    blocks: HashMap<Cidr, usize>,
    /// Leading bits of the blocks, most first, of IPv4 and of IPv6.
    bits: [Vec<u8>; 2],
}

/// The combined entries of one pattern.
#[derive(Debug, Clone, Default)]
struct PatternRules {
    deny: bool,
    allow: bool,
    /// Maxima in the order of the limits' positions.
    sizes: Vec<MaxOverride>,
}

impl Lists {
    /// The lists of a biz. None if it has no entry. `rules` are its limits.
    pub fn new(biz: &Biz, rules: &Rules) -> Option<Lists> {
        if biz.listed.is_empty() {
            return None;
        }
        let (mut index, mut patterns) = (PatternIndex::default(), Vec::new());
        let mut ruled: Vec<PatternRules> = Vec::new();
        for listed in &biz.listed {
            let at = index.place(&listed.pattern, ruled.len());
            if at == ruled.len() {
                ruled.push(PatternRules::default());
                patterns.push(&listed.pattern);
            }
            ruled[at].add(listed.rule);
        }
        index.measure();
        // Wider patterns first: each one inherits from the narrowest one around it.
        let mut order: Vec<usize> = (0..patterns.len()).collect();
        order.sort_by_key(|&at| narrowness(patterns[at]));
        for at in order {
            if let Some(wider) = index.around(patterns[at]) {
                let sizes = ruled[wider].sizes.clone();
                ruled[at].take_over(sizes);
            }
        }
        let (mut limits, mut known) = (Vec::new(), HashMap::new());
        let listings = ruled
            .into_iter()
            .map(|rules_of_one| match rules_of_one {
                PatternRules { deny: true, .. } => Listing::Decided(List::Deny),
                PatternRules { allow: true, .. } => Listing::Decided(List::Allow),
                PatternRules { sizes, .. } => Listing::Limits(match known.entry(sizes) {
                    Entry::Occupied(same) => *same.get(),
                    Entry::Vacant(new) => {
                        limits.push(rules.with_sizes(biz, new.key()));
                        *new.insert(limits.len() - 1)
                    }
                }),
            })
            .collect();
        Some(Lists { listings, limits, patterns: index })
    }

    /// The listing of a key as sent, which must be valid for the biz's key type.
    pub fn find(&self, key_type: KeyType, key: &[u8]) -> Option<usize> {
        match key_type {
            KeyType::Ip { .. } => {
                let address: IpAddr = std::str::from_utf8(key).ok()?.parse().ok()?;
                self.patterns.find_address(address.to_canonical())
            }
            KeyType::Integer => {
                let zeros = key.iter().take_while(|&&digit| digit == b'0').count();
                self.patterns.find_text(&key[zeros.min(key.len().saturating_sub(1))..])
            }
            KeyType::String | KeyType::Digest => self.patterns.find_text(key),
        }
    }

    /// The listing of a key as stored. For a digest it is unknown. For an IPv6 address only its
    /// prefix counts.
    pub fn find_stored(&self, key: &KeyRef<'_>) -> Option<usize> {
        let word = |at: usize| key.words().get(at).copied().unwrap_or(0);
        match key.form() {
            KeyForm::Text => {
                let mut bytes = [0; 8 * MAX_KEY_WORDS];
                for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(key.words()) {
                    *chunk = word.to_le_bytes();
                }
                self.patterns.find_text(bytes.get(..usize::from(key.bytes()))?)
            }
            KeyForm::Integer => {
                self.patterns.find_text(itoa::Buffer::new().format(word(0)).as_bytes())
            }
            KeyForm::V4 => {
                let address = Ipv4Addr::from((word(0) as u32).to_le_bytes());
                self.patterns.find_address(address.into())
            }
            KeyForm::V6 => {
                let bits = u128::from(word(0)) | u128::from(word(1)) << 64;
                self.patterns.find_address(Ipv6Addr::from(bits.to_le_bytes()).into())
            }
            KeyForm::Digest | KeyForm::Biz => None,
        }
    }

    /// The result of a listing.
    #[inline]
    pub fn listing(&self, index: usize) -> Listing {
        self.listings[index]
    }

    /// The limits of a listing, if it has any.
    #[inline]
    pub fn rules(&self, index: usize) -> Option<&Rules> {
        match self.listings[index] {
            Listing::Limits(limits) => Some(&self.limits[limits]),
            Listing::Decided(_) => None,
        }
    }

    /// All limits with other maxima.
    pub fn limits(&self) -> &[Rules] {
        &self.limits
    }

    /// The same, mutable, so that the caller can set their time.
    pub fn limits_mut(&mut self) -> &mut [Rules] {
        &mut self.limits
    }
}

impl PatternRules {
    fn add(&mut self, rule: ListRule) {
        match rule {
            ListRule::Allow => self.allow = true,
            ListRule::Deny => self.deny = true,
            ListRule::Override { limit, max } => {
                self.take_over(vec![MaxOverride { limit, max }]);
            }
        }
    }

    /// Adds the maxima of limits that have no maximum here yet.
    fn take_over(&mut self, sizes: Vec<MaxOverride>) {
        for size in sizes {
            if let Err(at) = self.sizes.binary_search_by_key(&size.limit, |own| own.limit) {
                self.sizes.insert(at, size);
            }
        }
    }
}

impl PatternIndex {
    /// The index of a pattern: `next` if it is new.
    fn place(&mut self, pattern: &Pattern, next: usize) -> usize {
        match pattern {
            Pattern::Exact(text) => *self.exact.entry(text.as_bytes().into()).or_insert(next),
            Pattern::Prefix(text) => *self.prefixes.entry(text.as_bytes().into()).or_insert(next),
            Pattern::Block(block) => *self.blocks.entry(*block).or_insert(next),
        }
    }

    /// Collects the lengths in use, when all patterns are placed.
    fn measure(&mut self) {
        self.lengths = falling(self.prefixes.keys().map(|prefix| prefix.len()));
        for (family, bits) in self.bits.iter_mut().enumerate() {
            let own = self.blocks.keys().filter(|block| family_of(block.base) == family);
            *bits = falling(own.map(|block| block.prefix));
        }
    }

    fn find_text(&self, key: &[u8]) -> Option<usize> {
        self.exact.get(key).copied().or_else(|| self.find_prefix(key, key.len() + 1))
    }

    /// The longest listed prefix of a text among those shorter than `below`.
    fn find_prefix(&self, text: &[u8], below: usize) -> Option<usize> {
        let shorter = self.lengths.iter().filter(|&&length| length < below);
        let mut found = shorter.filter_map(|&length| self.prefixes.get(text.get(..length)?));
        found.next().copied()
    }

    fn find_address(&self, address: IpAddr) -> Option<usize> {
        self.find_block(address, u8::MAX)
    }

    /// The narrowest block around an address with fewer leading bits than `below`.
    fn find_block(&self, address: IpAddr, below: u8) -> Option<usize> {
        let wider = self.bits[family_of(address)].iter().filter(|&&bits| bits < below);
        let mut found = wider.filter_map(|&bits| self.blocks.get(&Cidr::around(address, bits)));
        found.next().copied()
    }

    /// The narrowest pattern that contains another pattern.
    fn around(&self, pattern: &Pattern) -> Option<usize> {
        match pattern {
            // A prefix of the same length is around the exact key.
            Pattern::Exact(text) => self.find_prefix(text.as_bytes(), text.len() + 1),
            Pattern::Prefix(text) => self.find_prefix(text.as_bytes(), text.len()),
            Pattern::Block(block) => self.find_block(block.base, block.prefix),
        }
    }
}

/// Sort key that increases from each pattern to the patterns within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Narrowness {
    is_exact: bool,
    length: usize,
}

fn narrowness(pattern: &Pattern) -> Narrowness {
    let length = match pattern {
        Pattern::Exact(text) | Pattern::Prefix(text) => text.len(),
        Pattern::Block(block) => block.prefix.into(),
    };
    Narrowness { is_exact: matches!(pattern, Pattern::Exact(_)), length }
}

fn family_of(address: IpAddr) -> usize {
    usize::from(address.is_ipv6())
}

fn falling<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.dedup();
    values
}

#[cfg(test)]
mod tests;
