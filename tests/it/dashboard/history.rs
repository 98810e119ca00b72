//! The history, the refused keys and the changes on the page, and its messages where the server has
//! none of them.

use serde_json::json;

use super::browser::{Browser, chromium};
use super::written::{ALLOWED, REFUSED, write_day};
use super::{
    HOSTILE, SHOWN, assert_no_complaints, confirm, encoded, give_token, go, make_load, open, row,
    texts, visit, wait_for_toast,
};
use crate::common::Server;
use crate::common::plane::{Plane, TOKEN};

/// Records the page's requests.
const NOTES_CALLS: &str = "window.calls = []; { const real = fetch; window.fetch = (path, options) \
    => { calls.push(`${options?.method ?? 'GET'} ${path}`); return real(path, options); } }";

/// Opens the page with its requests recorded in `calls`.
fn open_noting(plane: &Plane, program: &std::path::Path) -> Browser {
    let mut browser = Browser::start(program);
    browser.run_first(NOTES_CALLS);
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

/// Moves a chart to its oldest row, and returns the text for it.
fn oldest(browser: &mut Browser, chart: &str) -> String {
    browser.value(&format!(
        "[...document.querySelectorAll('.plot')].find(one => one.ariaLabel == {})\
         .dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Home' }}))",
        json!(chart)
    ));
    readout(browser, chart)
}

// Shows: dashboard-shows.
#[test]
fn a_history_is_shown_for_each_range() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    write_day(&plane);
    let server = plane.start(1);
    refuse(&server);
    let mut browser = open_noting(&plane, &program);
    browser.wait("past.seconds.length >= 290");
    browser.wait("document.querySelectorAll('.plot canvas').length == 3");
    for (chart, told) in [
        ("Refused a second", format!("refused {REFUSED}errors 0")),
        ("Allowed a second", format!("allowed {ALLOWED}")),
        ("Latency", "p50 40 µsp99 300 µs".to_owned()),
    ] {
        let shown = oldest(&mut browser, chart);
        assert!(shown.starts_with(&told), "{shown}, expected {told}");
    }
    // Later looks request only new rows, and no row comes twice.
    browser.value("calls = []");
    browser.wait("calls.filter(call => /since/.test(call)).length > 2");
    let small = "calls.filter(call => /since/.test(call)).every(call => \
                 Number(/since=(\\d+)s/.exec(call)[1]) < 20)";
    assert_eq!(browser.value(small), true);
    let rising = "past.seconds.every((row, nth) => !nth || row.time > past.seconds[nth - 1].time)";
    assert_eq!(browser.value(rising), true);
    // Longer ranges have a row a minute, with values that are still per second.
    for (minutes, label) in [(15, "15 min"), (60, "1 h"), (360, "6 h"), (1440, "24 h")] {
        refuse(&server);
        browser.press(&format!("input[name=range][value='{minutes}']"));
        browser.wait(&format!("rowsInRange().rows.length >= {}", minutes - 3));
        browser.wait("past.loaded >= past.range");
        browser.wait(&format!("[...charts][0].data[0].length >= {}", minutes - 3));
        let shown = oldest(&mut browser, "Allowed a second");
        assert!(shown.starts_with(&format!("allowed {ALLOWED}")), "{label}: {shown}");
    }
    tells_since_when(&mut browser, &server);
    says_the_same_in_tiles_and_charts(&mut browser, &server);
    assert_no_complaints(&mut browser);
}

/// Makes both businesses refuse, without a long gap after the written history.
fn refuse(server: &Server<'_>) {
    make_load(server);
    server.client().get("/update?biz=plenty&key=much&count=1000001");
}

/// The page shows since when a business refuses: to the second in a short range, to the minute in a
/// long one. A business that refuses all the time shows the length of the range.
fn tells_since_when(browser: &mut Browser, server: &Server<'_>) {
    refuse(server);
    browser.wait("document.querySelectorAll('#refusing tr').length == 2");
    for (range, three, plenty) in [
        (1440, "/(^| )\\d\\d:\\d\\d:00$/", "/^over 23 h$|^over 24 h$/"),
        (5, "/(^| )\\d\\d:\\d\\d:\\d\\d$/", "/^over (5 min|4 min|\\d+ s)$/"),
    ] {
        browser.press(&format!("input[name=range][value='{range}']"));
        let since = |name: &str| {
            format!(
                "[...document.querySelectorAll('#refusing tr')].find(row => \
                 row.children[0].textContent == '{name}')?.children[3].textContent"
            )
        };
        browser.wait(&format!("{three}.test({})", since("three")));
        browser.wait(&format!("{plenty}.test({})", since("plenty")));
    }
}

