//! The dashboard in a real browser: it shows the values of /stats, its changes take effect in the
//! workers, it can be used by keyboard, and it reports when a process is down.

mod access;
mod attack;
mod browser;
mod changes;
mod clients;
mod cluster;
mod history;
mod holds;
mod keyboard;
mod late;
mod looks;
mod peers;
mod picture;
mod registers;
mod written;

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::common::Server;
use crate::common::plane::Plane;
use browser::{Browser, chromium};

/// A key that would become an element if it were not treated as text. The files keep it unchanged.
const HOSTILE: &str = "<img src onerror=h=1>\u{202E}";
/// The key as the page shows it.
const SHOWN: &str = "<img src onerror=h=1>\\u{202e}";
/// The views that every server has, by their addresses.
const VIEWS: [&str; 7] =
    ["", "businesses", "biz/three", "key/alice", "changes", "room", "processes"];

/// Opens a browser, and waits until it shows figures.
fn open(plane: &Plane, program: &std::path::Path) -> Browser {
    let mut browser = Browser::start(program);
    go(&mut browser, plane);
    browser
}

fn go(browser: &mut Browser, plane: &Plane) {
    browser.go(&format!("http://{}/", plane.address));
    browser.wait("document.getElementById('state')?.textContent == 'live'");
}

/// Opens a view by its address, and waits for its figures.
fn visit(browser: &mut Browser, view: &str) {
    browser.value(&format!("location.hash = {}", json!(format!("#/{view}"))));
    browser.wait(&format!(
        "view.node.isConnected && parts().join('/') == decodeURIComponent({}) && \
         document.activeElement === document.querySelector('h1')",
        json!(view)
    ));
}

/// Percent-encodes every byte of a text.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn texts(browser: &mut Browser, selector: &str) -> Vec<String> {
    let all = format!("[...document.querySelectorAll({})]", json!(selector));
    let texts = browser.value(&format!("{all}.map(one => one.textContent)"));
    serde_json::from_value(texts).expect("texts")
}

/// The cells of the row of a table that begins with a text.
fn row(browser: &mut Browser, table: &str, first: &str) -> Vec<String> {
    let rows = format!("[...document.querySelectorAll({})]", json!(format!("{table} tr")));
    let cells = browser.value(&format!(
        "[...({rows}.find(row => row.children[0].textContent == {})?.children ?? [])]\
         .map(one => one.textContent)",
        json!(first)
    ));
    serde_json::from_value(cells).expect("texts")
}

fn give_token(browser: &mut Browser, token: &str) {
    browser.wait("document.getElementById('ask').open");
    browser.value(&format!("document.getElementById('ask-token').value = {}", json!(token)));
    browser.press("#ask-yes");
}

/// Presses a button that asks, and confirms.
fn confirm(browser: &mut Browser, button: &str) {
    browser.press(button);
    browser.wait("document.getElementById('ask').open");
    browser.press("#ask-yes");
}

