//! The document as a value, and the parts of a schema that the tests need: references, members,
//! types, words. The tests with schemathesis check the rest.

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Value};

pub const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.yaml");

/// The document.
pub struct Document(pub Value);

impl Document {
    pub fn read() -> Document {
        let text = std::fs::read_to_string(PATH).expect("readable");
        let documents = Yaml::load_from_str(&text).unwrap_or_else(|error| panic!("{error}"));
        let [document] = &documents[..] else { panic!("{} documents", documents.len()) };
        Document(value(document))
    }

    /// The target of a reference.
    pub fn resolve<'d>(&'d self, part: &'d Value) -> &'d Value {
        match part["$ref"].as_str() {
            Some(reference) => {
                let pointer = reference.strip_prefix('#').expect("a reference within the document");
                let found = self.0.pointer(pointer).unwrap_or_else(|| panic!("no {reference}"));
                self.resolve(found)
            }
            None => part,
        }
    }

    pub fn schema(&self, name: &str) -> &Value {
        let schema = &self.0["components"]["schemas"][name];
        assert!(schema.is_object(), "no schema {name}");
        schema
    }

    /// The names of a schema's members.
    pub fn members(&self, name: &str) -> Vec<&str> {
        let members = self.schema(name)["properties"].as_object().expect("members");
        members.keys().map(String::as_str).collect()
    }

    /// The words of a schema.
    pub fn words<'d>(&'d self, schema: &'d Value) -> Vec<&'d str> {
        let words = self.resolve(schema)["enum"].as_array().expect("words");
        words.iter().map(|word| word.as_str().expect("a word")).collect()
    }

    /// The places where a value differs from its schema.
    pub fn faults(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        self.check(schema, value, "", &mut faults);
        faults
    }

    fn check(&self, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        let schema = self.resolve(schema);
        if let Some(several) = schema["oneOf"].as_array() {
            let fitting = several.iter().filter(|one| self.faults(one, value).is_empty()).count();
            if fitting != 1 {
                faults.push(format!("{at}: {fitting} of the schemas fit {value}"));
            }
            return;
        }
        if !is_of_type(&schema["type"], value) {
            faults.push(format!("{at}: {value} is not {}", schema["type"]));
        }
        if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
            faults.push(format!("{at}: {value} is not among {}", schema["enum"]));
        }
        if let (Some(members), Some(properties)) =
            (value.as_object(), schema["properties"].as_object())
        {
            for (name, value) in members {
                match properties.get(name) {
                    Some(schema) => self.check(schema, value, &format!("{at}/{name}"), faults),
                    None => faults.push(format!("{at}: the document has no {name}")),
                }
            }
            let required = schema["required"].as_array().into_iter().flatten();
            for name in required.filter_map(Value::as_str) {
                if !members.contains_key(name) {
                    faults.push(format!("{at}: there is no {name}"));
                }
            }
        }
        for (nth, value) in value.as_array().into_iter().flatten().enumerate() {
            self.check(&schema["items"], value, &format!("{at}/{nth}"), faults);
        }
    }
}

fn is_of_type(types: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        _ => true,
    };
    match types {
        Value::Array(several) => several.iter().any(is),
        one => is(one),
    }
}

fn value(node: &Yaml<'_>) -> Value {
    match node {
        Yaml::Sequence(all) => all.iter().map(value).collect(),
        Yaml::Mapping(members) => {
            let member = |(name, member): (&Yaml<'_>, &Yaml<'_>)| {
                let name = name.as_str().unwrap_or_else(|| panic!("no name: {name:?}")).to_owned();
                (name, value(member))
            };
            Value::Object(members.iter().map(member).collect::<Map<_, _>>())
        }
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(flag)) => (*flag).into(),
        Yaml::Value(Scalar::Integer(number)) => (*number).into(),
        Yaml::Value(Scalar::FloatingPoint(number)) => number.into_inner().into(),
        Yaml::Value(Scalar::String(text)) => text.as_ref().into(),
        other => panic!("{other:?}: expected no tags"),
    }
}
