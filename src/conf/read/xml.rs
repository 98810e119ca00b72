//! XML as a small tree in which every part knows its position.
//!
//! Invariant: every fault of the markup is noted. Reading continues as long as the structure is
//! known. When it is lost, the tree holds what was complete before. Depth, attributes and names are
//! bounded, so no input costs more than its length.

use std::borrow::Cow;

use quick_xml::errors::{Error, IllFormedError, SyntaxError};
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::attributes::{AttrError, Attribute as RawAttribute};
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::faults::{Notes, shown};
use crate::key::is_xml_char;

/// The greatest depth of nested elements. Configurations need four.
const MAX_DEPTH: usize = 16;
/// The most attributes of an element. Configurations need fewer than twenty.
const MAX_ATTRIBUTES: usize = 64;

/// An element. Its offsets refer to the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The name as written.
    pub name: String,
    /// Offset of its `<`.
    pub at: usize,
    /// Offset of its end tag's `<`, or of its end if there is no end tag.
    pub end_tag_at: usize,
    /// Offset after its last `>`.
    pub end: usize,
    /// The attributes in the order of the file, without duplicate names.
    pub attributes: Vec<Attribute>,
    /// The children in the order of the file.
    pub children: Vec<Element>,
    /// The element's own text, decoded.
    pub text: String,
    /// Offset of the first character of the text that is not white space.
    pub text_at: Option<usize>,
    /// The tag has faults, so a missing attribute may be among the unread ones.
    pub broken: bool,
}

impl Element {
    /// An element at an offset that holds nothing.
    pub(super) fn empty(name: String, at: usize) -> Element {
        Element {
            name,
            at,
            end_tag_at: at,
            end: at,
            attributes: Vec::new(),
            children: Vec::new(),
            text: String::new(),
            text_at: None,
            broken: false,
        }
    }
}

/// An attribute. Its offsets refer to the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// The name as written.
    pub name: String,
    /// Offset of the name.
    pub at: usize,
    /// The value, decoded.
    pub value: String,
    /// Offset after the opening quote.
    pub value_at: usize,
}

/// The readable part of a file.
pub(crate) struct Document {
    /// The root, if the file has one.
    pub root: Option<Element>,
    /// Whether this is the whole file.
    pub complete: bool,
}

/// Reads a text, and notes the faults of its markup.
pub(crate) fn read(notes: &mut Notes<'_>) -> Document {
    let text = notes.text();
    if let Some((at, c)) = text.char_indices().find(|&(_, c)| !is_xml_char(c)) {
        notes.note(at, format!("U+{:04X}", u32::from(c)), "a character that XML 1.0 allows");
        return Document { root: None, complete: false };
    }
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_comments = true;
    let mut tree = TreeBuilder { notes, open: Vec::new(), root: None };
    let complete = loop {
        let at = reader.buffer_position() as usize;
        match reader.read_event() {
            Ok(Event::Eof) => break tree.end(text.len()),
            Ok(event) => {
                if tree.add_event(event, at, reader.buffer_position() as usize).is_none() {
                    break false;
                }
            }
            Err(error) => {
                tree.stop(reader.error_position() as usize, &error);
                break false;
            }
        }
    };
    // Of the elements still open, only the root is returned, with its complete children.
    let root = tree.root.or(tree.open.into_iter().next());
    Document { root, complete }
}

struct TreeBuilder<'n, 's> {
    notes: &'n mut Notes<'s>,
    open: Vec<Element>,
    root: Option<Element>,
}

