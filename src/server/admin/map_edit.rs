//! Editing map.xml as text: one `<biz>` is put, or removed, and every other byte stays.
//!
//! Invariant: an edit changes the bytes of one element and the white space that it alone stands in.
//! What is spliced in is one whole element by the same parser that reads the file, so that it
//! cannot end what is around it. Whether the result is a sound map is for
//! [`Conf::parse`](frs::conf::Conf::parse) to say.

use std::ops::Range;

use frs::conf::Faults;
use frs::conf::outline::{self, Outline, Stretch};

const MARK: &str = "\u{feff}";

/// The business that is meant: what stands behind `/biz/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BizName<'n> {
    /// By its number.
    Id(u32),
    /// By its name.
    Name(&'n str),
}

impl<'n> BizName<'n> {
    /// Digits are a number: no name is of digits only. One number has one text: 01001 is none.
    pub fn of(text: &'n str) -> Option<BizName<'n>> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let id = (!text.starts_with('0')).then(|| text.parse().ok()).flatten();
            return id.map(BizName::Id);
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        ((1..=64).contains(&text.len()) && text.bytes().all(fits)).then_some(BizName::Name(text))
    }

    fn names(self, element: &Stretch) -> bool {
        let value = |name| element.attribute(name).map(str::trim);
        match self {
            BizName::Id(id) => value("id").and_then(|text| text.parse().ok()) == Some(id),
            BizName::Name(name) => value("name") == Some(name),
        }
    }
}

/// Why a text cannot be edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// One of the texts is no XML, or has another root.
    #[error("{0}")]
    Faults(#[from] Faults),
    /// The element is another business than the one that is meant.
    #[error("the <biz> of the body has another id or name than the path")]
    Another,
    /// There is no such business.
    #[error("map.xml has no such biz")]
    Unknown,
}

/// A text after a `<biz>` was put into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The text.
    pub text: String,
    /// There was none before.
    pub is_new: bool,
}

/// What faults call the two texts of an edit.
#[derive(Debug, Clone, Copy)]
pub struct TextNames<'n> {
    /// The map.
    pub map: &'n str,
    /// What is put there.
    pub biz: &'n str,
}

/// Puts a `<biz>` in the place of the one of that name, or behind all others.
///
/// # Errors
/// Where a text is not well-formed, or `biz` is not the one that is meant.
pub fn put(
    map: &str,
    biz: &str,
    meant: BizName<'_>,
    names: TextNames<'_>,
) -> Result<Put, EditError> {
    let biz_text = biz.strip_prefix(MARK).unwrap_or(biz);
    let biz = outline::read(names.biz, biz_text, "biz")?.root;
    if !meant.names(&biz) {
        return Err(EditError::Another);
    }
    let new = &biz_text[biz.at..biz.end];
    let (mark, map_text) = split_mark(map);
    let outline = outline::read(names.map, map_text, "map")?;
    let old = outline.children_named("biz").find(|old| meant.names(old));
    let text = match old {
        Some(old) => splice(map_text, old.at..old.end, new),
        None => append(map_text, &outline, new),
    };
    Ok(Put { text: format!("{mark}{text}"), is_new: old.is_none() })
}

/// Removes a `<biz>`, and its line if it has that for itself.
///
/// # Errors
/// Where the text is not well-formed, or has no such business.
pub fn remove(map: &str, meant: BizName<'_>, name: &str) -> Result<String, EditError> {
    let (mark, text) = split_mark(map);
    let outline = outline::read(name, text, "map")?;
    let old = outline.children_named("biz").find(|old| meant.names(old));
    let old = old.ok_or(EditError::Unknown)?;
    let lines = lines_of(text, old.at..old.end).unwrap_or(old.at..old.end);
    Ok(format!("{mark}{}", splice(text, lines, "")))
}

/// The `<group>`s and `<biz>`s of a map as they are written, in their order, one behind the other;
/// or of the one biz that is meant. None: there is no such biz.
///
/// # Errors
/// Where the text is not well-formed.
pub fn elements(
    map: &str,
    meant: Option<BizName<'_>>,
    name: &str,
) -> Result<Option<String>, EditError> {
    let (_, text) = split_mark(map);
    let outline = outline::read(name, text, "map")?;
    let written = |element: &Stretch| &text[element.at..element.end];
    match meant {
        Some(meant) => {
            let mut bizs = outline.children_named("biz");
            Ok(bizs.find(|biz| meant.names(biz)).map(|biz| format!("{}\n", written(biz))))
        }
        None => {
            let mut all = "<map>\n".to_owned();
            for element in &outline.children {
                all += "  ";
                all += written(element);
                all.push('\n');
            }
            Ok(Some(all + "</map>\n"))
        }
    }
}

fn split_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix(MARK) {
        Some(rest) => (MARK, rest),
        None => ("", text),
    }
}

