//! Lays settings from outside over the tree of srv.xml.
//!
//! Invariant: they are laid over the tree of srv.xml before it is checked, so they are checked like
//! the file's own. A fault names the option or variable that the setting comes from. The text of
//! the file does not change.

use std::path::PathBuf;

use super::faults::{Fault, Notes, shown};
use super::outside_settings::{Setting, Settings};
use super::scalar::{is_word, path};
use super::xml::{Attribute, Element, white};
use crate::key::is_xml_char;

/// A text is not the name of a setting with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, expected ELEMENT.ATTRIBUTE=VALUE, or ELEMENT=VALUE for an element's text")]
pub struct SettingError {
    found: String,
}

impl Setting {
    /// Reads `NAME=VALUE`, the operand of `option`.
    ///
    /// # Errors
    /// There is no `=`, or the text before it cannot be the name of a setting. Whether srv.xml has
    /// such a setting is checked later, with the file's other faults.
    pub fn parse(text: &str, option: &str) -> Result<Setting, SettingError> {
        let is_name = |word: &str| is_word(word, 64) && !word.contains('.');
        match text.split_once('=') {
            Some((name, value)) if name.splitn(2, '.').all(is_name) => {
                Ok(Setting::named(name, value, &format!("{option} {name}")))
            }
            _ => Err(SettingError { found: shown(text) }),
        }
    }
}

impl Settings {
    /// The data directory, if a setting names it.
    pub(crate) fn data_dir(&self) -> Option<Result<PathBuf, Fault>> {
        let is_data_dir = |setting: &&Setting| setting.name() == "data.dir";
        let setting = self.iter().find(is_data_dir)?;
        Some(path(&setting.value).map_err(|expected| {
            let found = format!("dir=\"{}\"", shown(&setting.value));
            Fault::without_position(&setting.origin, found, expected)
        }))
    }

    /// Lays the settings over the root of srv.xml. Their values get offsets that [`Notes`] maps to
    /// their origins.
    pub(crate) fn lay_over(&self, notes: &mut Notes<'_>, root: &mut Element) {
        // A setting of an element's text replaces all such elements of the file, wherever they are.
        // <trusted> is also in <authz>. Elements that may not be repeated become faults.
        let texts = || self.iter().filter(|setting| setting.attribute.is_none());
        remove(root, &|child| texts().any(|setting| setting.element == child.name));
        for (nth, setting) in self.iter().enumerate() {
            let at = Notes::offset_of_setting(nth);
            if let Some(c) = setting.value.chars().find(|&c| !is_xml_char(c)) {
                let found = format!("U+{:04X}", u32::from(c));
                notes.note(at, found, "a character that XML 1.0 allows");
            }
            match &setting.attribute {
                None => root.children.push(element(setting, at, &setting.value)),
                Some(attribute) => set(notes, root, setting, attribute, at),
            }
        }
    }
}

/// Removes elements at all levels below this one.
fn remove(from: &mut Element, is_replaced: &dyn Fn(&Element) -> bool) {
    from.children.retain(|child| !is_replaced(child));
    from.children.iter_mut().for_each(|child| remove(child, is_replaced));
}

fn element(setting: &Setting, at: usize, text: &str) -> Element {
    let text_at = (!text.trim_matches(white).is_empty()).then_some(at);
    Element { text: text.to_owned(), text_at, ..Element::empty(setting.element.clone(), at) }
}

/// Sets an attribute of the only element of its name. Creates the element if there is none.
fn set(notes: &mut Notes<'_>, root: &mut Element, setting: &Setting, name: &str, at: usize) {
    let same = root.children.iter().filter(|child| child.name == setting.element).count();
    if same == 0 {
        root.children.push(element(setting, at, ""));
    } else if same > 1 {
        let expected = "at most one: write the setting into srv.xml";
        notes.note(at, format!("{same} <{}>", shown(&setting.element)), expected);
        return;
    }
    let found = root.children.iter_mut().find(|child| child.name == setting.element);
    let Some(element) = found else { return };
    let again = element.attribute(name).is_some_and(|other| Notes::is_of_setting(other.at));
    if again {
        notes.note(at, format!("{} again", setting.name()), "it once");
        return;
    }
    element.attributes.retain(|attribute| attribute.name != name);
    let (name, value) = (name.to_owned(), setting.value.clone());
    element.attributes.push(Attribute { name, at, value, value_at: at });
}
