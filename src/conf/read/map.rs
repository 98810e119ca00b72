//! Reads map.xml: its shape, its defaults and its bounds.
//!
//! It returns what is known of each group and biz, faulty or not. So one pass finds the faults of
//! each element, and check/ finds the faults between them.

use std::collections::HashMap;

use super::faults::{Checked, Faulty, Notes, checked, shown};
use super::scalar::{
    Parsed, boolean, duration, is_word, lower_case_name, multiple, one_of, only_with, whole,
    whole32, word,
};
use super::walk::{ElementSchema, first_before};
use super::xml::Element;
use super::{distinct, limit, list, per_call, register, share, tables, weight};
use crate::schema::{
    GeometrySettings, HashKind, Holds, KeyType, Limit, Listed, MAX_FILES, MAX_KEY_BYTES, MAX_KEYS,
    Mode, NodeCount, OnFull, Once, RegisterRoom, Sharing,
};

const MAP: ElementSchema = ElementSchema { many: &["group", "biz"], ..ElementSchema::EMPTY };
const GROUP: ElementSchema = ElementSchema {
    attributes: &[
        "name",
        "keys",
        "files",
        "key-nodes",
        "chain",
        "node-size",
        "key-bytes",
        "hash",
        "on-full",
        "backup",
        "spill",
        "mirror",
    ],
    ..ElementSchema::EMPTY
};
const BIZ: ElementSchema = ElementSchema {
    attributes: &[
        "id",
        "name",
        "group",
        "key",
        "ipv6-prefix",
        "mode",
        "share",
        "on-miss",
        "on-down",
        "wait",
        "hosts",
        "once",
        "once-for",
        "holds",
        "hold-ttl",
        "on-lapse",
    ],
    once: &["register"],
    many: &["limit", "allow", "deny", "override"],
    ..ElementSchema::EMPTY
};
/// The most limits of a biz. Answers name a limit with 16 bits, and nodes have no room for more.
const MAX_LIMITS: usize = 4096;

/// The bounds of the pause between two rounds of `backup`: a second and an hour.
const MIN_ROUND_MS: u64 = 1000;
const MAX_ROUND_MS: u64 = 3_600_000;
/// The bounds of `mirror`: 50 milliseconds and a minute.
const MIN_MIRROR_MS: u64 = 50;
const MAX_MIRROR_MS: u64 = 60_000;

/// A `<group>` whose geometry may depend on its businesses.
pub(crate) struct WrittenGroup {
    pub name: String,
    pub geometry: GeometrySettings,
    pub on_full: OnFull,
    pub backup_ms: Option<u64>,
    pub spill: bool,
    pub mirror_ms: Option<u64>,
}

/// The readable parts of a `<group>`.
pub(crate) struct RawGroup<'e> {
    pub element: &'e Element,
    pub name: Checked<String>,
    pub group: Checked<WrittenGroup>,
}

/// The readable parts of a `<biz>`.
pub(crate) struct RawBiz<'e> {
    pub element: &'e Element,
    pub id: Checked<u32>,
    pub name: Checked<String>,
    /// Index of its group.
    pub group: Checked<usize>,
    pub key: Checked<KeyType>,
    pub mode: Checked<Mode>,
    pub limits: Vec<Checked<Limit>>,
    pub listed: Vec<Checked<Listed>>,
    pub sharing: Checked<Option<Sharing>>,
    pub once: Checked<Option<Once>>,
    pub holds: Checked<Option<Holds>>,
    pub register: Checked<Option<RegisterRoom>>,
}

/// The readable parts of a `<map>`.
pub(crate) struct RawMap<'e> {
    pub groups: Vec<RawGroup<'e>>,
    pub bizs: Vec<RawBiz<'e>>,
}

/// Reads `<map>` and notes its faults. If the file is incomplete, nothing is reported as missing.
pub(crate) fn map<'e>(notes: &mut Notes<'_>, root: &'e Element, complete: bool) -> RawMap<'e> {
    MAP.check(notes, root);
    let group = |element| group(notes, element);
    let mut groups: Vec<RawGroup<'e>> = root.children_named("group").map(group).collect();
    unique(notes, groups.iter().map(|group| (group.element, "name", &group.name)));
    // An empty file is a configuration: of no business.
    if complete && groups.is_empty() && root.child("biz").is_some() {
        notes.note(root.at, "<map> with <biz> and without <group>", "at least one <group>");
    }
    let names = group_names(&groups);
    let biz = |element| biz(notes, element, &names, complete);
    let bizs: Vec<RawBiz<'e>> = root.children_named("biz").map(biz).collect();
    long_keys(&mut groups, &bizs);
    unique(notes, bizs.iter().map(|biz| (biz.element, "id", &biz.id)));
    unique(notes, bizs.iter().map(|biz| (biz.element, "name", &biz.name)));
    RawMap { groups, bizs }
}

