//! The face of Envoy's rate limit service. It expresses less than the others: whether an item is
//! over its limit, the maximum, the remaining uses, and times in seconds. An error is one of the
//! whole call.

use std::net::SocketAddr;

use frs_conf::KeyType;
use frs_conf::key;

use super::ask::{Ask, AskItem, DEVICES, NAMES};
use super::{Face, Fault, Told};
use crate::common::items::{Item, Values};
use crate::common::wait_until;
use crate::rls::client::{self, Client, Descriptor, DescriptorSaid, OK, OVER, Said, Whole};

pub struct Rls {
    client: Client,
    /// Whether srv.xml makes calls atomic.
    is_atomic: bool,
}

/// The `<rls>` of srv.xml. The entries of a descriptor name the business, with `forced` if the
/// limits do not apply.
pub fn element(address: SocketAddr, charge: &str) -> String {
    // Calls have no members.
    let descriptors = NAMES.into_iter().filter(|name| *name != DEVICES).map(|name| {
        format!(
            "<descriptor entries='{name}' biz='{name}' key='{{{name}}}'/>\
             <descriptor entries='{name} forced' biz='{name}' key='{{{name}}}' force='true'/>"
        )
    });
    let descriptors: String = descriptors.collect();
    format!(
        "<rls listen='{address}' charge='{charge}'><domain name='edge'>{descriptors}</domain></rls>"
    )
}

impl Rls {
    pub fn connect(address: SocketAddr, charge: &str) -> Rls {
        let client = wait_until("a connection", || Client::try_connect(address));
        Rls { client, is_atomic: charge == "all-or-none" }
    }
}

/// The name of a business given by name or id.
fn name(biz: &str) -> Option<&'static str> {
    let by_id = biz.parse().ok().and_then(|id: usize| NAMES.get(id.checked_sub(1)?));
    by_id.or_else(|| NAMES.iter().find(|name| **name == biz)).copied()
}

/// Whether a key is valid for a business. This face accepts any value, other faces report an error.
fn takes(biz: &str, key: &str) -> bool {
    let key_type = match biz {
        "counter" => KeyType::Integer,
        "year" => KeyType::Ip { ipv6_prefix: 64 },
        _ => KeyType::String,
    };
    key::check(key_type, key.as_bytes()).is_ok()
}

fn descriptor(item: &AskItem) -> Option<Descriptor> {
    let biz = name(&item.biz)?;
    if biz == DEVICES || !takes(biz, &item.key) {
        return None;
    }
    let mut entries = vec![(biz, item.key.as_str())];
    if item.force {
        entries.push(("forced", ""));
    }
    let hits = item.count.map(|count| Whole { value: count.unsigned_abs() });
    let negative = item.count.is_some_and(|count| count < 0);
    Some(Descriptor { hits, negative, ..client::descriptor(&entries) })
}

/// The values of a status, named as in XML.
fn item(status: &DescriptorSaid, asked: &AskItem) -> Item {
    assert!([OK, OVER].contains(&status.code), "{status:?}");
    let mut values = Values::default();
    let mut add = |name: &str, value: String| values.0.insert(name.to_owned(), value);
    add("limited", (status.code == OVER).to_string());
    add("remaining", status.remaining.to_string());
    if let Some(limit) = &status.limit {
        assert_eq!(Some(&*limit.name), name(&asked.biz));
        add("max", limit.requests.to_string());
    }
    if let Some(Whole { value }) = status.reset {
        add("reset", (value * 1000).to_string());
    }
    Item { values, limits: Vec::new() }
}

/// Adds the time until a single item may pass.
fn add_retry(item: &mut Item, said: &Said) {
    let retry = said.header("Retry-After").map(|retry| retry.parse::<u64>().expect("seconds"));
    let retry = retry.map(|seconds| ("retry".to_owned(), (seconds * 1000).to_string()));
    item.values.0.extend(retry);
}

/// The part of another face's item that this face can express.
fn known(item: &Item, is_single: bool) -> Item {
    let values = &item.values;
    let is_limited = values.get("limited") == Some("true");
    let has_quota = is_limited || values.number("max").is_some_and(|max| max > 0);
    let mut known = values.clone();
    known.0.retain(|name, _| match name.as_str() {
        "limited" => true,
        "max" | "reset" => has_quota,
        "retry" => is_limited && is_single,
        _ => false,
    });
    // Without a limit everything remains. A limited item without figures has nothing left.
    let remaining = match has_quota {
        true => values.get("remaining").unwrap_or("0").to_owned(),
        false => u32::MAX.to_string(),
    };
    known.0.insert("remaining".to_owned(), remaining);
    Item { values: known, limits: Vec::new() }
}

impl Face for Rls {
    /// The face only charges, and cannot express a rate, an invalid key or an unknown business.
    /// Items are charged together as srv.xml says.
    fn ask(&mut self, ask: &Ask) -> Option<Result<Told, Fault>> {
        let is_same = ask.is_atomic == self.is_atomic || ask.items.len() == 1;
        if !ask.is_update || !is_same || ask.items.iter().any(|item| item.rate.is_some()) {
            return None;
        }
        let descriptors = ask.items.iter().map(descriptor).collect::<Option<Vec<_>>>()?;
        let reply = self.client.send(client::LIMIT, &client::ask(descriptors));
        if reply.grpc == Some(3) {
            let words = ["bad-count", "max-items", "max-atomic-items"];
            let word = words.into_iter().find(|word| reply.message.contains(word));
            let word = word.unwrap_or_else(|| panic!("{reply:?}"));
            let word = if word.starts_with("max") { "too-many-items" } else { word };
            return Some(Err(word.to_owned()));
        }
        let said: Said = reply.read();
        assert_eq!(said.statuses.len(), ask.items.len(), "{said:?}");
        let is_over = said.statuses.iter().any(|status| status.code == OVER);
        assert_eq!(said.code, if is_over { OVER } else { OK }, "{said:?}");
        let items = said.statuses.iter().zip(&ask.items);
        let mut items: Vec<Item> = items.map(|(status, asked)| item(status, asked)).collect();
        if let [item] = &mut items[..] {
            add_retry(item, &said);
        }
        Some(Ok(Told { refused: false, items }))
    }

    fn known(&self, told: &Result<Told, Fault>) -> Result<Told, Fault> {
        let items = &told.as_ref().map_err(Fault::clone)?.items;
        if let Some(word) = items.iter().find_map(|item| item.values.get("error")) {
            return Err(word.to_owned());
        }
        let items = items.iter().map(|item| known(item, items.len() == 1));
        Ok(Told { refused: false, items: items.collect() })
    }
}
