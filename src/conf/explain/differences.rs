//! The differences between the texts of two configurations, in one line of words. A later reader of
//! the log learns from it what a reload changed.
//!
//! Invariant: comments, white space and the order of attributes, businesses and groups make no
//! difference. The length of the line is bounded, and the time grows with the texts.

use std::collections::{HashMap, HashSet};

use crate::check::Texts;
use crate::read::element_positions::{self, Tree};

/// The most names in a list.
const MOST: usize = 12;

/// The differences, such as `biz login, sms; new biz promo; srv.xml: http max-items`. `None` if the
/// texts cannot be read.
#[must_use]
pub fn differences(old: &Texts, new: &Texts) -> Option<String> {
    let maps = |texts: &Texts| element_positions::tree(&texts.map_name, &texts.map, "map").ok();
    let srvs = |texts: &Texts| element_positions::tree(&texts.srv_name, &texts.srv, "srv").ok();
    let (old_map, new_map) = (maps(old)?, maps(new)?);
    let mut parts = named(&old_map, &new_map, "biz");
    parts.extend(named(&old_map, &new_map, "group"));
    let settings = settings(&srvs(old)?, &srvs(new)?);
    if !settings.is_empty() {
        parts.push(format!("srv.xml: {}", list(&settings)));
    }
    Some(if parts.is_empty() { "nothing differs".to_owned() } else { parts.join("; ") })
}

/// The named elements of a kind that differ, that are new, and that are gone.
fn named(old: &Tree, new: &Tree, kind: &str) -> Vec<String> {
    let (before, after) = (all(old, kind), all(new, kind));
    let known: HashMap<_, _> = before.iter().map(|one| (id(one), sorted(one))).collect();
    let kept: HashSet<_> = after.iter().map(|one| id(one)).collect();
    let [mut differ, mut come] = [Vec::new(), Vec::new()];
    for one in &after {
        match known.get(&id(one)) {
            Some(before) if *before == sorted(one) => {}
            Some(_) => differ.push(name(one)),
            None => come.push(name(one)),
        }
    }
    let gone = before.iter().filter(|one| !kept.contains(&id(one))).map(|one| name(one)).collect();
    let part = |words: &str, names: Vec<String>| {
        (!names.is_empty()).then(|| format!("{words}{kind} {}", list(&names)))
    };
    [part("", differ), part("new ", come), part("gone ", gone)].into_iter().flatten().collect()
}

/// The settings of srv.xml that differ: elements, and attributes of elements that occur once.
fn settings(old: &Tree, new: &Tree) -> Vec<String> {
    let mut kinds: Vec<&str> = Vec::new();
    for child in old.children.iter().chain(&new.children) {
        if !kinds.contains(&child.name.as_str()) {
            kinds.push(&child.name);
        }
    }
    kinds.into_iter().flat_map(|kind| settings_of(kind, &all(old, kind), &all(new, kind))).collect()
}

fn settings_of(kind: &str, old: &[&Tree], new: &[&Tree]) -> Vec<String> {
    let (&[one], &[other]) = (old, new) else {
        let sort = |all: &[&Tree]| all.iter().map(|one| sorted(one)).collect::<Vec<_>>();
        return if sort(old) == sort(new) { Vec::new() } else { vec![kind.to_owned()] };
    };
    let inside = |tree: &Tree| {
        let Tree { text, children, .. } = sorted(tree);
        (text, children)
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in one.attributes.iter().chain(&other.attributes) {
        if !names.contains(&name.as_str()) && value(one, name) != value(other, name) {
            names.push(name);
        }
    }
    let mut differ: Vec<String> = names.iter().map(|name| format!("{kind} {name}")).collect();
    if inside(one) != inside(other) {
        differ.insert(0, kind.to_owned());
    }
    differ
}

fn all<'t>(root: &'t Tree, kind: &str) -> Vec<&'t Tree> {
    root.children.iter().filter(|child| child.name == kind).collect()
}

fn value<'t>(tree: &'t Tree, name: &str) -> Option<&'t str> {
    tree.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn name(tree: &Tree) -> String {
    value(tree, "name").unwrap_or_default().to_owned()
}

/// The attribute that identifies the same element in both texts.
fn id(tree: &Tree) -> Option<&str> {
    value(tree, "id").or_else(|| value(tree, "name"))
}

fn sorted(tree: &Tree) -> Tree {
    let mut sorted = tree.clone();
    sorted.attributes.sort();
    sorted.children = tree.children.iter().map(self::sorted).collect();
    sorted
}

fn list(names: &[String]) -> String {
    let (shown, rest) = names.split_at(names.len().min(MOST));
    let shown = shown.join(", ");
    if rest.is_empty() { shown } else { format!("{shown} and {} more", rest.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(old: [&str; 2], new: [&str; 2]) -> String {
        let texts = |[srv, map]: [&str; 2]| {
            Texts::of(format!("<srv>{srv}</srv>"), format!("<map>{map}</map>"))
        };
        differences(&texts(old), &texts(new)).expect("both can be read")
    }

    // Shows: change-log.
    #[test]
    fn businesses_groups_and_settings_are_named() {
        const BEFORE: &str = "<group name='g' keys='9'/><group name='h'/>
            <biz id='1' name='login' key='string'><limit policy='total' max='1'/></biz>
            <biz id='2' name='legacy' key='string'/><biz id='3' name='same' key='ip'/>";
        const AFTER: &str = "<group name='h'/><group keys='10' name='g'/>
            <biz id='1' name='login' key='string'><limit policy='total' max='2'/></biz>
            <biz key='ip' name='same' id='3'/> <!-- new --> <biz id='4' name='promo' key='ip'/>";
        let (old, new) = (
            [
                "<workers>1</workers><listen>a</listen><http max-items='1' idle-timeout='1s'/>",
                BEFORE,
            ],
            [
                "<http idle-timeout='1s' max-items='2' max-head='1'/><workers>2</workers>
              <listen>a</listen><listen>b</listen><log/>",
                AFTER,
            ],
        );
        assert_eq!(
            between(old, new),
            "biz login; new biz promo; gone biz legacy; group g; \
             srv.xml: workers, listen, http max-items, http max-head, log"
        );
        assert_eq!(between(old, old), "nothing differs");
    }

    #[test]
    fn a_renamed_business_differs_and_a_long_list_is_cut() {
        let many = |mode: &str| -> String {
            let bizs = (1..=20).map(|id| format!("<biz id='{id}' name='b{id}' mode='{mode}'/>"));
            bizs.collect()
        };
        let said = between(["", &many("off")], ["", &many("shadow")]);
        assert!(said.starts_with("biz b1, b2,") && said.ends_with(", b12 and 8 more"), "{said}");
        let renamed = between(["", "<biz id='1' name='a'/>"], ["", "<biz id='1' name='b'/>"]);
        assert_eq!(renamed, "biz b");
    }
}
