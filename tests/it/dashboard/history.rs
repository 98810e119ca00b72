//! What the page shows of a server that keeps a history, counts refused keys and logs changes, and
//! what it says of one that does not. [`STUB`] answers for such a server.

use serde_json::json;

use super::browser::{Browser, chromium};
use super::{SHOWN, assert_no_complaints, go, make_load, row, texts, visit};
use crate::common::plane::{Plane, TOKEN};

/// Answers what the server of the test does not.
pub const STUB: &str = include_str!("stub.js");

/// Opens the page of a server with all of it.
pub fn open_stubbed(plane: &Plane, program: &std::path::Path) -> Browser {
    let mut browser = Browser::start(program);
    browser.run_first(STUB);
    go(&mut browser, plane);
    browser
}

/// The text above a chart, by its name.
fn readout(browser: &mut Browser, chart: &str) -> String {
    let charts = "[...document.querySelectorAll('.chart')]";
    let found = format!(
        "{charts}.find(one => one.querySelector('strong').textContent == {})",
        json!(chart)
    );
    let text = browser.value(&format!("{found}.querySelector('.readout').textContent"));
    text.as_str().expect("a text").to_owned()
}

#[test]
fn a_history_is_shown_for_each_range() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    make_load(&server);
    let mut browser = open_stubbed(&plane, &program);
    browser.wait("past.seconds.length >= 299");
    browser.wait("document.querySelectorAll('.plot canvas').length == 3");
    assert_eq!(readout(&mut browser, "Refused a second"), "refused 5errors 0now");
    assert_eq!(readout(&mut browser, "Allowed a second"), "allowed 10now");
    assert_eq!(readout(&mut browser, "Latency"), "p50 40 µsp99 300 µsnow");
    assert_eq!(texts(&mut browser, "#now-p99"), ["300 µs"]);
    assert_eq!(texts(&mut browser, "#now-p99-note"), ["now"]);
    // Later looks ask for what is new only, and no row comes twice.
    browser.value("stub.calls = []");
    browser.wait("stub.calls.filter(call => /since/.test(call)).length > 2");
    let small = "stub.calls.filter(call => /since/.test(call)).every(call => \
                 Number(/since=(\\d+)s/.exec(call)[1]) < 20)";
    assert_eq!(browser.value(small), true);
    let rising =
        "past.seconds.every((row, nth) => !nth || row.time == past.seconds[nth - 1].time + 1000)";
    assert_eq!(browser.value(rising), true);
    // Longer ranges are by minute, and values are still those of a second.
    for (minutes, label) in [(15, "15 min"), (60, "1 h"), (360, "6 h"), (1440, "24 h")] {
        browser.press(&format!("input[name=range][value='{minutes}']"));
        browser.wait(&format!("past.minutes.length >= {}", minutes - 2));
        browser.wait(&format!("rowsInRange().rows.length >= {}", minutes - 2));
        browser.wait("past.loaded >= past.range");
        assert_eq!(readout(&mut browser, "Allowed a second"), "allowed 10now", "{label}");
    }
    // Since when: of the last minute by second, of ten minutes by minute.
    make_load(&server);
    let since = "document.querySelector('#refusing td:nth-of-type(3)')?.textContent";
    browser.press("input[name=range][value='1440']");
    browser.wait(&format!("/^\\d\\d:\\d\\d:00$/.test({since})"));
    browser.press("input[name=range][value='5']");
    browser.wait(&format!("/^\\d\\d:\\d\\d:\\d\\d$/.test({since})"));
    // Between two looks, so that the next one asks for all.
    browser.wait("!looking && (stub.refusedFor[1] = Infinity, past.seconds = [], true)");
    browser.wait(&format!("{since} == 'over 5 min'"));
    assert_eq!(texts(&mut browser, "#refusing th"), ["three"]);
    assert_no_complaints(&mut browser);
}

