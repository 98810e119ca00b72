//! Tests that JSON and XML have the same content, and that anything but a business is refused with
//! the place of the fault.

use super::*;
use crate::admin::map_edit;
use frs_conf::element_positions;
use std::collections::BTreeSet;

const CONF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/");

fn read(body: &str) -> Result<String, (u16, &'static str, String)> {
    biz_as_xml(body.as_bytes())
        .map_err(|refusal| (refusal.status, refusal.code.word(), refusal.words))
}

fn json(xml: &str) -> String {
    document(&element_positions::read("body", xml, "biz").unwrap(), &BIZ)
}

// Shows: biz-in-xml-and-json.
#[test]
fn a_biz_says_the_same_in_both_formats() {
    let xml = "<biz id=\"9\" name=\"b\" key=\"ip\" ipv6-prefix=\"48\">\n    \
               <limit policy=\"gcra\" rate=\"30/m\" burst=\"16\" per-call=\"true\">\n      \
               <weight at=\"10\" value=\"0.5\"/>\n    </limit>\n    \
               <allow key=\"10.0.0.0/8\"/>\n    <deny key=\"::/0\"/>\n    \
               <override key=\"&lt;&quot;\" limit=\"1\" max=\"7\"/>\n  </biz>";
    let expected = "{\"biz\":{\"allows\":[{\"key\":\"10.0.0.0/8\"}],\"denys\":[{\"key\":\"::/0\"}],\
                    \"id\":9,\"ipv6-prefix\":48,\"key\":\"ip\",\"limits\":[{\"burst\":16,\
                    \"per-call\":true,\"policy\":\"gcra\",\"rate\":\"30/m\",\"weights\":[{\"at\":10,\
                    \"value\":0.5}]}],\"name\":\"b\",\"overrides\":[{\"key\":\"<\\\"\",\"limit\":1,\
                    \"max\":7}]}}\n";
    assert_eq!(json(xml), expected);
    // Members are sorted by name, so the attributes return in another order.
    let back = read(expected).unwrap();
    assert_eq!(json(&back), expected);
    let in_order = "{\"biz\": {\"id\": 9, \"name\": \"b\", \"key\": \"ip\", \"ipv6-prefix\": 48, \
                    \"limits\": [{\"policy\": \"gcra\", \"rate\": \"30/m\", \"burst\": 16, \
                    \"per-call\": true, \"weights\": [{\"at\": 10, \"value\": 0.5}]}], \
                    \"allows\": [{\"key\": \"10.0.0.0/8\"}], \"denys\": [{\"key\": \"::/0\"}], \
                    \"overrides\": [{\"key\": \"<\\\"\", \"limit\": 1, \"max\": 7}]}}";
    assert_eq!(read(in_order).unwrap(), xml);
}

#[test]
fn a_whole_number_may_have_decimals_that_say_nothing() {
    let read = read("{\"biz\": {\"id\": 5.0, \"hosts\": -0.0, \"limits\": [{\"max\": 1e3}]}}");
    assert_eq!(read.unwrap(), "<biz id=\"5\" hosts=\"-0\">\n    <limit max=\"1000\"/>\n  </biz>");
}

/// Each shipped biz is unchanged after a conversion to JSON and back.
// Shows: biz-in-xml-and-json.
#[test]
fn the_shipped_map_comes_back() {
    let map = std::fs::read_to_string(format!("{CONF}map.xml")).unwrap();
    let all = map_edit::elements(&map, None, "map.xml").unwrap().unwrap();
    let tree = element_positions::read("map.xml", &all, "map").unwrap();
    let document: serde_json::Value = serde_json::from_str(&document(&tree, &MAP)).unwrap();
    let bizs = document["map"]["bizs"].as_array().unwrap();
    let old: Vec<_> = tree.children.iter().filter(|child| child.name == "biz").collect();
    assert!(bizs.len() > 3 && bizs.len() == old.len());
    for (biz, old) in bizs.iter().zip(old) {
        let body = serde_json::json!({ "biz": biz }).to_string();
        let new = element_positions::read("body", &read(&body).unwrap(), "biz").unwrap();
        let sorted = |tree: &element_positions::Element| {
            let values = tree.attributes.iter().map(|it| (it.name.clone(), it.value.clone()));
            values.collect::<BTreeSet<_>>()
        };
        assert_eq!(sorted(&new), sorted(old));
        for element in [&LIMIT, &LISTED[0], &LISTED[1], &OVERRIDE].map(|shape| shape.element) {
            let of = |tree: &element_positions::Element| {
                let children = tree.children.iter().filter(|child| child.name == element);
                children.map(sorted).collect::<Vec<_>>()
            };
            assert_eq!(of(&new), of(old));
        }
    }
    assert_eq!(document["map"]["groups"][0]["keys"], 200_000);
}