/// The figures in the tiles equal the last values of the charts.
fn says_the_same_in_tiles_and_charts(browser: &mut Browser, server: &Server<'_>) {
    // A new view follows the present.
    visit(browser, "room");
    visit(browser, "");
    for _ in 0..3 {
        refuse(server);
        browser.wait("!['0', '–'].includes(document.getElementById('now-refused').textContent)");
        let same = "(() => { show(); const [refused, allowed] = [...charts].map(one => \
            one.values[0].textContent); const of = id => document.getElementById(id).textContent; \
            return of('now-refused') == refused && of('now-passed') == allowed })()";
        assert_eq!(browser.value(same), true);
        browser.value("new Promise(done => setTimeout(done, 700))");
    }
}

/// A gap in the rows is a gap in the lines, and the row after it is not a spike. A business hidden
/// among others is unknown, not zero. A business's name is never taken for a property of an object.
// Shows: dashboard-shows.
#[test]
fn rows_with_gaps_and_others_are_told_as_they_are() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let mut browser = open(&plane, &program);
    let told = browser.value(
        "(() => { past.seconds = []; const server = { now: 2e6, start: 1e6 }; \
          const row = (time, allowed, biz) => ({ time, requests: allowed, allowed, limited: 0, \
            errors: 0, biz }); \
          takeRows({ 'step-s': 1, rows: [row(1990000, 10, {}), row(1991000, 10, {}), \
            row(1997000, 60, { others: { allowed: 60, limited: 0 } }), \
            row(1998000, 10, {})] }, server, 'since=300s'); \
          const [, allowed] = columns({ rows: past.seconds, step: 1 }, \
            [{ value: perSecond('allowed') }]); \
          const of = name => past.seconds.map(ofBiz(name, 'allowed')) \
            .map(one => one ?? 'unknown'); \
          return [allowed, of('three'), of('constructor')] })()",
    );
    let three = json!([0, 0, "unknown", 0]);
    assert_eq!(told, json!([[10, 10, null, 10, 10], three, three]));
    // The first row of a new server counts from its start, not from the row before. A server that
    // restarts within a minute continues that minute's row.
    for (times, start, expected) in [
        ([0, 600_000], 650_000, [10, 60]),
        ([0, 600_000], 0, [10, 1]),
        ([540_000, 600_000], 650_000, [10, 10]),
    ] {
        let told = browser.value(&format!(
            "(() => {{ past.minutes = []; const rows = {times:?}.map(time => \
              ({{ time, allowed: 600 }})); takeRows({{ 'step-s': 60, rows }}, \
              {{ now: 660000, start: {start} }}, 'since=15m'); \
              return past.minutes.map(perSecond('allowed')) }})()"
        ));
        assert_eq!(told, json!(expected), "{times:?} {start}");
    }
    // A gap longer than the requested range, and a page that was hidden: the first row is whole.
    for (first, expected) in [(700_000, [10, 10]), (640_000, [10, 600])] {
        let told = browser.value(&format!(
            "(() => {{ past.seconds = []; const take = (time, now, path) => takeRows({{ \
              'step-s': 1, rows: [{{ time, allowed: time ? 600 : 10 }}] }}, {{ now, start: 0 }}, \
              path); take(0, 1000, 'since=3s'); take({first}, 940000, 'since=300s'); \
              return past.seconds.map(perSecond('allowed')).map(Math.round) }})()"
        ));
        assert_eq!(told, json!(expected), "{first}");
    }
    // After a clock was set back everything is requested again.
    assert_eq!(browser.value("past.served = true; statsPath(1000)"), "stats?since=300s");
    assert_no_complaints(&mut browser);
}