fn wait_for_toast(browser: &mut Browser, words: &str) {
    let toast = "document.getElementById('toast').textContent";
    browser.wait(&format!("{toast}.includes({})", json!(words)));
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn items(biz: &Value, outcomes: &[&str]) -> u64 {
    let of = |command: &str| -> u64 {
        outcomes.iter().map(|name| biz[command][name].as_u64().expect("a number")).sum()
    };
    of("queries") + of("updates")
}

fn make_load(server: &Server<'_>) {
    let mut client = server.client();
    for _ in 0..10 {
        client.get("/update?biz=three&key=alice");
    }
    client.get(&format!("/update?biz=plenty&count=1500&key={}", encoded(HOSTILE)));
    for nth in 0..40 {
        client.get(&format!("/update?biz=plenty&key=k{nth}"));
        client.get("/query?biz=plenty&key=k");
    }
    client.get("/update?biz=three&key=");
    client.get("/update?biz=nope&key=x");
}

/// Checks that the page reported no error. The browser also records each refusal of the server,
/// which is no error of the page.
#[track_caller]
fn assert_no_complaints(browser: &mut Browser) {
    browser.complaints.retain(|words| !words.contains("the server responded with a status of"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

// Shows: dashboard-shows.
#[test]
fn the_page_shows_what_stats_tells() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(2);
    let server = plane.start(2);
    make_load(&server);
    let mut browser = open(&plane, &program);
    let stats = plane.json("/stats");
    assert_eq!(items(&stats["bizs"][1], &["allowed"]), 3);
    assert_eq!(items(&stats["bizs"][1], &["limited"]), 7);
    for biz in stats["bizs"].as_array().expect("a list") {
        shows_a_business(&mut browser, biz);
    }
    visit(&mut browser, "businesses");
    browser.wait("document.querySelectorAll('#bizs tr').length == 3");
    assert_eq!(row(&mut browser, "#bizs", "three")[6], "7");
    assert_eq!(row(&mut browser, "#bizs", "(unknown)")[7], "not in map.xml");
    shows_processes_and_groups(&mut browser, &stats);
    shows_hostile_keys_as_text(&mut browser);
    finds_a_key_in_all_businesses(&mut browser);
    takes_a_clock_that_steps_back(&mut browser);
    // The complaint comes from the page's own attempt, which the policy blocked.
    browser.complaints.retain(|words| !words.contains("TrustedHTML"));
    assert_no_complaints(&mut browser);
}

/// A business's page shows its counters by verdict, and its limits in words.
fn shows_a_business(browser: &mut Browser, biz: &Value) {
    let name = biz["name"].as_str().expect("a name");
    visit(browser, &format!("biz/{}", encoded(name)));
    browser.wait("document.querySelectorAll('#biz-rates tr').length >= 2");
    assert_eq!(texts(browser, "h1"), [name]);
    for (label, outcomes) in [
        ("Passed", &["allowed", "shadowed", "degraded"][..]),
        ("Refused", &["limited", "banned"]),
        ("Errors", &["error"]),
    ] {
        let cells = row(browser, "#biz-rates", label);
        let expected = items(biz, outcomes);
        let shown = cells.get(4).map_or("0", String::as_str);
        assert_eq!(shown, grouped(expected), "{label} of {name}");
    }
    let limits = biz["limits"].as_array().expect("a list").iter().enumerate();
    let words: Vec<String> = limits
        .map(|(nth, limit)| format!("{}. {}", nth + 1, limit["words"].as_str().expect("words")))
        .collect();
    assert_eq!(texts(browser, "#limits th"), words);
}

fn shows_processes_and_groups(browser: &mut Browser, stats: &Value) {
    visit(browser, "processes");
    browser.wait("document.querySelectorAll('#processes tr').length > 0");
    let expected: Vec<String> = stats["workers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|worker| format!("{} {}", worker["role"].as_str().expect("a role"), worker["pid"]))
        .collect();
    assert_eq!(texts(browser, "#processes th"), expected);
    assert!(texts(browser, "#restarts")[0].contains("0 of workers"));
    let requests = texts(browser, "#requests tr");
    for expected in ["update200", "update429", "update400", "query200"] {
        let found = requests.iter().any(|row| row.starts_with(expected));
        assert!(found, "{expected} {requests:?}");
    }
    assert!(texts(browser, "#errors tr").contains(&"unknown-biz1".to_owned()));
    assert_eq!(texts(browser, "#latency .tile").len(), 5);
    for part in ["cluster", "peers"] {
        assert_eq!(browser.value(&format!("document.getElementById('nav-{part}').hidden")), true);
    }
    visit(browser, "room");
    // Shows the result of a scan of all nodes.
    browser.wait("/ 42 live,/.test(document.querySelector('[data-of=nodes]')?.textContent)");
    let figures = texts(browser, "[data-group=default] .figures div");
    let created = format!("Created{}", stats["groups"][0]["creates"]);
    assert!(figures.contains(&created), "{figures:?}");
    // The chains of each length are drawn, and described in text.
    browser.wait("!!document.querySelector('[data-group=default] canvas')");
    let told = "document.querySelector('[data-group=default] .plot').ariaLabel";
    browser.wait(&format!("/^Chains by length: \\d+ of 0, \\d+ of 1/.test({told})"));
}

fn shows_hostile_keys_as_text(browser: &mut Browser) {
    visit(browser, "biz/plenty");
    let first = "document.querySelector('#hot-keys th')";
    browser.wait(&format!("{first}?.textContent == {}", json!(SHOWN)));
    assert_eq!(browser.value(&format!("{first}.nextSibling.textContent")), "1,500");
    // The link leads to the key itself.
    browser.press("#hot-keys th a");
    browser.wait("document.querySelectorAll('#key-found tr').length == 1");
    assert_eq!(texts(browser, "#key-name"), [SHOWN]);
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.value("typeof h"), "undefined");
    // The page itself cannot either: its policy forbids it.
    let injected = browser.value(
        "(() => { try { document.body['inner' + 'HTML'] = '<b>'; return 'done' } \
         catch (e) { return e.name } })()",
    );
    assert_eq!(injected, "TypeError");
}

/// A key that is typed once is looked up in each business.
fn finds_a_key_in_all_businesses(browser: &mut Browser) {
    browser.value("document.getElementById('find-key').value = 'alice'");
    browser.press("#find button");
    let told = "document.getElementById('key-told').textContent";
    browser.wait(&format!("{told} == 'Looked in 2 of 2 businesses: 1 has a record.'"));
    let cells = row(browser, "#key-found", "three");
    assert!(cells[1].starts_with("1. interval: 3 of 3 used, limited"), "{cells:?}");
}

/// After a step back the recorded rows begin again, and nothing else changes.
fn takes_a_clock_that_steps_back(browser: &mut Browser) {
    let stepped = "(() => { past.served = false; const back = structuredClone(stats); \
                   back.server.now -= 3600000; note(back); return past.seconds.length })()";
    assert_eq!(browser.value(stepped), 0);
    browser.wait("past.seconds.length > 0");
}

// Shows: dashboard-shows.
#[test]
fn the_page_says_that_a_group_moves() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    let mut browser = open(&plane, &program);
    visit(&mut browser, "room");
    let geometry = "document.querySelector('[data-of=geometry]')?.textContent";
    browser.wait(&format!("{geometry}?.includes('nodes of 128 bytes')"));
    plane.begin_move(&server);
    let moves = "startsWith('moves to ')";
    browser.wait(&format!("{geometry}.{moves} && {geometry}.includes('nodes of 192 bytes')"));
    server.signal(Signal::SIGCONT);
    browser.wait(&format!("!{geometry}.{moves} && {geometry}.includes('nodes of 192 bytes')"));
    assert_no_complaints(&mut browser);
}

// Shows: dashboard-shows.
#[test]
fn the_page_says_what_is_down() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(2);
    let mut server = plane.start(2);
    let mut browser = open(&plane, &program);
    let alerts = "document.getElementById('alerts').textContent";
    let verdict = "document.getElementById('verdict').textContent";
    assert_eq!(browser.value(alerts), "");
    browser.wait(&format!("{verdict} == 'Healthy: 2 of 2 workers, 0 restarted since the start.'"));
    // A stopped master does not replace a worker.
    server.signal(Signal::SIGSTOP);
    kill(server.workers()[0], Signal::SIGKILL).expect("killed");
    browser.wait(&format!("{alerts}.includes('A worker is down.')"));
    assert_eq!(browser.value("document.title"), "frs: not well");
    assert!(browser.value(verdict).as_str().expect("a text").starts_with("Not well: "));
    server.signal(Signal::SIGCONT);
    browser.wait("document.getElementById('state').textContent == 'live'");
    browser.wait(&format!("{alerts} == 'Workers restarted since this page was opened: 1.'"));
    server.kill_all();
    browser.wait(&format!("{alerts}.startsWith('Cannot reach the keeper since ')"));
    assert_eq!(browser.value("document.body.className"), "stale");
    assert_eq!(browser.value("document.title"), "frs: not reached");
    drop(server);
    let _server = plane.start(2);
    browser.wait("document.title == 'frs' && document.body.className == ''");
}
