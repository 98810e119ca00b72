//! In the steady state, serving allocates nothing, from the bytes of requests through the real
//! service and a real store to the bytes of answers.
//!
//! A separate test binary, because it counts every allocation of the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use frs_base::clock;
use frs_cluster::lease::Lease;
use frs_cluster::nodes;
use frs_conf::key::{KeyForm, KeyRef};
use frs_conf::{ClusterSecret, Conf, Srv, Texts};
use frs_engine::{
    Answers, Exchange, ItemError, ItemMoment, Need, NeedKind, RegisterScan, Registers, Request,
    Role, Service, Stage, StoredKey,
};
use frs_server::worker::connection::{
    Connection, ConnectionBuffers, RegistersAt, RespRules, Serve,
};
use frs_server::worker::resp_connection::RespConnection;
use frs_store::testing::put_in_force;
use frs_store::{GroupCounter, Runtime};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed to the system's allocator as it came.
#[expect(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` was the system's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`, and `alloc` was the system's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const MAP: &str = r#"<map>
  <group name="room" files="2" key-nodes="64" chain="8" node-size="128"/>
  <group name="large" files="1" key-nodes="8" chain="8" node-size="320"/>
  <group name="crowd" files="1" key-nodes="2" chain="4" node-size="64"/>
  <biz id="1" name="login" key="string"><limit policy="interval" interval="60s" max="5" ban="2m"/></biz>
  <biz id="2" name="sms" key="integer">
    <limit policy="interval" interval="1s" max="15"/><limit policy="total" scope="biz" max="100000"/>
  </biz>
  <biz id="3" name="crowded" group="crowd" key="string">
    <limit policy="interval" interval="1h" max="5"/><override key="k1*" limit="1" max="9"/>
  </biz>
  <biz id="4" name="every" group="large" key="string">
    <limit policy="sliding" interval="9s" max="20"/><limit policy="sliding" interval="1s" max="2"/>
    <limit policy="sliding-counter" interval="1m" max="60"/>
    <limit policy="token" rate="2/s" burst="20" on-exceed="captcha"/>
    <limit policy="calendar" unit="minute" tz="Asia/Shanghai" max="60" debt="30"/>
    <limit policy="count" unit="hour" tz="Australia/Lord_Howe">
      <weight at="2" value="1"/><weight at="9" value="0.3"/>
    </limit>
    <allow key="friend*"/><deny key="eve"/><override key="user*" limit="2" max="3"/>
  </biz>
  <biz id="5" name="shadow" key="ip" mode="shadow">
    <limit policy="interval" interval="1m" max="2" ban="1m"/><deny key="10.0.0.0/8"/>
  </biz>
</map>"#;

const NOW: u64 = 1_700_000_000_000;

struct RequestHandler {
    service: Service,
    now: u64,
}

impl Serve for RequestHandler {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        self.service.run(request, self.now, answers);
    }

    fn run_all(&mut self, exchanges: &mut [Exchange]) {
        self.service.run_all(exchanges, self.now);
        assert!(exchanges.iter().all(|exchange| exchange.stage == Stage::Answered));
    }

    fn biz_name(&self, index: usize) -> Option<&str> {
        self.service.conf().map.bizs.get(index).map(|biz| biz.name.as_str())
    }

    fn draining(&self) -> bool {
        false
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn on_registers(
        &mut self,
        at: RegistersAt<'_>,
        keys: &[&[u8]],
        work: &mut dyn FnMut(&mut dyn Registers),
    ) -> Result<(), ItemError> {
        self.service.on_registers(REDIS, at.database, keys, self.now, work)
    }

    fn expect_registers(&mut self, at: RegistersAt<'_>, keys: &[&[u8]]) {
        self.service.expect_registers(REDIS, at.database, keys);
    }

    fn scan_registers(
        &mut self,
        at: RegistersAt<'_>,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, ItemError> {
        let scan = RegisterScan { database: at.database, cursor, count };
        self.service.scan_registers(REDIS, scan, self.now, each)
    }

    fn count_registers(&mut self, at: RegistersAt<'_>) -> Result<u64, ItemError> {
        self.service.registers_len(REDIS, at.database, self.now)
    }
}

