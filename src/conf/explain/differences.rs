//! The differences between the texts of two configurations, in one line of words. A later reader of
//! the log learns from it what a reload changed.
//!
//! Invariant: comments, white space and the order of attributes, businesses and groups make no
//! difference. The length of the line is bounded, and the time grows with the texts.

use std::collections::{HashMap, HashSet};

use crate::check::Texts;
use crate::read::element_positions::{self, Attribute, Element, is_white};

/// The most names in a list.
const MOST: usize = 12;

/// The differences, such as `biz login, sms; new biz promo; srv.xml: http max-items`. `None` if the
/// texts cannot be read.
#[must_use]
pub fn differences(old: &Texts, new: &Texts) -> Option<String> {
    let maps = |texts: &Texts| element_positions::read(&texts.map_name, &texts.map, "map").ok();
    let srvs = |texts: &Texts| element_positions::read(&texts.srv_name, &texts.srv, "srv").ok();
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
fn named(old: &Element, new: &Element, kind: &str) -> Vec<String> {
    let (before, after) = (all(old, kind), all(new, kind));
    let known: HashMap<_, _> = before.iter().map(|one| (id(one), one)).collect();
    let kept: HashSet<_> = after.iter().map(|one| id(one)).collect();
    let [mut differ, mut come] = [Vec::new(), Vec::new()];
    for one in &after {
        match known.get(&id(one)) {
            Some(before) if is_same(before, one) => {}
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
fn settings(old: &Element, new: &Element) -> Vec<String> {
    let mut kinds: Vec<&str> = Vec::new();
    for child in old.children.iter().chain(&new.children) {
        if !kinds.contains(&child.name.as_str()) {
            kinds.push(&child.name);
        }
    }
    kinds.into_iter().flat_map(|kind| settings_of(kind, &all(old, kind), &all(new, kind))).collect()
}

fn settings_of(kind: &str, old: &[&Element], new: &[&Element]) -> Vec<String> {
    let (&[one], &[other]) = (old, new) else {
        let is_same = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| is_same(a, b));
        return if is_same { Vec::new() } else { vec![kind.to_owned()] };
    };
    let mut names: Vec<&str> = Vec::new();
    for Attribute { name, .. } in one.attributes.iter().chain(&other.attributes) {
        let differs = one.attribute_value(name) != other.attribute_value(name);
        if differs && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut differ: Vec<String> = names.iter().map(|name| format!("{kind} {name}")).collect();
    if !holds_same(one, other) {
        differ.insert(0, kind.to_owned());
    }
    differ
}

fn all<'e>(root: &'e Element, kind: &'e str) -> Vec<&'e Element> {
    root.children_named(kind).collect()
}

fn name(element: &Element) -> String {
    element.value_of("name").to_owned()
}

/// The attribute that identifies the same element in both texts.
fn id(element: &Element) -> Option<&str> {
    element.attribute_value("id").or_else(|| element.attribute_value("name"))
}

/// Whether two elements say the same. The order of attributes makes no difference.
fn is_same(one: &Element, other: &Element) -> bool {
    let has = |it: &Attribute| other.attribute_value(&it.name) == Some(&it.value);
    one.name == other.name
        && one.attributes.len() == other.attributes.len()
        && one.attributes.iter().all(has)
        && holds_same(one, other)
}

/// Whether the texts and the children of two elements say the same.
fn holds_same(one: &Element, other: &Element) -> bool {
    one.text.trim_matches(is_white) == other.text.trim_matches(is_white)
        && one.children.len() == other.children.len()
        && one.children.iter().zip(&other.children).all(|(one, other)| is_same(one, other))
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