impl TreeBuilder<'_, '_> {
    /// Handles an event between two offsets. `None` if the structure is lost.
    fn add_event(&mut self, event: Event<'_>, at: usize, end: usize) -> Option<()> {
        match event {
            Event::Start(tag) => self.start(&tag, at)?,
            Event::Empty(tag) => {
                self.start(&tag, at)?;
                self.close(end, end);
            }
            Event::End(_) => self.close(at, end),
            Event::Text(text) => self.text(&text.xml10_content(), at, &text),
            Event::CData(text) => self.text(&text.xml10_content(), at, "<"),
            Event::GeneralRef(reference) => self.reference(&reference, at),
            Event::Decl(declaration) => self.declaration(&declaration, at),
            Event::DocType(_) => {
                self.notes.note(at, "<!DOCTYPE", "none (it is not read)");
            }
            Event::Comment(_) | Event::PI(_) | Event::Eof => {}
        }
        Some(())
    }

    fn start(&mut self, tag: &BytesStart<'_>, at: usize) -> Option<()> {
        let name = tag.name().as_ref().to_owned();
        if self.root.is_some() {
            self.notes.note(at, format!("<{}> behind the root", shown(&name)), "one root element");
            return None;
        }
        if self.open.len() == MAX_DEPTH {
            let expected = format!("at most {MAX_DEPTH} elements in each other");
            self.notes.note(at, format!("<{}>", shown(&name)), expected);
            return None;
        }
        let (attributes, broken) = self.attributes(tag, at + 1);
        self.open.push(Element { attributes, broken, ..Element::empty(name, at) });
        Some(())
    }

    fn close(&mut self, end_tag_at: usize, end: usize) {
        if let Some(mut element) = self.open.pop() {
            (element.end_tag_at, element.end) = (end_tag_at, end);
            match self.open.last_mut() {
                Some(parent) => parent.children.push(element),
                None => self.root = Some(element),
            }
        }
    }

    /// Reads the attributes of a tag, and whether any is faulty. `name_at` is the offset after the
    /// tag's `<`.
    fn attributes(&mut self, tag: &BytesStart<'_>, name_at: usize) -> (Vec<Attribute>, bool) {
        let raw = tag.attributes_raw();
        let raw_at = name_at + tag.name().as_ref().len();
        let mut found: Vec<Attribute> = Vec::new();
        let mut broken = false;
        let mut attributes = tag.attributes();
        // The check below finds the position of the first duplicate, and is bounded.
        attributes.with_checks(false);
        for attribute in attributes {
            if found.len() == MAX_ATTRIBUTES {
                let most = format!("at most {MAX_ATTRIBUTES}");
                self.notes.note(name_at - 1, "an element of more attributes", most);
                return (found, true);
            }
            match attribute {
                Ok(attribute) => {
                    let at = raw_at + offset_in(raw, attribute.key.as_ref());
                    match self.attribute(&attribute, at, raw_at + offset_in(raw, &attribute.value))
                    {
                        Some(attribute) => self.push_attribute(&mut found, attribute),
                        None => broken = true,
                    }
                }
                Err(error) => {
                    self.attribute_error(&error, name_at);
                    broken = true;
                }
            }
        }
        (found, broken)
    }

    fn push_attribute(&mut self, found: &mut Vec<Attribute>, attribute: Attribute) {
        if let Some(first) = found.iter().find(|other| other.name == attribute.name) {
            let expected = format!("it once (first in line {})", self.notes.line(first.at));
            let again = format!("attribute {} again", shown(&attribute.name));
            self.notes.note(attribute.at, again, expected);
        } else {
            found.push(attribute);
        }
    }

    fn attribute(
        &mut self,
        raw: &RawAttribute<'_>,
        at: usize,
        value_at: usize,
    ) -> Option<Attribute> {
        let name = raw.key.as_ref();
        let before = self.notes.text().as_bytes().get(at.wrapping_sub(1));
        if before.is_some_and(|byte| !byte.is_ascii_whitespace()) {
            let found = format!("attribute {}", shown(name));
            self.notes.note(at, found, "white space before it");
        }
        if let Some(less) = raw.value.find('<') {
            self.notes.note(value_at + less, "< in a value", "&lt;");
            return None;
        }
        let value = match raw.normalized_value(XmlVersion::Implicit1_0) {
            Ok(value) if value.chars().all(is_xml_char) => value.into_owned(),
            _ => {
                let found = format!("{}=\"{}\"", shown(name), shown(&raw.value));
                self.notes.note(value_at, found, REFERENCES);
                return None;
            }
        };
        Some(Attribute { name: name.to_owned(), at, value, value_at })
    }

