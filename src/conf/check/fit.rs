//! Checks the parts that must fit together: states in nodes, keys in key fields, files in the bound
//! of all groups, the largest transaction in the undo log.
//!
//! Invariant: only settings without faults are compared, so one mistake is one fault.

use frs_base::figures::grouped;

use crate::read::{Checked, Element, Faulty, Notes, RawBiz, RawGroup, RawMap, WrittenGroup};
use crate::schema::{
    BAN_BYTES, Biz, Group, KeyType, Lifts, Limit, MAX_FILES, MAX_REGISTERS, Map, NODE_HEADER_BYTES,
    Scope, Srv, StatePlace, UNDO_WORDS, node_undo_words, version_bytes,
};

/// Bytes of the largest node.
const MAX_NODE_BYTES: u32 = 32_768;
/// The largest size of a file: sizes are 48-bit numbers.
const MAX_FILE_BYTES: u64 = (1 << 48) - 1;
/// Bytes of an address or a digest in a key field.
const MIN_KEY_BYTES: u32 = 16;

/// Turns a map as read into a checked map, if all parts of it fit together.
pub(super) fn map(notes: &mut Notes<'_>, raw: RawMap<'_>) -> Checked<Map> {
    let bizs: Vec<Option<Biz>> = raw.bizs.iter().map(biz).collect();
    let mut groups = Vec::new();
    let mut fits = Ok(());
    for (at, RawGroup { element, group, .. }) in raw.groups.iter().enumerate() {
        let Ok(written) = group else {
            fits = Err(Faulty);
            continue;
        };
        let own: Vec<&Biz> = bizs.iter().flatten().filter(|biz| biz.group == at).collect();
        let group = geometry_holds(notes, element, written, &own);
        let others = raw.bizs.iter().filter(|biz| biz.group == Ok(at));
        let keys = keys_fit(notes, element, written.geometry.key_bytes, others);
        fits = fits.and(keys).and(group.as_ref().map(drop).map_err(|&faulty| faulty));
        groups.extend(group.ok().map(|group| (*element, group)));
    }
    let files = files_fit(notes, &groups);
    fits.and(files)?;
    let bizs: Option<Vec<Biz>> = bizs.into_iter().collect();
    let groups = groups.into_iter().map(|(_, group)| group).collect();
    bizs.map(|bizs| Map::new(groups, bizs)).ok_or(Faulty)
}

fn biz(raw: &RawBiz<'_>) -> Option<Biz> {
    let limits: Option<Vec<_>> = raw.limits.iter().map(|limit| limit.clone().ok()).collect();
    let listed: Option<Vec<_>> = raw.listed.iter().map(|listed| listed.clone().ok()).collect();
    Some(Biz {
        id: raw.id.ok()?,
        name: raw.name.clone().ok()?,
        group: raw.group.ok()?,
        key: raw.key.ok()?,
        mode: raw.mode.ok()?,
        limits: limits?,
        listed: listed?,
        sharing: raw.sharing.ok()?,
        once: raw.once.ok()?,
        holds: raw.holds.ok()?,
        register: raw.register.ok()?,
        epoch: 0,
        lifts: Lifts::default(),
        former: Vec::new(),
    })
}

/// Returns the group with a geometry that holds its businesses.
fn geometry_holds(
    notes: &mut Notes<'_>,
    element: &Element,
    written: &WrittenGroup,
    bizs: &[&Biz],
) -> Checked<Group> {
    let WrittenGroup { name, geometry: written, on_full, backup_ms, spill, mirror_ms } = written;
    let frame =
        NodeFrame { key_bytes: written.key_bytes, version_bytes: version_bytes(*mirror_ms) };
    let most = bizs.iter().map(|biz| node_bytes(biz, frame)).max().unwrap_or(0);
    nodes_hold(notes, element, written.node_bytes, bizs, frame)?;
    let geometry = written.geometry(most.max(frame.bytes()));
    if geometry.file_bytes() > MAX_FILE_BYTES {
        let most = (MAX_FILE_BYTES - 4096)
            / (64 + u64::from(geometry.chain) * u64::from(geometry.node_bytes));
        let found = format!(
            "key-nodes=\"{}\", files of {} bytes",
            geometry.key_nodes,
            geometry.file_bytes()
        );
        let expected = format!("at most {most} (a file is smaller than 2^48 bytes)");
        return Err(notes.note(element.value_at("key-nodes"), found, expected));
    }
    registers_fit(notes, element, geometry.node_bytes, bizs)?;
    Ok(Group {
        name: name.clone(),
        geometry,
        written: *written,
        derived: geometry,
        on_full: *on_full,
        backup_ms: *backup_ms,
        spill: *spill,
        mirror_ms: *mirror_ms,
        moving: None,
    })
}