/// The position of the business of registers in the map that has one.
const REDIS: usize = 0;

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The clients' input in this turn. All turns have inputs of one length.
fn input(turn: u64) -> Vec<u8> {
    let get = |target: String| format!("GET {target} HTTP/1.1\r\nHost: t\r\n\r\n");
    let items: String = (0..40)
        .map(|nth| match nth % 4 {
            0 => {
                format!("<item biz=\"login\" key=\"user{:03}\" detail=\"true\"/>", turn % 50 + nth)
            }
            1 => format!("<item biz=\"sms\" key=\"{:05}\" count=\"2\"/>", turn * 7 + nth),
            // More keys than places: old nodes are evicted.
            2 => format!("<item biz=\"crowded\" key=\"k{:05}\"/>", turn * 40 + nth),
            _ => "<item biz=\"nope\" key=\"&#x41;&amp;\" count=\"many\"/>".to_owned(),
        })
        .collect();
    let atomic = "<item biz=\"login\" key=\"a\"/><item biz=\"sms\" key=\"7\"/><item biz=\"login\" key=\"b\" force=\"true\"/>";
    let every: String = ["user1", "friend1", "eve", "other"]
        .map(|key| format!("<item biz=\"every\" key=\"{key}\" detail=\"true\"/>"))
        .concat();
    let json = r#"{"items": [{"biz": "every", "key": "user2", "detail": true}, {"biz": 5,
        "key": "10.1.2.3"}, {"biz": "shadow", "key": "192.0.2.1", "count": 2}]}"#;
    let json = format!(
        "POST /update HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}",
        json.len()
    );
    let chunk = format!("<request>{items}</request>");
    [
        post("/update", "<request><item biz=\"login\" key=\"alice\"/></request>"),
        post("/query", &format!("<request>{items}</request>")),
        post("/update", &format!("<request>{items}</request>")),
        post("/update", &format!("<request atomic=\"true\">{atomic}</request>")),
        post("/query", &format!("<request atomic=\"true\">{atomic}</request>")),
        format!(
            "POST /update HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{chunk}\r\n0\r\n\r\n",
            chunk.len()
        ),
        post("/update", &format!("<request>{every}</request>")),
        post("/update", &format!("<request atomic=\"true\">{every}</request>")),
        json,
        get(format!("/update?biz=login&key=bob{:03}", turn % 9)),
        get("/query?biz=sms&key=42&detail=true".to_owned()),
        get(format!("/update?biz=crowded&key=g{turn:05}")),
        get("/update?biz=login&key=".to_owned()),
        get("/authz/login/some/path?and=more".to_owned()),
        get("/nope".to_owned()),
        // Pipelined requests.
        get("/update?biz=sms&key=1".to_owned()).repeat(30),
    ]
    .concat()
    .into_bytes()
}

/// A data directory as a master prepares it, with further elements in its srv.xml.
fn world(dir: &Path, more: &str, map: &str) -> (Conf, Runtime) {
    let srv = format!(
        "<srv><workers>1</workers><listen>127.0.0.1:1</listen><data dir=\"{}\"/>{more}</srv>",
        dir.display()
    );
    put_in_force(dir, &Texts::of(srv, map))
}

