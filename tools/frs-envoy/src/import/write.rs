//! Writes map.xml and `<rls>`.
//!
//! Invariant: a descriptor is written for each limit, and for each descriptor without a limit that
//! hides a more general one.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::{DescriptorNode, DomainFile, ImportedLimit, SourcePlace};

/// The most bytes of the name of a biz.
const NAME_BYTES: usize = 64;
/// The text between the values of a key.
const BETWEEN: &str = "|";

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The text of map.xml.
    pub map: String,
    /// The element `<rls>` of srv.xml.
    pub rls: String,
    /// Settings without a counterpart, and differences, one line each, by place.
    pub notes: Vec<(SourcePlace, String)>,
}

/// Turns the files of some domains into a configuration of frs.
pub fn import(roots: &[DomainFile]) -> Imported {
    let mut writer = ConfWriter::default();
    for root in roots {
        let name = attribute(&root.domain);
        let _ = writeln!(writer.domains, "  <domain name=\"{name}\">");
        writer.level(&root.domain, &[], &root.descriptors);
        writer.domains.push_str("  </domain>\n");
        writer.note_charges_afterwards();
    }
    writer.notes.sort();
    let ConfWriter { bizs, domains, notes, .. } = writer;
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
struct ConfWriter {
    bizs: String,
    domains: String,
    notes: Vec<(SourcePlace, String)>,
    names: HashSet<String>,
    /// Limits of the domain that do not count refused uses.
    refusing: Vec<SourcePlace>,
}

impl ConfWriter {
    /// Writes the descriptors of a level, which follow `path`.
    fn level(&mut self, domain: &str, path: &[&DescriptorNode], nodes: &[DescriptorNode]) {
        let mut kept: Vec<&DescriptorNode> = Vec::new();
        for node in nodes {
            match omission_reason(node, &kept) {
                Some(why) => self.notes.push((node.place, why)),
                None => kept.push(node),
            }
        }
        for &node in &kept {
            let plainer = kept.iter().copied().filter(|other| is_plainer(other, node));
            let plainer: Vec<&DescriptorNode> = plainer.collect();
            self.node(domain, &[path, &[node]].concat(), &plainer);
        }
    }

    /// Notes the limits that would never refuse if calls ask them first and charge them afterwards.
    fn note_charges_afterwards(&mut self) {
        self.refusing.sort();
        let Some(&first) = self.refusing.first() else { return };
        let lines: Vec<String> = self.refusing.drain(..).map(|at| at.line.to_string()).collect();
        let note = format!(
            "the file does not say which limits Envoy asks with hits_addend 0 and charges on stream \
             done (apply_on_stream_done): write force=\"true\" at their descriptors, or what \
             exceeds the limit is not counted and the limit never refuses (limits of lines {})",
            lines.join(", ")
        );
        self.notes.push((first, note));
    }

    fn node(&mut self, domain: &str, path: &[&DescriptorNode], plainer: &[&DescriptorNode]) {
        let Some(&node) = path.last() else { return };
        for &(name, place) in &node.others {
            self.notes
                .push((place, format!("{name} has no counterpart: {}", effect_of_omission(name))));
        }
        let entries = path.iter().map(|node| entry(node)).collect::<Vec<_>>().join(" ");
        let entries = attribute(&entries);
        match &node.limit {
            Some(ImportedLimit::Limited { requests, interval, name }) => {
                self.limit(domain, path, &entries, (*requests, interval, name.as_deref()));
            }
            Some(ImportedLimit::Unlimited) => self.unlimited(&entries),
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
        path: &[&DescriptorNode],
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
                let braced = open.iter().map(|key| format!("{{{}}}", in_braces(key)));
                braced.collect::<Vec<_>>().join(BETWEEN)
            }
        };
        let biz = self.biz_name(domain, path, name);
        let mode = if node.shadow_mode { " mode=\"shadow\"" } else { "" };
        let force = if node.quota_mode { " force=\"true\"" } else { "" };
        if node.quota_mode {
            let note = "quota_mode is written as force=\"true\": what exceeds the limit is counted, \
                        as there; a call is over its limit if one of its quotas is, and there only \
                        if all are";
            self.notes.push((node.place, note.to_owned()));
        } else if !node.shadow_mode {
            self.refusing.push(node.place);
        }
        let id = self.names.len();
        let _ = writeln!(
            self.bizs,
            "  <biz id=\"{id}\" name=\"{biz}\" key=\"string\"{mode}>\n    <limit \
             policy=\"interval\" interval=\"{interval}\" max=\"{requests}\"/>\n  </biz>"
        );
        let _ = writeln!(
            self.domains,
            "    <descriptor entries=\"{entries}\" biz=\"{biz}\" key=\"{}\"{force}/>",
            attribute(&key)
        );
    }

    /// A name that no other biz has: the name of the limit, or one made of the domain and the
    /// entries.
    fn biz_name(&mut self, domain: &str, path: &[&DescriptorNode], name: Option<&str>) -> String {
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

/// The effect of leaving out a setting.
fn effect_of_omission(name: &str) -> &'static str {
    match name {
        "replaces" => "a call is charged to the limit that it replaces, too",
        _ => "it changes no limit; frs counts each biz in its own metrics",
    }
}

/// The reason for leaving out a descriptor with everything nested in it. `None` if it is kept.
/// `earlier` are the kept descriptors before it.
fn omission_reason(node: &DescriptorNode, earlier: &[&DescriptorNode]) -> Option<String> {
    let tail = "the descriptor and what is in it are left out";
    if node.key.contains('*') {
        let key = &node.key;
        return Some(format!("the key {key:?} has no counterpart: a star in a key; {tail}"));
    }
    let value = node.value.as_deref()?;
    let (beginning, end) = value.split_once('*')?;
    // In envoyproxy/ratelimit, the first wildcard of the file that matches counts. In frs, the
    // longest.
    let first = earlier.iter().find(|other| {
        let prefix = other.value.as_deref().and_then(|value| value.strip_suffix('*'));
        other.key == node.key && prefix.is_some_and(|prefix| beginning.starts_with(prefix))
    });
    if let Some(first) = first {
        let (shown, at) = (first.value.as_deref().unwrap_or_default(), first.place);
        return Some(format!(
            "the value {value:?} is never matched there, since {shown:?} of {at} stands before it; \
             {tail}"
        ));
    }
    let note =
        format!("the value {value:?} has no counterpart: only a star at the end is known; {tail}");
    (!end.is_empty()).then_some(note)
}

/// Whether each of its values is counted on its own.
fn is_open(node: &DescriptorNode) -> bool {
    let is_wildcard = node.value.as_ref().is_some_and(|value| value.ends_with('*'));
    node.value.is_none() || is_wildcard && !node.share_threshold
}

/// Whether `plain` matches all values that `special` matches, under the same key.
fn is_plainer(plain: &DescriptorNode, special: &DescriptorNode) -> bool {
    let prefix = plain.value.as_ref().map(|value| value.strip_suffix('*'));
    let is_plainer = match (prefix, &special.value) {
        (None, value) => value.is_some(),
        (Some(Some(prefix)), Some(value)) => plain != special && value.starts_with(prefix),
        _ => false,
    };
    plain.key == special.key && is_plainer
}

/// A descriptor as a word of `entries`.
fn entry(node: &DescriptorNode) -> String {
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

/// A name of `entries` as a key refers to it.
fn in_braces(name: &str) -> String {
    escaped(name).replace('{', "%7B").replace('}', "%7D")
}

/// Text as the value of an attribute.
fn attribute(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('"', "&quot;")
}