#[test]
fn who_is_refused_by_which_limit_is_shown() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    make_load(&server);
    let mut browser = open_stubbed(&plane, &program);
    browser.wait("document.querySelectorAll('#refused-keys tr').length == 2");
    let cells = row(&mut browser, "#refused-keys", SHOWN);
    assert_eq!(cells[..3], [SHOWN, "three", "1,200"]);
    assert_eq!(row(&mut browser, "#refused-keys", "mallory")[2], "90 (± 3)");
    browser.press("input[name=window][value='1h']");
    browser.wait("document.getElementById('refused-keys').textContent.includes('of an hour')");
    let limit = "document.querySelector('#refusing td:last-child')?.textContent";
    make_load(&server);
    browser.wait(&format!("{limit}?.startsWith('3 in 1 h')"));
    visit(&mut browser, "biz/three");
    browser.wait("document.querySelectorAll('#biz-refused-keys tr').length == 2");
    let limits = row(&mut browser, "#limits", "1. 3 in 1 h from the first use");
    assert_eq!(limits[2..], ["17", "100 %"], "{limits:?}");
    browser.press("#biz-refused-keys button");
    browser.wait("document.getElementById('key').value.startsWith('<img')");
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    assert_no_complaints(&mut browser);
}

#[test]
fn changes_are_listed_and_taken_back() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let mut browser = open_stubbed(&plane, &program);
    // Beside the figures: the latest ones, and a mark in each chart.
    browser.wait("document.querySelectorAll('#latest-changes tr').length == 5");
    let first = texts(&mut browser, "#latest-changes tr:first-child > *");
    assert_eq!(first[1..], ["alice", "business", "three", "max=\"60\" → max=\"61\""]);
    browser.wait("[...charts].every(one => one.marks.length == 50)");
    visit(&mut browser, "changes");
    browser.wait("document.querySelectorAll('#changes li').length == 50");
    let lines = texts(&mut browser, "[data-change='60'] .diff > span");
    assert_eq!(lines, ["before: − <limit max=\"60\"/>", "after: + <limit max=\"61\"/>"]);
    assert_eq!(browser.value("document.querySelector('[data-change=\"59\"] button')"), json!(null));
    browser.press("#older");
    browser.wait("document.querySelectorAll('#changes li').length == 60");
    assert_eq!(browser.value("document.getElementById('older').hidden"), true);
    // The newest is taken back; of an older one the server's refusal is shown.
    let toast = "document.getElementById('toast').textContent";
    for (id, told) in [(60, "three is what it was."), (58, "three has changed since")] {
        browser.press(&format!("[data-change='{id}'] button"));
        browser.wait("document.getElementById('ask').open");
        browser.press("#ask-yes");
        browser.wait(&format!("{toast}.startsWith({})", json!(told)));
        let call = format!("stub.calls.includes('POST /changes/{id}/undo')");
        assert_eq!(browser.value(&call), true);
    }
    assert_no_complaints(&mut browser);
}

#[test]
fn bans_are_lifted_with_a_raised_limit_and_without() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    plane.setup.write_map(&plane.map().replace("max=\"3\"", "max=\"3\" ban=\"1h\""));
    let _server = plane.start(1);
    let mut browser = open_stubbed(&plane, &program);
    visit(&mut browser, "biz/three");
    browser.press("#lift-bans");
    browser.press("#ask-yes");
    browser.wait("document.getElementById('ask-token-row').hidden == false");
    browser.value(&format!("document.getElementById('ask-token').value = {}", json!(TOKEN)));
    browser.press("#ask-yes");
    let toast = "document.getElementById('toast').textContent";
    browser.wait(&format!("{toast} == 'three: no key is banned.'"));
    let lifted = "stub.calls.filter(call => call == 'PUT /biz/2?lift-bans=true').length";
    // The first one was without the token.
    assert_eq!(browser.value(lifted), 2);
    browser.press("#edit-biz");
    browser.wait("document.getElementById('edit').open");
    browser.value(
        "document.getElementById('limit-0-max').value = 6; \
         document.getElementById('limit-0-max').dispatchEvent(new Event('input'))",
    );
    browser.press("#edit-lift");
    browser.press("#edit-save");
    browser.wait("!document.getElementById('edit').open");
    assert_eq!(browser.value(lifted), 3);
    assert!(plane.map().contains("max=\"6\" ban=\"1h\""));
    assert_no_complaints(&mut browser);
}

