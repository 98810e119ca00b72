//! Positions of a file's elements in its text, for programs that edit the file.
//!
//! Invariant: the configuration's own parser reads the text, so both agree on its elements.

use super::faults::{Fault, Faults, Notes, SourceText, shown};
use super::xml;
use super::xml::{Document, Element};

/// The part of the text that an element takes up, by offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementSpan {
    /// Offset of its `<`.
    pub at: usize,
    /// Offset of its end tag's `<`, or of its end if there is no end tag.
    pub end_tag_at: usize,
    /// Offset after its last `>`.
    pub end: usize,
    name: String,
    attributes: Vec<(String, String)>,
}

impl ElementSpan {
    fn of(element: &Element) -> ElementSpan {
        let attributes = element.attributes.iter();
        ElementSpan {
            at: element.at,
            end_tag_at: element.end_tag_at,
            end: element.end,
            name: element.name.clone(),
            attributes: attributes.map(|it| (it.name.clone(), it.value.clone())).collect(),
        }
    }

    /// The value of an attribute, decoded, if it is present.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A root and its direct children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The root of the text.
    pub root: ElementSpan,
    /// The children, in the order of the text.
    pub children: Vec<ElementSpan>,
}

impl Outline {
    /// The children of this name.
    pub fn children_named(&self, name: &str) -> impl Iterator<Item = &ElementSpan> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

/// An element with everything in it, decoded, without positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Its name.
    pub name: String,
    /// Names and values of its attributes, in the order of the text.
    pub attributes: Vec<(String, String)>,
    /// Its children, in the order of the text.
    pub children: Vec<Tree>,
    /// Its own text, without white space at both ends.
    pub text: String,
}

impl Tree {
    /// Recursion is bounded, because the parser bounds the depth.
    fn of(element: Element) -> Tree {
        let attributes = element.attributes.into_iter();
        Tree {
            name: element.name,
            attributes: attributes.map(|it| (it.name, it.value)).collect(),
            children: element.children.into_iter().map(Tree::of).collect(),
            text: element.text.trim_matches(xml::white).to_owned(),
        }
    }
}

/// Reads a well-formed text without a byte order mark. Faults name the text `name`.
///
/// # Errors
/// The text is not well-formed XML, or its root is not `root_name`.
pub fn read(name: &str, text: &str, root_name: &str) -> Result<Outline, Faults> {
    let root = root(name, text, root_name)?;
    let children = root.children.iter().map(ElementSpan::of).collect();
    Ok(Outline { root: ElementSpan::of(&root), children })
}

/// Like [`read`], with all levels of elements.
///
/// # Errors
/// The text is not well-formed XML, or its root is not `root_name`.
pub fn tree(name: &str, text: &str, root_name: &str) -> Result<Tree, Faults> {
    root(name, text, root_name).map(Tree::of)
}

fn root(name: &str, text: &str, root_name: &str) -> Result<Element, Faults> {
    let source =
        SourceText::new(name, text.as_bytes()).map_err(|fault| Faults::new(vec![fault]))?;
    let mut notes = Notes::new(&source);
    let Document { root, complete } = xml::read(&mut notes);
    let root = match root {
        Some(root) if complete && root.name == root_name => root,
        Some(root) if complete => {
            let found = format!("<{}>", shown(&root.name));
            notes.note(root.at, found, format!("<{root_name}> as the root element"));
            return Err(Faults::new(notes.into_faults()));
        }
        _ => {
            let mut faults = notes.into_faults();
            if faults.is_empty() {
                let expected = format!("a <{root_name}>");
                faults.push(Fault::without_position(name, "no whole document", expected));
            }
            return Err(Faults::new(faults));
        }
    };
    let faults = notes.into_faults();
    if faults.is_empty() { Ok(root) } else { Err(Faults::new(faults)) }
}

/// White space as XML defines it.
pub fn is_white(c: char) -> bool {
    xml::white(c)
}
