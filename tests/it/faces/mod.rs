//! One service behind all faces: each face answers the same random requests with the same names,
//! figures, verdicts and errors.
//!
//! Each face has a server of its own, so that all can ask for the same keys. A request that a face
//! cannot express goes to its server over HTTP, so that the server counts it too. A face that
//! expresses less than the first is compared only in that. To add a face, implement [`Face`] in a
//! file of its own and add it to [`FACES`].

mod ask;
mod documents;
mod driven;
mod library;
mod redis_clients;
mod rls;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::common::address::Reserved;
use crate::common::items::{Item, Values};
use crate::common::years::{self, Before};
use crate::common::{Settings, Setup, tools};
use ask::{Ask, any_ask};

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Told {
    /// The request was atomic, and was refused.
    refused: bool,
    /// The items, without the echo of biz and key, which the face has checked.
    items: Vec<Item>,
}

/// The name of an error of the whole request.
type Fault = String;

/// A way to ask the service.
trait Face {
    /// Asks. `None` if the face cannot express the request.
    fn ask(&mut self, ask: &Ask) -> Option<Result<Told, Fault>>;

    /// The part of the first face's answer that this face can express.
    fn known(&self, told: &Result<Told, Fault>) -> Result<Told, Fault> {
        told.clone()
    }
}

/// The server of one face.
struct Host {
    setup: Setup,
    resp: Reserved,
    rls: Reserved,
    /// The `charge` of `<rls>`, for a face of RLS.
    charge: Option<&'static str>,
}

/// Opens a face of a server. `None` if a tool is missing.
type Open = fn(&Host) -> Option<Box<dyn Face>>;

/// The faces, with their names. The first one can express everything.
const FACES: [(&str, Open); 10] = [
    ("XML", |host| open(documents::Xml::connect(host.setup.address))),
    ("JSON", |host| open(documents::Json::connect(host.setup.address))),
    ("GET", |host| open(documents::Get::connect(host.setup.address))),
    ("RESP2", |host| open(redis_clients::Resp::connect(host.resp.address, 2))),
    ("RESP3", |host| open(redis_clients::Resp::connect(host.resp.address, 3))),
    ("RLS each", |host| open(rls::Rls::connect(host.rls.address, host.charge?))),
    ("RLS all-or-none", |host| open(rls::Rls::connect(host.rls.address, host.charge?))),
    ("library", |host| open(library::Attached::attach(&host.setup.path("data")))),
    ("C", |host| open(driven::Driven::c(&host.setup.path("data"))?)),
    ("Python", |host| open(driven::Driven::python(&host.setup.path("data"))?)),
];

fn open(face: impl Face + 'static) -> Option<Box<dyn Face>> {
    Some(Box::new(face))
}

/// A map with every policy. All windows are long, so no use comes back while the faces are asked in
/// turn.
const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="512" chain="8" node-size="256" key-bytes="32"
         hash="siphash"/>
  <group name="members" files="1" key-nodes="64" chain="8" node-size="3328" key-bytes="32"
         hash="siphash"/>
  <biz id="1" name="interval" key="string">
    <limit policy="interval" interval="2h" max="5" ban="3h"/>
  </biz>
  <biz id="2" name="two" key="string">
    <limit policy="sliding" interval="2h" max="4"/>
    <limit policy="sliding" interval="24h" max="6"/>
  </biz>
  <biz id="3" name="counter" key="integer">
    <limit policy="sliding-counter" interval="300d" max="6"/>
    <limit policy="count"/>
  </biz>
  <biz id="4" name="token" key="string">
    <limit policy="token" rate="1/d" burst="5"/>
  </biz>
  <biz id="5" name="call" key="string">
    <limit policy="gcra" rate="2/d" burst="4" per-call="true" max-period="300d"/>
  </biz>
  <biz id="6" name="year" key="ip">
    <limit policy="calendar" unit="year" max="4"/>
    <limit policy="total" scope="biz" max="60"/>
  </biz>
  <biz id="7" name="soft" key="string">
    <limit policy="total" max="2" on-exceed="captcha">
      <weight at="2" value="1"/><weight at="4" value="0.3"/>
    </limit>
    <limit policy="interval" interval="2h" max="9" debt="3"/>
  </biz>
  <biz id="8" name="shadow" key="string" mode="shadow">
    <limit policy="interval" interval="2h" max="3"/>
  </biz>
  <biz id="9" name="off" key="string" mode="off"><limit policy="total" max="1"/></biz>
  <biz id="10" name="lists" key="string">
    <limit policy="interval" interval="2h" max="3"/>
    <allow key="a*"/><deny key="b"/><override key="c" limit="1" max="1"/>
  </biz>
  <biz id="11" name="before" key="string">
    <limit policy="calendar" unit="year" max="4" debt="3" history="3"/>
    <limit policy="count" unit="year" history="5"/>
  </biz>
  <biz id="12" name="devices" group="members" key="string">
    <limit policy="distinct" precision="exact" max="2" unit="year"/>
    <limit policy="distinct" precision="12"/>
  </biz>
  <biz id="13" name="brought" key="string">
    <limit policy="interval" interval="2h" max="5" per-call="true" most="10" max-period="300d"/>
    <limit policy="calendar" unit="year" max="9" per-call="true" most="10"/>
  </biz>
  <biz id="14" name="once" key="string" once="4" once-for="1h">
    <limit policy="interval" interval="2h" max="6"/>
  </biz>
  <biz id="15" name="places" key="string" holds="4" hold-ttl="1d">
    <limit policy="concurrent" max="7"/>
    <limit policy="total" max="60"/>
  </biz>
  <biz id="16" name="reserve" key="string" once="4" once-for="1h" holds="4" hold-ttl="1d">
    <limit policy="interval" interval="2h" max="12"/>
  </biz>
