//! Edits map.xml as text: puts or removes one `<biz>`, and leaves every other byte unchanged.
//!
//! Invariant: an edit changes only the bytes of one element and the white space that surrounds it
//! alone. The inserted text is one whole element to the same parser that reads the file, so it
//! cannot end the elements around it. [`Conf::parse`](frs_conf::Conf::parse) decides whether the
//! result is a valid map.

use std::ops::Range;

use frs_conf::Faults;
use frs_conf::element_positions::{self, Attribute, Element};

const MARK: &str = "\u{feff}";

/// The business named in a path, after `/biz/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BizName<'n> {
    /// The id of the business.
    Id(u32),
    /// The name of the business.
    Name(&'n str),
}

impl<'n> BizName<'n> {
    /// A text of digits is an id, because no name consists of digits only. An id has a single text,
    /// so 01001 is none.
    pub fn of(text: &'n str) -> Option<BizName<'n>> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let id = (!text.starts_with('0')).then(|| text.parse().ok()).flatten();
            return id.map(BizName::Id);
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        ((1..=64).contains(&text.len()) && text.bytes().all(fits)).then_some(BizName::Name(text))
    }

    fn names(self, element: &Element) -> bool {
        let value = |name| element.attribute_value(name).map(str::trim);
        match self {
            BizName::Id(id) => value("id").and_then(|text| text.parse().ok()) == Some(id),
            BizName::Name(name) => value("name") == Some(name),
        }
    }
}

/// The reason why a text cannot be edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// One of the texts is not well-formed, or has another root.
    #[error("{0}")]
    Faults(#[from] Faults),
    /// The element is a business other than the named one.
    #[error("the <biz> of the body has another id or name than the path")]
    Another,
    /// There is no such business.
    #[error("map.xml has no such biz")]
    Unknown,
    /// The business has changed since the change that is to be undone.
    #[error("the biz has changed since")]
    Changed,
}

/// An edited text, and the edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The text.
    pub text: String,
    /// The name of the business, or its number if it has none.
    pub name: String,
    /// The element of the business before. `None` if there was none.
    pub old: Option<String>,
    /// The element of the business now. `None` if it is removed.
    pub new: Option<String>,
}

/// The names of the two texts of an edit, for faults.
#[derive(Debug, Clone, Copy)]
pub struct TextNames<'n> {
    /// The map.
    pub map: &'n str,
    /// The inserted element.
    pub biz: &'n str,
}

/// Replaces the named `<biz>`, or appends one after all others.
///
/// # Errors
/// A text is not well-formed, or `biz` is not the named business.
pub fn put(
    map: &str,
    biz: &str,
    meant: BizName<'_>,
    names: TextNames<'_>,
) -> Result<Edit, EditError> {
    let biz_text = biz.strip_prefix(MARK).unwrap_or(biz);
    let biz = element_positions::read(names.biz, biz_text, "biz")?;
    if !meant.names(&biz) {
        return Err(EditError::Another);
    }
    let new = &biz_text[biz.at..biz.end];
    let map = Map::read(map, names.map)?;
    let old = map.biz(meant);
    Ok(Edit {
        text: map.with(old, new),
        name: name_of(&biz),
        old: old.map(|old| map.written(old).to_owned()),
        new: Some(new.to_owned()),
    })
}

/// Removes a `<biz>`, and its line if nothing else is on it.
///
/// # Errors
/// The text is not well-formed, or has no such business.
pub fn remove(map: &str, meant: BizName<'_>, name: &str) -> Result<Edit, EditError> {
    let map = Map::read(map, name)?;
    let old = map.biz(meant).ok_or(EditError::Unknown)?;
    let written = map.written(old).to_owned();
    Ok(Edit { text: map.without(old), name: name_of(old), old: Some(written), new: None })
}

/// An edit to revert, by the elements before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditToRevert<'t> {
    /// The element before the edit. `None` if there was none.
    pub old: Option<&'t str>,
    /// The element after the edit. `None` if it was removed.
    pub new: Option<&'t str>,
}

/// Reverts an edit, if the business still has the element of that edit.
///
/// # Errors
/// The map is not well-formed, or the business has changed since.
pub fn revert(map: &str, undone: EditToRevert<'_>, name: &str) -> Result<Edit, EditError> {
    let map = Map::read(map, name)?;
    let bizs = || map.root.children_named("biz");
    let found = undone.new.and_then(|new| bizs().find(|biz| map.written(biz) == new));
    if found.is_none() && undone.new.is_some() {
        return Err(EditError::Changed);
    }
    let old = undone.old.map(|old| element_positions::read("old", old, "biz")).transpose()?;
    let is_same = |biz: &Element| {
        let same = |name| old.as_ref().is_some_and(|old| same_value(old, biz, name));
        same("id") || same("name")
    };
    // If another business has its id or name, a restored element would be a fault.
    if bizs().filter(|biz| Some(*biz) != found).any(is_same) {
        return Err(EditError::Changed);
    }
    let text = match (undone.old, found) {
        (Some(old), found) => map.with(found, old),
        (None, Some(found)) => map.without(found),
        (None, None) => return Err(EditError::Unknown),
    };
    Ok(Edit {
        text,
        name: old.as_ref().or(found).map(name_of).unwrap_or_default(),
        old: undone.new.map(str::to_owned),
        new: undone.old.map(str::to_owned),
    })
}

/// Whether a map has a `<biz>` with exactly this text.
pub fn holds(map: &str, biz: &str) -> bool {
    Map::read(map, "map")
        .is_ok_and(|map| map.root.children_named("biz").any(|element| map.written(element) == biz))
}

fn same_value(one: &Element, other: &Element, name: &str) -> bool {
    let own = one.attribute_value(name).map(str::trim);
    own.is_some() && own == other.attribute_value(name).map(str::trim)
}

