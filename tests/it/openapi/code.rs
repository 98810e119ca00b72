//! The document against the code: paths, methods, parameters, members and words. A server's answers
//! have the members that the document names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::document::Document;
use crate::common::plane::{Plane, TOKEN, ask};
use frs_engine::answer::{Field, FieldKind, LimitField};
use frs_engine::{ItemError, List, Outcome};
use frs_server::admin::map_json::{ALL, AttributeKind};
use frs_server::admin::route as admin;
use frs_server::process::change_log::ChangeKind;
use frs_server::protocol::call::Call;
use frs_server::protocol::{Code, form, json, route};

fn set<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    names.into_iter().map(|name| name.as_ref().to_owned()).collect()
}

const METHODS: [&str; 8] = ["get", "head", "put", "post", "delete", "options", "patch", "trace"];

/// The methods of each path of a plane, without HEAD, which GET implies.
fn documented(document: &Document, plane: &str) -> BTreeMap<String, BTreeSet<String>> {
    let paths = document.0["paths"].as_object().expect("paths");
    let mut found = BTreeMap::new();
    for (path, item) in paths {
        let has_tag = |method: &&str| {
            let tags = item[*method]["tags"].as_array();
            tags.is_some_and(|tags| tags.iter().any(|tag| tag == plane))
        };
        let methods = set(METHODS.iter().copied().filter(has_tag));
        if !methods.is_empty() {
            found.insert(path.clone(), methods);
        }
    }
    found
}

fn in_code(paths: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
    let methods = |allow: &str| match allow {
        "*" => set(METHODS.iter().filter(|method| **method != "head")),
        allow => set(allow.split(", ").map(str::to_lowercase).filter(|method| method != "head")),
    };
    paths.iter().map(|(path, allow)| ((*path).to_owned(), methods(allow))).collect()
}

// Shows: openapi.
#[test]
fn the_paths_and_methods_are_those_of_the_code() {
    let document = Document::read();
    assert_eq!(documented(&document, "data plane"), in_code(&route::PATHS));
    assert_eq!(documented(&document, "admin plane"), in_code(&admin::PATHS));
    assert_eq!(document.0["info"]["version"], env!("CARGO_PKG_VERSION"));
}

// Shows: openapi.
#[test]
fn the_parameters_are_those_of_the_code() {
    let document = Document::read();
    let parameters = |path: &str, method: &str| {
        let item = &document.0["paths"][path];
        let both = [&item["parameters"], &item[method]["parameters"]];
        let all = both.into_iter().filter_map(Value::as_array).flatten();
        let all = all.map(|parameter| document.resolve(parameter));
        let of_query = all.filter(|parameter| parameter["in"] == "query");
        set(of_query.map(|parameter| parameter["name"].as_str().expect("a name")))
    };
    for (path, method, names) in [
        ("/query", "get", &form::NAMES[..]),
        ("/update", "get", &form::NAMES),
        ("/query", "post", &[]),
        ("/update", "post", &[]),
        ("/node", "get", admin::NODE),
        ("/node", "put", admin::PUT_NODE),
        ("/node", "delete", admin::NODE),
        ("/top", "get", admin::TOP_PARAMS),
        ("/degrade", "post", admin::DEGRADE),
        ("/changes", "get", admin::CHANGES_PARAMS),
        ("/changes/{id}/undo", "post", &[]),
        ("/biz", "get", &[]),
        ("/biz/{biz}", "put", admin::PUT_BIZ),
        ("/stats", "get", admin::STATS),
    ] {
        assert_eq!(parameters(path, method), set(names), "{method} {path}");
    }
}

// Shows: openapi.
#[test]
fn the_members_of_requests_are_those_of_the_code() {
    let document = Document::read();
    assert_eq!(set(document.members("Request")), set(json::DOCUMENT_MEMBERS));
    assert_eq!(set(document.members("RequestItem")), set(json::ITEM_MEMBERS));
    for (element, schema) in [
        ("group", "Group"),
        ("biz", "Biz"),
        ("limit", "Limit"),
        ("weight", "Weight"),
        ("allow", "ListedKey"),
        ("deny", "ListedKey"),
        ("override", "Override"),
        ("register", "Register"),
    ] {
        let shape = ALL.iter().find(|shape| shape.element == element).expect("a shape");
        assert_eq!(set(document.members(schema)), set(shape.members()), "{schema}");
        for (name, kind) in shape.attributes {
            let kind = match kind {
                AttributeKind::Text => "string",
                AttributeKind::Whole => "integer",
                AttributeKind::Decimal => "number",
                AttributeKind::Flag => "boolean",
            };
            let member = document.resolve(&document.schema(schema)["properties"][*name]);
            assert_eq!(member["type"], kind, "{schema} {name}");
        }
    }
}

