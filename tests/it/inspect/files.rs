//! frs-inspect on the data directories of real servers: under load, killed, damaged and migrated.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use frs_engine::{Answers, ItemOptions, Request, Role, Service};

use crate::common::load::UntilDropped;
use crate::common::{Server, Settings, Setup, text};

const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
  <biz id="2" name="three" key="string">
    <limit policy="interval" interval="1h" max="3" ban="10m"/>
  </biz>
  <biz id="3" name="both" key="integer">
    <limit policy="total" scope="biz" max="1000"/>
    <limit policy="sliding" interval="1h" max="9"/>
  </biz>
</map>
"#;

fn setup() -> Setup {
    Setup::of_map(MAP)
}

/// The output of a command that finds no fault.
fn fine(setup: &Setup, arguments: &[&str]) -> String {
    let output = setup.inspect(arguments);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{arguments:?}: {output:?}");
    text(&output.stdout)
}

/// The whole output of a command that finds faults.
fn off(setup: &Setup, arguments: &[&str]) -> String {
    let output = setup.inspect(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    text(&output.stdout) + &text(&output.stderr)
}

/// Charges some keys. One of them has characters that every format must escape.
fn charge_some(server: &Server<'_>) {
    let mut client = server.client();
    client.charge("plenty", "alice", 7);
    client.charge("plenty", "a%26%3C%22%2C%0A%5C%C3%A9%3B", 2);
    client.charge("three", "bob", 3);
    assert_eq!(client.get("/update?biz=three&key=bob").status, 429);
    client.charge("both", "17", 4);
}

/// A setup whose server charged some keys and was killed.
fn killed() -> Setup {
    let setup = setup();
    let mut server = setup.start();
    server.wait_for_workers(2);
    charge_some(&server);
    server.kill_all_and_wait();
    drop(server);
    setup
}

/// The use of each (business, key).
type Uses = BTreeMap<(String, String), u64>;

fn expected() -> Uses {
    let uses = [
        ("plenty", "alice", 7),
        ("plenty", "a&<\",\n\\é;", 2),
        ("three", "bob", 3),
        ("both", "17", 4),
        ("both", "*", 4),
    ];
    uses.map(|(biz, key, used)| ((biz.to_owned(), key.to_owned()), used)).into_iter().collect()
}

fn of_json(document: &str) -> Uses {
    let nodes: serde_json::Value = serde_json::from_str(document).expect("JSON");
    let nodes = nodes.as_array().expect("an array");
    let node = |node: &serde_json::Value| {
        let name = |name: &str| node[name].as_str().expect("a string").to_owned();
        let limits = node["limits"].as_array().expect("limits");
        let used = limits.iter().map(|limit| limit["used"].as_u64().expect("a number")).max();
        ((name("biz"), name("key")), used.expect("a limit"))
    };
    let uses: Uses = nodes.iter().map(node).collect();
    assert_eq!(uses.len(), nodes.len(), "each node once");
    uses
}

fn of_xml(document: &str) -> Uses {
    use quick_xml::events::{BytesStart, Event};
    let value = |tag: &BytesStart<'_>, name: &str| {
        let attribute = tag.try_get_attribute(name).expect("attributes").expect("it has it");
        quick_xml::escape::unescape(&attribute.value).expect("escaped").into_owned()
    };
    let mut reader = quick_xml::Reader::from_str(document);
    let (mut uses, mut current) = (Uses::new(), None);
    loop {
        match reader.read_event().expect("XML") {
            Event::Start(tag) if tag.name().as_ref() == "node" => {
                current = Some((value(&tag, "biz"), value(&tag, "key")));
            }
            Event::Empty(tag) if tag.name().as_ref() == "limit" => {
                let used: u64 = value(&tag, "used").parse().expect("a number");
                let entry = uses.entry(current.clone().expect("in a node")).or_insert(0);
                *entry = used.max(*entry);
            }
            Event::Eof => return uses,
            _ => {}
        }
    }
}

/// The fields of each record, by RFC 4180.
fn csv(document: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut chars) = (false, document.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted => {
                assert_eq!(chars.next(), Some('\n'));
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            c => field.push(c),
        }
    }
    assert!(!quoted && record.is_empty() && field.is_empty(), "the last line ends");
    records
}

