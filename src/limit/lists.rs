//! Keys with rules of their own: which entry of a biz's lists a key matches best.
//!
//! The entries that match a key contain each other, so the narrowest of them tells all the others:
//! what it comes to is worked out once, when the lists are made ready.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{List, Rules};
use crate::conf::{Biz, Cidr, KeyType, ListRule, Listed, Pattern};

/// What a listed key has instead of its biz's limits.
#[derive(Debug, Clone)]
pub enum Listing {
    /// A verdict of the list itself.
    Decided(List),
    /// Limits of other sizes.
    Limits(Box<Rules>),
}

/// The lists of a biz, made ready.
#[derive(Debug, Clone)]
pub struct Lists {
    listings: Vec<Listing>,
    exact: HashMap<Box<[u8]>, usize>,
    prefixes: HashMap<Box<[u8]>, usize>,
    /// Lengths of the prefixes, longest first.
    lengths: Vec<usize>,
    blocks: HashMap<Cidr, usize>,
    /// Leading bits of the blocks, most first, of IPv4 and of IPv6.
    bits: [Vec<u8>; 2],
}

impl Lists {
    /// The lists of a biz; none if it has no entry. `rules` are its limits.
    pub fn new(biz: &Biz, rules: &Rules) -> Option<Lists> {
        if biz.listed.is_empty() {
            return None;
        }
        let mut lists = Lists {
            listings: Vec::new(),
            exact: HashMap::new(),
            prefixes: HashMap::new(),
            lengths: Vec::new(),
            blocks: HashMap::new(),
            bits: [Vec::new(), Vec::new()],
        };
        for Listed { pattern, .. } in &biz.listed {
            let next = lists.listings.len();
            let index = match pattern {
                Pattern::Exact(text) => lists.exact.entry(text.as_bytes().into()),
                Pattern::Prefix(text) => lists.prefixes.entry(text.as_bytes().into()),
                Pattern::Block(block) => {
                    if *lists.blocks.entry(*block).or_insert(next) == next {
                        lists.listings.push(listing(biz, rules, pattern));
                    }
                    continue;
                }
            };
            if *index.or_insert(next) == next {
                lists.listings.push(listing(biz, rules, pattern));
            }
        }
        lists.lengths = falling(lists.prefixes.keys().map(|prefix| prefix.len()));
        for (family, bits) in lists.bits.iter_mut().enumerate() {
            let own = lists.blocks.keys().filter(|block| family_of(block.base) == family);
            *bits = falling(own.map(|block| block.prefix));
        }
        Some(lists)
    }

    /// The listing of a key as asked, which is one of the biz's key type.
    pub fn find(&self, key_type: KeyType, key: &[u8]) -> Option<usize> {
        match key_type {
            KeyType::Ip { .. } => {
                let address: IpAddr = std::str::from_utf8(key).ok()?.parse().ok()?;
                self.find_address(address.to_canonical())
            }
            KeyType::Integer => {
                let zeros = key.iter().take_while(|&&digit| digit == b'0').count();
                self.find_text(&key[zeros.min(key.len().saturating_sub(1))..])
            }
            KeyType::String | KeyType::Digest => self.find_text(key),
        }
    }

    fn find_text(&self, key: &[u8]) -> Option<usize> {
        let prefix = |&length: &usize| self.prefixes.get(key.get(..length)?);
        self.exact.get(key).or_else(|| self.lengths.iter().find_map(prefix)).copied()
    }

    fn find_address(&self, address: IpAddr) -> Option<usize> {
        let block = |&bits: &u8| self.blocks.get(&Cidr::around(address, bits));
        self.bits[family_of(address)].iter().find_map(block).copied()
    }

    /// What a listing comes to.
    #[inline]
    pub fn listing(&self, index: usize) -> &Listing {
        &self.listings[index]
    }

    /// All of them, to be told the time.
    pub fn listings_mut(&mut self) -> impl Iterator<Item = &mut Listing> {
        self.listings.iter_mut()
    }

    /// The limits of other sizes.
    pub fn limits(&self) -> impl Iterator<Item = &Rules> {
        self.listings.iter().filter_map(|listing| match listing {
            Listing::Limits(rules) => Some(&**rules),
            Listing::Decided(_) => None,
        })
    }
}

/// What the keys come to whose narrowest entry has this pattern.
fn listing(biz: &Biz, rules: &Rules, pattern: &Pattern) -> Listing {
    let same = || biz.listed.iter().filter(|listed| listed.pattern == *pattern);
    if same().any(|listed| listed.rule == ListRule::Deny) {
        return Listing::Decided(List::Deny);
    }
    if same().any(|listed| listed.rule == ListRule::Allow) {
        return Listing::Decided(List::Allow);
    }
    let mut own = rules.clone();
    for (index, limit) in biz.limits.iter().enumerate() {
        let overrides = biz.listed.iter().filter_map(|listed| match listed.rule {
            ListRule::Override { limit, max } if limit == index => {
                Some((breadth(&listed.pattern, pattern)?, max))
            }
            _ => None,
        });
        let narrowest = overrides.min_by_key(|&(breadth, _)| breadth);
        if let Some(policy) = narrowest.and_then(|(_, max)| limit.policy.with_max(max)) {
            own.replace(index, &policy);
        }
    }
    Listing::Limits(Box::new(own))
}

/// How much wider a pattern is than a narrower one; none if it does not contain it.
fn breadth(wide: &Pattern, narrow: &Pattern) -> Option<usize> {
    match (wide, narrow) {
        (Pattern::Exact(wide), Pattern::Exact(narrow)) => (wide == narrow).then_some(0),
        (Pattern::Prefix(wide), Pattern::Prefix(narrow)) => {
            narrow.starts_with(wide).then(|| narrow.len() - wide.len())
        }
        // One step more: the exact key beats the prefix of the same length.
        (Pattern::Prefix(wide), Pattern::Exact(narrow)) => {
            narrow.starts_with(wide).then(|| narrow.len() - wide.len() + 1)
        }
        (Pattern::Block(wide), Pattern::Block(narrow)) => (wide.prefix <= narrow.prefix
            && wide.contains(narrow.base))
        .then(|| usize::from(narrow.prefix - wide.prefix)),
        _ => None,
    }
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
    use super::*;
    use crate::conf::{Interval, Limit, Policy, Scope, Total};

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
            Some(Listing::Limits(rules)) => {
                let mut details = Vec::new();
                let states = &super::super::States { key: &mut [0; 3], biz: &mut [] };
                rules.details(states, 0, 0, &mut details);
                format!("{} {}", details[0].figures.max, details[1].figures.max)
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
}