</map>
"#;

/// The most items of a request. An atomic request may have half as many.
const MAX_ITEMS: usize = 8;

impl Host {
    /// A server for this face. The name of a face of RLS ends with its `charge`.
    fn new(face: &'static str) -> Host {
        let (resp, rls, charge) = (Reserved::new(), Reserved::new(), face.strip_prefix("RLS "));
        let http = format!(
            "lock-timeout='10s' max-items='{MAX_ITEMS}' max-atomic-items='{}'",
            MAX_ITEMS / 2
        );
        let mut more = format!("<resp listen='{}'/>", resp.address);
        if let Some(charge) = charge {
            tools::tool("frs-envoy");
            more += &rls::element(rls.address, charge);
        }
        let setup = Setup::new(&Settings { http, more, ..Settings::default() });
        setup.write_map(MAP);
        Host { setup, resp, rls, charge }
    }
}

/// The longest time between the same request to two faces.
const LATER_MS: u64 = 60_000;

/// Whether the values agree, apart from the time that passes between the faces.
fn agree(one: &Values, other: &Values) -> bool {
    let is_close = |name: &str| match (one.number(name), other.number(name)) {
        // 0 means that nothing is used.
        (Some(0), other) | (other, Some(0)) => other == Some(0),
        (Some(one), Some(other)) => one.abs_diff(other) <= LATER_MS,
        _ => false,
    };
    let is_time = |name: &str| matches!(name, "reset" | "retry");
    // Each server draws a secret of its own, so one sketch may take two members for one.
    let is_estimate = |name: &str| {
        let pair = one.number(name).zip(other.number(name));
        name == "used"
            && one.get("standard-error").is_some()
            && pair.is_some_and(|(one, other)| one.abs_diff(other) <= 1)
    };
    one.0.len() == other.0.len()
        && one.0.iter().all(|(name, value)| match other.get(name) {
            Some(other) => value == other || is_time(name) && is_close(name) || is_estimate(name),
            None => false,
        })
}

fn items_agree(one: &Item, other: &Item) -> bool {
    let mut limits = one.limits.iter().zip(&other.limits);
    agree(&one.values, &other.values)
        && one.limits.len() == other.limits.len()
        && limits.all(|(one, other)| agree(one, other))
}

fn answers_agree(one: &Result<Told, Fault>, other: &Result<Told, Fault>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => {
            let mut items = one.items.iter().zip(&other.items);
            one.refused == other.refused
                && one.items.len() == other.items.len()
                && items.all(|(one, other)| items_agree(one, other))
        }
        (one, other) => one == other,
    }
}