fn of_csv(document: &str) -> Uses {
    let records = csv(document);
    let column = |name: &str| records[0].iter().position(|field| field == name).expect("there");
    let (biz, key, used) = (column("biz"), column("key"), column("used"));
    let all = records[1..].iter().inspect(|record| assert_eq!(record.len(), records[0].len()));
    all.map(|of| ((of[biz].clone(), of[key].clone()), of[used].parse().expect("a number")))
        .collect()
}

#[test]
fn every_format_says_the_same_live_and_cold() {
    let setup = setup();
    let mut server = setup.start();
    server.wait_for_workers(2);
    charge_some(&server);
    let look = || {
        let dump = |format: &str| fine(&setup, &["dump", "data", "--format", format]);
        assert_eq!(of_json(&dump("json")), expected());
        assert_eq!(of_xml(&dump("xml")), expected());
        assert_eq!(of_csv(&dump("csv")), expected());
        let lines = dump("text");
        assert_eq!(lines.lines().count(), expected().len(), "{lines}");
        assert!(
            lines.contains(r#"plenty "a&<\",\n\\é;" idle; 1 interval: 2 of 1,000,000"#),
            "{lines}"
        );
        let some = fine(&setup, &["dump", "data", "--biz", "plenty", "--format", "json"]);
        assert_eq!(of_json(&some).len(), 2);
    };
    look();
    server.kill_all_and_wait();
    look();
    drop(server);
    // A server that ended in order leaves no generation in force.
    let mut server = setup.start();
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait();
    look();
}

/// A terminal acts on some of these characters, and the others are invisible.
// Shows: hidden-characters.
#[test]
fn no_output_holds_a_character_that_nobody_sees() {
    const KEY: &str = "\u{9B}31m\u{7F}\u{85}\u{202E}nimda\u{2066}\u{200F}\u{61C}";
    let shown = r"\u{9b}31m\u{7f}\u{85}\u{202e}nimda\u{2066}\u{200f}\u{61c}";
    let setup = setup();
    let server = setup.start();
    let encoded: String = KEY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    server.client().charge("plenty", &encoded, 5);
    let uses: Uses = [(("plenty".to_owned(), KEY.to_owned()), 5)].into_iter().collect();
    let of_shown: Uses = [(("plenty".to_owned(), shown.to_owned()), 5)].into_iter().collect();
    let said = |arguments: &[&str]| {
        let said = fine(&setup, arguments);
        let is_seen = |c: char| matches!(c, ' '..='~' | '\n' | '\r');
        assert!(said.chars().all(is_seen), "{arguments:?}: {said:?}");
        said
    };
    let dump = |format: &str| said(&["dump", "data", "--format", format]);
    assert_eq!(of_json(&dump("json")), uses);
    assert_eq!(of_xml(&dump("xml")), uses);
    assert_eq!(of_csv(&dump("csv")), of_shown);
    let quoted = format!("\"{shown}\"");
    assert!(dump("text").contains(&quoted));
    assert!(said(&["get", "data", "plenty", KEY]).contains(&quoted));
    assert!(said(&["top", "data", "plenty"]).contains(&quoted));
}

#[test]
fn get_shows_place_words_and_meaning() {
    let setup = killed();
    let shown = fine(&setup, &["get", "data", "three", "bob"]);
    for part in [
        "three \"bob\" (business 2)",
        "group default: file ",
        "banned until ",
        "3 in 60 m from the first use, then banned for 10 m",
        "3 of 3 used, 0 left",
        "business 2, key of 3 bytes: text",
        "limit 1 start 20",
        "limit 1 used 3",
        "ban-until 20",
    ] {
        let hour = part.replace("60 m", "1 h");
        assert!(shown.contains(part) || shown.contains(&hour), "{part:?} in {shown}");
    }
    let ring = fine(&setup, &["get", "data", "both", "0017"]);
    assert!(ring.contains("ring of 4 uses") && ring.contains("  uses      20"), "{ring}");
    let whole = fine(&setup, &["get", "data", "both", "--whole"]);
    assert!(whole.contains("4 of 1,000 used") && whole.contains("never fresh again"), "{whole}");
    let absent = off(&setup, &["get", "data", "three", "nobody"]);
    assert!(absent.starts_with("absent; its place is in group default: file "), "{absent}");
    assert!(off(&setup, &["get", "data", "four", "x"]).contains("plenty, three, both"));
    assert!(off(&setup, &["get", "data", "both", "x"]).contains("no key of the business"));
    assert!(off(&setup, &["get", "elsewhere", "both", "1"]).contains("elsewhere"));
    assert_eq!(setup.inspect(&["get", "data"]).status.code(), Some(2));
}

#[test]
fn top_and_stat_tell_of_a_running_server() {
    let setup = setup();
    let server = setup.start();
    let workers = server.wait_for_workers(2);
    charge_some(&server);
    let top = fine(&setup, &["top", "data", "plenty", "-n", "1"]);
    assert!(top.lines().nth(1).is_some_and(|line| line.contains("7  \"alice\"")), "{top}");
    assert_eq!(top.lines().count(), 2);
    let mut client = server.client();
    // The first use may fall into the same millisecond as the use before it.
    crate::common::wait_until("the latest use comes first", || {
        client.charge("plenty", "a%26%3C%22%2C%0A%5C%C3%A9%3B", 1);
        let last = fine(&setup, &["top", "data", "plenty", "--by", "last"]);
        last.lines().nth(1).is_some_and(|line| line.contains("  \"a&")).then_some(())
    });
    let stat = fine(&setup, &["stat", "data"]);
    for part in [
        &format!("server       running (process {})", server.master()),
        "group default: files 2, key-nodes 64, chain 8, node-size 128, key-bytes 24, hash siphash",
        "  live                   5  ",
        "  limiting               1  ",
        "  nodes created                       5\n",
        "99 % of them",
        "\n  three                 2              0  1 (50.00 %)\n",
        &format!("worker   process {}", workers[0]),
        "█",
    ] {
        assert!(stat.contains(part), "{part:?} in {stat}");
    }
    let verified = fine(&setup, &["verify", "data"]);
    assert_eq!(verified, "group default: 5 nodes are sound, 0 faults\n");
    let refused = off(&setup, &["verify", "data", "--repair"]);
    let said = format!("a server is running on this data directory (process {})", server.master());
    assert!(refused.contains(&said), "{refused}");
    assert!(off(&setup, &["migrate", "data", "--conf", "conf"]).contains(&said));
}

/// The number of keys that threads charge while a dump runs.
const KEYS: usize = 40;
const PROGRAMS: usize = 2;

// Shows: refused-keys.
#[test]
fn a_checkpoint_is_not_asked_for_refused_keys() {
    let setup = setup();
    let more = "<data live=\"live\" checkpoint=\"24h\"/>".to_owned();
    setup.write_srv(&Settings { more, ..Settings::default() });
    let server = setup.start();
    server.client().charge("three", "alice", 3);
    assert!(setup.frs(&["checkpoint"]).status.success());
    let used = fine(&setup, &["top", "data", "three", "--checkpoint"]);
    assert!(used.contains("\"alice\""), "{used}");
    assert_eq!(server.client().get("/update?biz=three&key=alice").status, 429);
    let refused = fine(&setup, &["top", "data", "three", "--by", "refused"]);
    assert!(refused.contains("\"alice\""), "{refused}");
    for biz in [&["three"][..], &[]] {
        let words = [&["top", "data"], biz, &["--by", "refused", "--checkpoint"]].concat();
        let output = setup.inspect(&words);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""));
        let said = text(&output.stderr);
        assert!(said.contains("--checkpoint does not go with --by refused"), "{said}");
    }
}