/// Gives each group with registers longer key fields, unless map.xml states their length.
fn long_keys(groups: &mut [RawGroup<'_>], bizs: &[RawBiz<'_>]) {
    for biz in bizs.iter().filter(|biz| matches!(biz.register, Ok(Some(_)))) {
        let group = biz.group.ok().and_then(|at| groups.get_mut(at));
        let unsaid = group.filter(|group| group.element.attribute("key-bytes").is_none());
        if let Some(Ok(group)) = unsaid.map(|group| &mut group.group) {
            group.geometry.key_bytes = register::KEY_BYTES;
        }
    }
}

fn group<'e>(notes: &mut Notes<'_>, element: &'e Element) -> RawGroup<'e> {
    GROUP.check(notes, element);
    let name = element.required(notes, "name", lower_case_name);
    let group = written_group(notes, element, &name);
    RawGroup { element, name, group }
}

fn written_group(
    notes: &mut Notes<'_>,
    element: &Element,
    name: &Checked<String>,
) -> Checked<WrittenGroup> {
    let on_fulls = word(&[("evict", OnFull::Evict), ("refuse", OnFull::Refuse)]);
    Ok(checked!(WrittenGroup {
        name: name.clone(),
        geometry: geometry(notes, element),
        on_full: element.or(notes, "on-full", OnFull::Evict, on_fulls),
        backup_ms: element.optional(notes, "backup", duration(MIN_ROUND_MS, MAX_ROUND_MS)),
        spill: element.or(notes, "spill", false, boolean),
        mirror_ms: mirror(notes, element),
    }))
}

/// Reads `mirror`. A record has one second home, so no group has also `backup` or `spill`.
fn mirror(notes: &mut Notes<'_>, element: &Element) -> Checked<Option<u64>> {
    const NAME: &str = "mirror";
    let mirror = element.optional(notes, NAME, duration(MIN_MIRROR_MS, MAX_MIRROR_MS))?;
    let spills = element.attribute_value("spill") == Some("true");
    let backup = element.attribute("backup").map(|_| "backup");
    let (Some(_), Some(other)) = (mirror, backup.or(spills.then_some("spill"))) else {
        return Ok(mirror);
    };
    let found = format!("{NAME}=\"{}\" beside {other}", element.value_of(NAME));
    let expected = format!("one of them: {NAME} needs <peers>, {other} needs <cluster>");
    Err(notes.note(element.value_at(NAME), found, expected))
}

fn geometry(notes: &mut Notes<'_>, element: &Element) -> Checked<GeometrySettings> {
    let hashes = word(&[("bob", HashKind::Bob), ("siphash", HashKind::Siphash)]);
    Ok(checked!(GeometrySettings {
        room: room(notes, element),
        chain: element.or(notes, "chain", 56, whole32(1, 56)),
        node_bytes: element.optional(notes, "node-size", multiple(64, 64, 32_768)),
        key_bytes: element.or(notes, "key-bytes", 24, multiple(8, 8, MAX_KEY_BYTES)),
        hash: element.or(notes, "hash", HashKind::Siphash, hashes),
    }))
}

fn room(notes: &mut Notes<'_>, element: &Element) -> Checked<NodeCount> {
    let has = |name| element.attribute(name).is_some();
    if !has("keys") && (element.broken || has("files") || has("key-nodes")) {
        let files = element.required(notes, "files", whole32(1, MAX_FILES));
        let key_nodes = element.required(notes, "key-nodes", whole32(1, u32::MAX));
        return Ok(NodeCount::Files { files: files?, key_nodes: key_nodes? });
    }
    let mut keys = match element.optional(notes, "keys", whole(1, MAX_KEYS))? {
        Some(keys) => Ok(NodeCount::Keys(keys)),
        None => {
            let expected = "keys, the number to plan for; or files and key-nodes";
            return Err(notes.note(element.at, "<group> without keys", expected));
        }
    };
    for name in ["files", "key-nodes"] {
        if let Some(attribute) = element.attribute(name) {
            let found = format!("{name}=\"{}\" beside keys", shown(&attribute.value));
            let expected = "keys alone, from which it is derived; or files and key-nodes";
            keys = Err(notes.note(attribute.at, found, expected));
        }
    }
    keys
}

/// The names of the groups, each with the index of the first group of that name.
struct GroupNames<'g> {
    names: Vec<&'g str>,
    by_name: HashMap<&'g str, usize>,
    any_faulty: bool,
}