// Shows: faces-agree, history-of-limits.
#[test]
fn every_face_answers_the_same() {
    // FRS_SEED replays a failure.
    let seed = std::env::var("FRS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| RandomState::new().hash_one("a seed"));
    let bytes: [u8; 32] = std::array::from_fn(|at| seed.to_le_bytes()[at % 8]);
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);

    let hosts = FACES.map(|(name, _)| Host::new(name));
    let servers = hosts.each_ref().map(|host| host.setup.start());
    for host in &hosts {
        years::charge(&host.setup.path("data"), &BEFORE);
    }
    let mut faces: Vec<Asked> = FACES.iter().zip(&hosts).filter_map(Asked::open).collect();
    let mut met = BTreeMap::new();
    for nth in 0..6000 {
        // Further requests are made until chance has met everything in `EXPECTED`.
        if nth >= 600 && EXPECTED.iter().all(|expected| met.contains_key(*expected)) {
            break;
        }
        let ask = any_ask().new_tree(&mut runner).expect("a request").current();
        let mut first = None;
        for Asked { name, face, over_http, compared } in &mut faces {
            let Some(told) = face.ask(&ask) else {
                over_http.ask(&ask);
                continue;
            };
            *compared += 1;
            let Some(first) = &first else {
                note(&mut met, &told);
                first = Some(told);
                continue;
            };
            let expected = face.known(first);
            assert!(
                answers_agree(&expected, &told),
                "FRS_SEED={seed}, request {nth}: {ask:#?}\n{}: {expected:#?}\n{name}: {told:#?}",
                FACES[0].0,
            );
        }
    }
    for expected in EXPECTED {
        assert!(met.contains_key(expected), "FRS_SEED={seed}: no {expected} in {met:?}");
    }
    for Asked { name, compared, .. } in &faces {
        assert!(*compared > 150, "FRS_SEED={seed}: {name} had words for {compared} requests");
    }
    drop(faces);
    drop(servers);
}

/// A face that is asked.
struct Asked {
    name: &'static str,
    face: Box<dyn Face>,
    /// For requests that the face cannot express.
    over_http: documents::Xml,
    compared: u32,
}

impl Asked {
    /// `None` if a tool is missing. Then the face is left out.
    #[track_caller]
    fn open(((name, open), host): (&(&'static str, Open), &Host)) -> Option<Asked> {
        let Some(face) = open(host) else {
            frs_base::testing::say_skipped(&format!("so the face {name} is left out"));
            return None;
        };
        let over_http = documents::Xml::connect(host.setup.address);
        Some(Asked { name, face, over_http, compared: 0 })
    }
}

/// Uses in past years, for a limit with debt and for a count.
const BEFORE: [Before<'_>; 4] = [
    Before { biz: "before", key: "a", years_ago: 4, count: 6 },
    Before { biz: "before", key: "a", years_ago: 3, count: 5 },
    Before { biz: "before", key: "a", years_ago: 1, count: 2 },
    Before { biz: "before", key: "b", years_ago: 1, count: 7 },
];

/// The cases that the random requests must meet.
const EXPECTED: [&str; 31] = [
    "limited=true",
    "limited=false",
    "reset",
    "retry",
    "banned=true",
    "shadow=true",
    "action=captcha",
    "weight=0.3",
    "list=allow",
    "list=deny",
    "limits",
    "history=",
    "history=2 0 5 6",
    "error=unknown-biz",
    "error=bad-key",
    "error=bad-count",
    "error=bad-rate",
    "error=bad-member",
    "error=bad-once",
    "error=bad-hold",
    "error=full-holds",
    "granted",
    "granted=0",
    "granted=2",
    "held",
    "repeated=true",
    "unknown-hold=true",
    "standard-error=0.016",
    "refused",
    "not refused",
    "too-many-items",
];

/// Records the cases of an answer.
fn note(met: &mut BTreeMap<String, u32>, told: &Result<Told, Fault>) {
    let mut add = |what: &str| *met.entry(what.to_owned()).or_default() += 1;
    let told = match told {
        Ok(told) => told,
        Err(fault) => return add(fault),
    };
    add(if told.refused { "refused" } else { "not refused" });
    for item in &told.items {
        for (name, value) in &item.values.0 {
            add(name);
            add(&format!("{name}={value}"));
        }
        if !item.limits.is_empty() {
            add("limits");
        }
        for error in item.limits.iter().filter_map(|limit| limit.get("standard-error")) {
            add(&format!("standard-error={error}"));
        }
        for history in item.limits.iter().filter_map(|limit| limit.get("history")) {
            add(&format!("history={history}"));
        }
    }
}

/// A connection of HTTP.
fn client(address: SocketAddr) -> crate::common::Client {
    crate::common::Client::connect(address)
}