fn splice(text: &str, old: Range<usize>, new: &str) -> String {
    [&text[..old.start], new, &text[old.end..]].concat()
}

/// Before `</map>`; on lines of its own where that has one, indented as the element before.
fn append(text: &str, outline: &Outline, new: &str) -> String {
    let end = outline.root.end_tag_at;
    if outline.root.end == end {
        // `<map/>` is all of it: it is opened, or what is put would stand behind the root.
        let slash = text[..end].rfind('/').unwrap_or(end);
        return splice(text, slash..end, &[">", new, "</map>"].concat());
    }
    let line_at = text[..end].rfind('\n').map_or(0, |at| at + 1);
    if line_at == 0 || !is_blank(&text[line_at..end]) {
        return splice(text, end..end, new);
    }
    let line_end = if text[..line_at].ends_with("\r\n") { "\r\n" } else { "\n" };
    let indent = outline.children.last().and_then(|last| {
        let from = text[..last.at].rfind('\n')? + 1;
        is_blank(&text[from..last.at]).then(|| &text[from..last.at])
    });
    let new = [indent.unwrap_or("  "), new, line_end].concat();
    splice(text, line_at..line_at, &new)
}

/// The whole lines that stretch has for itself, if it has.
fn lines_of(text: &str, stretch: Range<usize>) -> Option<Range<usize>> {
    let start = text[..stretch.start].rfind('\n')? + 1;
    let end = stretch.end + text[stretch.end..].find('\n')? + 1;
    let is_alone = is_blank(&text[start..stretch.start]) && is_blank(&text[stretch.end..end]);
    is_alone.then_some(start..end)
}

