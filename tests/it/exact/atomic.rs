//! Atomic requests from many clients to many workers, over overlapping sets of keys in any order.
//! No requests deadlock, none is charged in part, and totals are exact, even while workers are
//! killed.
//!
//! Three checks would detect a partial charge:
//! - The keys of a plane form seven fixed sets of three, of which any two share one key (the Fano
//!   plane). The seven totals have only one solution: how often each set was charged. After a
//!   partial charge there is no solution in whole numbers.
//! - Each request also contains a key of its own, its receipt. A client that lost an answer queries
//!   the receipt afterwards. So the test knows for every request whether it was charged, and knows
//!   every total exactly.
//! - An onlooker constantly reads all keys of a plane by one atomic Query. At every moment the sets
//!   must be whole, and no count may ever decrease.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::common::items::{Response, post, try_post};
use crate::common::{Client, Server, Settings, Setup, wait_until};
use nix::sys::signal::{Signal, kill};

const WORKERS: u16 = 4;
const CLIENTS: u64 = 8;
const PLANES: usize = 12;
const POINTS: usize = 7;
const KEYS: usize = PLANES * POINTS;

/// The seven sets of a plane. Each pair of points is in one set, and any two sets share a point.
const LINES: [[usize; 3]; 7] =
    [[0, 1, 2], [0, 3, 4], [0, 5, 6], [1, 3, 5], [1, 4, 6], [2, 3, 6], [2, 4, 5]];

/// The most sets of one request: with its receipt that is at most 64 items.
const SETS: usize = 21;

/// A key with few uses. It soon makes whole requests fail.
const FEW_KEY: usize = KEYS - 1;
const FEW: u64 = 100;

/// Two groups whose key-nodes hold many keys each, and a group with room for all receipts.
const MAP: &str = r#"<map>
  <group name="narrow" files="1" key-nodes="3" chain="56" node-size="64" on-full="refuse"/>
  <group name="wide" files="2" key-nodes="64" chain="8" node-size="128" on-full="refuse"/>
  <group name="receipts" files="2" key-nodes="1024" chain="56" node-size="64" on-full="refuse"/>
  <biz id="1" name="narrow" key="integer">
    <limit policy="interval" interval="24h" max="1000000"/>
  </biz>
  <biz id="2" name="wide" group="wide" key="string">
    <limit policy="interval" interval="24h" max="1000000"/>
    <limit policy="total" scope="biz" max="100000000"/>
  </biz>
  <biz id="3" name="few" group="wide" key="string">
    <limit policy="interval" interval="24h" max="100"/>
  </biz>
  <biz id="4" name="receipt" group="receipts" key="string">
    <limit policy="total" max="1"/>
  </biz>
</map>"#;

/// Key number `nth` as an item. The points of every plane are spread over all groups.
fn item(nth: usize) -> String {
    let biz = match nth % POINTS {
        0..3 => "narrow",
        _ if nth == FEW_KEY => "few",
        _ => "wide",
    };
    format!("<item biz=\"{biz}\" key=\"{nth}\"/>")
}

/// The same item as a query that would charge nothing and shows the use.
fn glance(nth: usize) -> String {
    item(nth).replace("/>", " count=\"0\"/>")
}

fn document(items: impl Iterator<Item = String>) -> String {
    format!("<request atomic=\"true\">{}</request>", items.collect::<String>())
}

/// A small generator. The same seed gives the same numbers.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(0x9e37_79b9_7f4a_7c15 ^ (seed + 1))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn shuffle<T>(&mut self, row: &mut [T]) {
        for at in (1..row.len()).rev() {
            row.swap(at, self.below(at + 1));
        }
    }
}

/// A set: the numbers of its plane and its line.
type Set = (usize, usize);

fn keys((plane, line): Set) -> [usize; 3] {
    LINES[line].map(|point| plane * POINTS + point)
}

/// A request: some sets, with all of their keys and its receipt in random order. Sets of one plane
/// may share keys, which the request then holds twice.
struct Ask {
    name: String,
    sets: Vec<Set>,
    document: String,
}

impl Ask {
    fn draw(random: &mut Random, name: String) -> Ask {
        let sets: Vec<Set> = (0..1 + random.below(SETS))
            .map(|_| (random.below(PLANES), random.below(LINES.len())))
            .collect();
        let mut items: Vec<String> = sets.iter().flat_map(|&set| keys(set)).map(item).collect();
        items.push(format!("<item biz=\"receipt\" key=\"{name}\"/>"));
        random.shuffle(&mut items);
        let document = document(items.into_iter());
        Ask { name, sets, document }
    }
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Charged,
    Refused,
    Busy,
    /// The answer was lost.
    Nothing,
}