/// Notes nodes with which a transaction over registers may log more than the undo log holds.
fn registers_fit(
    notes: &mut Notes<'_>,
    element: &Element,
    node_bytes: u32,
    bizs: &[&Biz],
) -> Checked<()> {
    let Some(biz) = bizs.iter().find(|biz| biz.register.is_some()) else { return Ok(()) };
    let words = MAX_REGISTERS as u64 * node_undo_words(node_bytes);
    if words <= UNDO_WORDS {
        return Ok(());
    }
    let found = format!(
        "nodes of {} bytes, of which {MAX_REGISTERS} registers may log {} words",
        grouped(node_bytes.into()),
        grouped(words)
    );
    let expected = format!(
        "another group for the registers of biz {} {:?}: the undo log holds {} words",
        biz.id,
        biz.name,
        grouped(UNDO_WORDS)
    );
    Err(notes.note(element.value_at("node-size"), found, expected))
}

/// The parts of a node that its group alone determines.
#[derive(Clone, Copy)]
pub(crate) struct NodeFrame {
    /// Bytes of the key field.
    pub key_bytes: u32,
    /// Bytes of the version at the end. 0 if the group is not mirrored.
    pub version_bytes: u32,
}

impl NodeFrame {
    /// The parts of the nodes of a group.
    pub fn of(group: &Group) -> NodeFrame {
        let version_bytes = group.version_bytes();
        NodeFrame { key_bytes: group.geometry.key_bytes, version_bytes }
    }

    /// Bytes of a node without anything of a biz.
    fn bytes(self) -> u32 {
        NODE_HEADER_BYTES + self.key_bytes + self.version_bytes
    }
}

/// Bytes of the larger of the two nodes of a biz.
pub(crate) fn node_bytes(biz: &Biz, frame: NodeFrame) -> u32 {
    let scopes = [Scope::Key, Scope::Biz].map(|scope| biz.node_bytes(scope, frame.key_bytes));
    scopes.into_iter().max().unwrap_or(0) + frame.version_bytes
}

/// Notes every biz that does not fit into a node of the `written` size. All these faults name the
/// size that would hold every biz. A size that map.xml leaves out is never too small.
fn nodes_hold(
    notes: &mut Notes<'_>,
    element: &Element,
    written: Option<u32>,
    bizs: &[&Biz],
    frame: NodeFrame,
) -> Checked<()> {
    let held = written.unwrap_or(MAX_NODE_BYTES);
    let most = bizs.iter().map(|biz| node_bytes(biz, frame)).max().unwrap_or(0);
    let mut fits = Ok(());
    for biz in bizs {
        if node_bytes(biz, frame) <= held {
            continue;
        }
        let cure = match most.next_multiple_of(64) {
            size if size <= MAX_NODE_BYTES => format!("node-size=\"{size}\""),
            _ if biz.holds.is_some() => {
                format!("fewer limits or holds: node-size is at most {MAX_NODE_BYTES}")
            }
            _ => format!("fewer limits: node-size is at most {MAX_NODE_BYTES}"),
        };
        let expected = format!("{cure}: biz {} {:?} needs {}", biz.id, biz.name, needs(biz, frame));
        let found = match written {
            Some(node_bytes) => format!("node-size=\"{node_bytes}\""),
            None => format!("a node of {} bytes", grouped(most.into())),
        };
        fits = Err(notes.note(element.value_at("node-size"), found, expected));
    }
    fits
}

/// Notes the first group with which the files of all groups exceed their bound.
fn files_fit(notes: &mut Notes<'_>, groups: &[(&Element, Group)]) -> Checked<()> {
    let mut all = 0;
    for (element, Group { geometry, .. }) in groups {
        // Each number is at most MAX_FILES. The fault is noted once, so no sum overflows.
        all += geometry.files;
        if all > MAX_FILES {
            let found = format!("files=\"{}\", {all} in all so far", geometry.files);
            let expected = format!("at most {MAX_FILES} files of all groups");
            return Err(notes.note(element.value_at("files"), found, expected));
        }
    }
    Ok(())
}

/// The parts of a biz's nodes, in words.
pub(crate) fn needs(biz: &Biz, frame: NodeFrame) -> String {
    let of_scope = |scope| node_needs(biz, scope, frame);
    let has = |scope| biz.limits_of(scope).next().is_some();
    let has_keys = has(Scope::Key)
        || biz.bans()
        || biz.table_words(Scope::Key) + biz.register_words(Scope::Key) > 0;
    match (has_keys, has(Scope::Biz)) {
        (true, true) => {
            let (key, whole) = (of_scope(Scope::Key), of_scope(Scope::Biz));
            format!("{key} for each key and {whole} for the biz")
        }
        (false, true) => format!("{} for the biz", of_scope(Scope::Biz)),
        _ => of_scope(Scope::Key),
    }
}

