//! Writes map.xml and `<rls>`.
//!
//! Invariant: a descriptor is written for each limit, and for each descriptor without a limit that
//! hides a plainer one.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::{Limit, Node, Place, Root};

/// The most bytes of the name of a biz.
const NAME_BYTES: usize = 64;
/// Between the values of a key.
const BETWEEN: &str = "|";

/// What files become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// map.xml.
    pub map: String,
    /// The element of srv.xml.
    pub rls: String,
    /// What has no counterpart, and what differs, one line each, by place.
    pub notes: Vec<(Place, String)>,
}

/// Turns the file of a domain into the configuration of frs.
pub fn import(roots: &[Root]) -> Imported {
    let mut writer = Writer::default();
    for root in roots {
        let name = attribute(&root.domain);
        let _ = writeln!(writer.domains, "  <domain name=\"{name}\">");
        writer.level(&root.domain, &[], &root.descriptors);
        writer.domains.push_str("  </domain>\n");
    }
    writer.notes.sort();
    let Writer { bizs, domains, notes, .. } = writer;
    Imported {
        map: format!(
            "<map>\n  <group name=\"default\" files=\"2\" key-nodes=\"4096\" chain=\"56\" \
             node-size=\"128\" key-bytes=\"24\" hash=\"siphash\"/>\n{bizs}</map>\n"
        ),
        rls: format!("<rls listen=\"127.0.0.1:7603\" charge=\"each\">\n{domains}</rls>\n"),
        notes,
    }
}

#[derive(Default)]
struct Writer {
    bizs: String,
    domains: String,
    notes: Vec<(Place, String)>,
    names: HashSet<String>,
}

impl Writer {
    /// Writes the descriptors of a level, behind these.
    fn level(&mut self, domain: &str, path: &[&Node], nodes: &[Node]) {
        for node in nodes {
            let plainer = nodes.iter().filter(|other| is_plainer(other, node));
            let plainer: Vec<&Node> = plainer.collect();
            self.node(domain, &[path, &[node]].concat(), &plainer);
        }
    }

    fn node(&mut self, domain: &str, path: &[&Node], plainer: &[&Node]) {
        let Some(&node) = path.last() else { return };
        for &(name, place) in &node.others {
            self.notes.push((place, format!("{name} has no counterpart: {}", without(name))));
        }
        if let Some(value) = inner_wildcard(node) {
            let note = format!(
                "the value {value:?} has no counterpart: only a star at the end is known; the \
                 descriptor and what is in it are left out"
            );
            return self.notes.push((node.place, note));
        }
        let entries = path.iter().map(|node| entry(node)).collect::<Vec<_>>().join(" ");
        let entries = attribute(&entries);
        match &node.limit {
            Some(Limit::Limited { requests, interval, name }) => {
                self.limit(domain, path, &entries, (*requests, interval, name.as_deref()));
            }
            Some(Limit::Unlimited) => self.unlimited(&entries),
            None if node.descriptors.is_empty() || !plainer.is_empty() => {
                self.unlimited(&entries);
            }
            None => {}
        }
        if !node.descriptors.is_empty() && plainer.iter().any(|it| !it.descriptors.is_empty()) {
            let note = "what matches here and nothing nested is then looked for in the plainer \
                        descriptor of this key, which envoyproxy/ratelimit does not do";
            self.notes.push((node.place, note.to_owned()));
        }
        self.level(domain, path, &node.descriptors);
    }

    fn unlimited(&mut self, entries: &str) {
        let _ =
            writeln!(self.domains, "    <descriptor entries=\"{entries}\" unlimited=\"true\"/>");
    }

