//! The face of Envoy's rate limit service. It expresses less than the others: whether an item is
//! over its limit, the maximum, the remaining uses, and times in seconds. An error is one of the
//! whole call.

use std::net::SocketAddr;

use frs_conf::KeyType;
use frs_conf::key;

use super::ask::{Ask, AskExtras, AskItem, DEVICES, NAMES, PLACES};
use super::{Face, Fault, Told};
use crate::common::items::{Item, Values};
use crate::common::wait_until;
use crate::rls::client::{
    self, Client, Descriptor, DescriptorSaid, OK, OVER, Override, Said, Whole,
};

pub struct Rls {
    client: Client,
    /// Whether srv.xml makes calls atomic.
    is_atomic: bool,
}

/// The `<rls>` of srv.xml. The entries of a descriptor name the business, with `forced` if the
/// limits do not apply, and then the ids that the call brings.
pub fn element(address: SocketAddr, charge: &str) -> String {
    // Calls have no members.
    let names = NAMES.into_iter().filter(|name| *name != DEVICES);
    let descriptors: String = names.flat_map(of_biz).collect();
    format!(
        "<rls listen='{address}' charge='{charge}'><domain name='edge'>{descriptors}</domain></rls>"
    )
}

/// The descriptors of a business: with each of the ids that it takes, and without.
fn of_biz(name: &'static str) -> Vec<String> {
    let holds = match name {
        PLACES => vec!["id-hold"],
        "reserve" => vec!["", "id-hold", "id-hold settle"],
        _ => vec![""],
    };
    let onces = if takes_once(name) { vec!["", "id-once"] } else { vec![""] };
    let mut all = Vec::new();
    let forced = holds.iter().map(|hold| format!("forced {hold}"));
    for hold in forced.chain(holds.iter().map(|hold| (*hold).to_owned())) {
        for once in &onces {
            let entries = [name, &hold, once].join(" ");
            let words = entries.split_whitespace().skip(1);
            let attributes = words.map(|word| match word {
                "forced" => " force='true'",
                "settle" => " settle='true'",
                "id-hold" => " hold='{id-hold}'",
                _ => " once='{id-once}'",
            });
            let attributes: String = attributes.collect();
            all.push(format!(
                "<descriptor entries='{entries}' biz='{name}' key='{{{name}}}'{attributes}/>"
            ));
        }
    }
    all
}

/// Whether a business takes ids of retries.
fn takes_once(name: &str) -> bool {
    matches!(name, "once" | "reserve")
}

/// The most bytes of an id. This face makes another id of a longer one.
const ID_BYTES: usize = 64;
/// Units of Envoy's API.
const HOUR: i32 = 3;
const DAY: i32 = 4;

/// The limit that says the same as a rate. `None`: this face cannot say it, or ignores it where the
/// other faces refuse it.
fn limit(biz: &str, rate: &str) -> Option<Override> {
    let (uses, window) = rate.split_once('/')?;
    let requests = uses.parse().ok()?;
    let unit = match (biz, window) {
        ("call", "d" | "1d") => DAY,
        // Beyond 10, its `most`, the other faces answer an error.
        ("brought", "1h") if requests <= 10 => HOUR,
        _ => return None,
    };
    Some(Override { requests, unit })
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

/// An item as a descriptor. `once` is the id of the request.
fn descriptor(item: &AskItem, once: Option<&str>) -> Option<Descriptor> {
    let biz = name(&item.biz)?;
    let AskExtras { rate, burst, max, partial, member, once: own, hold, ttl_ms, settle } =
        &item.extras;
    let is_beyond = burst.is_some() || max.is_some() || *partial || member.is_some();
    let once = own.as_deref().or(once);
    let is_long = |id: Option<&str>| id.is_some_and(|id| id.len() > ID_BYTES);
    let has_place = biz == PLACES && hold.is_some() && !settle || biz == "reserve";
    if biz == DEVICES
        || !takes(biz, &item.key)
        || is_beyond
        || ttl_ms.is_some()
        || is_long(once)
        || is_long(hold.as_deref())
        || once.is_some() && !takes_once(biz)
        || hold.is_some() && !has_place
        || hold.is_none() && (*settle || biz == PLACES)
    {
        return None;
    }
    let limit = match rate {
        Some(rate) => Some(limit(biz, rate)?),
        None => None,
    };
    let mut entries = vec![(biz, item.key.as_str())];
    entries.extend(item.force.then_some(("forced", "")));
    entries.extend(hold.as_deref().map(|hold| ("id-hold", hold)));
    entries.extend(settle.then_some(("settle", "")));
    entries.extend(once.map(|once| ("id-once", once)));
    let hits = item.count.map(|count| Whole { value: count.unsigned_abs() });
    let negative = item.count.is_some_and(|count| count < 0);
    Some(Descriptor { limit, hits, negative, ..client::descriptor(&entries) })
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
    /// The face only charges, and cannot express an invalid key, an unknown business, or much of
    /// what few items have. Items are charged together as srv.xml says.
    fn ask(&mut self, ask: &Ask) -> Option<Result<Told, Fault>> {
        let is_same = ask.is_atomic == self.is_atomic || ask.items.len() == 1;
        // In an atomic request an item's own id is an error, which this face cannot make.
        let has_own_id = |item: &AskItem| ask.is_atomic && item.extras.once.is_some();
        if !ask.is_update || !is_same || ask.items.iter().any(has_own_id) {
            return None;
        }
        let once = ask.once.as_deref();
        let descriptors = ask.items.iter().map(|item| descriptor(item, once));
        let descriptors = descriptors.collect::<Option<Vec<_>>>()?;
        let reply = self.client.send(client::LIMIT, &client::ask(descriptors));
        if reply.grpc != Some(0) {
            let words = [
                "bad-count",
                "bad-once",
                "bad-hold",
                "full-holds",
                "max-items",
                "max-atomic-items",
            ];
            let word = words.into_iter().find(|word| reply.message.contains(word));
            let word = word.unwrap_or_else(|| panic!("{reply:?}"));
            assert_eq!(reply.grpc, Some(if word == "full-holds" { 14 } else { 3 }), "{reply:?}");
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