// Shows: openapi.
#[test]
fn the_fields_of_answers_are_those_of_the_code() {
    let document = Document::read();
    for (schema, names, kinds, others) in [
        ("Answer", &Field::NAMES[..], &Field::KINDS[..], &["biz", "key", "limits"][..]),
        ("LimitFigures", &LimitField::NAMES, &LimitField::KINDS, &[]),
    ] {
        assert_eq!(set(document.members(schema)), set(names.iter().chain(others)), "{schema}");
        for (name, kind) in names.iter().zip(kinds) {
            let member = document.resolve(&document.schema(schema)["properties"][*name]);
            let expected = match kind {
                FieldKind::Mark => {
                    assert_eq!(member["const"], true, "{schema} {name}");
                    continue;
                }
                FieldKind::Truth => "boolean",
                FieldKind::Index | FieldKind::Number | FieldKind::Steady => "integer",
                FieldKind::Thousandths => "number",
                FieldKind::List | FieldKind::Word | FieldKind::Text => "string",
                FieldKind::Numbers => "array",
            };
            assert_eq!(member["type"], expected, "{schema} {name}");
        }
    }
    let lists = [List::Allow, List::Deny].map(List::word);
    let list = &document.schema("Answer")["properties"]["list"];
    assert_eq!(set(document.words(list)), set(lists));
}

// Shows: openapi.
#[test]
fn the_words_are_those_of_the_code() {
    let document = Document::read();
    let words = |schema: &Value| set(document.words(schema));
    let errors = ItemError::ALL.map(ItemError::word);
    assert_eq!(words(document.schema("ItemErrorWord")), set(errors));
    assert_eq!(words(document.schema("ErrorCode")), set(Code::ALL.map(Code::word)));
    let outcomes = set(Outcome::ALL.map(Outcome::word));
    for member in ["queries", "updates"] {
        let members = &document.schema("StatsBiz")["properties"][member]["properties"];
        assert_eq!(set(members.as_object().expect("members").keys()), outcomes);
    }
    assert_eq!(
        words(&document.schema("Change")["properties"]["what"]),
        set(ChangeKind::ALL.map(ChangeKind::word))
    );
    let requests = &document.schema("Stats")["properties"]["requests"]["items"]["properties"];
    assert_eq!(words(&requests["command"]), set(Call::ALL.map(Call::word)));
}

/// Appends the names of all members within a schema.
fn names(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(parts) => {
            for (name, part) in parts {
                if let ("properties", Value::Object(members)) = (name.as_str(), part) {
                    found.extend(members.keys().cloned());
                }
                names(part, found);
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| names(part, found)),
        _ => {}
    }
}

fn sources(directory: &Path, all: &mut String) {
    for entry in std::fs::read_dir(directory).expect("readable") {
        let path = entry.expect("an entry").path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if is_test {
            continue;
        }
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|end| end == "rs") {
            *all += &std::fs::read_to_string(path).expect("readable");
        }
    }
}

