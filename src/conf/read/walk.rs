//! Takes the tree apart into known names and checked values.
//!
//! Invariant: an [`ElementSchema`] lists what an element may hold. Everything else in the element
//! is a fault.

use std::collections::HashMap;
use std::hash::Hash;

use super::faults::{Checked, Faulty, Notes, shown};
use super::scalar::{Parsed, one_of};
use super::xml::{Attribute, Element, white};

/// What an element may hold.
pub(super) struct ElementSchema {
    /// Its attributes.
    pub attributes: &'static [&'static str],
    /// Children that may occur once.
    pub once: &'static [&'static str],
    /// Children that may occur any number of times.
    pub many: &'static [&'static str],
    /// Whether there may be text between its tags.
    pub text: bool,
}

impl ElementSchema {
    /// An element that holds nothing.
    pub const EMPTY: ElementSchema =
        ElementSchema { attributes: &[], once: &[], many: &[], text: false };

    /// An element that holds only text.
    const TEXT: ElementSchema = ElementSchema { text: true, ..ElementSchema::EMPTY };

    /// Notes everything in `element` that its shape does not allow.
    pub fn check(&self, notes: &mut Notes<'_>, element: &Element) {
        self.check_attributes(notes, element);
        self.check_elements(notes, element);
        if let (false, Some(at)) = (self.text, element.text_at) {
            let found = format!("text \"{}\"", shown(element.text.trim_matches(white)));
            notes.note(at, found, format!("none in <{}>", element.name));
        }
    }

    fn check_attributes(&self, notes: &mut Notes<'_>, element: &Element) {
        for Attribute { name, at, .. } in &element.attributes {
            let name = name.as_str();
            if self.attributes.contains(&name) {
                continue;
            }
            let expected = match self.attributes {
                [] => "none".to_owned(),
                known => one_of(name, known.iter().copied()),
            };
            notes.note(*at, format!("attribute {} of <{}>", shown(name), element.name), expected);
        }
    }

    fn check_elements(&self, notes: &mut Notes<'_>, element: &Element) {
        let mut seen = HashMap::new();
        for child in &element.children {
            let name = child.name.as_str();
            if self.many.contains(&name) {
                continue;
            }
            if self.once.contains(&name) {
                if let Some(first) = first_before(&mut seen, name, child.at) {
                    let expected = format!("one (the first is in {})", notes.place(first));
                    notes.note(child.at, format!("<{name}> again"), expected);
                }
                continue;
            }
            let expected = match (self.once, self.many) {
                ([], []) => "no element".to_owned(),
                (once, many) => one_of(name, once.iter().chain(many).copied()),
            };
            notes.note(child.at, format!("<{}> in <{}>", shown(name), element.name), expected);
        }
    }
}

/// Notes the value of the element at `at`. Returns the offset of an earlier element with the same
/// value. `seen` has each value with the offset of its first element.
pub(super) fn first_before<T: Eq + Hash>(
    seen: &mut HashMap<T, usize>,
    value: T,
    at: usize,
) -> Option<usize> {
    let first = *seen.entry(value).or_insert(at);
    (first != at).then_some(first)
}

impl Element {
    /// Its first child of this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Its children of this name.
    pub fn children_named<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Its attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The decoded value of its attribute of this name.
    pub fn attribute_value(&self, name: &str) -> Option<&str> {
        self.attribute(name).map(|attribute| attribute.value.as_str())
    }

    /// The attribute's value, for a fault. Empty without the attribute.
    pub fn value_of(&self, name: &str) -> &str {
        self.attribute_value(name).unwrap_or_default()
    }

    /// The offset of the attribute's value, for a fault. Without the attribute, the element's
    /// offset.
    pub fn value_at(&self, name: &str) -> usize {
        self.attribute(name).map_or(self.at, |attribute| attribute.value_at)
    }

    /// Reads the attribute's value, if the attribute is present.
    pub(crate) fn optional<T>(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        read: impl Fn(&str) -> Parsed<T>,
    ) -> Checked<Option<T>> {
        match self.attribute(name) {
            None if self.broken => Err(Faulty),
            None => Ok(None),
            Some(Attribute { value, value_at, .. }) => read(value).map(Some).map_err(|expected| {
                notes.note(*value_at, format!("{name}=\"{}\"", shown(value)), expected)
            }),
        }
    }

    /// Reads the attribute's value, or returns the default.
    pub(crate) fn or<T>(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        default: T,
        read: impl Fn(&str) -> Parsed<T>,
    ) -> Checked<T> {
        self.optional(notes, name, read).map(|value| value.unwrap_or(default))
    }

    /// Reads the attribute's value, which is required.
    pub(crate) fn required<T>(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        read: impl Fn(&str) -> Parsed<T>,
    ) -> Checked<T> {
        match self.optional(notes, name, &read)? {
            Some(value) => Ok(value),
            None => {
                let expected = read("").err().unwrap_or_else(|| "it".to_owned());
                Err(notes.note(
                    self.at,
                    format!("<{}> without {name}", self.name),
                    format!("{name}: {expected}"),
                ))
            }
        }
    }

    /// Reads its child of this name, if the child is present.
    pub(crate) fn read_child<T>(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        read: impl FnOnce(&mut Notes<'_>, &Element) -> Checked<T>,
    ) -> Checked<Option<T>> {
        self.child(name).map(|child| read(notes, child)).transpose()
    }

    /// Reads at most so many children of this name. Faulty if any of them is, or if there are more.
    pub(crate) fn read_children<T>(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        most: usize,
        mut read: impl FnMut(&mut Notes<'_>, &Element) -> Checked<T>,
    ) -> Checked<Vec<T>> {
        let mut found = Vec::new();
        for (nth, child) in self.children_named(name).enumerate() {
            if nth == most {
                let expected = format!("at most {most} of <{}>", self.name);
                found.push(Err(notes.note(child.at, format!("another <{name}>"), expected)));
                break;
            }
            found.push(read(notes, child));
        }
        found.into_iter().collect()
    }

    /// Reads an element that holds only text.
    pub(crate) fn text_value<T>(
        &self,
        notes: &mut Notes<'_>,
        read: impl Fn(&str) -> Parsed<T>,
    ) -> Checked<T> {
        ElementSchema::TEXT.check(notes, self);
        self.value(notes, read)
    }

    /// Reads the text between the tags, which is required.
    pub(crate) fn value<T>(
        &self,
        notes: &mut Notes<'_>,
        read: impl Fn(&str) -> Parsed<T>,
    ) -> Checked<T> {
        let text = self.text.trim_matches(white);
        read(text).map_err(|expected| {
            let found = format!("<{}>{}</{}>", self.name, shown(text), self.name);
            notes.note(self.text_at.unwrap_or(self.at), found, expected)
        })
    }
}