// Shows: dashboard-shows.
#[test]
fn who_is_refused_by_which_limit_is_shown() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    make_load(&server);
    let mut client = server.client();
    let key = encoded(HOSTILE);
    for _ in 0..25 {
        client.get(&format!("/update?biz=three&key={key}"));
    }
    let long = "k".repeat(41);
    (0..5).for_each(|_| drop(client.get(&format!("/update?biz=three&key={long}"))));
    let mut browser = open(&plane, &program);
    browser.wait("document.querySelectorAll('#refused-keys tr').length == 3");
    let cells = row(&mut browser, "#refused-keys", SHOWN);
    assert_eq!(cells[..3], [SHOWN, "three", "22"]);
    assert_eq!(row(&mut browser, "#refused-keys", "alice")[2], "7");
    // A long key is shown by its first part, which cannot be looked up, so it has no link.
    let keys = texts(&mut browser, "#refused-keys th");
    assert_eq!(keys[2], format!("{}…", &long[1..]));
    assert_eq!(browser.value("document.querySelectorAll('#refused-keys th a').length"), 2);
    // An answer for the earlier window arrives late.
    browser.value(
        "{ const real = fetch; const node = { biz: 'three', key: 'late', refused: 1, last: 1 }; \
         window.fetch = (path, ...all) => window.late || !/window=1m/.test(path) \
         ? real(path, ...all) : \
         new Promise(done => window.late = () => \
         done(new Response(JSON.stringify({ top: { nodes: [node] } })))); }",
    );
    browser.wait("!!window.late");
    browser.press("input[name=window][value='1h']");
    let late = "(async () => { late(); await new Promise(done => setTimeout(done, 20)); \
                return refusedKeys.some(one => one.key == 'late') })()";
    assert_eq!(browser.value(late), false);
    browser.wait("refusedKeys.length == 3");
    let limit = "document.querySelector('#refusing td:last-child')?.textContent";
    make_load(&server);
    browser.wait(&format!("{limit}?.startsWith('3 in 1 h')"));
    visit(&mut browser, "biz/three");
    browser.press("input[name=biz-window][value='1h']");
    browser.wait("document.querySelectorAll('#biz-refused-keys tr').length == 3");
    browser.wait("document.querySelector('#limits td:nth-of-type(2)')?.textContent == '41'");
    let limits = row(&mut browser, "#limits", "1. 3 in 1 h from the first use");
    assert_eq!(limits[2..], ["41", "100 %"], "{limits:?}");
    let head = texts(&mut browser, "#view th.num").remove(0);
    assert!(head.starts_with("Refused in the last "), "{head}");
    assert_eq!(browser.value("document.querySelectorAll('#biz-refused-keys button').length"), 4);
    browser.press("#biz-refused-keys button");
    browser.wait("document.getElementById('key').value.startsWith('<img')");
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    assert_no_complaints(&mut browser);
}

// Shows: dashboard-changes.
#[test]
fn changes_are_listed_and_taken_back() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let _server = plane.start(1);
    for max in 4..=62 {
        put_max(&plane, max);
    }
    assert!(plane.ask("POST", "/reload", "").status < 300);
    put_max(&plane, 63);
    let mut browser = open(&plane, &program);
    // Beside the figures: the latest changes, and a mark in each chart.
    browser.wait("document.querySelectorAll('#latest-changes tr').length == 5");
    let first = texts(&mut browser, "#latest-changes tr:first-child > *");
    assert_eq!(first[1..], ["admin", "business", "three", "max=\"62\" → max=\"63\""]);
    let reload = texts(&mut browser, "#latest-changes tr:nth-child(2) > *");
    let when: Vec<&str> = reload[0].split(' ').collect();
    assert!(matches!(when[..], [date, time, _] if date.len() == 10 && time.len() == 8), "{when:?}");
    assert!(reload[4].starts_with("generation ") && reload[4].contains(" → generation "));
    browser.wait("[...charts].every(one => one.marks.length == 50)");
    visit(&mut browser, "changes");
    browser.wait("document.querySelectorAll('#changes li').length == 50");
    let (newest, reload) = ("#changes li:nth-child(1)", "#changes li:nth-child(2)");
    let lines = texts(&mut browser, &format!("{newest} .diff > span"));
    let old = "policy=\"interval\" interval=\"1h\"";
    let line = |words: &str, max: u32| format!("{words} <limit {old} max=\"{max}\"/>");
    assert_eq!(lines, [line("before: −", 62), line("after: +", 63)]);
    let button = format!("document.querySelector({})", json!(format!("{reload} button")));
    assert_eq!(browser.value(&button), json!(null), "nothing to take back of a reload");
    browser.press("#older");
    browser.wait("document.querySelectorAll('#changes li').length == 61");
    browser.wait("document.getElementById('older').hidden == true");
    // The newest change is undone.
    confirm(&mut browser, &format!("{newest} button"));
    give_token(&mut browser, TOKEN);
    wait_for_toast(&mut browser, "three is what it was.");
    assert!(plane.map().contains("max=\"62\""), "{}", plane.map());
    // The undo is a change itself, and undoing it puts 63 in force.
    let undone =
        format!("document.querySelector({})?.textContent.includes('taken back')", json!(newest));
    browser.wait(&undone);
    // A change that was overwritten is not undone: the page shows the server's refusal.
    confirm(&mut browser, "#changes li:nth-child(5) button");
    wait_for_toast(&mut browser, "three has changed since");
    assert!(plane.map().contains("max=\"62\""), "{}", plane.map());
    assert_no_complaints(&mut browser);
}