    fn attribute_error(&mut self, error: &AttrError, name_at: usize) {
        let (at, found, expected) = match *error {
            AttrError::ExpectedEq(at) => (at, "an attribute without a value", "=\"…\""),
            AttrError::ExpectedValue(at) => (at, "no value", "\"…\""),
            AttrError::UnquotedValue(at) => (at, "a value without quotes", "\"…\""),
            AttrError::ExpectedQuote(at, _) => (at, "a value without an end", "the closing quote"),
            AttrError::Duplicated(at, _) => (at, "an attribute again", "it once"),
        };
        self.notes.note(name_at + at, found, expected);
    }

    /// Adds text to the open element. `raw` locates the beginning of the text, `decoded` is its
    /// content.
    fn text(&mut self, decoded: &str, at: usize, raw: &str) {
        let shown_at = raw.find(|c| !white(c)).map(|first| at + first);
        match (self.open.last_mut(), shown_at) {
            (Some(element), _) => {
                element.text.push_str(decoded);
                element.text_at = element.text_at.or(shown_at);
            }
            (None, Some(at)) => {
                let found = format!("text \"{}\"", shown(decoded.trim_matches(white)));
                self.notes.note(at, found, "none outside of the root element");
            }
            (None, None) => {}
        }
    }

    fn reference(&mut self, reference: &BytesRef<'_>, at: usize) {
        let decoded: Option<Cow<'_, str>> = match reference.resolve_char_ref() {
            Ok(Some(c)) if is_xml_char(c) => Some(c.to_string().into()),
            Ok(None) => resolve_predefined_entity(reference).map(Into::into),
            _ => None,
        };
        match decoded {
            Some(decoded) => self.text(&decoded, at, "&"),
            None => {
                self.notes.note(at, format!("&{};", shown(reference)), REFERENCES);
            }
        }
    }

    fn declaration(&mut self, declaration: &BytesDecl<'_>, at: usize) {
        if at > 0 {
            self.notes.note(at, "<?xml", "it at the very start of the file only");
        }
        match declaration.encoding() {
            None => {}
            Some(Ok(name)) if name.eq_ignore_ascii_case("utf-8") => {}
            Some(Ok(name)) => {
                self.notes.note(at, format!("encoding=\"{}\"", shown(&name)), "UTF-8");
            }
            Some(Err(error)) => self.attribute_error(&error, at + 2),
        }
    }

    fn end(&mut self, at: usize) -> bool {
        if let Some(element) = self.open.last() {
            let found = format!("no </{}> for this element", shown(&element.name));
            self.notes.note(element.at, found, "it before the end of the file");
            return false;
        }
        if self.root.is_none() {
            self.notes.note(at, "the end of the file", "a root element");
        }
        self.root.is_some()
    }

    fn stop(&mut self, at: usize, error: &Error) {
        let (found, expected) = match error {
            Error::IllFormed(IllFormedError::MismatchedEndTag { expected, found }) => {
                let opened = self.open.last().map_or(0, |element| self.notes.line(element.at));
                (
                    format!("</{}>", shown(found)),
                    format!("</{}> (opened in line {opened})", shown(expected)),
                )
            }
            Error::IllFormed(IllFormedError::UnmatchedEndTag(found)) => {
                (format!("</{}>", shown(found)), "no end tag without a start tag".to_owned())
            }
            Error::IllFormed(IllFormedError::DoubleHyphenInComment) => {
                ("-- in a comment".to_owned(), "-->".to_owned())
            }
            Error::IllFormed(IllFormedError::UnclosedReference) => {
                ("& without ;".to_owned(), REFERENCES.to_owned())
            }
            Error::Syntax(error) => {
                let (found, expected) = syntax(*error);
                (found.to_owned(), expected.to_owned())
            }
            other => (shown(&other.to_string()), "well-formed XML".to_owned()),
        };
        self.notes.note(at, found, expected);
    }
}

