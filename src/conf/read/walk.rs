//! Takes the tree apart into known names and checked values.
//!
//! Invariant: an [`ElementSchema`] lists what an element may hold. Everything else in the element
//! is a fault. The message distinguishes settings of a later version from typing errors.

use super::faults::{Checked, Faulty, Notes, shown};
use super::scalar::{Parsed, one_of};
use super::xml::{Attribute, Element, white};

/// What is expected instead of a setting that the manual describes and this version lacks.
const NOT_YET: &str = "none: this version of frs does not have it yet";

/// What an element may hold.
pub(super) struct ElementSchema {
    /// Its attributes.
    pub attributes: &'static [&'static str],
    /// Children that may occur once.
    pub once: &'static [&'static str],
    /// Children that may occur any number of times.
    pub many: &'static [&'static str],
    /// Attributes that later versions have.
    pub later_attributes: &'static [&'static str],
    /// Children that later versions have.
    pub later_elements: &'static [&'static str],
    /// Whether there may be text between its tags.
    pub text: bool,
}

impl ElementSchema {
    /// An element that holds nothing.
    pub const EMPTY: ElementSchema = ElementSchema {
        attributes: &[],
        once: &[],
        many: &[],
        later_attributes: &[],
        later_elements: &[],
        text: false,
    };

    /// An element that holds only text.
    pub const TEXT: ElementSchema = ElementSchema { text: true, ..ElementSchema::EMPTY };

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
            let found = format!("attribute {} of <{}>", shown(name), element.name);
            if self.later_attributes.contains(&name) {
                notes.note(*at, found, NOT_YET);
            } else if self.attributes.is_empty() {
                notes.note(*at, found, "none");
            } else {
                notes.note(*at, found, one_of(name, self.attributes.iter().copied()));
            }
        }
    }

    fn check_elements(&self, notes: &mut Notes<'_>, element: &Element) {
        let mut seen: Vec<&Element> = Vec::new();
        for child in &element.children {
            let name = child.name.as_str();
            if self.many.contains(&name) {
                continue;
            }
            if self.once.contains(&name) {
                if let Some(first) = seen.iter().find(|other| other.name == name) {
                    let expected = format!("one (the first is in {})", notes.place(first.at));
                    notes.note(child.at, format!("<{name}> again"), expected);
                } else {
                    seen.push(child);
                }
                continue;
            }
            let found = format!("<{}> in <{}>", shown(name), element.name);
            let known = self.once.iter().chain(self.many).copied();
            if self.later_elements.contains(&name) {
                notes.note(child.at, found, NOT_YET);
            } else if known.clone().next().is_none() {
                notes.note(child.at, found, "no element");
            } else {
                notes.note(child.at, found, one_of(name, known));
            }
        }
    }
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

    /// The offset of the attribute's value, for a fault. Without the attribute, the element's
    /// offset.
    pub fn value_at(&self, name: &str) -> usize {
        self.attribute(name).map_or(self.at, |attribute| attribute.value_at)
    }

    /// Reads the attribute's value, if the attribute is present.
    pub fn optional<T>(
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
    pub fn or<T>(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        default: T,
        read: impl Fn(&str) -> Parsed<T>,
    ) -> Checked<T> {
        self.optional(notes, name, read).map(|value| value.unwrap_or(default))
    }

    /// Reads the attribute's value, which is required.
    pub fn required<T>(
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

    /// Reads the text between the tags, which is required.
    pub fn value<T>(&self, notes: &mut Notes<'_>, read: impl Fn(&str) -> Parsed<T>) -> Checked<T> {
        let text = self.text.trim_matches(white);
        read(text).map_err(|expected| {
            let found = format!("<{}>{}</{}>", self.name, shown(text), self.name);
            notes.note(self.text_at.unwrap_or(self.at), found, expected)
        })
    }
}