/// One test at a time: allocations are counted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn serving_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a directory");
    let (conf, runtime) = world(dir.path(), "", MAP);

    let service = Service::attach(dir.path(), Role::Program, None).expect("attached");
    let mut desk = RequestHandler { service, now: NOW };
    let rules: &Srv = &conf.srv;
    let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
    let mut connection = Connection::new(Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let inputs: Vec<Vec<u8>> = (0..300).map(input).collect();
    let mut turn = |turn: usize, input: &[u8]| {
        out.clear();
        desk.now = NOW + turn as u64 * 700;
        desk.service.begin_tick();
        scratch.set_now(desk.now);
        let progress = connection.advance(input, rules.into(), &mut desk, &mut scratch, &mut out);
        assert_eq!((progress.consumed, progress.close, progress.more), (input.len(), false, false));
        // A status line starts each answer, and each answer's body ends in a line end.
        out.windows(9).filter(|window| window == b"HTTP/1.1 ").count()
    };
    for (nth, input) in inputs.iter().enumerate().take(30) {
        assert_eq!(turn(nth, input), 15 + 30, "answers");
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for (nth, input) in inputs.iter().enumerate().skip(30) {
        turn(nth, input);
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    // A program's client allocates nothing either: its verdicts are values.
    let client = frs::Client::attach(dir.path()).expect("attached");
    let keys: Vec<String> = (0..64).map(|nth| format!("user-{nth}")).collect();
    let run = |times: usize| {
        for key in keys.iter().cycle().take(times) {
            let verdict = client.update(frs::Item::new("login", key)).expect("judged");
            let query = client.query(frs::Item::new("sms", 1).count(2)).expect("judged");
            assert!(verdict.limit().is_some() && query.limit().is_some());
        }
    };
    run(64);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run(10_000);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    // The run evicted nodes.
    let evicted = runtime.count_of_groups(GroupCounter::EvictionsLimiting)
        + runtime.count_of_groups(GroupCounter::EvictionsIdle);
    assert!(evicted > 1000, "{evicted}");
}

// Shows: redis-clients.
#[test]
fn transactions_that_are_open_at_once_allocate_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a directory");
    let (conf, _runtime) = world(dir.path(), "<resp listen=\"127.0.0.1:2\"/>", MAP);
    let service = Service::attach(dir.path(), Role::Program, None).expect("attached");
    let mut desk = RequestHandler { service, now: NOW };
    let own = RespRules::of(&conf.srv, 0);
    let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
    let mut connections: Vec<_> = (0..20).map(|_| RespConnection::default()).collect();
    let queued = "FRS.UPDATE login alice\r\nFRS.QUERY sms 42\r\nPING\r\n".repeat(20);
    let begun = format!("MULTI\r\n{queued}");
    let mut turn = |input: &str, words: &[u8]| {
        out.clear();
        desk.service.begin_tick();
        for connection in &mut connections {
            let input = input.as_bytes();
            let progress = connection.advance(input, own, &mut desk, &mut scratch, &mut out);
            assert_eq!((progress.consumed, progress.close), (input.len(), false));
        }
        out.windows(words.len()).filter(|found| *found == words).count()
    };
    let mut round = || {
        assert_eq!(turn(&begun, b"+QUEUED\r\n"), 20 * 60);
        assert_eq!(turn("EXEC\r\n", b"+PONG\r\n"), 20 * 20);
    };
    (0..3).for_each(|_| round());
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..100).for_each(|_| round());
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}

const REGISTERS: &str = r#"<map>
  <group name="g" files="1" key-nodes="16" chain="28" node-size="192"/>
  <biz id="1" name="redis" key="string"><register text-bytes="40"/></biz>
</map>"#;

#[test]
fn registers_are_served_without_an_allocation() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a directory");
    let resp = "<resp listen=\"127.0.0.1:2\" registers=\"redis\" databases=\"4\"/>";
    let (conf, _runtime) = world(dir.path(), resp, REGISTERS);
    let service = Service::attach(dir.path(), Role::Program, None).expect("attached");
    let mut desk = RequestHandler { service, now: NOW };
    let own = RespRules::of(&conf.srv, 0);
    let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
    let mut connection = RespConnection::default();
    let commands = "SET a 7\r\nINCR a\r\nGET a\r\nSET b text EX 10\r\nMGET a b c\r\nDEL b c\r\n";
    let queued = commands.replace("EX 10", "KEEPTTL");
    let walks = "SCAN 0 MATCH a*\r\nDBSIZE\r\n";
    let input = format!(
        "SELECT 3\r\n{commands}{commands}{walks}SELECT 0\r\n{commands}MULTI\r\n{queued}EXEC\r\n"
    );
    let mut turn = || {
        out.clear();
        desk.now += 10;
        let mut rest = input.as_bytes();
        while !rest.is_empty() {
            desk.service.begin_tick();
            scratch.set_now(desk.now);
            let progress = connection.advance(rest, own, &mut desk, &mut scratch, &mut out);
            assert!(progress.consumed > 0 && !progress.close);
            rest = &rest[progress.consumed..];
        }
        let errors = out.windows(2).filter(|part| part == b"-E").count();
        (errors, out.ends_with(b"*6\r\n+OK\r\n:8\r\n$1\r\n8\r\n+OK\r\n*3\r\n$1\r\n8\r\n$4\r\ntext\r\n$-1\r\n:1\r\n"))
    };
    (0..5).for_each(|_| assert_eq!(turn(), (0, true)));
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..500).for_each(|_| assert_eq!(turn(), (0, true)));
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}

const CLUSTER: &str = "<cluster name='c' secret-file='s'><node>127.0.0.1:1</node></cluster>";

