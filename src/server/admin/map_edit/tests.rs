//! Tests that an edit changes one element of map.xml and leaves the rest unchanged.

use super::*;
use frs_conf::Conf;
use proptest::prelude::*;

const MAP: &str = "<?xml version='1.0'?>\n<!-- a -->\n<map>\n  <group name='g' files='1' \
    key-nodes='1' node-size='64'/><!-- b -->\n\n  <!-- <biz id='1'/> -->\n    <biz id='1' \
    name='one' key='integer'>\n      <!-- > --><limit policy='total' max='1'/>\n    </biz>\n  \
    <biz id=\"02\" name='two' key='integer'><limit policy='total' max='1'/></biz> <!-- c -->\n\
    </map>\n<!-- d -->\n";
const NAMES: TextNames<'_> = TextNames { map: "map.xml", biz: "body" };

fn biz(id: u32, name: &str) -> String {
    format!("<biz id='{id}' name='{name}' key='string'>\n <limit policy='total' max='9'/></biz>")
}

fn sound(map: &str) -> usize {
    let conf = Conf::parse("srv.xml", "<srv/>", "map.xml", map);
    conf.unwrap_or_else(|faults| panic!("{faults}\n{map}")).map.bizs.len()
}

fn put_one(map: &str, id: u32, name: &str) -> Edit {
    put(map, &biz(id, name), BizName::Id(id), NAMES).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn one_is_replaced_where_it_stands() {
    let one = &MAP[MAP.find("<biz id='1'\n").or(MAP.find("    <biz id='1'")).unwrap() + 4..];
    let one = &one[..one.find("</biz>").unwrap() + 6];
    let new = biz(1, "uno");
    let Edit { text, old, new: found, name } = put_one(MAP, 1, "uno");
    assert_eq!((old.as_deref(), found.as_deref(), &*name), (Some(one), Some(&*new), "uno"));
    assert_eq!(text, MAP.replace(one, &new));
    assert_eq!(sound(&text), 2);
    let by_name = put(MAP, &biz(2, "two"), BizName::Name("two"), NAMES).unwrap();
    assert!(
        by_name.old.is_some() && by_name.text.contains(&format!("  {} <!-- c -->", biz(2, "two")))
    );
}

#[test]
fn a_new_one_stands_before_the_end_and_is_removed_without_a_trace() {
    for map in [MAP.to_owned(), MAP.replace('\n', "\r\n"), format!("\u{feff}{MAP}")] {
        let Edit { text, old, .. } = put_one(&map, 3, "three");
        assert_eq!(old, None);
        assert_eq!(sound(&text), 3);
        let line_end = if map.contains('\r') { "\r\n" } else { "\n" };
        assert!(text.contains(&format!("  {}{line_end}</map>", biz(3, "three"))), "{text}");
        assert_eq!(remove(&text, BizName::Name("three"), "map.xml").unwrap().text, map);
    }
    let line = "<map><group name='g' files='1' key-nodes='1' node-size='64'/></map>";
    let Edit { text, .. } = put_one(line, 3, "three");
    assert_eq!(text, line.replace("</map>", &(biz(3, "three") + "</map>")));
    assert_eq!(remove(&text, BizName::Id(3), "map.xml").unwrap().text, line);
}

#[test]
fn the_first_one_opens_a_map_that_is_one_tag() {
    for map in ["<map/>", "<map />", "\u{feff}<!-- a --><map\n/><!-- b -->\n"] {
        let Edit { text, old, .. } = put_one(map, 3, "three");
        let (before, behind) = map.split_once("/>").unwrap();
        assert_eq!(text, format!("{before}>{}</map>{behind}", biz(3, "three")));
        assert!(old.is_none() && elements(&text, Some(BizName::Id(3)), "m").unwrap().is_some());
    }
}

#[test]
fn what_is_around_a_removed_one_stays() {
    let Edit { text, new, name, .. } = remove(MAP, BizName::Id(2), "map.xml").unwrap();
    assert_eq!((new, &*name), (None, "two"));
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
    let wrapped = format!("\u{feff}<?xml version='1.0'?><!-- x -->\n{}\n<!-- y -->", biz(3, "c"));
    let Edit { text, .. } = put(MAP, &wrapped, BizName::Id(3), NAMES).unwrap();
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

// Shows: undo.
#[test]
fn an_edit_is_taken_back_only_where_nothing_has_changed_since() {
    let revert = |map: &str, edit: &Edit| {
        let undone = EditToRevert { old: edit.old.as_deref(), new: edit.new.as_deref() };
        revert(map, undone, "map.xml")
    };
    let changed = put_one(MAP, 1, "uno");
    let back = revert(&changed.text, &changed).unwrap();
    assert_eq!((&*back.text, &*back.name), (MAP, "one"));
    assert_eq!((&back.old, &back.new), (&changed.new, &changed.old));
    assert_eq!(revert(&back.text, &back).unwrap().text, changed.text, "and that again");
    let new = put_one(MAP, 3, "three");
    assert_eq!(revert(&new.text, &new).unwrap().text, MAP);
    let removed = remove(MAP, BizName::Id(1), "map.xml").unwrap();
    let back = revert(&removed.text, &removed).unwrap();
    assert_eq!((sound(&back.text), back.old, back.new), (2, None, removed.old.clone()));
    // Each of these maps has changed the business since.
    let again = put_one(&changed.text, 1, "ein");
    let gone = remove(&changed.text, BizName::Id(1), "map.xml").unwrap();
    for map in [&again.text, &gone.text, MAP] {
        assert!(matches!(revert(map, &changed), Err(EditError::Changed)), "{map}");
    }
    // Another business has the same id, or the same name.
    for map in [put_one(&removed.text, 1, "x").text, put_one(&removed.text, 9, "one").text] {
        assert!(matches!(revert(&map, &removed), Err(EditError::Changed)), "{map}");
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
    /// The text between the elements stays byte for byte, whatever is put or removed.
    // Shows: admin-changes.
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
                // An element replaced by its own text leaves the file unchanged.
                prop_assert!(put.old.is_none() || put.text == map);
                if put.old.is_none() {
                    count += 1;
                    let back = remove(&put.text, BizName::Name(&name), "m").unwrap();
                    prop_assert_eq!(&back.text, &map);
                }
                let undone = EditToRevert { old: put.old.as_deref(), new: put.new.as_deref() };
                prop_assert_eq!(&revert(&put.text, undone, "m").unwrap().text, &map);
                map = put.text;
            } else if let Ok(Edit { text, .. }) = remove(&map, BizName::Id(id), "m") {
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
