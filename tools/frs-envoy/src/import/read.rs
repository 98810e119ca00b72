//! Reads the YAML of envoyproxy/ratelimit.
//!
//! Invariant: an unknown setting is a fault, and so is a malformed value.

use std::collections::HashSet;

use saphyr::{LoadableYamlNode, MarkedYaml, YamlData};

use super::{DescriptorNode, DomainFile, ImportFault, ImportedLimit, SourcePlace};

/// The most levels of nested descriptors: as many as a descriptor of srv.xml may have entries.
const DEPTH_MAX: usize = 16;

const ROOT: [&str; 2] = ["domain", "descriptors"];
const DESCRIPTOR: [&str; 10] = [
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "share_threshold",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "metadata",
];
const LIMIT: [&str; 5] = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
/// Units, with the intervals that envoyproxy/ratelimit uses for them.
const UNITS: [(&str, &str); 7] = [
    ("second", "1s"),
    ("minute", "1m"),
    ("hour", "1h"),
    ("day", "1d"),
    ("week", "7d"),
    ("month", "30d"),
    ("year", "365d"),
];

type Read<T> = Result<T, ImportFault>;
type Yaml<'y> = MarkedYaml<'y>;

/// Reads a file.
///
/// # Errors
/// The first fault of the file.
pub fn read(text: &str) -> Read<DomainFile> {
    let documents = Yaml::load_from_str(text).map_err(|error| ImportFault {
        place: SourcePlace { line: error.marker().line(), column: error.marker().col() + 1 },
        found: format!("no YAML ({})", error.info()),
        expected: "a file of envoyproxy/ratelimit".to_owned(),
    })?;
    let start = SourcePlace { line: 1, column: 1 };
    let [document] = &documents[..] else {
        let found = format!("{} documents", documents.len());
        return Err(ImportFault { place: start, found, expected: "one".to_owned() });
    };
    let reader = YamlReader { text };
    let fields = reader.fields(document, &ROOT)?;
    let Some(domain) = reader.optional_text(&fields, "domain")? else {
        let place = fields.get("domain").map_or(start, |domain| place(domain));
        return Err(fault(place, "no domain", "domain: and its name"));
    };
    let descriptors = reader.descriptors(fields.get("descriptors"), 1)?;
    Ok(DomainFile { domain, descriptors })
}

struct YamlReader<'t> {
    text: &'t str,
}

/// The settings of a mapping.
struct YamlFields<'y>(Vec<(String, &'y Yaml<'y>)>);

impl<'y> YamlFields<'y> {
    fn get(&self, name: &str) -> Option<&'y Yaml<'y>> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

fn place(node: &Yaml<'_>) -> SourcePlace {
    SourcePlace { line: node.span.start.line(), column: node.span.start.col() + 1 }
}

fn fault(place: SourcePlace, found: impl Into<String>, expected: impl Into<String>) -> ImportFault {
    ImportFault { place, found: found.into(), expected: expected.into() }
}

impl YamlReader<'_> {
    fn fields<'y>(&self, node: &'y Yaml<'y>, known: &[&str]) -> Read<YamlFields<'y>> {
        let YamlData::Mapping(mapping) = &node.data else {
            let expected = format!("settings: {}", known.join(", "));
            return Err(fault(place(node), self.shown(node), expected));
        };
        let mut fields = Vec::new();
        for (key, value) in mapping {
            let Some(name) = key.data.as_str() else {
                return Err(fault(place(key), self.shown(key), "the name of a setting"));
            };
            if !known.contains(&name) {
                let expected = format!("one of {}", known.join(", "));
                return Err(fault(place(key), format!("{name:?}"), expected));
            }
            fields.push((name.to_owned(), value));
        }
        Ok(YamlFields(fields))
    }

    /// A scalar as the file writes it: `value: 1.0` is not a number here.
    fn text(&self, node: &Yaml<'_>) -> Read<String> {
        match &node.data {
            data if data.is_null() => Ok(String::new()),
            data if data.as_str().is_some() => Ok(data.as_str().unwrap_or_default().to_owned()),
            YamlData::Value(_) | YamlData::Representation(..) => Ok(self.source(node)),
            _ => Err(fault(place(node), self.shown(node), "text")),
        }
    }

    /// A scalar that is neither missing nor empty.
    fn optional_text(&self, fields: &YamlFields<'_>, name: &str) -> Read<Option<String>> {
        let text = fields.get(name).map(|node| self.text(node)).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }

    fn source(&self, node: &Yaml<'_>) -> String {
        let (start, end) = (node.span.start.index(), node.span.end.index());
        self.text.chars().skip(start).take(end.saturating_sub(start)).collect()
    }

    fn shown(&self, node: &Yaml<'_>) -> String {
        match &node.data {
            YamlData::Mapping(_) => "settings".to_owned(),
            YamlData::Sequence(_) => "a list".to_owned(),
            _ => format!("{:?}", self.text(node).unwrap_or_default()),
        }
    }