// Shows: inspection.
#[test]
fn a_dump_under_load_shows_every_node_whole_and_every_count_right() {
    let setup = setup();
    setup.write_map(&MAP.replace("max=\"1000000\"", "max=\"1000000000000\""));
    // A holder may be without a processor for longer than the normal lock-timeout.
    let http = "lock-timeout=\"10s\"".to_owned();
    setup.write_srv(&Settings { http, ..Settings::default() });
    let server = setup.start();
    server.wait_for_workers(2);
    let sent: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let acknowledged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    // Half of all requests use one key, so its semaphore is seldom free.
    let next = |at: usize| (at * 5 + 3) % (2 * KEYS);
    let key_of = |at: usize| if at < KEYS { at } else { 0 };
    let ask = || {
        let (mut client, mut at) = (server.client(), 0);
        while !over.load(Ordering::Relaxed) {
            let key = key_of(at);
            sent[key].fetch_add(1, Ordering::SeqCst);
            client.charge("plenty", &format!("key-{key}"), 1);
            acknowledged[key].fetch_add(1, Ordering::SeqCst);
            at = next(at);
        }
    };
    let attach = |seed: usize| {
        let mut service =
            Service::attach(&setup.path("data"), Role::Program, None).expect("attached");
        let (mut request, mut answers) = (Request::default(), Answers::default());
        let mut at = seed;
        while !over.load(Ordering::Relaxed) {
            let key = key_of(at);
            request.begin(frs_engine::Command::Update);
            request.push("plenty", &format!("key-{key}"), ItemOptions::ONE);
            sent[key].fetch_add(1, Ordering::SeqCst);
            service.begin_tick();
            service.run(&request, frs_base::clock::now(), &mut answers);
            let verdict = answers.items[0].result.as_ref().expect("judged");
            assert!(!verdict.limited);
            acknowledged[key].fetch_add(1, Ordering::SeqCst);
            at = next(at);
        }
    };
    let read = |counts: &[AtomicU64]| -> Vec<u64> {
        counts.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    };
    let dump = || of_json(&fine(&setup, &["dump", "data", "--biz", "1", "--format", "json"]));
    let used = |uses: &Uses, key: usize| {
        uses.get(&("plenty".to_owned(), format!("key-{key}"))).copied().unwrap_or(0)
    };
    std::thread::scope(|scope| {
        // Ends the threads even if an assertion fails, because the scope waits for them.
        let _end = UntilDropped(&over);
        scope.spawn(ask);
        for seed in 0..PROGRAMS {
            let attach = &attach;
            scope.spawn(move || attach(seed));
        }
        for _ in 0..30 {
            let least = read(&acknowledged);
            let uses = dump();
            let most = read(&sent);
            for key in 0..KEYS {
                let found = used(&uses, key);
                let (least, most) = (least[key], most[key]);
                let is_right = (least..=most).contains(&found);
                assert!(is_right, "key-{key}: {found} are used, not {least} to {most}");
            }
            let verified = setup.inspect(&["verify", "data"]);
            assert!(verified.status.success(), "{verified:?}");
        }
    });
    let (uses, all) = (dump(), read(&acknowledged));
    assert_eq!((0..KEYS).map(|key| used(&uses, key)).collect::<Vec<_>>(), all);
    assert!(all.iter().sum::<u64>() > 0);
}