fn is_blank(text: &str) -> bool {
    text.chars().all(outline::is_white)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs::conf::Conf;
    use proptest::prelude::*;

    const MAP: &str = "<?xml version='1.0'?>\n<!-- a -->\n<map>\n  <group name='g' files='1' \
        key-nodes='1' node-size='64'/><!-- b -->\n\n  <!-- <biz id='1'/> -->\n    <biz id='1' \
        name='one' key='integer'>\n      <!-- > --><limit policy='total' max='1'/>\n    </biz>\n  \
        <biz id=\"02\" name='two' key='integer'><limit policy='total' max='1'/></biz> <!-- c -->\n\
        </map>\n<!-- d -->\n";
    const NAMES: TextNames<'_> = TextNames { map: "map.xml", biz: "body" };

    fn biz(id: u32, name: &str) -> String {
        format!(
            "<biz id='{id}' name='{name}' key='string'>\n <limit policy='total' max='9'/></biz>"
        )
    }

    fn sound(map: &str) -> usize {
        let conf = Conf::parse("srv.xml", "<srv/>", "map.xml", map);
        conf.unwrap_or_else(|faults| panic!("{faults}\n{map}")).map.bizs.len()
    }

    fn put_one(map: &str, id: u32, name: &str) -> Put {
        put(map, &biz(id, name), BizName::Id(id), NAMES).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn one_is_replaced_where_it_stands() {
        let one = &MAP[MAP.find("<biz id='1'\n").or(MAP.find("    <biz id='1'")).unwrap() + 4..];
        let one = &one[..one.find("</biz>").unwrap() + 6];
        let new = biz(1, "uno");
        let Put { text, is_new } = put_one(MAP, 1, "uno");
        assert!(!is_new);
        assert_eq!(text, MAP.replace(one, &new));
        assert_eq!(sound(&text), 2);
        let by_name = put(MAP, &biz(2, "two"), BizName::Name("two"), NAMES).unwrap();
        assert!(
            !by_name.is_new && by_name.text.contains(&format!("  {} <!-- c -->", biz(2, "two")))
        );
    }

    #[test]
    fn a_new_one_stands_before_the_end_and_is_removed_without_a_trace() {
        for map in [MAP.to_owned(), MAP.replace('\n', "\r\n"), format!("\u{feff}{MAP}")] {
            let Put { text, is_new } = put_one(&map, 3, "three");
            assert!(is_new);
            assert_eq!(sound(&text), 3);
            let line_end = if map.contains('\r') { "\r\n" } else { "\n" };
            assert!(text.contains(&format!("  {}{line_end}</map>", biz(3, "three"))), "{text}");
            assert_eq!(remove(&text, BizName::Name("three"), "map.xml").unwrap(), map);
        }
        let line = "<map><group name='g' files='1' key-nodes='1' node-size='64'/></map>";
        let Put { text, .. } = put_one(line, 3, "three");
        assert_eq!(text, line.replace("</map>", &(biz(3, "three") + "</map>")));
        assert_eq!(remove(&text, BizName::Id(3), "map.xml").unwrap(), line);
    }

    #[test]
    fn the_first_one_opens_a_map_that_is_one_tag() {
        for map in ["<map/>", "<map />", "\u{feff}<!-- a --><map\n/><!-- b -->\n"] {
            let Put { text, is_new } = put_one(map, 3, "three");
            let (before, behind) = map.split_once("/>").unwrap();
            assert_eq!(text, format!("{before}>{}</map>{behind}", biz(3, "three")));
            assert!(is_new && elements(&text, Some(BizName::Id(3)), "m").unwrap().is_some());
        }
    }

    #[test]
    fn what_is_around_a_removed_one_stays() {
        let text = remove(MAP, BizName::Id(2), "map.xml").unwrap();
        assert!(text.contains("    </biz>\n   <!-- c -->\n</map>"), "{text}");
        assert_eq!(sound(&text), 1);
        assert!(matches!(remove(MAP, BizName::Id(9), "m"), Err(EditError::Unknown)));
    }

    #[test]
    fn nothing_but_one_biz_is_spliced_in() {
        for body in [
            "",
            "<biz",
            "<biz/><biz/>",
            "<map/>",
            "</map>",
            "<biz id='3'></map>",
            "<biz id='3'/></map>",
            "text",
            "<!DOCTYPE x><biz id='3'/>",
            "<biz id='3'>&lol;</biz>",
        ] {
            let error = put(MAP, body, BizName::Id(3), NAMES).unwrap_err();
            let shown = error.to_string();
            assert!(matches!(error, EditError::Faults(_)) && shown.contains("body:"), "{shown}");
        }
        for other in ["<biz id='4'/>", "<biz/>", "<biz name='3'/>"] {
            let error = put(MAP, other, BizName::Id(3), NAMES).unwrap_err();
            assert!(matches!(error, EditError::Another), "{other}");
        }
        let wrapped =
            format!("\u{feff}<?xml version='1.0'?><!-- x -->\n{}\n<!-- y -->", biz(3, "c"));
        let Put { text, .. } = put(MAP, &wrapped, BizName::Id(3), NAMES).unwrap();
        assert_eq!(text, put_one(MAP, 3, "c").text);
    }

    #[test]
    fn names_are_numbers_or_words() {
        assert_eq!(BizName::of("1001"), Some(BizName::Id(1001)));
        assert_eq!((BizName::of("001"), BizName::of("0")), (None, None));
        assert_eq!(BizName::of("a.b"), Some(BizName::Name("a.b")));
        for none in ["", "4294967296", "..%2f", "a/b", "a b", "é"] {
            assert_eq!(BizName::of(none), None, "{none}");
        }
    }

    #[test]
    fn elements_are_as_they_are_written() {
        let one = elements(MAP, Some(BizName::Name("one")), "m").unwrap().unwrap();
        assert!(one.starts_with("<biz id='1' name='one'") && one.ends_with("</biz>\n"), "{one}");
        assert!(one.contains("<!-- > -->"));
        assert_eq!(elements(MAP, Some(BizName::Id(7)), "m").unwrap(), None);
        assert_eq!(sound(&elements(MAP, None, "m").unwrap().unwrap()), 2);
    }

    proptest! {
        /// Whatever stands between the elements comes out byte for byte, whatever is put and removed.
        #[test]
        fn what_is_not_meant_stays(
            between in proptest::collection::vec("( |\n|\r\n|\t|<!-- [a-z<>&/]{0,9} -->|<\\?x y\\?>){0,4}", 5),
            ids in proptest::collection::vec(1u32..5, 1..6),
            adds in proptest::collection::vec(any::<bool>(), 6),
        ) {
            let group = "<group name='g' files='1' key-nodes='1' node-size='64'/>";
            let mut map = format!(
                "<map>{}{group}{}{}{}{}{}</map>{}",
                between[0], between[1], biz(1, "b1"), between[2], biz(2, "b2"), between[3],
                between[4],
            );
            let mut count = 2;
            for (id, add) in ids.into_iter().zip(adds) {
                let name = format!("b{id}");
                if add {
                    let put = put_one(&map, id, &name);
                    // What was written by the same hand is put in place of itself without a trace.
                    prop_assert!(put.is_new || put.text == map);
                    if put.is_new {
                        count += 1;
                        let back = remove(&put.text, BizName::Name(&name), "m").unwrap();
                        prop_assert_eq!(&back, &map);
                    }
                    map = put.text;
                } else if let Ok(text) = remove(&map, BizName::Id(id), "m") {
                    count -= 1;
                    map = text;
                }
                prop_assert_eq!(sound(&map), count);
                let written = |text: &str| text.matches("<!--").count() + text.matches("<?x").count();
                let expected: usize = between.iter().map(|text| written(text)).sum();
                prop_assert_eq!(written(&map), expected);
            }
        }
    }
}