    fn limit(
        &mut self,
        domain: &str,
        path: &[&Node],
        entries: &str,
        (requests, interval, name): (u32, &str, Option<&str>),
    ) {
        let Some(node) = path.last() else { return };
        let open = path.iter().filter(|node| is_open(node)).map(|node| node.key.as_str());
        let open: Vec<&str> = open.collect();
        let is_twice = |key: &&str| path.iter().filter(|node| node.key == **key).count() > 1;
        if let Some(key) = open.iter().find(|key| is_twice(key)) {
            let note = format!(
                "the key {key:?} is nested in itself and left open, which has no counterpart: the \
                 descriptor is left out"
            );
            return self.notes.push((node.place, note));
        }
        let key = match open.is_empty() {
            true => "all".to_owned(),
            false => {
                let braced = open.iter().map(|key| format!("{{{key}}}"));
                braced.collect::<Vec<_>>().join(BETWEEN)
            }
        };
        let biz = self.biz_name(domain, path, name);
        let mode = if node.shadow_mode { " mode=\"shadow\"" } else { "" };
        let id = self.names.len();
        let _ = writeln!(
            self.bizs,
            "  <biz id=\"{id}\" name=\"{biz}\" key=\"string\"{mode}>\n    <limit \
             policy=\"interval\" interval=\"{interval}\" max=\"{requests}\"/>\n  </biz>"
        );
        let _ = writeln!(
            self.domains,
            "    <descriptor entries=\"{entries}\" biz=\"{biz}\" key=\"{}\"/>",
            attribute(&key)
        );
    }

    /// A name that no other biz has: that of the limit, or one made of domain and entries.
    fn biz_name(&mut self, domain: &str, path: &[&Node], name: Option<&str>) -> String {
        let made = || {
            let words = path.iter().map(|node| match &node.value {
                Some(value) => format!("{}_{value}", node.key),
                None => node.key.clone(),
            });
            std::iter::once(domain.to_owned()).chain(words).collect::<Vec<_>>().join(".")
        };
        let wanted = name.map_or_else(made, str::to_owned);
        let is_known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let known = |c: char| if is_known(c) { c } else { '-' };
        let mut base: String = wanted.chars().map(known).take(NAME_BYTES).collect();
        if base.chars().all(|c| c.is_ascii_digit()) {
            base = format!("n{base}").chars().take(NAME_BYTES).collect();
        }
        let mut name = base.clone();
        for number in 2.. {
            if self.names.insert(name.clone()) {
                break;
            }
            let end = format!("-{number}");
            name = base.chars().take(NAME_BYTES - end.len()).collect::<String>() + &end;
        }
        name
    }
}

/// What is lost without a setting.
fn without(name: &str) -> &'static str {
    match name {
        "replaces" => "a call is charged to the limit that it replaces, too",
        "quota_mode" => "the limit refuses as any other",
        _ => "it changes no limit; frs counts each biz in its own metrics",
    }
}

/// The value, if a star is in it that is not at its end.
fn inner_wildcard(node: &Node) -> Option<&str> {
    let value = node.value.as_deref()?;
    let beginning = value.strip_suffix('*').unwrap_or(value);
    beginning.contains('*').then_some(value)
}

/// Whether each of its values is counted on its own.
fn is_open(node: &Node) -> bool {
    let is_wildcard = node.value.as_ref().is_some_and(|value| value.ends_with('*'));
    node.value.is_none() || is_wildcard && !node.share_threshold
}

/// Whether `plain` matches all that `special` does, of one key.
fn is_plainer(plain: &Node, special: &Node) -> bool {
    let prefix = plain.value.as_ref().map(|value| value.strip_suffix('*'));
    let is_plainer = match (prefix, &special.value) {
        (None, value) => value.is_some(),
        (Some(Some(prefix)), Some(value)) => plain != special && value.starts_with(prefix),
        _ => false,
    };
    plain.key == special.key && is_plainer
}

/// A word of entries.
fn entry(node: &Node) -> String {
    let key = escaped(&node.key);
    match node.value.as_deref().map(|value| (value, value.strip_suffix('*'))) {
        None => key,
        Some((_, Some(prefix))) => format!("{key}={}*", escaped(prefix)),
        Some((value, None)) => format!("{key}={}", escaped(value)),
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.chars() {
        match byte {
            '%' | '*' | '=' | ' ' | '\t' | '\n' | '\r' | '\x0c' => {
                let _ = write!(escaped, "%{:02X}", byte as u32);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// Text as the value of an attribute.
fn attribute(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('"', "&quot;")
}