/// Every member of a schema is still written or read by the code.
// Shows: openapi.
#[test]
fn each_member_stands_in_the_code() {
    let mut code = String::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")), &mut code);
    // In a byte string the quotation marks are escaped.
    let stands = |name: &str| {
        code.contains(&format!("\"{name}\"")) || code.contains(&format!("\\\"{name}\\\""))
    };
    let mut found = BTreeSet::new();
    names(&Document::read().0["components"]["schemas"], &mut found);
    assert!(found.len() > 100, "{found:?}");
    // An array has the name of its elements plus s.
    let is_unknown = |name: &&String| !stands(name) && !name.strip_suffix('s').is_some_and(stands);
    let unknown: Vec<&String> = found.iter().filter(is_unknown).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

// Shows: openapi.
#[test]
fn answers_have_the_members_that_the_document_names() {
    let document = Document::read();
    let plane = Plane::new(1);
    plane.setup.write_map(super::asked::MAP);
    let server = plane.start(1);
    let json = |text: &str| -> Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let check = |schema: &str, text: &str| {
        let faults = document.faults(document.schema(schema), &json(text));
        assert!(faults.is_empty(), "{schema}: {faults:#?} in {text}");
    };
    let fields = "Content-Type: application/json\r\nAccept: application/json\r\n";
    let mut client = server.client();
    let mut items = String::new();
    for (biz, key, more) in [
        ("login", "a", "\"detail\":true,\"count\":6"),
        ("login", "a", "\"detail\":true,\"count\":5"),
        ("login", "a", "\"count\":1"),
        ("sms", "1", "\"detail\":true"),
        ("captcha", "a", "\"count\":9"),
        ("calls", "a", "\"rate\":\"1/s\",\"burst\":2"),
        ("tried", "a", "\"count\":9"),
        ("listed", "allowed", "\"count\":1"),
        ("listed", "denied", "\"count\":1"),
        ("reserved", "a", "\"count\":12,\"partial\":true"),
        ("reserved", "b", "\"once\":\"id\""),
        ("reserved", "b", "\"once\":\"id\""),
        ("reserved", "c", "\"hold\":\"id\",\"settle\":true"),
        ("nope", "a", "\"count\":1"),
    ] {
        items += &format!("{{\"biz\":\"{biz}\",\"key\":\"{key}\",{more}}},");
    }
    let items = items.trim_end_matches(',');
    let body = format!("{{\"items\":[{items}]}}");
    let answer = ask(&mut client, "POST", "/update", fields, &body).expect("answered");
    check("Answers", &answer.body);
    let mut seen = BTreeSet::new();
    let answers = json(&answer.body);
    for answer in answers["items"].as_array().expect("answers") {
        seen.extend(answer.as_object().expect("an object").keys().cloned());
    }
    // The other members need a cluster, or a server that limits nothing.
    let mut expected = set(document.members("Answer"));
    expected.extend(set(document.members("ItemError")));
    let others = set(["shared", "age", "degraded"]);
    assert_eq!(seen, &expected - &others, "{}", answer.body);
    let body = body.replacen('{', "{\"atomic\":true,", 1);
    let answer = ask(&mut client, "POST", "/update", fields, &body).expect("answered");
    check("Answers", &answer.body);
    let answer = ask(&mut client, "POST", "/update", fields, "{}").expect("answered");
    check("ErrorDocument", &answer.body);
    let fields = format!("{fields}Authorization: Bearer {TOKEN}\r\n");
    let mut client = plane.client();
    let mut of_admin = |method: &str, target: &str, body: &str, schema: &str, status: u16| {
        let answer = ask(&mut client, method, target, &fields, body).expect("answered");
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.body);
        check(schema, &answer.body);
        answer.body
    };
    of_admin("GET", "/health", "", "HealthDocument", 200);
    of_admin("GET", "/stats", "", "Stats", 200);
    of_admin("GET", "/node?biz=login&key=a", "", "NodeDocument", 200);
    of_admin("GET", "/top?biz=login", "", "TopDocument", 200);
    of_admin("GET", "/top?biz=seckill", "", "TopDocument", 200);
    of_admin("GET", "/biz", "", "MapDocument", 200);
    for biz in ["login", "sms", "seckill", "captcha", "api", "calls", "tried", "listed", "reserved"]
    {
        let target = format!("/biz/{biz}");
        let text = of_admin("GET", &target, "", "BizDocument", 200);
        of_admin("PUT", &target, &text, "DoneDocument", 200);
        assert_eq!(of_admin("GET", &target, "", "BizDocument", 200), text, "{biz}");
    }
    let faulty = "{\"biz\":{\"id\":1001,\"name\":\"login\"}}";
    of_admin("PUT", "/biz/login", faulty, "ErrorDocument", 422);
    of_admin("PUT", "/biz/login", "{\"biz\":[]}", "ErrorDocument", 400);
    let new = "{\"biz\":{\"id\":7,\"name\":\"new\",\"key\":\"string\",\
               \"limits\":[{\"policy\":\"total\",\"max\":1}]}}";
    of_admin("PUT", "/biz/other", new, "ErrorDocument", 400);
    of_admin("PUT", "/biz/new", new, "DoneDocument", 201);
    of_admin("DELETE", "/biz/new", "", "DoneDocument", 200);
    of_admin("GET", "/biz/new", "", "ErrorDocument", 404);
}

/// A look needs no token, but a wrong token is reported on every path.
// Shows: openapi.
#[test]
fn a_wrong_token_is_answered_as_the_document_says() {
    let document = Document::read();
    let plane = Plane::new(1);
    let _server = plane.start(1);
    for (path, methods) in documented(&document, "admin plane") {
        for method in methods {
            let answers = &document.0["paths"][&path][&method]["responses"];
            let answer = document.resolve(&answers["401"]);
            assert!(answer["headers"]["WWW-Authenticate"].is_object(), "{method} {path}");
        }
        let query = match path.as_str() {
            "/node" => "?biz=three&key=k",
            "/top" => "?biz=three",
            _ => "",
        };
        if !document.0["paths"][&path]["get"].is_object() {
            continue;
        }
        let target = path.replace("{biz}", "three") + query;
        let wrong = "Authorization: Bearer another-token-0123456789\r\n";
        let answer = ask(&mut plane.client(), "GET", &target, wrong, "").expect("answered");
        assert_eq!(answer.status, 401, "{target}");
        assert!(answer.head.contains("WWW-Authenticate: Bearer"), "{target}: {answer:?}");
        // The right token releases the brake.
        assert_ne!(plane.ask("GET", &target, "").status, 401, "{target}");
    }
}