fn name_of(biz: &Element) -> String {
    let value = |name| biz.attribute_value(name).map(str::trim).filter(|value| !value.is_empty());
    value("name").or(value("id")).unwrap_or_default().to_owned()
}

/// The `<group>`s and `<biz>`s of a map as written, concatenated in order, or the `<biz>` of one
/// business. `None` if there is no such business.
///
/// # Errors
/// The text is not well-formed.
pub fn elements(
    map: &str,
    meant: Option<BizName<'_>>,
    name: &str,
) -> Result<Option<String>, EditError> {
    let map = Map::read(map, name)?;
    if let Some(meant) = meant {
        return Ok(map.biz(meant).map(|biz| format!("{}\n", map.written(biz))));
    }
    let mut all = "<map>\n".to_owned();
    for element in &map.root.children {
        all.extend(["  ", map.written(element), "\n"]);
    }
    Ok(Some(all + "</map>\n"))
}

/// The `node-size` that is written for a group, with its places in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenSize {
    /// The name of the group.
    pub group: String,
    /// The whole attribute, with the white space before it.
    pub attribute: Range<usize>,
    /// The value of the attribute, between the quotes.
    pub value: Range<usize>,
}

/// The written `node-size` of the group of a business. `None` if there is no such business or
/// group, or no written size.
///
/// # Errors
/// The text is not well-formed.
pub fn node_size_of(
    map: &str,
    meant: BizName<'_>,
    name: &str,
) -> Result<Option<WrittenSize>, EditError> {
    let map = Map::read(map, name)?;
    let Some(biz) = map.biz(meant) else { return Ok(None) };
    let is_its = |group: &&Element| match biz.attribute_value("group") {
        Some(named) => group.attribute_value("name").map(str::trim) == Some(named.trim()),
        // Without the attribute, the first group is that of the business.
        None => true,
    };
    let Some(group) = map.root.children_named("group").find(is_its) else { return Ok(None) };
    let Some(&Attribute { at, value_at, .. }) = group.attribute("node-size") else {
        return Ok(None);
    };
    let (mark, text) = (map.mark, map.text);
    let before = text[..at].trim_end_matches(element_positions::is_white).len();
    // No value contains its own kind of quote.
    let quote = &text[value_at - 1..value_at];
    let value_end = value_at + text[value_at..].find(quote).unwrap_or_default();
    let here = |from: usize, to: usize| mark.len() + from..mark.len() + to;
    Ok(Some(WrittenSize {
        group: group.value_of("name").trim().to_owned(),
        attribute: here(before, value_end + 1),
        value: here(value_at, value_end),
    }))
}

/// A map.xml and the places of its elements.
struct Map<'t> {
    /// The byte order mark, if there is one.
    mark: &'static str,
    /// What follows the mark.
    text: &'t str,
    root: Element,
}

impl<'t> Map<'t> {
    fn read(text: &'t str, name: &str) -> Result<Map<'t>, Faults> {
        let (mark, text) = text.strip_prefix(MARK).map_or(("", text), |text| (MARK, text));
        Ok(Map { mark, text, root: element_positions::read(name, text, "map")? })
    }

    fn biz(&self, meant: BizName<'_>) -> Option<&Element> {
        self.root.children_named("biz").find(|biz| meant.names(biz))
    }

    fn written(&self, element: &Element) -> &'t str {
        &self.text[element.at..element.end]
    }

    /// The whole text with `new` in place of a part.
    fn spliced(&self, part: Range<usize>, new: &str) -> String {
        [self.mark, &self.text[..part.start], new, &self.text[part.end..]].concat()
    }

    /// The whole text with the element `new` in place of `old`, or after all others.
    fn with(&self, old: Option<&Element>, new: &str) -> String {
        match old {
            Some(old) => self.spliced(old.at..old.end, new),
            None => self.appended(new),
        }
    }

    /// The whole text without an element, and without its line if nothing else is on it.
    fn without(&self, old: &Element) -> String {
        let span = old.at..old.end;
        self.spliced(lines_of(self.text, span.clone()).unwrap_or(span), "")
    }

    /// Inserts before `</map>`: on a line of its own if the end tag has one, indented like the last
    /// element.
    fn appended(&self, new: &str) -> String {
        let Map { text, root, .. } = self;
        let end = root.end_tag_at;
        if root.end == end {
            // The root is a single tag such as `<map/>`. Without an end tag, the element would
            // follow the root.
            let slash = text[..end].rfind('/').unwrap_or(end);
            return self.spliced(slash..end, &[">", new, "</map>"].concat());
        }
        let line_at = text[..end].rfind('\n').map_or(0, |at| at + 1);
        if line_at == 0 || !is_blank(&text[line_at..end]) {
            return self.spliced(end..end, new);
        }
        let line_end = if text[..line_at].ends_with("\r\n") { "\r\n" } else { "\n" };
        let indent = root.children.last().and_then(|last| {
            let from = text[..last.at].rfind('\n')? + 1;
            is_blank(&text[from..last.at]).then(|| &text[from..last.at])
        });
        let new = [indent.unwrap_or("  "), new, line_end].concat();
        self.spliced(line_at..line_at, &new)
    }
}

/// The whole lines of the range, if nothing else is on them.
fn lines_of(text: &str, span: Range<usize>) -> Option<Range<usize>> {
    let start = text[..span.start].rfind('\n')? + 1;
    let end = span.end + text[span.end..].find('\n')? + 1;
    let is_alone = is_blank(&text[start..span.start]) && is_blank(&text[span.end..end]);
    is_alone.then_some(start..end)
}

fn is_blank(text: &str) -> bool {
    text.chars().all(element_positions::is_white)
}

#[cfg(test)]
mod tests;