/// The outcome according to an answer. Panics if its parts contradict each other.
fn told(response: &Response) -> Told {
    let says = |name: &str, value: &str| {
        response.items.iter().filter(|item| item.values.get(name) == Some(value)).count()
    };
    let (busy, limited) = (says("error", "busy"), says("limited", "true"));
    if busy > 0 {
        assert!(response.refused && busy == response.items.len(), "{response:?}");
        return Told::Busy;
    }
    assert_eq!(says("limited", "false") + limited, response.items.len(), "{response:?}");
    assert_eq!(response.refused, limited > 0, "{response:?}");
    if limited > 0 {
        expect_few(response);
        return Told::Refused;
    }
    Told::Charged
}

/// Checks a refused request: exactly those items are limited that do not fit into the stored count
/// after the items before them.
fn expect_few(response: &Response) {
    let mut before: Vec<&str> = Vec::new();
    for item in &response.items {
        let key = item.values.get("key").expect("a key");
        let is_few = item.values.get("biz") == Some("few");
        let stored = item.values.number("used").expect("used");
        let same = before.iter().filter(|&&before| before == key).count() as u64;
        let fits = !is_few || stored + same < FEW;
        item.expect(if fits { "limited=false" } else { "limited=true" });
        if is_few && fits {
            before.push(key);
        }
    }
}

/// All requests and outcomes of all clients.
#[derive(Default)]
struct Run {
    asked: Mutex<Vec<(Ask, Told)>>,
    answered: AtomicU64,
    glances: AtomicU64,
    stop: AtomicBool,
    /// No process is killed, so `busy` would mean that two requests wait for each other.
    undisturbed: bool,
}

impl Run {
    /// Runs one client, until it has sent this many requests or is stopped.
    fn ask(&self, address: SocketAddr, client: u64, requests: usize) {
        let mut random = Random::new(client);
        let mut connection = Client::connect(address);
        for nth in 0..requests {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            // Sometimes another worker, since connections are spread over the workers.
            if random.below(50) == 0 {
                connection = Client::connect(address);
            }
            let ask = Ask::draw(&mut random, format!("{client}-{nth}"));
            let told = match try_post(&mut connection, "/update", &ask.document) {
                Ok(response) if self.undisturbed && told(&response) == Told::Busy => {
                    panic!("they wait for each other: {response:?}")
                }
                Ok(response) => told(&response),
                Err(_) => {
                    connection = Client::connect(address);
                    Told::Nothing
                }
            };
            self.asked.lock().expect("no panic").push((ask, told));
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs the onlooker, which reads one plane after another until it is stopped.
    fn look_on(&self, address: SocketAddr) {
        let mut connection = Client::connect(address);
        let mut before = [[0; LINES.len()]; PLANES];
        for plane in (0..PLANES).cycle() {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let query = document((0..POINTS).map(|point| glance(plane * POINTS + point)));
            let Ok(response) = try_post(&mut connection, "/query", &query) else {
                connection = Client::connect(address);
                continue;
            };
            let used: Option<Vec<u64>> =
                response.items.iter().map(|item| item.values.number("used")).collect();
            // Without figures the answer was `busy`: the holder of one of the keys is dying.
            let Some(used) = used else { continue };
            let sets = charges(&used).unwrap_or_else(|| panic!("in part: plane {plane}: {used:?}"));
            let grows = sets.iter().zip(&before[plane]).all(|(now, before)| now >= before);
            assert!(grows, "taken back: {:?} {sets:?}", before[plane]);
            before[plane] = sets;
            self.glances.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs all clients and the onlooker at once, with `act` beside them, and waits for their end.
    fn all(&self, address: SocketAddr, requests: usize, act: impl FnOnce()) {
        thread::scope(|scope| {
            let stop = Stop(&self.stop);
            scope.spawn(|| Stop(&self.stop).after(|| self.look_on(address)));
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let asking = move || self.ask(address, client, requests);
                    scope.spawn(move || Stop(&self.stop).unless_fails(asking))
                })
                .collect();
            act();
            clients.into_iter().for_each(|client| client.join().expect("no client fails"));
            drop(stop);
        });
    }

    fn told(&self, what: Told) -> usize {
        self.asked.lock().expect("no panic").iter().filter(|(_, told)| *told == what).count()
    }
}

/// Ends the other threads, also when one fails.
struct Stop<'a>(&'a AtomicBool);

impl Stop<'_> {
    fn after(self, act: impl FnOnce()) {
        act();
    }

