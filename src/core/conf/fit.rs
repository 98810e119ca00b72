//! Checks what must fit together: nodes and the states in them, key fields and key types, the
//! largest transaction and the undo log.
//!
//! Invariant: only settings without faults are compared, so one mistake is one fault.

use super::fault::{Checked, Faulty, Notes};
use super::map::{
    BAN_BYTES, Biz, Distinct, Group, KeyType, Limit, Map, NODE_HEADER_BYTES, Policy, Scope, Tally,
    UNDO_WORDS,
};
use super::map_read::{RawBiz, RawMap};
use super::srv::Srv;
use super::xml::Element;
use crate::base::figures::grouped;

/// Bytes of the largest node.
const MAX_NODE_BYTES: u32 = 32_768;
/// Bytes of an address or a digest in a key field.
const MIN_KEY_BYTES: u32 = 16;

/// Turns a read map into the checked one, if everything in it fits.
pub(super) fn map(notes: &mut Notes<'_>, raw: RawMap<'_>) -> Checked<Map> {
    let bizs: Vec<Option<Biz>> = raw.bizs.iter().map(biz).collect();
    let mut fits = Ok(());
    for (at, group) in raw.groups.iter().enumerate() {
        let Ok(checked) = &group.group else { continue };
        let own: Vec<&Biz> = bizs.iter().flatten().filter(|biz| biz.group == at).collect();
        let nodes = nodes_hold(notes, group.element, checked, &own);
        let others = raw.bizs.iter().filter(|biz| biz.group == Ok(at));
        let keys = keys_fit(notes, group.element, checked, others);
        fits = fits.and(nodes).and(keys);
    }
    fits?;
    let groups: Option<Vec<Group>> = raw.groups.into_iter().map(|group| group.group.ok()).collect();
    let bizs: Option<Vec<Biz>> = bizs.into_iter().collect();
    match (groups, bizs) {
        (Some(groups), Some(bizs)) => Ok(Map::new(groups, bizs)),
        _ => Err(Faulty),
    }
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
        epoch: 0,
    })
}

/// Every biz that does not fit is a fault. All of these faults name the size that would hold all of
/// them.
fn nodes_hold(
    notes: &mut Notes<'_>,
    element: &Element,
    group: &Group,
    bizs: &[&Biz],
) -> Checked<()> {
    let node_bytes = group.geometry.node_bytes;
    let key_bytes = group.geometry.key_bytes;
    let needed = |biz: &Biz| {
        let scopes = [Scope::Key, Scope::Biz].map(|scope| biz.node_bytes(scope, key_bytes));
        scopes.into_iter().max().unwrap_or(0)
    };
    let most = bizs.iter().map(|biz| needed(biz)).max().unwrap_or(0);
    let mut fits = Ok(());
    for biz in bizs {
        if needed(biz) <= node_bytes {
            continue;
        }
        let cure = match most.next_multiple_of(64) {
            size if size <= MAX_NODE_BYTES => format!("node-size=\"{size}\""),
            _ => format!("fewer limits: node-size is at most {MAX_NODE_BYTES}"),
        };
        let expected =
            format!("{cure}: biz {} {:?} needs {}", biz.id, biz.name, needs(biz, key_bytes));
        let found = format!("node-size=\"{node_bytes}\"");
        fits = Err(notes.note(element.value_at("node-size"), found, expected));
    }
    fits
}

/// The parts of a biz's nodes, in words.
pub(super) fn needs(biz: &Biz, key_bytes: u32) -> String {
    let of_scope = |scope| node_needs(biz, scope, key_bytes);
    let has = |scope| biz.limits_of(scope).next().is_some();
    match (has(Scope::Key) || biz.bans(), has(Scope::Biz)) {
        (true, true) => {
            let (key, whole) = (of_scope(Scope::Key), of_scope(Scope::Biz));
            format!("{key} for each key and {whole} for the biz")
        }
        (false, true) => format!("{} for the biz", of_scope(Scope::Biz)),
        _ => of_scope(Scope::Key),
    }
}

fn node_needs(biz: &Biz, scope: Scope, key_bytes: u32) -> String {
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
    if let Some(uses) = biz.ring_uses(scope) {
        let bytes = grouped(biz.ring_words(scope) as u64 * 8);
        parts.push(format!("ring of {} uses {bytes}", grouped(uses.into())));
    }
    if let Some(members) = biz.set_room(scope) {
        let bytes = grouped(biz.set_words(scope) as u64 * 8);
        parts.push(format!("set of {} members {bytes}", grouped(members.into())));
    }
    format!("{} bytes ({})", grouped(biz.node_bytes(scope, key_bytes).into()), parts.join(", "))
}

fn limit_needs(biz: &Biz, at: usize, limit: &Limit) -> String {
    let bytes = match &limit.policy {
        Policy::Sliding(_) if biz.sharing.is_none() => "in the ring".to_owned(),
        Policy::Distinct(Distinct { tally: Tally::Exact { .. }, .. }) => "in the set".to_owned(),
        _ => biz.state_bytes(limit).to_string(),
    };
    format!("limit {} ({}) {bytes}", at + 1, limit.policy.name())
}

fn keys_fit<'r>(
    notes: &mut Notes<'_>,
    element: &Element,
    group: &Group,
    mut bizs: impl Iterator<Item = &'r RawBiz<'r>>,
) -> Checked<()> {
    let key_bytes = group.geometry.key_bytes;
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

/// The largest atomic request of `srv` must fit into the undo log. Notes are those of srv.xml.
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