    fn flag(&self, node: Option<&Yaml<'_>>) -> Read<bool> {
        let Some(node) = node.filter(|node| !node.data.is_null()) else { return Ok(false) };
        let flag = node.data.as_bool();
        flag.ok_or_else(|| fault(place(node), self.shown(node), "true or false"))
    }

    fn list<'y>(&self, node: Option<&'y Yaml<'y>>) -> Read<&'y [Yaml<'y>]> {
        let Some(node) = node.filter(|node| !node.data.is_null()) else { return Ok(&[]) };
        match &node.data {
            YamlData::Sequence(list) => Ok(list),
            _ => Err(fault(place(node), self.shown(node), "a list")),
        }
    }

    fn descriptors(&self, node: Option<&Yaml<'_>>, depth: usize) -> Read<Vec<DescriptorNode>> {
        let mut seen = HashSet::new();
        let mut nodes = Vec::new();
        for node in self.list(node)? {
            if depth > DEPTH_MAX {
                let expected = format!("at most {DEPTH_MAX} levels");
                return Err(fault(place(node), "another level of descriptors", expected));
            }
            let node = self.descriptor(node, depth)?;
            // envoyproxy/ratelimit identifies a descriptor by its key and value joined in this way.
            let value = node.value.as_ref().map_or(String::new(), |value| format!("_{value}"));
            if !seen.insert(format!("{}{value}", node.key)) {
                let value = node.value.map_or(String::new(), |value| format!(" {value:?}"));
                let found = format!("the descriptor {:?}{value} again", node.key);
                return Err(fault(node.place, found, "it once"));
            }
            nodes.push(node);
        }
        Ok(nodes)
    }

    fn descriptor(&self, node: &Yaml<'_>, depth: usize) -> Read<DescriptorNode> {
        let fields = self.fields(node, &DESCRIPTOR)?;
        let Some(key) = self.optional_text(&fields, "key")? else {
            return Err(fault(place(node), "a descriptor without a key", "key: and its name"));
        };
        let value = self.optional_text(&fields, "value")?;
        let mut others = Vec::new();
        for name in ["detailed_metric", "value_to_metric"] {
            if self.flag(fields.get(name))? {
                others.extend(fields.get(name).map(|node| (name, place(node))));
            }
        }
        others.extend(fields.get("metadata").map(|node| ("metadata", place(node))));
        let limit = fields.get("rate_limit").filter(|node| !node.data.is_null());
        let limit = limit.map(|node| self.limit(node, &mut others)).transpose()?;
        let share_threshold = self.flag(fields.get("share_threshold"))?;
        let has_star = |text: &String| text.contains('*');
        if share_threshold && !has_star(&key) && !value.as_ref().is_some_and(has_star) {
            let expected = "a value with a wildcard (*)";
            return Err(fault(place(node), "share_threshold without a wildcard", expected));
        }
        Ok(DescriptorNode {
            place: place(node),
            key,
            value,
            limit,
            shadow_mode: self.flag(fields.get("shadow_mode"))?,
            quota_mode: self.flag(fields.get("quota_mode"))?,
            share_threshold,
            others,
            descriptors: self.descriptors(fields.get("descriptors"), depth + 1)?,
        })
    }

    fn limit(
        &self,
        node: &Yaml<'_>,
        others: &mut Vec<(&'static str, SourcePlace)>,
    ) -> Read<ImportedLimit> {
        let fields = self.fields(node, &LIMIT)?;
        let name = self.optional_text(&fields, "name")?;
        let replaces = self.list(fields.get("replaces"))?;
        for replaced in replaces {
            let fields = self.fields(replaced, &["name"])?;
            let replaced_name = self.optional_text(&fields, "name")?;
            if replaced_name.is_none() || replaced_name == name {
                let found = "replaces without another name";
                return Err(fault(place(replaced), found, "the name of another limit"));
            }
        }
        if !replaces.is_empty() {
            others.extend(fields.get("replaces").map(|node| ("replaces", place(node))));
        }
        let unit = self.optional_text(&fields, "unit")?;
        if self.flag(fields.get("unlimited"))? {
            let found = |unit| format!("unit {unit:?} of what is unlimited");
            let wrong = unit.map(|unit| fault(place(node), found(unit), "none"));
            return wrong.map_or(Ok(ImportedLimit::Unlimited), Err);
        }
        let unit = unit.unwrap_or_default();
        let known = UNITS.iter().find(|(known, _)| known.eq_ignore_ascii_case(&unit));
        let Some(&(_, interval)) = known else {
            let at = place(fields.get("unit").unwrap_or(node));
            let expected = format!("one of {}", UNITS.map(|(name, _)| name).join(", "));
            return Err(fault(at, format!("unit {unit:?}"), expected));
        };
        let number = |node: &Yaml<'_>| {
            let number = node.data.as_integer().and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(|| {
                let expected = format!("a whole number, at most {}", u32::MAX);
                fault(place(node), self.shown(node), expected)
            })
        };
        let requests = fields.get("requests_per_unit").map_or(Ok(0), number)?;
        Ok(ImportedLimit::Limited { requests, interval, name })
    }
}