    fn unless_fails(self, act: impl FnOnce()) {
        act();
        std::mem::forget(self);
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How often each set of a plane was charged, computed from the totals of its points. None if no
/// whole numbers of whole sets give these totals.
///
/// With x of the sets and u of the points, u is the sum of x over the sets through a point. All
/// other sets meet set l in one point each: summing u over the points of l counts l three times,
/// and each other set once.
fn charges(used: &[u64]) -> Option<[u64; LINES.len()]> {
    let sum: u64 = used.iter().sum();
    if !sum.is_multiple_of(3) {
        return None;
    }
    let all = sum / 3;
    let mut sets = [0; LINES.len()];
    for (set, line) in sets.iter_mut().zip(LINES) {
        let twice = line.iter().map(|&point| used[point]).sum::<u64>().checked_sub(all)?;
        if !twice.is_multiple_of(2) {
            return None;
        }
        *set = twice / 2;
    }
    Some(sets)
}

/// The `used` of items of one biz, by Queries of many items.
fn used(client: &mut Client, items: &[String]) -> Vec<u64> {
    let query = |items: &[String]| {
        let document = format!("<request>{}</request>", items.concat());
        let response = post(client, "/query", &document);
        let used = response.items.iter().map(|item| item.values.number("used").expect("used"));
        used.collect::<Vec<u64>>()
    };
    items.chunks(500).flat_map(query).collect()
}

/// Compares the stored counts with the outcomes: every total exactly, every receipt, every set
/// whole.
fn compare(server: &Server<'_>, run: &Run) {
    let mut client = server.client();
    let asked = run.asked.lock().expect("no panic");
    let receipts: Vec<String> = asked
        .iter()
        .map(|(ask, _)| format!("<item biz=\"receipt\" key=\"{}\"/>", ask.name))
        .collect();
    let receipts = used(&mut client, &receipts);
    let mut totals = [0; KEYS];
    let (mut certain, mut perhaps) = ([[0; LINES.len()]; PLANES], [[0; LINES.len()]; PLANES]);
    for ((ask, told), &receipt) in asked.iter().zip(&receipts) {
        match told {
            Told::Charged => {
                assert_eq!(receipt, 1, "an acknowledged request is gone: {}", ask.name)
            }
            Told::Nothing => {}
            _ => assert_eq!(receipt, 0, "{told:?}, and charged: {}", ask.name),
        }
        for &(plane, line) in &ask.sets {
            match told {
                Told::Charged => certain[plane][line] += 1,
                Told::Nothing => perhaps[plane][line] += 1,
                _ => {}
            }
            keys((plane, line)).iter().for_each(|&key| totals[key] += receipt);
        }
    }
    let stored = used(&mut client, &(0..KEYS).map(glance).collect::<Vec<_>>());
    for plane in 0..PLANES {
        let points = &stored[plane * POINTS..][..POINTS];
        let sets = charges(points).unwrap_or_else(|| panic!("in part: plane {plane}: {points:?}"));
        for (line, &count) in sets.iter().enumerate() {
            let (least, most) = (certain[plane][line], certain[plane][line] + perhaps[plane][line]);
            assert!(
                (least..=most).contains(&count),
                "set {plane} {line}: {count}, {least}..={most}"
            );
        }
    }
    assert_eq!(stored, totals, "of the requests whose receipt is stored");
    let wide = (0..KEYS).filter(|&key| item(key).contains("wide"));
    let whole: u64 = wide.map(|key| stored[key]).sum();
    let detail = post(
        &mut client,
        "/query",
        "<request><item biz=\"wide\" key=\"3\" detail=\"true\"/></request>",
    );
    assert_eq!(detail.items[0].limits[1].number("used"), Some(whole), "of the biz as a whole");
}

fn setup(http: &str) -> Setup {
    let settings = Settings { workers: WORKERS, http: http.to_owned(), ..Settings::default() };
    let setup = Setup::new(&settings);
    setup.write_map(MAP);
    setup
}

// Shows: refused-changes-nothing.
#[test]
fn undisturbed_nobody_waits_for_ever_and_totals_are_exact() {
    const REQUESTS: usize = 400;
    // If two requests waited for each other, only the lock-timeout would end that.
    let setup = setup("lock-timeout=\"10s\"");
    let server = setup.start();
    server.wait_for_workers(WORKERS.into());
    let run = Run { undisturbed: true, ..Run::default() };
    run.all(setup.address, REQUESTS, || ());
    assert_eq!(run.told(Told::Nothing), 0, "nobody was killed");
    let (charged, refused) = (run.told(Told::Charged), run.told(Told::Refused));
    assert_eq!(charged + refused, CLIENTS as usize * REQUESTS);
    assert!(charged > 300 && refused > 100, "{charged} and {refused}");
    assert!(run.glances.load(Ordering::Relaxed) > 10, "the onlooker saw too little");
    compare(&server, &run);
    // Exactly as many as there are.
    let few = used(&mut server.client(), &[glance(FEW_KEY)]);
    assert_eq!(few, [FEW]);
}

/// Kills workers while the clients send requests, one after another, each after a random number of
/// answers.
fn kill_workers(server: &Server<'_>, run: &Run, kills: usize) {
    let mut random = Random::new(77);
    for _ in 0..kills {
        let goal = run.answered.load(Ordering::Relaxed) + 10 + random.below(120) as u64;
        wait_until("more is answered", || {
            let reached = run.answered.load(Ordering::Relaxed) >= goal;
            (reached || run.stop.load(Ordering::Relaxed)).then_some(())
        });
        let workers = wait_until("a worker lives", || {
            Some(server.workers()).filter(|workers| !workers.is_empty())
        });
        let _ = kill(workers[random.below(workers.len())], Signal::SIGKILL);
    }
}

// Shows: refused-changes-nothing.
#[test]
fn while_workers_are_killed_requests_are_whole_or_absent() {
    // Two servers: a server whose workers are killed too often waits before it replaces them.
    const ROUNDS: usize = 2;
    const KILLS: usize = 20;
    for _ in 0..ROUNDS {
        let setup = setup("");
        let server = setup.start();
        server.wait_for_workers(WORKERS.into());
        let run = Run::default();
        // More than the clients send before the last kill. Receipts have room for them.
        run.all(setup.address, 6_000, || {
            kill_workers(&server, &run, KILLS);
            run.stop.store(true, Ordering::Relaxed);
        });
        let (charged, lost) = (run.told(Told::Charged), run.told(Told::Nothing));
        assert!(lost > 0, "the kills hit nobody");
        assert!(charged > 300, "{charged}");
        assert!(run.glances.load(Ordering::Relaxed) > 10, "the onlooker saw too little");
        compare(&server, &run);
        goes_on(&server);
    }
}

/// Checks that nothing is left locked or half done.
fn goes_on(server: &Server<'_>) {
    server.wait_for_workers(WORKERS.into());
    let after = Run::default();
    for client in CLIENTS..CLIENTS * 2 {
        after.ask(server.setup.address, client, 20);
    }
    assert_eq!((after.told(Told::Busy), after.told(Told::Nothing)), (0, 0));
    assert!(after.told(Told::Charged) > 0);
}

/// The published case of two keys: 20 a minute of one and 10 an hour of the other, always together.
#[test]
fn of_20_a_minute_and_10_an_hour_the_first_keeps_10_from_the_11th_call_on() {
    let setup = Setup::new(&Settings::default());
    setup.write_map(
        r#"<map>
          <group name="default" files="1" key-nodes="64" chain="8" node-size="64"/>
          <biz id="1" name="minute" key="string">
            <limit policy="interval" interval="1m" max="20"/>
          </biz>
          <biz id="2" name="hour" key="string">
            <limit policy="interval" interval="1h" max="10"/>
          </biz>
        </map>"#,
    );
    let server = setup.start();
    let mut client = server.client();
    let call = "<request atomic=\"true\"><item biz=\"minute\" key=\"k1\"/>\
                <item biz=\"hour\" key=\"k2\"/></request>";
    for nth in 1..=10 {
        let minute = format!("limited=false used={nth} max=20 remaining={}", 20 - nth);
        let hour = format!("limited=false used={nth} max=10 remaining={}", 10 - nth);
        post(&mut client, "/update", call).expect(&[&minute, &hour]);
    }
    for _ in 11..=40 {
        post(&mut client, "/update", call).expect_refused(&[
            "limited=false used=10 max=20 remaining=10 reset=1..=60000 !retry",
            "limited=true used=10 max=10 remaining=0 retry=1..=3600000",
        ]);
    }
    // The items in the other order, and a Query, give the same result.
    let turned = "<request atomic=\"true\"><item biz=\"hour\" key=\"k2\"/>\
                  <item biz=\"minute\" key=\"k1\"/></request>";
    for command in ["/update", "/query"] {
        post(&mut client, command, turned)
            .expect_refused(&["limited=true remaining=0", "limited=false remaining=10"]);
    }
    // On its own the first item still has its ten uses.
    let alone = "<request><item biz=\"minute\" key=\"k1\" count=\"10\"/></request>";
    post(&mut client, "/update", alone).expect(&["limited=false used=20 remaining=0"]);
}

#[test]
fn totals_that_no_whole_sets_give_are_found() {
    let mut used = [0; POINTS];
    for (times, line) in LINES.iter().enumerate() {
        line.iter().for_each(|&point| used[point] += times as u64 * 5);
    }
    assert_eq!(charges(&used), Some([0, 5, 10, 15, 20, 25, 30]));
    // One or two extra charges of a set are a partial charge.
    for line in LINES {
        for leave in 0..3 {
            let (mut one, mut two) = (used, used);
            one[line[leave]] += 1;
            two[line[leave]] += 1;
            two[line[(leave + 1) % 3]] += 1;
            assert_eq!((charges(&one), charges(&two)), (None, None));
        }
    }
}