#[test]
fn a_closed_pipe_ends_a_dump_quietly() {
    let setup = setup();
    setup.write_map(&MAP.replace("key-nodes=\"64\"", "key-nodes=\"1024\""));
    let server = setup.start();
    let mut client = server.client();
    for n in 0..2000 {
        client.charge("plenty", &format!("some-longer-key-{n}"), 1);
    }
    for format in ["text", "json", "csv", "xml"] {
        let mut child = setup
            .inspector(&["dump", "data", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("frs-inspect runs");
        let mut some = [0; 100];
        child.stdout.take().expect("piped").read_exact(&mut some).expect("read");
        let output = child.wait_with_output().expect("waited");
        assert!(output.status.success() && output.stderr.is_empty(), "{format}: {output:?}");
    }
}

/// Changes a byte of a key's use in the file. Returns the place as `get` shows it.
fn damage(setup: &Setup, biz: &str, key: &str) -> String {
    let shown = fine(setup, &["get", "data", biz, key]);
    let place = shown.split("group default: ").nth(1).and_then(|rest| rest.lines().next());
    let place = place.expect("a place").to_owned();
    let number = |name: &str| -> u64 {
        let rest = place.split(&format!("{name} ")).nth(1).expect("named");
        rest.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let (file, key_node, nth) = (number("file"), number("key-node"), number("place"));
    let path = setup.path(&format!("data/default.{file}.mmap"));
    let file = std::fs::File::options().read(true).write(true).open(path).expect("there");
    let at = 4096 + key_node * (64 + 8 * 128) + 64 + nth * 128 + 7 * 8;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 0x40], at).expect("written");
    place
}

// Shows: inspection.
#[test]
fn damage_is_named_and_repaired() {
    let setup = killed();
    let place = damage(&setup, "plenty", "alice");
    let said = format!("{place}: the node's CRC fails");
    let verified = off(&setup, &["verify", "data"]);
    assert!(verified.contains(&format!("group default: {said}\n")), "{verified}");
    assert!(verified.contains("4 nodes are sound, 1 faults"), "{verified}");
    assert!(off(&setup, &["dump", "data"]).contains(&said));
    assert!(off(&setup, &["get", "data", "plenty", "alice"]).contains(&said));
    assert!(off(&setup, &["stat", "data"]).contains(&said));

    let repaired = fine(&setup, &["verify", "data", "--repair"]);
    assert!(repaired.contains(&format!("{said}: dropped")), "{repaired}");
    assert!(repaired.contains("4 nodes are sound, 1 dropped"), "{repaired}");
    assert!(fine(&setup, &["verify", "data"]).contains("4 nodes are sound, 0 faults"));
    let server = setup.start();
    let answer = server.client().get("/query?biz=plenty&key=alice");
    assert_eq!(answer.attribute("used"), Some("0"));
    let kept = server.client().get("/query?biz=three&key=bob");
    assert_eq!((kept.status, kept.attribute("used")), (429, Some("3")));
}

#[test]
fn files_that_cannot_be_opened_are_named() {
    let setup = killed();
    let path = setup.path("data/default.1.mmap");
    let file = std::fs::File::options().write(true).open(&path).expect("there");
    let length = file.metadata().expect("known").len();
    file.set_len(length - 8).expect("cut");
    let said = format!("default.1.mmap: length: found {}, expected {length}", length - 8);
    for arguments in [&["verify", "data"][..], &["dump", "data"], &["stat", "data"]] {
        let heard = off(&setup, arguments);
        assert!(heard.contains(&said), "{arguments:?}: {heard}");
    }
    assert!(off(&setup, &["top", "data", "plenty"]).contains(&said));
    assert!(off(&setup, &["verify", "data", "--repair"]).contains(&said));
    file.set_len(length).expect("whole");
    std::fs::write(setup.path("data/runtime.mmap"), "short").expect("written");
    let heard = off(&setup, &["dump", "data"]);
    assert!(heard.contains("runtime.mmap: length: found 5"), "{heard}");
    assert!(heard.contains("three \"bob\""), "the groups are shown all the same: {heard}");
}

#[test]
fn a_changed_geometry_is_migrated_and_served() {
    let setup = killed();
    setup.write_map(&MAP.replace("files=\"2\" key-nodes=\"64\"", "files=\"3\" key-nodes=\"500\""));
    let planned = fine(&setup, &["migrate", "data", "--conf", "conf", "--dry-run"]);
    assert_eq!(
        planned,
        "group default: files 2 → 3, key-nodes 64 → 500\n  5 nodes go to the new files\n"
    );
    let migrated = fine(&setup, &["migrate", "data", "--conf", "conf"]);
    assert!(migrated.ends_with("group default: migrated, 5 nodes\n"), "{migrated}");
    assert!(fine(&setup, &["verify", "data"]).contains("5 nodes are sound, 0 faults"));
    assert_eq!(of_json(&fine(&setup, &["dump", "data", "--format", "json"])), expected());
    let server = setup.start();
    let used = |biz: &str, key: &str| {
        let answer = server.client().get(&format!("/query?biz={biz}&key={key}&detail=true"));
        answer.attribute("used").expect("used").to_owned()
    };
    assert_eq!((&*used("plenty", "alice"), &*used("three", "bob")), ("7", "3"));
    assert_eq!(used("both", "17"), "4");
    assert!(!setup.log().contains("group scanned"), "the new files are clean");
}

#[test]
fn a_migration_that_would_lose_nodes_asks_first() {
    let setup = killed();
    setup.write_map(&MAP.replace(
        "files=\"2\" key-nodes=\"64\" chain=\"8\"",
        "files=\"1\" key-nodes=\"1\" chain=\"3\"",
    ));
    let files = || std::fs::read(setup.path("data/default.0.mmap")).expect("there");
    let before = files();
    let said = off(&setup, &["migrate", "data", "--conf", "conf"]);
    assert!(said.contains("3 nodes go to the new files"), "{said}");
    assert!(said.contains("2 live nodes CANNOT FIT"), "{said}");
    assert!(said.ends_with("nothing was changed; --lossy continues and loses them\n"), "{said}");
    assert!(files() == before);
    let done = fine(&setup, &["migrate", "data", "--conf", "conf", "--lossy"]);
    assert!(done.ends_with("group default: migrated, 3 nodes\n"), "{done}");
    let left = of_json(&fine(&setup, &["dump", "data", "--format", "json"]));
    let kept = [("three", "bob"), ("both", "*")].map(|(biz, key)| (biz.to_owned(), key.to_owned()));
    assert!(kept.iter().all(|kept| left.contains_key(kept)), "{left:?}");
}
