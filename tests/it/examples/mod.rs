//! The worked examples of conf/examples. Each is checked, validated against its schemas, and
//! started. HTTP requests play its story, as told by its comments and README.md.
//!
//! No story waits, because its windows are longer than the test. The state after a window is read
//! from the server's own files, by a Query of the library with a later time.

mod advertising;
mod api_tokens;
mod devices;
mod flash_sale;
mod in_flight;
mod llm_tokens;
mod login;
mod messages;
mod open_platform;
mod pages;
mod post_paid;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use crate::common::items::{self, Response};
use crate::common::{Answer, Client, Settings, Setup, files, tools};
use frs_base::clock;
use frs_engine::{Answers, Command, ItemOptions, Request, Role, Service};
use frs_limit::Verdict;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The directory of an example's files.
fn example(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("conf/examples").join(name)
}

/// The example's files, unchanged except for the addresses.
fn setup(name: &str) -> Setup {
    let read = |file: &str| std::fs::read_to_string(example(name).join(file)).expect("shipped");
    let setup = Setup::new(&Settings::default());
    let (srv, address) = (read("srv.xml"), setup.address.to_string());
    assert!(srv.contains("127.0.0.1:7600"), "{srv}");
    let here = srv.replace("127.0.0.1:7600", &address);
    write_secret(setup.dir.path());
    // Keeps the test from the clusters of other tests: nothing listens on these ports.
    let here = (1..=3).fold(here, |srv, nth| {
        srv.replace(&format!("127.0.0.1:700{nth}"), &format!("127.0.0.1:{nth}"))
    });
    // The port belongs to this test, so the address that is made of it does, too.
    let [high, low] = setup.address.port().to_be_bytes();
    let here = here.replace("127.0.0.1:7610", &format!("127.{high}.{low}.1:7610"));
    let here = here.replace("127.0.0.1:7710", "127.0.0.1:1");
    if here.contains("<rls") {
        tools::tool("frs-envoy");
    }
    let socket = format!("unix:{}", setup.path("rls.sock").display());
    let here = here.replace("127.0.0.1:7603", &socket);
    std::fs::write(setup.path("conf/srv.xml"), here).expect("written");
    setup.write_map(&read("map.xml"));
    setup
}

/// Writes the secrets that `<cluster>` and `<peers>` name, for a server in this directory.
fn write_secret(dir: &Path) {
    let conf = dir.join("conf");
    std::fs::create_dir_all(&conf).expect("created");
    files::write_secret(&conf.join("cluster.secret"), "5a".repeat(32));
    files::write_secret(&conf.join("peers.secret"), "5a".repeat(32));
}

/// A running example and a client of it.
struct Stage {
    client: Client,
    data: PathBuf,
}

/// Starts an example and plays its story.
fn play(name: &str, story: impl FnOnce(&mut Stage)) {
    let setup = setup(name);
    let server = setup.start();
    let data = setup.path("data/examples").join(name);
    story(&mut Stage { client: server.client(), data });
}

/// As [`play`], for limits that turn with the local date. `at` is the local hour of the turn. If
/// the story fails and the date has changed meanwhile, it is played once more.
fn play_in_a_day(name: &str, zone: &str, at: i64, story: impl Fn(&mut Stage)) {
    let zone = TimeZone::get(zone).expect("a time zone");
    let date = || -> Date {
        let now = Timestamp::from_millisecond(clock::now() as i64).expect("a time of today");
        let turned = now.to_zoned(zone.clone()).datetime() - SignedDuration::from_hours(at);
        turned.date()
    };
    let begun = date();
    let played = catch_unwind(AssertUnwindSafe(|| play(name, &story)));
    match played {
        Err(panic) if date() == begun => resume_unwind(panic),
        Err(_) => play(name, &story),
        Ok(()) => {}
    }
}

impl Stage {
    /// POSTs a document to /update.
    fn update(&mut self, document: &str) -> Response {
        items::post(&mut self.client, "/update", document)
    }

    /// POSTs a document to /query.
    fn query(&mut self, document: &str) -> Response {
        items::post(&mut self.client, "/query", document)
    }

    /// GETs one item, whose answer must fit the words.
    #[track_caller]
    fn get(&mut self, target: &str, status: u16, words: &str) {
        let response = items::get(&mut self.client, target);
        assert_eq!(response.status, status, "{response:?}");
        response.expect(&[words]);
    }

    /// GETs the answer as received.
    fn raw(&mut self, target: &str) -> Answer {
        self.client.get(target)
    }

    /// Charges uses by a clock that is this many milliseconds behind.
    fn earlier(&self, before_ms: u64, biz: &str, key: &str, count: i32) {
        let mut service = Service::attach(&self.data, Role::Program, None).expect("attached");
        let (mut request, mut answers) = (Request::default(), Answers::default());
        request.begin(Command::Update);
        request.push(biz, key, ItemOptions::of(count));
        service.begin_tick();
        service.run(&request, clock::now() - before_ms, &mut answers);
        assert!(answers.items[0].result.is_ok(), "{answers:?}");
    }

    /// Notes a member by a clock that is this many milliseconds behind.
    fn visited(&self, before_ms: u64, biz: &str, key: &str, member: u32) {
        let mut service = Service::attach(&self.data, Role::Program, None).expect("attached");
        let (mut request, mut answers) = (Request::default(), Answers::default());
        request.begin(Command::Update);
        request.push(biz, key, ItemOptions::ONE);
        request.bring_member(&member.to_string());
        service.begin_tick();
        service.run(&request, clock::now() - before_ms, &mut answers);
        assert!(answers.items[0].result.is_ok(), "{answers:?}");
    }

    /// The answer to a Query this many milliseconds from now, without further uses.
    fn later(&self, after_ms: u64, biz: &str, key: &str) -> Verdict {
        let mut service = Service::attach(&self.data, Role::Program, None).expect("attached");
        let (mut request, mut answers) = (Request::default(), Answers::default());
        request.begin(Command::Query);
        request.push(biz, key, ItemOptions::ONE);
        service.begin_tick();
        service.run(&request, clock::now() + after_ms, &mut answers);
        answers.items[0].result.expect("judged")
    }
}

/// An atomic request of these items, each `biz key`, `biz key count` or `biz key count member`.
fn together(rows: &[&str]) -> String {
    let item = |row: &&str| {
        let mut words = row.split(' ');
        let (biz, key) = (words.next().expect("a biz"), words.next().expect("a key"));
        let count = words.next().map_or(String::new(), |count| format!(" count=\"{count}\""));
        let member = words.next().map_or(String::new(), |member| format!(" member=\"{member}\""));
        format!("<item biz=\"{biz}\" key=\"{key}\"{count}{member}/>")
    };
    let rows: String = rows.iter().map(item).collect();
    format!("<request atomic=\"true\">{rows}</request>")
}
