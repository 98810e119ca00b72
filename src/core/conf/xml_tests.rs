//! Faults of the markup: places, and what is still read.

use super::*;
use crate::conf::fault::Source;

fn document(text: &str) -> (Document, Vec<String>) {
    let source = Source::new("f", text.as_bytes()).unwrap_or_else(|fault| panic!("{fault}"));
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
    faulty("<a/>\n text", "2:2: found text \"text\", expected none outside of the root element");
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
    faulty("<a b='1' b='2'/>", "1:10: found attribute b again, expected it once (first in line 1)");
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
    faulty(&format!("<a{many}/>"), "1:1: found an element of more attributes, expected at most 64");
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
