//! Former limits of shared businesses. A node that was not used since its limits changed is still
//! written under them.
//!
//! A node stores only a digest of all its limits. So the limits of its leases are known only as
//! long as a set of limits with this digest is known. The overlay of each published generation has
//! them.
//!
//! Invariant: the number of former limits is bounded. A node whose limits are forgotten is void.
//! Its leases then count as those of a lost machine.
//!
//! As text, each set of limits is one line: the business, the shapes of its nodes (of a key, of the
//! whole business), and the scope and digest of each limit.
//!
//! ```text
//! former 2001 8a41 0e93 key:00f3 key:91b2 biz:1c2d
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::schema::{Scope, SharedLimit, SharedLimits};

/// The most sets of former limits that are kept for a business.
const MOST_OF_BIZ: usize = 16;
/// The highest cost of the former limits of all businesses, counted in limits. Each line costs as
/// much as `LINE_COST` limits. So the text has less than 4 MiB.
const MOST_COST: usize = 1 << 18;
const LINE_COST: usize = 5;

impl SharedLimits {
    fn cost(&self) -> usize {
        self.limits.len() + LINE_COST
    }

    /// Reads the text after the id of the business.
    fn from_text(text: &str) -> Option<SharedLimits> {
        let mut words = text.split(' ');
        let shapes = [digest(words.next()?)?, digest(words.next()?)?];
        let limits: Option<Vec<SharedLimit>> = words.map(SharedLimit::from_text).collect();
        let limits = limits.filter(|limits| !limits.is_empty())?;
        Some(SharedLimits { shapes, limits })
    }
}

impl SharedLimit {
    fn from_text(text: &str) -> Option<SharedLimit> {
        let (scope, text) = text.split_once(':')?;
        let scope = match scope {
            "key" => Scope::Key,
            "biz" => Scope::Biz,
            _ => return None,
        };
        Some(SharedLimit { scope, digest: digest(text)? })
    }
}

/// Reads four hex digits.
fn digest(text: &str) -> Option<u16> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_digest = text.len() == 4 && text.bytes().all(is_digit);
    is_digest.then(|| u16::from_str_radix(text, 16).ok()).flatten()
}

fn cost_of(of_biz: &[SharedLimits]) -> usize {
    of_biz.iter().map(SharedLimits::cost).sum()
}

/// The former limits of all businesses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FormerLimits {
    /// By the id of the business. The set that was left last is at the end.
    of_bizs: BTreeMap<u32, Vec<SharedLimits>>,
}

impl FormerLimits {
    /// The former limits of a business.
    pub fn of(&self, biz: u32) -> &[SharedLimits] {
        self.of_bizs.get(&biz).map_or(&[], Vec::as_slice)
    }

    /// Adds limits that a business no longer has. If a business has too many sets, those left
    /// longest ago are forgotten. If all businesses together have too many, sets of the costliest
    /// business are forgotten.
    pub fn add(&mut self, biz: u32, limits: SharedLimits) {
        let of_biz = self.of_bizs.entry(biz).or_default();
        of_biz.retain(|known| *known != limits);
        of_biz.push(limits);
        of_biz.drain(..of_biz.len().saturating_sub(MOST_OF_BIZ));
        let mut cost = self.cost();
        while cost > MOST_COST
            && let Some(dearest) = self.of_bizs.values_mut().max_by_key(|of_biz| cost_of(of_biz))
        {
            cost -= dearest.remove(0).cost();
        }
        self.of_bizs.retain(|_, of_biz| !of_biz.is_empty());
    }

    /// Forgets the former limits of a business. No node of it can be written under them any more.
    pub fn forget(&mut self, biz: u32) {
        self.of_bizs.remove(&biz);
    }

    /// Forgets the former limits of all businesses for which `stays` is false.
    pub fn retain(&mut self, stays: impl Fn(u32) -> bool) {
        self.of_bizs.retain(|&biz, _| stays(biz));
    }

    fn cost(&self) -> usize {
        self.of_bizs.values().map(|of_biz| cost_of(of_biz)).sum()
    }

    pub fn add_text(&self, text: &mut String) {
        for (biz, of_biz) in &self.of_bizs {
            for SharedLimits { shapes: [of_key, of_whole], limits } in of_biz {
                let _ = write!(text, "former {biz} {of_key:04x} {of_whole:04x}");
                for SharedLimit { scope, digest } in limits {
                    let scope = if *scope == Scope::Key { "key" } else { "biz" };
                    let _ = write!(text, " {scope}:{digest:04x}");
                }
                text.push('\n');
            }
        }
    }

