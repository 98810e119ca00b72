//! Days of an open platform in fast motion: applications call interfaces day after day, and the
//! server is killed now and then. The reports of 30 days equal those of a plain count.
//!
//! The server is real, and libfaketime sets its clock to noon of the next day. `cargo test` plays
//! some hundred applications, `just days` 10,000 (`FRS_APPS=10000`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::common::items::{self, Item};
use crate::common::{Client, Server, Settings, Setup, needs};

/// The days that the history holds.
const HISTORY: usize = 30;
/// The days that are played, with today. The first ones leave the history.
const DAYS: usize = 34;
/// Days without calls.
const HOLIDAYS: std::ops::RangeInclusive<usize> = 12..=13;
/// The server is killed after these days.
const KILLS: [usize; 2] = [9, 21];
const INTERFACES: [&str; 3] = ["orders.list", "orders.put", "users.get"];
/// Items of a request.
const AT_ONCE: usize = 1000;
const ZONE: &str = "Asia/Shanghai";

/// Counts the calls of each application and of its interfaces, and its users. To count something
/// else by day, add a business here, its charges to [`Platform::calls`], and its report.
const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="8192" chain="56" node-size="448"/>
  <biz id="1" name="app-day" key="string">
    <limit policy="count" unit="day" tz="Asia/Shanghai" history="30"/>
  </biz>
  <biz id="2" name="interface-day" key="string">
    <limit policy="count" unit="day" tz="Asia/Shanghai" history="30"/>
  </biz>
  <biz id="3" name="users-day" key="string">
    <limit policy="distinct" precision="exact" max="8" unit="day" tz="Asia/Shanghai" history="30"/>
  </biz>
  <biz id="4" name="estimate-day" key="string">
    <limit policy="distinct" precision="8" unit="day" tz="Asia/Shanghai" history="30"/>
  </biz>
</map>
"#;
/// A business whose figures are estimates of at most [`USERS`] members.
const ESTIMATE: &str = "estimate-day";
/// The most users of an application on a day.
const USERS: u64 = 8;

/// The library that changes a program's clock.
fn faketime() -> Option<PathBuf> {
    let machines = std::fs::read_dir("/usr/lib").ok()?.flatten();
    machines
        .map(|machine| machine.path().join("faketime/libfaketime.so.1"))
        .find(|library| library.exists())
}

/// A server's clock, moved ahead by a file that is read at each look at the clock.
struct FastClock {
    library: String,
    file: PathBuf,
    noon_s: i64,
}

impl FastClock {
    fn new(library: &std::path::Path, setup: &Setup) -> FastClock {
        let now = Timestamp::now().to_zoned(TimeZone::get(ZONE).expect("a zone"));
        let noon = now.start_of_day().expect("a day").checked_add(SignedDuration::from_hours(12));
        let noon_s = noon.expect("a time").timestamp().as_second() - now.timestamp().as_second();
        let library = library.to_str().expect("text").to_owned();
        FastClock { library, file: setup.path("clock"), noon_s }
    }

    fn variables(&self) -> [(&str, &str); 5] {
        [
            ("LD_PRELOAD", self.library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.to_str().expect("text")),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_FORCE_MONOTONIC_FIX", "0"),
        ]
    }

    /// Sets the clock to noon of a day. Days begin at 0.
    fn set_day(&self, day: usize) {
        let ahead_s = self.noon_s + day as i64 * 86_400;
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, format!("{ahead_s:+}\n")).expect("written");
        std::fs::rename(&draft, &self.file).expect("renamed");
    }
}

/// A charge: business, key and uses, and the member in a business that counts members.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    biz: &'static str,
    key: String,
    uses: u32,
    user: Option<u64>,
}

/// The plain count: the uses, or the users, of each key on each day.
#[derive(Default)]
struct Count {
    days: BTreeMap<(&'static str, String), Vec<u32>>,
    /// The callers so far on the current day.
    known: BTreeSet<Call>,
}

impl Count {
    fn add(&mut self, call: &Call, day: usize) {
        if call.user.is_some() && !self.known.insert(call.clone()) {
            return;
        }
        let key = (call.biz, call.key.clone());
        let days = self.days.entry(key).or_insert_with(|| vec![0; DAYS]);
        days[day] += call.uses;
    }