fn group_names<'g>(groups: &'g [RawGroup<'_>]) -> GroupNames<'g> {
    let named = |(at, group): (usize, &'g RawGroup<'_>)| {
        group.name.as_ref().ok().map(|name| (name.as_str(), at))
    };
    let named: Vec<(&str, usize)> = groups.iter().enumerate().filter_map(named).collect();
    GroupNames {
        names: named.iter().map(|&(name, _)| name).collect(),
        // In reverse, so that the first group of a name wins.
        by_name: named.iter().rev().copied().collect(),
        any_faulty: named.len() < groups.len(),
    }
}

fn biz<'e>(
    notes: &mut Notes<'_>,
    element: &'e Element,
    groups: &GroupNames<'_>,
    complete: bool,
) -> RawBiz<'e> {
    BIZ.check(notes, element);
    let id = element.required(notes, "id", whole32(1, u32::MAX));
    let name = element.required(notes, "name", biz_name);
    let group = biz_group(notes, element, groups, complete);
    let key = key_type(notes, element);
    let modes = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow), ("off", Mode::Off)];
    let mode = element.or(notes, "mode", Mode::Enforce, word(&modes));
    let limits = limits(notes, element);
    let listed = list::listed(notes, element, key, &limits);
    let sharing = share::sharing(notes, element);
    share::limits_fit(notes, element, &limits, &listed);
    distinct::stand_alone(notes, element, &limits);
    per_call::few_enough(notes, element, &limits);
    let once = tables::once(notes, element);
    let holds = tables::holds(notes, element, &limits, &listed);
    let register = register::register(notes, element, key);
    RawBiz { element, id, name, group, key, mode, limits, listed, sharing, once, holds, register }
}

fn limits(notes: &mut Notes<'_>, biz: &Element) -> Vec<Checked<Limit>> {
    let mut limits = Vec::new();
    for element in biz.children_named("limit") {
        if limits.len() == MAX_LIMITS {
            notes.note(element.at, "another <limit>", format!("at most {MAX_LIMITS} of a biz"));
            break;
        }
        limits.push(limit::limit(notes, element));
    }
    if limits.is_empty() && biz.child(register::ELEMENT).is_none() {
        notes.note(biz.at, "<biz> without <limit>", "at least one <limit>, or a <register>");
    }
    weight::one_limit_has(notes, biz);
    limits
}

fn biz_group(
    notes: &mut Notes<'_>,
    element: &Element,
    groups: &GroupNames<'_>,
    complete: bool,
) -> Checked<usize> {
    let Some(attribute) = element.attribute("group") else {
        // A file without a group is a fault that is already noted.
        return if element.broken || groups.names.is_empty() { Err(Faulty) } else { Ok(0) };
    };
    let name = attribute.value.as_str();
    if let Some(&group) = groups.by_name.get(name) {
        return Ok(group);
    }
    // The name may be that of a group whose own name is faulty, or of one in the unread part.
    if groups.any_faulty || !complete {
        return Err(Faulty);
    }
    let expected = match groups.names.is_empty() {
        true => "a <group> of that name".to_owned(),
        false => format!("the name of a <group>: {}", one_of(name, groups.names.iter().copied())),
    };
    Err(notes.note(attribute.value_at, format!("group=\"{}\"", shown(name)), expected))
}

fn key_type(notes: &mut Notes<'_>, element: &Element) -> Checked<KeyType> {
    const PREFIX: &str = "ipv6-prefix";
    let kinds = word(&[
        ("string", KeyType::String),
        ("integer", KeyType::Integer),
        ("ip", KeyType::Ip { ipv6_prefix: 64 }),
        ("digest", KeyType::Digest),
    ]);
    let key = element.required(notes, "key", kinds);
    let prefix = element.optional(notes, PREFIX, whole32(1, 128));
    match (key?, prefix?) {
        (KeyType::Ip { .. }, Some(bits)) => Ok(KeyType::Ip { ipv6_prefix: bits as u8 }),
        (key, None) => Ok(key),
        (_, Some(_)) => {
            let at = element.attribute(PREFIX).map_or(element.at, |attribute| attribute.at);
            Err(notes.note(at, "attribute ipv6-prefix", only_with("key", &["ip"])))
        }
    }
}

fn biz_name(text: &str) -> Parsed<String> {
    match is_word(text, 64) && !text.bytes().all(|b| b.is_ascii_digit()) {
        true => Ok(text.to_owned()),
        false => Err("1 to 64 of A-Z, a-z, 0-9, ., _ and -, not digits only".to_owned()),
    }
}

/// Notes every value that an earlier element has.
fn unique<'r, T: Eq + std::hash::Hash + 'r>(
    notes: &mut Notes<'_>,
    values: impl Iterator<Item = (&'r Element, &'static str, &'r Checked<T>)>,
) {
    let mut seen = HashMap::new();
    for (element, name, value) in values {
        let Ok(value) = value else { continue };
        if let Some(first) = first_before(&mut seen, value, element.at) {
            let found = format!("{name}=\"{}\" again", shown(element.value_of(name)));
            let line = notes.line(first);
            let expected = format!("one that no <{}> has (line {line} has it)", element.name);
            notes.note(element.value_at(name), found, expected);
        }
    }
}
