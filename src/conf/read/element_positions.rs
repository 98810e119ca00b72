//! Positions of a file's elements in its text, for programs that edit the file.
//!
//! Invariant: the configuration's own parser reads the text, so both agree on its elements.

use super::faults::{Fault, Faults, Notes, SourceText, shown};
use super::xml::{self, Document};
pub use super::xml::{Attribute, Element, white as is_white};

/// Reads a well-formed text without a byte order mark. Returns its root. Faults name the text
/// `name`.
///
/// # Errors
/// The text is not well-formed XML, or its root is not `root_name`.
pub fn read(name: &str, text: &str, root_name: &str) -> Result<Element, Faults> {
    let source =
        SourceText::new(name, text.as_bytes()).map_err(|fault| Faults::new(vec![fault]))?;
    let mut notes = Notes::new(&source);
    let Document { root, complete } = xml::read(&mut notes);
    if let Some(root) = root.as_ref().filter(|root| complete && root.name != root_name) {
        let found = format!("<{}>", shown(&root.name));
        notes.note(root.at, found, format!("<{root_name}> as the root element"));
    }
    let mut faults = notes.into_faults();
    match root {
        Some(root) if complete && faults.is_empty() => return Ok(root),
        _ if faults.is_empty() => {
            let expected = format!("a <{root_name}>");
            faults.push(Fault::without_position(name, "no whole document", expected));
        }
        _ => {}
    }
    Err(Faults::new(faults))
}
