//! The dashboard in a real browser: it shows the values of /stats, its changes take effect in the
//! workers, and it reports when a process is down.

mod browser;
mod cluster;

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::common::plane::{Plane, TOKEN, ask};
use crate::common::{Answer, Client, Server, wait_until};
use browser::{Browser, chromium};

/// A key that would become an element if it were not treated as text. The files keep it unchanged.
const HOSTILE: &str = "<img src onerror=h=1>\u{202E}";
/// The key as the page shows it.
const SHOWN: &str = "<img src onerror=h=1>\\u{202e}";

fn stats(plane: &Plane) -> Value {
    let mut client = plane.client();
    let answer = ask(&mut client, "GET", "/stats", "Accept: application/json\r\n", "");
    serde_json::from_str(&answer.expect("an answer").body).expect("JSON")
}

/// Opens a browser, and waits until it shows figures.
fn open(plane: &Plane, program: &std::path::Path) -> Browser {
    let mut browser = Browser::start(program);
    browser.go(&format!("http://{}/", plane.address));
    browser.wait("document.getElementById('state')?.textContent == 'live'");
    browser
}

/// Percent-encodes every byte of a text.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// The text of an element on the card of a business.
fn shown(browser: &mut Browser, biz: &str, of: &str) -> String {
    let selector = json!(format!("[data-biz={biz:?}] [data-of={of:?}]"));
    let text = browser.value(&format!("document.querySelector({selector}).textContent"));
    text.as_str().expect("a text").to_owned()
}