fn node_needs(biz: &Biz, scope: Scope, frame: NodeFrame) -> String {
    let NodeFrame { key_bytes, version_bytes } = frame;
    let mut parts = vec![format!("header {NODE_HEADER_BYTES}"), format!("key {key_bytes}")];
    parts.extend(biz.limits_of(scope).map(|(at, limit)| limit_needs(biz, at, limit)));
    if scope == Scope::Key && biz.bans() {
        parts.push(format!("ban {BAN_BYTES}"));
    }
    let histories = biz.limits_of(scope).filter(|(_, limit)| limit.history > 0);
    parts.extend(histories.map(|(at, limit)| {
        let (windows, bytes) = (limit.history, grouped(limit.history_words() as u64 * 8));
        format!("history of {windows} windows of limit {} {bytes}", at + 1)
    }));
    if let Some(once) = biz.once.filter(|_| scope == Scope::Key) {
        let bytes = grouped(biz.once_words(scope) as u64 * 8);
        parts.push(format!("ids of {} retries {bytes}", once.ids));
    }
    if let Some(holds) = biz.holds.filter(|_| scope == Scope::Key) {
        let bytes = grouped(biz.hold_words(scope) as u64 * 8);
        parts.push(format!("table of {} holds {bytes}", grouped(holds.entries.into())));
    }
    if let Some(room) = biz.register.filter(|_| scope == Scope::Key) {
        let bytes = grouped(biz.register_words(scope) as u64 * 8);
        parts.push(format!("register with a text of {} bytes {bytes}", room.text_bytes));
    }
    if let Some(uses) = biz.ring_uses(scope) {
        let bytes = grouped(biz.ring_words(scope) as u64 * 8);
        parts.push(format!("ring of {} uses {bytes}", grouped(uses.into())));
    }
    if let Some(members) = biz.set_room(scope) {
        let bytes = grouped(biz.set_words(scope) as u64 * 8);
        parts.push(format!("set of {} members {bytes}", grouped(members.into())));
    }
    if version_bytes > 0 {
        parts.push(format!("version {version_bytes}"));
    }
    let bytes = biz.node_bytes(scope, key_bytes) + version_bytes;
    format!("{} bytes ({})", grouped(bytes.into()), parts.join(", "))
}

fn limit_needs(biz: &Biz, at: usize, limit: &Limit) -> String {
    let bytes = match limit.state_place() {
        StatePlace::Ring(_) if biz.sharing.is_none() => "in the ring".to_owned(),
        StatePlace::Set { .. } => "in the set".to_owned(),
        StatePlace::Holds => "in the holds".to_owned(),
        StatePlace::Own { .. } | StatePlace::Ring(_) => biz.state_bytes(limit).to_string(),
    };
    format!("limit {} ({}) {bytes}", at + 1, limit.policy.name())
}

fn keys_fit<'r>(
    notes: &mut Notes<'_>,
    element: &Element,
    key_bytes: u32,
    mut bizs: impl Iterator<Item = &'r RawBiz<'r>>,
) -> Checked<()> {
    if key_bytes >= MIN_KEY_BYTES {
        return Ok(());
    }
    let Some(biz) = bizs.find(|biz| matches!(biz.key, Ok(key) if key != KeyType::Integer)) else {
        return Ok(());
    };
    let line = notes.line(biz.element.at);
    let expected =
        format!("at least {MIN_KEY_BYTES}: the keys of the biz in line {line} are no integers");
    Err(notes.note(element.value_at("key-bytes"), format!("key-bytes=\"{key_bytes}\""), expected))
}

/// Notes an atomic request of `srv` that the undo log could not hold. The notes are those of
/// srv.xml.
pub(super) fn undo(notes: &mut Notes<'_>, root: &Element, srv: &Srv, map: &Map) -> Checked<()> {
    const NAME: &str = "max-atomic-items";
    let item_words = map.item_undo_words().max(1);
    let items = u64::from(srv.http.max_atomic_items);
    if items * item_words <= UNDO_WORDS {
        return Ok(());
    }
    let http = root.child("http").unwrap_or(root);
    let found = format!(
        "{NAME}=\"{items}\", with which a request may log {} words ({} an item)",
        grouped(items * item_words),
        grouped(item_words)
    );
    let most = UNDO_WORDS / item_words;
    let expected =
        format!("{NAME}=\"{most}\" at most: the undo log holds {} words", grouped(UNDO_WORDS));
    Err(notes.note(http.value_at(NAME), found, expected))
}