const REFERENCES: &str =
    "&lt; &gt; &amp; &quot; &apos; or the number of a character that XML 1.0 allows";

/// What was found and what was expected of markup that does not end, or does not begin like any
/// known kind.
const fn syntax(error: SyntaxError) -> (&'static str, &'static str) {
    match error {
        SyntaxError::InvalidBangMarkup => ("<! that begins nothing known", "a comment"),
        SyntaxError::UnclosedPI => ("a processing instruction without an end", "?>"),
        SyntaxError::UnclosedXmlDecl => ("an XML declaration without an end", "?>"),
        SyntaxError::UnclosedComment => ("a comment without an end", "-->"),
        SyntaxError::UnclosedDoctype => ("a DOCTYPE without an end", "no DOCTYPE"),
        SyntaxError::UnclosedCData => ("CDATA without an end", "]]>"),
        SyntaxError::UnclosedTag => ("a tag without an end", ">"),
        SyntaxError::UnclosedSingleQuotedAttributeValue => ("a tag with an open quote", "'"),
        SyntaxError::UnclosedDoubleQuotedAttributeValue => ("a tag with an open quote", "\""),
    }
}

/// White space as XML defines it.
pub fn white(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Offset of a part within its whole.
fn offset_in(whole: &str, part: &str) -> usize {
    let offset = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    // The offset of a part that was copied elsewhere is meaningless. The start of the whole is
    // close enough.
    if offset <= whole.len() { offset } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::SourceText;

    fn document(text: &str) -> (Document, Vec<String>) {
        let source =
            SourceText::new("f", text.as_bytes()).unwrap_or_else(|fault| panic!("{fault}"));
        let mut notes = Notes::new(&source);
        let document = read(&mut notes);
        (document, notes.into_faults().iter().map(ToString::to_string).collect())
    }

    #[track_caller]
    fn faulty(text: &str, expected: &str) {
        assert_eq!(document(text).1, [format!("f:{expected}")], "{text}");
    }

    #[test]
    fn a_tree_knows_its_places() {
        let text = "<a>\n  <b c=\"1&amp;2\"  d = '3'>x&lt;<!-- -->y</b>\r\n  <e/>\n</a>";
        let (Document { root, complete }, faults) = document(text);
        assert_eq!(faults, [""; 0]);
        assert!(complete);
        let root = root.unwrap();
        assert_eq!((root.name.as_str(), root.at, root.text_at), ("a", 0, None));
        let [b, e] = root.children.as_slice() else { panic!() };
        assert_eq!((b.name.as_str(), b.at, b.text.as_str()), ("b", 6, "x<y"));
        assert_eq!(b.text_at, text.find("x&"));
        let [c, d] = b.attributes.as_slice() else { panic!() };
        assert_eq!((c.name.as_str(), c.value.as_str()), ("c", "1&2"));
        assert_eq!((Some(c.at), Some(c.value_at)), (text.find("c=\""), text.find("1&amp;")));
        assert_eq!((d.name.as_str(), d.value.as_str()), ("d", "3"));
        assert_eq!((Some(d.at), Some(d.value_at)), (text.find("d ="), text.find("3'")));
        assert_eq!((e.name.as_str(), Some(e.at)), ("e", text.find("<e/>")));
    }

    #[test]
    fn markup_faults_have_places() {
        faulty("", "1:1: found the end of the file, expected a root element");
        faulty("\n <!-- -->\n", "3:1: found the end of the file, expected a root element");
        faulty("<a>\n<b></a>", "2:4: found </a>, expected </b> (opened in line 2)");
        faulty("<a/>\n</b>", "2:1: found </b>, expected no end tag without a start tag");
        faulty(
            "<a>\n<b>",
            "2:1: found no </b> for this element, expected it before the end of the file",
        );
        faulty("<a/><b/>", "1:5: found <b> behind the root, expected one root element");
        faulty(
            "<a/>\n text",
            "2:2: found text \"text\", expected none outside of the root element",
        );
        faulty("text<a/>", "1:1: found text \"text\", expected none outside of the root element");
        faulty(
            "<!DOCTYPE a [<!ENTITY b 'c'>]>\n<a/>",
            "1:1: found <!DOCTYPE, expected none (it is not read)",
        );
        faulty("<a\n  b='1\n></a>", "1:1: found a tag with an open quote, expected '");
        faulty("<a>\n<!-- </a>", "2:1: found a comment without an end, expected -->");
        faulty("<a><!-- a -- b --></a>", "1:11: found -- in a comment, expected -->");
        faulty("<a><![CDATA[ </a>", "1:4: found CDATA without an end, expected ]]>");
        faulty("<a><? </a>", "1:4: found a processing instruction without an end, expected ?>");
        faulty("<a", "1:1: found a tag without an end, expected >");
        faulty("<a>\u{1}</a>", "1:4: found U+0001, expected a character that XML 1.0 allows");
        faulty(
            " <?xml version='1.0'?><a/>",
            "1:2: found <?xml, expected it at the very start of the file only",
        );
        faulty(
            "<?xml version='1.0' encoding='latin1'?><a/>",
            "1:1: found encoding=\"latin1\", expected UTF-8",
        );
    }

    #[test]
    fn attribute_faults_have_places() {
        faulty(
            "<a b='1' b='2'/>",
            "1:10: found attribute b again, expected it once (first in line 1)",
        );
        faulty("<a b/>", "1:5: found an attribute without a value, expected =\"…\"");
        faulty("<a b=1/>", "1:6: found a value without quotes, expected \"…\"");
        faulty("<a b= />", "1:7: found no value, expected \"…\"");
        faulty("<a b='1'c='2'/>", "1:9: found attribute c, expected white space before it");
        faulty("<a b='1<2'/>", "1:8: found < in a value, expected &lt;");
        faulty("<a b='&c;'/>", &format!("1:7: found b=\"&c;\", expected {REFERENCES}"));
        faulty("<a b='&#1;'/>", &format!("1:7: found b=\"&#1;\", expected {REFERENCES}"));
        faulty("<a b='&'/>", &format!("1:7: found b=\"&\", expected {REFERENCES}"));
        faulty("<a>\n&c;</a>", &format!("2:1: found &c;, expected {REFERENCES}"));
        faulty("<a>&#1;</a>", &format!("1:4: found &#1;, expected {REFERENCES}"));
        faulty("<a>\n x & y</a>", &format!("2:4: found & without ;, expected {REFERENCES}"));
        let many: String = (0..70).map(|n| format!(" a{n}='1'")).collect();
        faulty(
            &format!("<a{many}/>"),
            "1:1: found an element of more attributes, expected at most 64",
        );
    }

    #[test]
    fn what_is_whole_before_a_fault_is_read() {
        let (Document { root, complete }, faults) = document("<a><b/><c><d/></a>");
        assert_eq!(faults, ["f:1:15: found </a>, expected </c> (opened in line 1)"]);
        assert!(!complete);
        let root = root.unwrap();
        assert_eq!(root.children.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["b"]);

        let (Document { root, .. }, _) = document("<a><b c='1' d/></a>");
        assert!(root.unwrap().children[0].broken);
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "<a>".repeat(1_000_000);
        let (document, faults) = document(&deep);
        assert_eq!(faults, ["f:1:49: found <a>, expected at most 16 elements in each other"]);
        assert!(!document.complete);
    }
}