fn texts(browser: &mut Browser, selector: &str) -> Vec<String> {
    let all = format!("[...document.querySelectorAll({})]", json!(selector));
    let texts = browser.value(&format!("{all}.map(one => one.textContent)"));
    serde_json::from_value(texts).expect("texts")
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

#[test]
fn the_page_shows_what_stats_tells() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(2);
    let server = plane.start(2);
    make_load(&server);
    let mut browser = open(&plane, &program);
    let stats = stats(&plane);
    assert_eq!(items(&stats["bizs"][1], &["allowed"]), 3);
    assert_eq!(items(&stats["bizs"][1], &["limited"]), 7);
    for biz in stats["bizs"].as_array().expect("a list") {
        let name = biz["name"].as_str().expect("a name");
        for (kind, outcomes) in [
            ("passed", &["allowed", "shadowed", "degraded", "listed"][..]),
            ("refused", &["limited", "banned"]),
            ("errors", &["error"]),
        ] {
            let expected = grouped(items(biz, outcomes));
            assert_eq!(shown(&mut browser, name, kind), expected, "{kind} of {name}");
        }
        let words: Vec<&str> = biz["limits"]
            .as_array()
            .expect("a list")
            .iter()
            .flat_map(|l| l["words"].as_str())
            .collect();
        assert_eq!(texts(&mut browser, &format!("[data-biz={name:?}] .limits li")), words);
    }
    assert_eq!(shown(&mut browser, "three", "errors"), "1");
    assert!(shown(&mut browser, "three", "share").contains("refused 64 % of all"));
    shows_processes_and_groups(&mut browser, &stats);
    shows_hostile_keys_as_text(&mut browser);
    takes_a_clock_that_steps_back(&mut browser);
    fits_any_screen(&mut browser);
    // The complaint comes from the page's own attempt, which was blocked.
    browser.complaints.retain(|words| !words.contains("TrustedHTML"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

fn shows_processes_and_groups(browser: &mut Browser, stats: &Value) {
    let pids = texts(browser, "#processes td:nth-child(2)");
    let expected: Vec<String> = stats["workers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|worker| worker["pid"].to_string())
        .collect();
    assert_eq!(pids, expected);
    assert!(texts(browser, "#restarts")[0].contains("0 of workers"));
    let group = &stats["groups"][0];
    let evictions = texts(browser, "[data-group=default] [data-of=evictions]");
    assert!(evictions[0].ends_with(&format!("{} created", group["creates"])), "{evictions:?}");
    let chain = group["chain"].as_u64().expect("a number") as usize;
    browser.wait(&format!(
        "document.querySelectorAll('[data-group=default] rect').length == {}",
        chain + 1
    ));
    // The result of the first look at all nodes, or of a later one.
    browser.wait("/ 42 live,/.test(document.querySelector('[data-of=nodes]').textContent)");
    let requests = texts(browser, "#requests tr");
    for expected in ["update200", "update429", "update400", "query200"] {
        let found = requests.iter().any(|row| row.starts_with(expected));
        assert!(found, "{expected} {requests:?}");
    }
    assert!(texts(browser, "#errors tr").contains(&"unknown-biz1".to_owned()));
    assert_eq!(texts(browser, "#latency .tile").len(), 5);
    assert_eq!(browser.value("document.getElementById('cluster').offsetHeight"), 0, "no cluster");
}

/// The chart starts again, and nothing else changes.
fn takes_a_clock_that_steps_back(browser: &mut Browser) {
    let stepped = "(() => { const back = structuredClone(stats); back.server.now -= 3600000; \
                   note(back); return looks.length })()";
    assert_eq!(browser.value(stepped), 1);
    browser.wait("looks.length > 1");
}

fn shows_hostile_keys_as_text(browser: &mut Browser) {
    let first = "document.querySelector('[data-biz=plenty] td.key')";
    browser.wait(&format!("!!{first} && {first}.textContent == {}", json!(SHOWN)));
    assert_eq!(browser.value(&format!("{first}.nextSibling.textContent")), "1,500");
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.value("typeof h"), "undefined");
    // Not even the page itself can: its policy forbids it.
    let injected = browser.value(
        "(() => { try { document.body['inner' + 'HTML'] = '<b>'; return 'done' } \
         catch (e) { return e.name } })()",
    );
    assert_eq!(injected, "TypeError");
}

fn fits_any_screen(browser: &mut Browser) {
    let mut backs = Vec::new();
    for scheme in ["light", "dark"] {
        for width in [320, 800, 1400] {
            browser.look_like(width, scheme);
            let wide = browser.value("document.documentElement.scrollWidth");
            assert!(wide.as_u64().expect("a number") <= u64::from(width), "{wide} of {width}");
        }
        backs.push(browser.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(backs[0], backs[1]);
    let nameless = "[...document.querySelectorAll('main button, main input')].filter(one => \
        !(one.textContent || one.ariaLabel || one.labels[0]).length && !one.labels?.length && \
        !one.ariaLabel).length";
    assert_eq!(browser.value(nameless), 0, "controls without a name");
}

/// The figures of one item in the answers on some connections, at least one of each worker.
fn answers(server: &Server<'_>, target: &str) -> Vec<Answer> {
    let mut clients: Vec<Client> = (0..16).map(|_| server.client()).collect();
    clients.iter_mut().map(|client| client.get(target)).collect()
}

fn give_token(browser: &mut Browser, token: &str) {
    browser.wait("document.getElementById('ask').open");
    browser.value(&format!("document.getElementById('ask-token').value = {}", json!(token)));
    browser.press("#ask-yes");
}

#[test]
fn what_is_changed_on_the_page_is_in_force() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(2);
    let server = plane.start(2);
    make_load(&server);
    let mut browser = open(&plane, &program);
    changes_a_limit(&mut browser, &server);
    let map = std::fs::read_to_string(plane.setup.path("conf/map.xml")).expect("readable");
    assert!(map.contains("max=\"5\"") && map.contains("max=\"1000000\""), "{map}");

    // A single key becomes fresh again, and no other.
    let key = "[data-biz=three] input";
    browser.value(&format!("document.querySelector('{key}').value = 'alice'"));
    let buttons = "[data-biz=three] .row:has(input) button";
    browser.press(&format!("{buttons}:nth-of-type(1)"));
    browser.wait("document.querySelector('[data-biz=three] pre').textContent.includes('3 of 5')");
    browser.press(&format!("{buttons}:nth-of-type(2)"));
    browser.press("#ask-yes");
    wait_until("the key is fresh", || {
        let answer = server.client().get("/query?biz=three&key=alice");
        (answer.attribute("used") == Some("0")).then_some(())
    });
    // Into shadow, and back.
    server.client().get("/update?biz=three&key=bob&count=5");
    flips(&mut browser, "To shadow", "shadow: refuses nothing");
    for answer in answers(&server, "/update?biz=three&key=bob") {
        assert_eq!((answer.status, answer.attribute("shadow")), (200, Some("true")));
    }
    flips(&mut browser, "Enforce", "");
    assert!(
        answers(&server, "/update?biz=three&key=bob").iter().all(|answer| answer.status == 429)
    );
    // The whole business.
    browser.press("[data-biz=three] > .row:last-child button:nth-of-type(3)");
    browser.press("#ask-yes");
    browser.wait("document.getElementById('toast').textContent.includes('all counters are fresh')");
    for answer in answers(&server, "/query?biz=three&key=bob") {
        assert_eq!((answer.attribute("used"), answer.attribute("max")), (Some("0"), Some("5")));
    }
    // A business that is gone leaves its counters, and no buttons.
    let map = std::fs::read_to_string(plane.setup.path("conf/map.xml")).expect("readable");
    let (rest, _) = map.split_once("<biz id=\"2\"").expect("it is the last one");
    plane.setup.write_map(&format!("{rest}</map>"));
    assert!(plane.setup.frs(&["reload"]).status.success());
    browser.wait("!!document.querySelector('[data-biz=\"2\"]')");
    assert_eq!(browser.value("document.querySelector('[data-biz=\"2\"] button')"), Value::Null);
    assert_eq!(browser.value("document.querySelector('[data-biz=three]')"), Value::Null);
    // The browser records each refusal of the server. The page itself threw nothing.
    browser.complaints.retain(|words| !words.contains("the server responded with a status of"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// Changes the limit of `three` from 3 to 5: with a fault, then with wrong tokens, then correctly.
fn changes_a_limit(browser: &mut Browser, server: &Server<'_>) {
    let text = "document.getElementById('edit-text').value";
    browser.press("[data-biz=three] > .row:last-child button:nth-of-type(1)");
    browser.wait("document.getElementById('edit').open");
    assert!(browser.value(text).as_str().expect("a text").contains("max=\"3\""));
    browser.value(&format!("{text} = {text}.replace('max=\"3\"', 'max=\"many\"')"));
    browser.press("#edit-save");
    give_token(browser, "not-the-token-0123456789");
    browser.wait("document.getElementById('ask-words').textContent == 'The token is wrong.'");
    give_token(browser, TOKEN);
    browser.wait("!document.getElementById('edit-fault').hidden");
    let fault = texts(browser, "#edit-fault").remove(0);
    assert!(fault.contains("many"), "{fault}");
    assert!(answers(server, "/query?biz=three&key=x")[0].body.contains("max=\"3\""));
    browser.value(&format!("{text} = {text}.replace('max=\"many\"', 'max=\"5\"')"));
    browser.press("#edit-save");
    browser.wait("!document.getElementById('edit').open");
    for answer in answers(server, "/query?biz=three&key=new") {
        assert_eq!(answer.attribute("max"), Some("5"));
    }
    browser.wait("/^5 in /.test(document.querySelector('[data-biz=three] .limits').textContent)");
    assert_eq!(browser.value("localStorage.length + sessionStorage.length"), 0, "no token is kept");
}

fn flips(browser: &mut Browser, label: &str, badge: &str) {
    let button = "document.querySelector('[data-biz=three] [data-of=flip]')";
    browser.wait(&format!("{button}.textContent == {} && !{button}.disabled", json!(label)));
    browser.press("[data-biz=three] [data-of=flip]");
    browser.press("#ask-yes");
    let shown = "document.querySelector('[data-biz=three] .badge').textContent";
    browser.wait(&format!("{shown} == {}", json!(badge)));
}

#[test]
fn the_page_says_that_a_group_moves() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    let mut browser = open(&plane, &program);
    let geometry = "document.querySelector('[data-of=geometry]').textContent";
    browser.wait(&format!("{geometry}.includes('nodes of 128 bytes')"));
    plane.begin_move(&server);
    let moves = "startsWith('moves to ')";
    browser.wait(&format!("{geometry}.{moves} && {geometry}.includes('nodes of 192 bytes')"));
    server.signal(Signal::SIGCONT);
    browser.wait(&format!("!{geometry}.{moves} && {geometry}.includes('nodes of 192 bytes')"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn the_page_says_what_is_down() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(2);
    let mut server = plane.start(2);
    let mut browser = open(&plane, &program);
    let alerts = "document.getElementById('alerts').textContent";
    assert_eq!(browser.value(alerts), "");
    // A stopped master does not replace a worker.
    server.signal(Signal::SIGSTOP);
    kill(server.workers()[0], Signal::SIGKILL).expect("killed");
    browser.wait(&format!("{alerts}.includes('A worker is down.')"));
    assert_eq!(browser.value("document.title"), "frs: not well");
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