/// Changes the limit of `three`.
fn put_max(plane: &Plane, max: u32) {
    let text = format!(
        "<biz id=\"2\" name=\"three\" key=\"string\">\n    \
         <limit policy=\"interval\" interval=\"1h\" max=\"{max}\"/>\n  </biz>"
    );
    let answer = plane.ask("PUT", "/biz/2", &text);
    assert!(answer.status < 300, "{answer:?}");
}

// Shows: dashboard-changes.
#[test]
fn bans_are_lifted_with_a_raised_limit_and_without() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    plane.setup.write_map(&plane.map().replace("max=\"3\"", "max=\"3\" ban=\"1h\""));
    let server = plane.start(1);
    let mut client = server.client();
    let mut ban = |key: &str| {
        client.get(&format!("/update?biz=three&key={key}&count=4"));
        assert_eq!(
            client.get(&format!("/query?biz=three&key={key}")).status,
            429,
            "{key} is banned"
        );
    };
    ban("eve");
    let mut browser = open(&plane, &program);
    visit(&mut browser, "biz/three");
    confirm(&mut browser, "#lift-bans");
    give_token(&mut browser, TOKEN);
    wait_for_toast(&mut browser, "three: no key is banned.");
    assert_eq!(server.client().get("/query?biz=three&key=eve").status, 200);
    ban("mallory");
    browser.press("#edit-biz");
    browser.wait("document.getElementById('edit').open");
    browser.value(
        "document.getElementById('limit-0-max').value = 6; \
         document.getElementById('limit-0-max').dispatchEvent(new Event('input'))",
    );
    browser.press("#edit-lift");
    browser.press("#edit-save");
    browser.wait("!document.getElementById('edit').open");
    assert!(plane.map().contains("max=\"6\" ban=\"1h\""));
    assert_eq!(server.client().get("/query?biz=three&key=mallory").status, 200);
    assert_no_complaints(&mut browser);
}

// Shows: dashboard-shows.
#[test]
fn what_a_server_does_not_have_is_said_and_the_rest_works() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    let mut browser = Browser::start(&program);
    // Acts as an older server.
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

// Shows: dashboard-shows.
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
    let latency = "[...document.querySelectorAll('.none')].at(-1).textContent";
    browser.wait(&format!("{latency} == 'The history of latency cannot be read now.'"));
    // A while later the page tries again.
    browser.value("isDenied = false; past.askAgainAt = 0");
    browser.wait("past.served === true");
    assert_no_complaints(&mut browser);
}

// Shows: dashboard-is-light.
#[test]
fn the_page_asks_once_a_second_while_it_is_seen_and_stays_small() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let mut browser = Browser::start(&program);
    browser.run_first(NOTES_CALLS);
    browser.run_first(
        "window.isHidden = false; Object.defineProperty(document, 'hidden', { get: () => isHidden });",
    );
    go(&mut browser, &plane);
    // Ten looks take nine seconds, whatever other requests there are.
    let looks = "calls.filter(call => call.startsWith('GET stats?since=')).length";
    browser.value("window.begun = performance.now(); calls = []");
    browser.wait(&format!("{looks} >= 10"));
    let took = browser.value("performance.now() - begun").as_f64().expect("a number");
    assert!(took > 8_500.0, "ten looks in {took} ms");
    // A hidden page requests nothing, even if a look was under way.
    browser.wait(
        "looking && (isHidden = true, document.dispatchEvent(new Event('visibilitychange')), true)",
    );
    browser.wait("isQuiet()");
    let quiet = "(async () => { calls = []; await new Promise(done => setTimeout(done, 2500)); \
                 return calls.length })()";
    assert_eq!(browser.value(quiet), 0);
    browser.value("isHidden = false; document.dispatchEvent(new Event('visibilitychange'))");
    browser.wait(&format!("{looks} > 0"));
    // The looks of three days.
    let days = "(() => { past.served = false; const next = structuredClone(stats); \
        for (let second = 0; second < 260000; second++) { next.server.now += 1000; \
        next.requests[0] = { command: 'query', status: '200', count: 1e9 + second }; note(next); } \
        return [past.seconds.length, past.minutes.length, past.recent.length, \
        past.looks.length] })()";
    assert_eq!(browser.value(days), json!([300, 1440, 7, 6]));
    let views = "(async () => { for (let turn = 0; turn < 20; turn++) for (const name of \
        ['', 'businesses', 'biz/three', 'room']) { location.hash = '#/' + name; \
        await new Promise(done => setTimeout(done, 20)); } return charts.size })()";
    assert_eq!(browser.value(views), 1, "the charts of views that were left are gone");
    assert_no_complaints(&mut browser);
}