#[test]
fn what_is_no_biz_is_refused_with_its_place() {
    let mut elsewhere = Vec::new();
    for (body, code, line, column, words) in [
        ("", "bad-json", 1, 1, "the document ends too early"),
        ("{\"biz\":\n {\"id\": 1,}}", "bad-json", 2, 11, "a comma behind the last one"),
        ("{\"biz\": null}", "bad-json", 1, 12, "null is not taken"),
        ("{\"biz\": {\"id\": null}}", "bad-json", 1, 19, "null is not taken"),
        ("{\"biz\": {\"id\": 1, \"id\": 2}}", "bad-json", 1, 22, "id occurs more than once"),
        ("{\"biz\": {\"limits\": [], \"limits\": []}}", "bad-json", 1, 31, "limits occurs more"),
        ("[]", "bad-request", 1, 2, "expected an object with the member biz"),
        ("{}", "bad-request", 1, 2, "expected the member biz"),
        ("{\"bizs\": []}", "bad-request", 1, 7, "unknown member: expected biz, found \"bizs\""),
        ("{\"biz\": 1}", "bad-request", 1, 9, "expected an object, the biz"),
        ("{\"biz\": {\"limit\": []}}", "bad-request", 1, 16, "on-lapse, limits, allows, denys"),
        ("{\"biz\": {\"id\": \"1\"}}", "bad-request", 1, 18, "expected a whole number for id"),
        ("{\"biz\": {\"id\": 1.5}}", "bad-request", 1, 18, "expected a whole number for id"),
        ("{\"biz\": {\"name\": 1}}", "bad-request", 1, 18, "expected a string for name"),
        ("{\"biz\": {\"name\": \"a\\u0001\"}}", "bad-request", 1, 26, "found U+0001"),
        ("{\"biz\": {\"limits\": {}}}", "bad-request", 1, 21, "an array of objects, the limits"),
        ("{\"biz\": {\"limits\": [[]]}}", "bad-request", 1, 22, "expected an object, the limit"),
        (
            "{\"biz\": {\"limits\": [{\"per-call\": 1}]}}",
            "bad-request",
            1,
            34,
            "expected true or false for per-call",
        ),
    ] {
        let refusal = biz_as_xml(body.as_bytes()).unwrap_err();
        assert_eq!((refusal.status, refusal.code.word()), (400, code), "{body}");
        assert!(refusal.words.contains(words), "{body}: {}", refusal.words);
        let place = refusal.position().map(|at| (at.line, at.column));
        if place != Some((line, column)) {
            elsewhere.push((body, place));
        }
    }
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
    assert_eq!(read("\u{feff}{}").unwrap_err().1, "bad-request");
    assert_eq!(biz_as_xml(b"{\"biz\": \xff").unwrap_err().code.word(), "bad-json");
    assert_eq!(biz_as_xml(b"\xff\xfe{\0").unwrap_err().status, 415);
    let long = format!("{{\"biz\": {{\"name\": \"{}\"}}}}", "<".repeat(300_000));
    assert_eq!(biz_as_xml(long.as_bytes()).unwrap_err().status, 413);
    let wide =
        format!("{{\"biz\": {{\"name\": \"x\", \"limits\": [{}{{}}]}}}}", "{},".repeat(32_768));
    let refused = biz_as_xml(wide.as_bytes()).unwrap_err();
    assert_eq!(refused.status, 400);
    assert!(refused.words.starts_with("more than 32768 objects in one business"), "{refused:?}");
    let deep = "[".repeat(100_000);
    assert_eq!(biz_as_xml(deep.as_bytes()).unwrap_err().status, 400);
}

/// Answers would lack an attribute of map.xml that JSON does not know.
// Shows: biz-in-xml-and-json.
#[test]
fn the_shapes_are_those_of_the_schema() {
    let text = std::fs::read_to_string(format!("{CONF}map.xsd")).unwrap();
    let text = text.split_once("?>").unwrap().1;
    let schema = element_positions::read("map.xsd", text, "xs:schema").unwrap();
    let value = |tree: &element_positions::Element, name: &str| {
        tree.attribute_value(name).map(str::to_owned)
    };
    for shape in ALL.iter().filter(|shape| shape.element != "map") {
        let name = if ["allow", "deny"].contains(&shape.element) { "list" } else { shape.element };
        let found = |tree: &&element_positions::Element| {
            tree.name == "xs:complexType" && value(tree, "name").as_deref() == Some(name)
        };
        let found = schema.children.iter().find(found).unwrap_or_else(|| panic!("{name}"));
        let attributes = found.children.iter().filter(|child| child.name == "xs:attribute");
        let expected: BTreeSet<(String, String)> = attributes
            .map(|attribute| {
                let base = attribute.children.first().and_then(|simple| {
                    simple.children.first().and_then(|restriction| value(restriction, "base"))
                });
                let kind = value(attribute, "type").or(base).expect("a type");
                (value(attribute, "name").expect("a name"), kind)
            })
            .map(|(name, kind)| {
                let kind = match kind.as_str() {
                    "xs:unsignedInt" | "xs:unsignedLong" | "positive32" | "uses" => {
                        AttributeKind::Whole
                    }
                    "xs:decimal" => AttributeKind::Decimal,
                    "flag" => AttributeKind::Flag,
                    _ => AttributeKind::Text,
                };
                (name, format!("{kind:?}"))
            })
            .collect();
        let known: BTreeSet<(String, String)> = shape
            .attributes
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), format!("{kind:?}")))
            .collect();
        assert_eq!(known, expected, "{name}");
    }
}