    /// The days before `today`, the newest first, back to the first day with a use. After a pause
    /// as long as the history the report begins again.
    fn report(days: &[u32], today: usize) -> Vec<u32> {
        let mut first = None;
        for day in 0..=today {
            let is_left = days[day.saturating_sub(HISTORY)..=day].iter().any(|&uses| uses > 0);
            first = if is_left { first.or(Some(day)) } else { None };
        }
        let from = first.unwrap_or(today).max(today.saturating_sub(HISTORY));
        days[from..today].iter().rev().copied().collect()
    }
}

/// Applications with random behaviour.
struct Platform {
    apps: usize,
    random: u64,
}

impl Platform {
    /// A random number below a bound, by splitmix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// The charges of a day. One in three applications is silent, and each has a first day of its
    /// own. Some users call several times.
    fn calls(&mut self, day: usize) -> Vec<Call> {
        let mut calls = Vec::new();
        for app in 0..self.apps {
            if day < app % 20 || HOLIDAYS.contains(&day) || self.below(3) == 0 {
                continue;
            }
            let interface = INTERFACES[self.below(3) as usize];
            let uses = 1 + self.below(5) as u32;
            let plain = |biz, key| Call { biz, key, uses, user: None };
            calls.push(plain("app-day", format!("app{app}")));
            calls.push(plain("interface-day", format!("app{app}|{interface}")));
            for _ in 0..1 + self.below(4) {
                let user = Some(self.below(USERS));
                for biz in ["users-day", ESTIMATE] {
                    calls.push(Call { biz, key: format!("app{app}"), uses: 1, user });
                }
            }
        }
        calls
    }
}

fn document(calls: &[Call]) -> String {
    let item = |Call { biz, key, uses, user }: &Call| {
        let member = user.map_or(String::new(), |user| format!(" member=\"{user}\""));
        format!("<item biz=\"{biz}\" key=\"{key}\" count=\"{uses}\"{member}/>")
    };
    format!("<request>{}</request>", calls.iter().map(item).collect::<String>())
}

fn question(keys: &[(&str, &str)]) -> String {
    let item =
        |(biz, key): &(&str, &str)| format!("<item biz=\"{biz}\" key=\"{key}\" detail=\"true\"/>");
    format!("<request>{}</request>", keys.iter().map(item).collect::<String>())
}

/// The history of a single limit.
fn history(item: &Item) -> Vec<u32> {
    let shown = item.limits[0].get("history").expect("a history");
    shown.split_terminator(' ').map(|total| total.parse().expect("a number")).collect()
}

fn check_reports(client: &mut Client, count: &Count, today: usize) {
    let keys: Vec<_> = count.days.iter().collect();
    for some in keys.chunks(AT_ONCE / 4) {
        let asked: Vec<_> = some.iter().map(|((biz, key), _)| (*biz, key.as_str())).collect();
        let response = items::post(client, "/query", &question(&asked));
        assert_eq!(response.items.len(), some.len());
        for (item, ((biz, key), days)) in response.items.iter().zip(some) {
            let used = item.limits[0].number("used").expect("a number") as u32;
            let found: Vec<u32> = std::iter::once(used).chain(history(item)).collect();
            let report = Count::report(days, today);
            let expected: Vec<u32> = std::iter::once(days[today]).chain(report).collect();
            // So few members are usually estimated exactly. All applications have the same users,
            // so two that collide do so in all of them.
            let off = if *biz == ESTIMATE { 2 } else { 0 };
            let is_near = |(found, expected): (&u32, &u32)| found.abs_diff(*expected) <= off;
            assert!(
                found.len() == expected.len() && found.iter().zip(&expected).all(is_near),
                "{biz} {key} on day {today}: {found:?}, expected {expected:?}"
            );
        }
    }
}

fn start<'s>(setup: &'s Setup, clock: &FastClock) -> (Server<'s>, Client) {
    let server = setup.start_with(&clock.variables());
    let mut client = server.client();
    client.stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    // It is noon: half a day remains.
    let answer = client.get("/update?biz=app-day&key=clock");
    let reset_ms: u64 = answer.attribute("reset").expect("a turn").parse().expect("a number");
    assert!(reset_ms.abs_diff(12 * 3_600_000) < 1_800_000, "the clock is not at noon: {reset_ms}");
    (server, client)
}

// Shows: history-of-limits.
#[test]
fn reports_of_thirty_days_are_those_of_a_plain_count() {
    let Some(library) = faketime() else {
        return needs::skip("libfaketime is not installed");
    };
    let apps = std::env::var("FRS_APPS").ok().map_or(300, |apps| apps.parse().expect("a number"));
    let http = "max-items=\"1024\" max-body=\"1MiB\" lock-timeout=\"10s\"".to_owned();
    let setup = Setup::new(&Settings { http, ..Settings::default() });
    setup.write_map(MAP);
    let clock = FastClock::new(&library, &setup);
    clock.set_day(0);
    let (mut server, mut client) = start(&setup, &clock);
    let (mut platform, mut count) = (Platform { apps, random: 17 }, Count::default());
    for day in 0..DAYS {
        clock.set_day(day);
        let calls = platform.calls(day);
        count.known.clear();
        for call in &calls {
            count.add(call, day);
        }
        for some in calls.chunks(AT_ONCE) {
            let response = items::post(&mut client, "/update", &document(some));
            let passed =
                response.items.iter().filter(|item| item.values.get("limited") == Some("false"));
            assert_eq!(passed.count(), some.len(), "day {day}");
        }
        if KILLS.contains(&day) {
            server.kill_all_and_wait();
            drop(server);
            (server, client) = start(&setup, &clock);
        }
        if day % 11 == 10 {
            check_reports(&mut client, &count, day);
        }
    }
    check_reports(&mut client, &count, DAYS - 1);
    // After a month without a call nothing remains.
    clock.set_day(DAYS + HISTORY);
    let keys = [("app-day", "app0"), ("users-day", "app0"), (ESTIMATE, "app0")];
    let response = items::post(&mut client, "/query", &question(&keys));
    assert!(response.items.iter().all(|item| history(item).is_empty()), "{response:?}");
    drop(server);
}