const SHARED: &str = r#"<map>
  <group name="g" files="1" key-nodes="64" chain="8" node-size="640"/>
  <biz id="1" name="leased" key="string" share="cluster" hosts="2">
    <limit policy="interval" interval="1h" max="1000000"/></biz>
  <biz id="2" name="spent" key="string" share="cluster" hosts="2">
    <limit policy="interval" interval="1h" max="1000000"/></biz>
  <biz id="3" name="log" key="string" share="cluster" hosts="2">
    <limit policy="sliding" interval="1h" max="100"/></biz>
  <biz id="4" name="exact" key="string" share="exact"><limit policy="total" max="100"/></biz>
  <biz id="5" name="both" key="string" share="cluster" hosts="2">
    <limit policy="token" rate="1/s" burst="1000000"/>
    <limit policy="total" scope="biz" max="1000000"/></biz>
</map>"#;

/// Acts as the ledger: grants `allowance` of each limit of a key, and has nothing left.
fn grant(courier: &mut Service, biz_id: u32, allowance: u64) {
    let (boot_ms, wall_ms, incarnation) =
        (clock::boot_ms(), clock::now(), frs_cluster::HostCluster::incarnation_of(courier));
    let field = [u64::from(b'k')];
    let key = KeyRef::from_stored(&field, 1, KeyForm::Text as u8).expect("a key");
    let Need { key_word, field, .. } = Need::of_key(NeedKind::Update, biz_id, key);
    let (key, moment) = (StoredKey { key_word, field }, ItemMoment { boot_ms, wall_ms });
    let granted = nodes::with_leases(courier, &key, moment, wall_ms, |limits| {
        for limit in limits {
            let end_ms = boot_ms + 3_600_000;
            limit.holding.lease = Lease {
                incarnation,
                window: wall_ms,
                allowance,
                end_ms,
                gone_ms: end_ms,
                again_ms: end_ms,
                answered_ms: boot_ms,
                is_exhausted: true,
                ..Lease::default()
            };
        }
    });
    granted.expect("stored");
}

#[test]
fn leases_and_what_is_exhausted_are_served_without_an_allocation() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a directory");
    let (conf, runtime) = world(dir.path(), CLUSTER, SHARED);
    runtime.keep_words(ClusterSecret::new([7; 32]).keys().words());
    let service = frs_cluster::attach(dir.path(), Role::Program).expect("attached");
    let mut courier = frs_cluster::attach(dir.path(), Role::Cluster).expect("attached");
    for (biz_id, allowance) in [(1, 900_000), (2, 0), (3, 50), (4, 0), (5, 900_000)] {
        grant(&mut courier, biz_id, allowance);
    }
    let items: String = ["leased", "spent", "log", "exact", "both"]
        .map(|biz| format!("<item biz=\"{biz}\" key=\"k\" detail=\"true\"/>"))
        .concat();
    let get = |path: &str| format!("GET {path}&key=k HTTP/1.1\r\nHost: t\r\n\r\n");
    let input = [
        get("/update?biz=leased").repeat(20),
        get("/update?biz=spent").repeat(20),
        get("/update?biz=log"),
        get("/update?biz=exact"),
        get("/query?biz=both"),
        post("/update", &format!("<request>{items}</request>")),
        post("/query", &format!("<request>{}</request>", items.replace("exact", "log"))),
        // Refused because of the spent items, and not charged.
        post("/update", &format!("<request atomic=\"true\">{items}</request>")),
        post(
            "/update",
            "<request atomic=\"true\"><item biz=\"leased\" key=\"k\"/>\
             <item biz=\"both\" key=\"k\"/></request>",
        ),
    ]
    .concat();
    let mut desk = RequestHandler { service, now: clock::now() };
    let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
    let mut connection = Connection::new(None);
    let mut turn = || {
        out.clear();
        desk.service.begin_tick();
        scratch.set_now(desk.now);
        let rules = (&conf.srv).into();
        let progress =
            connection.advance(input.as_bytes(), rules, &mut desk, &mut scratch, &mut out);
        assert_eq!((progress.consumed, progress.close), (input.len(), false));
        let count = |word: &[u8]| out.windows(word.len()).filter(|part| *part == word).count();
        (count(b"HTTP/1.1 200"), count(b"HTTP/1.1 429"))
    };
    for _ in 0..60 {
        turn();
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..300 {
        // Of the single items the leased ones pass. The spent ones, the log and the exact one do
        // not.
        assert_eq!(turn(), (20 + 1 + 4, 20 + 2));
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}
