//! Keys with rules of their own: which entry of a biz's lists matches a key best.
//!
//! Invariant: all entries that match a key contain one another, so the narrowest one determines the
//! result. That result is worked out once, when the lists are prepared.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::List;
use super::rules::{MaxOverride, Rules};
use crate::conf::{Biz, Cidr, KeyType, ListRule, Pattern};
use crate::key::{KeyForm, KeyRef, MAX_KEY_WORDS};

/// What a listed key has instead of its biz's limits.
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

    /// The same, so that their time can be set.
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

    /// Adds the maxima of limits for which it has none.
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

    /// The longest prefix of a text that is shorter than `below`.
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

    /// The narrowest pattern around another one.
    fn around(&self, pattern: &Pattern) -> Option<usize> {
        match pattern {
            // A prefix of the same length is around the exact key.
            Pattern::Exact(text) => self.find_prefix(text.as_bytes(), text.len() + 1),
            Pattern::Prefix(text) => self.find_prefix(text.as_bytes(), text.len()),
            Pattern::Block(block) => self.find_block(block.base, block.prefix),
        }
    }
}

/// Increases from any pattern to those within it.
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
mod tests {
    use super::super::{Details, Spending, States, Terms};
    use super::*;
    use crate::conf::{Interval, Limit, Listed, Policy, Scope, Total};

    fn biz(key: KeyType, listed: Vec<Listed>) -> Biz {
        let interval = Policy::Interval(Interval { interval_ms: 1000, max: 5, debt: 0 });
        let limits = vec![
            Limit::new(Scope::Key, interval),
            Limit::new(Scope::Key, Policy::Total(Total { max: 9 })),
        ];
        Biz { listed, ..Biz::new(1, "b", key, limits) }
    }

    fn text(pattern: &str, rule: ListRule) -> Listed {
        let pattern = match pattern.strip_suffix('*') {
            Some(prefix) => Pattern::Prefix(prefix.to_owned()),
            None => Pattern::Exact(pattern.to_owned()),
        };
        Listed { pattern, rule }
    }

    fn block(block: &str, rule: ListRule) -> Listed {
        Listed { pattern: Pattern::Block(Cidr::parse(block).unwrap()), rule }
    }

    fn size(limit: usize, max: u64) -> ListRule {
        ListRule::Override { limit, max }
    }

    /// `allow`, `deny`, the maxima of both limits, or nothing.
    fn found(biz: &Biz, key: &str) -> String {
        let rules = Rules::new(biz);
        let lists = Lists::new(biz, &rules).unwrap();
        match lists.find(biz.key, key.as_bytes()).map(|index| lists.listing(index)) {
            None => String::new(),
            Some(Listing::Decided(List::Allow)) => "allow".to_owned(),
            Some(Listing::Decided(List::Deny)) => "deny".to_owned(),
            Some(Listing::Limits(limits)) => {
                let rules = &lists.limits()[limits];
                let mut details = Details::default();
                let terms = &Terms::of(Spending::New);
                let states = &States { key: &mut [0; 3], biz: &mut [], terms };
                rules.details(states, 0, 0, &mut details);
                let [one, other] = &details.limits[..] else { panic!("{details:?}") };
                format!("{} {}", one.figures.max, other.figures.max)
            }
        }
    }

    #[test]
    fn the_longest_match_over_all_kinds_wins() {
        let biz = biz(
            KeyType::String,
            vec![
                text("app*", size(0, 50)),
                text("app7|*", ListRule::Deny),
                text("app7|alice", size(1, 99)),
                text("app7|bob*", ListRule::Allow),
                text("*", size(1, 77)),
            ],
        );
        assert_eq!(found(&biz, "app1"), "50 77");
        assert_eq!(found(&biz, "app7|x"), "deny");
        assert_eq!(found(&biz, "app7|alice"), "50 99");
        assert_eq!(found(&biz, "app7|alice2"), "deny");
        assert_eq!(found(&biz, "app7|bob"), "allow");
        assert_eq!(found(&biz, "ap"), "5 77");
    }

    #[test]
    fn exact_beats_prefix_and_ties_go_to_deny_then_allow() {
        let listed = vec![
            text("a*", ListRule::Deny),
            text("a", size(0, 8)),
            text("b", size(0, 8)),
            text("b", ListRule::Allow),
            text("c", ListRule::Allow),
            text("c", ListRule::Deny),
        ];
        let biz = biz(KeyType::Digest, listed);
        let all = ["a", "ab", "b", "c", "d"].map(|key| found(&biz, key));
        assert_eq!(all, ["8 9", "deny", "allow", "deny", ""]);
    }

    #[test]
    fn integers_match_as_numbers() {
        let biz = biz(KeyType::Integer, vec![text("7", ListRule::Deny), text("18*", size(0, 1))]);
        let all = ["007", "7", "70", "0018", "18829", "0"].map(|key| found(&biz, key));
        assert_eq!(all, ["deny", "deny", "", "1 9", "1 9", ""]);
    }

    #[test]
    fn addresses_match_by_blocks_as_they_are_asked() {
        let biz = biz(
            KeyType::Ip { ipv6_prefix: 64 },
            vec![
                block("10.0.0.0/8", size(0, 1)),
                block("10.1.0.0/16", size(1, 2)),
                block("10.1.2.3", ListRule::Deny),
                block("2001:db8::/32", ListRule::Allow),
                block("2001:db8::1", ListRule::Deny),
                block("::/0", size(0, 3)),
            ],
        );
        let keys =
            ["10.9.9.9", "10.1.9.9", "10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1", "2001:db8::2"];
        let all = keys.map(|key| found(&biz, key));
        assert_eq!(all, ["1 9", "1 2", "deny", "deny", "deny", "allow"]);
        assert_eq!(found(&biz, "192.0.2.1"), "");
        assert_eq!(found(&biz, "fe80::1"), "3 9");
    }

    #[test]
    fn stored_keys_are_found_as_they_were_asked() {
        use crate::key::{KeyField, Seed};

        let texts = [
            (KeyType::String, vec![text("app*", ListRule::Deny), text("x", ListRule::Allow)]),
            (KeyType::Integer, vec![text("18*", ListRule::Deny), text("7", ListRule::Allow)]),
            (
                KeyType::Ip { ipv6_prefix: 64 },
                vec![
                    block("10.0.0.0/8", ListRule::Deny),
                    block("2001:db8:1::/48", ListRule::Allow),
                ],
            ),
        ];
        let keys =
            ["app7|alice", "x", "xy", "0018", "007", "70", "10.1.2.3", "11.1.2.3", "2001:db8:1::9"];
        for (key_type, listed) in texts {
            let biz = biz(key_type, listed);
            let lists = Lists::new(&biz, &Rules::new(&biz)).unwrap();
            for key in keys {
                let mut field = KeyField::default();
                if field.encode(key_type, key.as_bytes(), 24, Seed([1, 2])).is_ok() {
                    let asked = lists.find(key_type, key.as_bytes());
                    assert_eq!(lists.find_stored(&field.key()), asked, "{key_type:?} {key}");
                }
            }
        }
    }

    #[test]
    fn equal_sizes_are_made_once_and_many_entries_soon() {
        let entry = |n: usize| text(&format!("key-{n}"), size(0, 7 + n as u64 % 3));
        let biz = biz(KeyType::String, (0..30_000).map(entry).collect());
        let lists = Lists::new(&biz, &Rules::new(&biz)).unwrap();
        assert_eq!((lists.listings.len(), lists.limits().len()), (30_000, 3));
    }
}