    /// Reads a line without its first word. `None` if the line is malformed.
    pub fn read_line(&mut self, line: &str) -> Option<()> {
        let (biz, limits) = line.split_once(' ')?;
        let limits = SharedLimits::from_text(limits)?;
        let of_biz = self.of_bizs.entry(biz.parse().ok()?).or_default();
        let is_one = of_biz.len() < MOST_OF_BIZ && !of_biz.contains(&limits);
        of_biz.push(limits);
        is_one.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Conf, EpochRaise, Overlay};

    fn limits(shape: u16, ledgers: &[u16]) -> SharedLimits {
        let limit = |&digest: &u16| SharedLimit { scope: Scope::Key, digest };
        SharedLimits { shapes: [shape, 7], limits: ledgers.iter().map(limit).collect() }
    }

    fn text(former: &FormerLimits) -> String {
        let mut text = String::new();
        former.add_text(&mut text);
        text
    }

    fn read(text: &str) -> Option<FormerLimits> {
        let mut former = FormerLimits::default();
        let lines = text.lines().map(|line| line.strip_prefix("former "));
        lines.map(|line| former.read_line(line?)).collect::<Option<()>>()?;
        Some(former)
    }

    #[test]
    fn what_was_written_is_read_in_its_order() {
        let mut former = FormerLimits::default();
        former.add(9, limits(1, &[0xa, 0xb]));
        former.add(9, limits(2, &[0xa]));
        former.add(9, limits(1, &[0xa, 0xb]));
        let mut mixed = limits(0xffff, &[1, 2]);
        mixed.limits[1].scope = Scope::Biz;
        assert_eq!(mixed.of_node(Scope::Biz).collect::<Vec<_>>(), [(2, 2)]);
        former.add(4_294_967_295, mixed);
        let expected = "former 9 0002 0007 key:000a\nformer 9 0001 0007 key:000a key:000b\n\
                        former 4294967295 ffff 0007 key:0001 biz:0002\n";
        assert_eq!(text(&former), expected);
        assert_eq!(read(expected), Some(former.clone()));
        former.retain(|biz| biz == 9);
        assert_eq!((former.of(9).len(), former.of(4_294_967_295).len()), (2, 0));
        former.forget(9);
        assert_eq!(former, FormerLimits::default());
    }

    #[test]
    fn other_lines_are_none() {
        let line = "former 9 0002 0007 key:000a";
        assert!(read(line).is_some());
        for other in [
            "former 9 0002 0007",
            "former 9 0002 key:000a",
            "former 9 0002 0007 key:000A",
            "former 9 0002 0007 key:00a",
            "former 9 0002 0007 key:+00a",
            "former 9 0002 0007 host:000a",
            "former 9 0002 0007  key:000a",
            "former x 0002 0007 key:000a",
            "former 4294967296 0002 0007 key:000a",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(read(&format!("{line}\n{line}")), None, "twice");
    }

    #[test]
    fn those_left_longest_ago_are_forgotten() {
        let mut former = FormerLimits::default();
        for shape in 1..100 {
            former.add(1, limits(shape, &[shape]));
        }
        let kept: Vec<u16> = former.of(1).iter().map(|limits| limits.shapes[0]).collect();
        assert_eq!(kept, (84..100).collect::<Vec<_>>());
        assert!(read(&text(&former)).is_some());
        // The cost of all sets together is bounded, too.
        let many: Vec<u16> = (0..4096).collect();
        for biz in 1..100 {
            for shape in 1..4 {
                former.add(biz, limits(shape, &many));
            }
        }
        assert!((MOST_COST - 4101..MOST_COST).contains(&former.cost()), "{}", former.cost());
        assert!(former.of(99).len() <= 1 && former.of(50).len() <= 1);
        assert!(text(&former).len() < 4 << 20);
    }

    #[test]
    fn former_limits_lie_over_their_biz_until_a_reset() {
        let text = "epoch 3 1\nformer 3 0001 0002 key:00f3\nformer 4 0001 0002 key:00f3\n";
        let mut overlay = Overlay::from_text(text).unwrap();
        let map = "<map><group name='g' keys='9'/><biz id='3' name='c' key='integer'>\
                   <limit policy='total' max='1'/></biz></map>";
        let mut conf = Conf::parse("srv.xml", "<srv/>", "map.xml", map).unwrap();
        overlay.lay_over(&mut conf);
        assert_eq!(conf.map.bizs[0].former, overlay.former(3));
        assert_eq!(overlay.former(3).len(), 1);
        overlay.reset(3, None).unwrap();
        assert_eq!(overlay.to_text(), "epoch 3 2\nformer 4 0001 0002 key:00f3\n");
        assert!(overlay.follow(EpochRaise { biz: 4, from: 0, to: 1 }));
        assert_eq!(overlay.to_text(), "epoch 3 2\nepoch 4 1\n");
    }
}