#[test]
fn what_a_server_does_not_have_is_said_and_the_rest_works() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    let mut browser = Browser::start(&program);
    // An older server, whatever this one has.
    browser.run_first(
        "{ const real = fetch; window.fetch = (path, options) => real(/since=|by=refused|^changes/\
         .test(path) ? path.replace(/^\\w+.*/, 'stats?no-such-parameter=1') : path, options); }",
    );
    go(&mut browser, &plane);
    make_load(&server);
    browser.wait("past.seconds.length > 2");
    for (id, told) in [
        ("no-refused-keys", "Not available: this server does not count refused keys."),
        ("no-changes", "Not available: this server keeps no log of changes."),
    ] {
        browser.wait(&format!("document.getElementById('{id}').textContent == {}", json!(told)));
    }
    let latency = "[...document.querySelectorAll('.none')].at(-1).textContent";
    let told = "Not available: this server keeps no history of latency.";
    assert_eq!(browser.value(latency), told);
    assert_eq!(texts(&mut browser, "#now-p99-note"), ["since the start"]);
    browser.wait("document.querySelectorAll('.plot canvas').length == 2");
    visit(&mut browser, "changes");
    browser.wait("document.getElementById('changes-told').textContent.startsWith('Not available')");
    visit(&mut browser, "biz/three");
    browser.wait("document.querySelectorAll('#hot-keys tr').length > 0");
    let refused = "document.getElementById('no-biz-refused').textContent";
    browser.wait(&format!("{refused}.startsWith('Not available')"));
    assert_no_complaints(&mut browser);
}

#[test]
fn while_the_history_cannot_be_read_the_figures_go_on() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    let mut browser = Browser::start(&program);
    browser.run_first(
        "{ const real = fetch; window.isDenied = true; window.fetch = async (path, options) => \
         isDenied && /since=/.test(path) ? new Response('{}', { status: 503 }) \
         : real(path, options); }",
    );
    go(&mut browser, &plane);
    make_load(&server);
    browser.wait("past.served === false && past.seconds.length > 2");
    browser.wait("document.querySelectorAll('.plot canvas').length == 2");
    // A minute later it is asked again.
    browser.value("isDenied = false; past.deniedAt -= ASK_AGAIN_MS; 0");
    browser.wait("past.served === true");
    assert_no_complaints(&mut browser);
}

#[test]
fn the_page_asks_once_a_second_while_it_is_seen_and_stays_small() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let mut browser = Browser::start(&program);
    browser.run_first(STUB);
    browser.run_first(
        "window.isHidden = false; Object.defineProperty(document, 'hidden', { get: () => isHidden });",
    );
    go(&mut browser, &plane);
    // Ten looks take nine seconds, whatever else is asked.
    let looks = "stub.calls.filter(call => call.startsWith('GET /stats?since=')).length";
    browser.value("window.begun = performance.now(); stub.calls = []");
    browser.wait(&format!("{looks} >= 10"));
    let took = browser.value("performance.now() - begun").as_f64().expect("a number");
    assert!(took > 8_500.0, "ten looks in {took} ms");
    // Hidden, it asks nothing, also if it was asking then.
    browser.wait(
        "looking && (isHidden = true, document.dispatchEvent(new Event('visibilitychange')), true)",
    );
    browser.wait("!looking");
    let quiet = "(async () => { stub.calls = []; await new Promise(done => setTimeout(done, 2500)); \
                 return stub.calls.length })()";
    assert_eq!(browser.value(quiet), 0);
    browser.value("isHidden = false; document.dispatchEvent(new Event('visibilitychange'))");
    browser.wait(&format!("{looks} > 0"));
    // Three days of looks.
    let days = "(() => { past.served = false; const next = structuredClone(stats); \
        for (let second = 0; second < 260000; second++) { next.server.now += 1000; \
        next.requests[0] = { command: 'query', status: '200', count: 1e9 + second }; note(next); } \
        return [past.seconds.length, past.minutes.length, past.recent.length] })()";
    assert_eq!(browser.value(days), json!([300, 1440, 7]));
    let views = "(async () => { for (let turn = 0; turn < 20; turn++) for (const name of \
        ['', 'businesses', 'biz/three', 'room']) { location.hash = '#/' + name; \
        await new Promise(done => setTimeout(done, 20)); } return charts.size })()";
    assert_eq!(browser.value(views), 1, "the charts of views that were left are gone");
    assert_no_complaints(&mut browser);
}
