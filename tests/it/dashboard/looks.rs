//! The layout of the page: on any screen, in light and dark, with 200 businesses, and with no
//! figures at all.

use std::fmt::Write;

use serde_json::{Value, json};

use super::browser::{Browser, chromium};
use super::{VIEWS, assert_no_complaints, make_load, open, row, texts, visit};
use crate::common::plane::Plane;

/// Checks that nothing is wider than the window, and that the schemes differ.
#[track_caller]
pub fn fits_any_screen(browser: &mut Browser) {
    let mut backs = Vec::new();
    for scheme in ["light", "dark"] {
        for width in [320, 390, 800, 1400] {
            browser.look_like(width, scheme);
            let wide = browser.value("document.documentElement.scrollWidth");
            let view = browser.value("location.hash");
            assert!(wide.as_u64() <= Some(u64::from(width)), "{view}: {wide} of {width}");
        }
        backs.push(browser.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(backs[0], backs[1]);
    let nameless = "[...document.querySelectorAll('main button, main input, main select')]\
        .filter(one => !one.textContent && !one.ariaLabel && !one.labels?.[0]?.textContent.trim())\
        .length";
    assert_eq!(browser.value(nameless), 0, "controls without a name");
}

// Shows: dashboard-for-all.
#[test]
fn every_view_fits_any_screen() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    let server = plane.start(1);
    make_load(&server);
    let mut browser = open(&plane, &program);
    browser.wait("document.querySelectorAll('#refused-keys tr').length > 0");
    for view in VIEWS {
        visit(&mut browser, view);
        fits_any_screen(&mut browser);
    }
    visit(&mut browser, "biz/three");
    browser.press("#edit-biz");
    browser.wait("document.getElementById('edit').open");
    for width in [320, 390, 1400] {
        browser.look_like(width, "dark");
        let inside = "(() => { const edit = document.getElementById('edit'); \
                      return edit.scrollWidth <= edit.clientWidth })()";
        assert_eq!(browser.value(inside), true, "the dialog at {width}");
    }
    // The colors of the charts follow the scheme.
    browser.press("#edit-close");
    browser.wait("[...charts].filter(one => one.plot).length > 1");
    let stroke = "[...charts][0].plot.series[1].stroke()";
    let dark = browser.value(stroke);
    browser.look_like(1400, "light");
    browser.wait(&format!("{stroke} != {dark}"));
    assert_no_complaints(&mut browser);
}

/// A map of this many businesses.
fn map_of(bizs: usize) -> String {
    let mut map = String::from("<map><group name=\"default\" keys=\"1000\"/>\n");
    for nth in 1..=bizs {
        let limit = "<limit policy=\"interval\" interval=\"1h\" max=\"2\"/>";
        let _ =
            writeln!(map, "<biz id=\"{nth}\" name=\"biz-{nth:03}\" key=\"string\">{limit}</biz>");
    }
    map + "</map>\n"
}

// Shows: dashboard-for-all.
#[test]
fn two_hundred_businesses_are_sorted_filtered_and_searched() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    plane.setup.write_map(&map_of(200));
    let server = plane.start(1);
    let mut client = server.client();
    for (biz, uses) in [(7, 9), (120, 5), (199, 3)] {
        (0..uses).for_each(|_| drop(client.get(&format!("/update?biz={biz}&key=eve"))));
    }
    let mut browser = open(&plane, &program);
    visit(&mut browser, "businesses");
    browser.wait("document.querySelectorAll('#bizs tr').length == 200");
    assert_eq!(texts(&mut browser, "#bizs-count"), ["200 businesses"]);
    let sort = |nth: usize| format!("thead th:nth-child({nth}) .sort");
    browser.press(&sort(7));
    browser.wait("document.querySelector('#bizs th').textContent == 'biz-007'");
    let first: Vec<String> = texts(&mut browser, "#bizs th")[..3].to_vec();
    assert_eq!(first, ["biz-007", "biz-120", "biz-199"]);
    assert_eq!(row(&mut browser, "#bizs", "biz-007")[6], "7");
    browser.press(&sort(1));
    assert_eq!(texts(&mut browser, "#bizs th")[199], "biz-200");
    browser.press(&sort(1));
    assert_eq!(texts(&mut browser, "#bizs th")[0], "biz-200");
    // A focused row keeps its place while the figures change.
    browser.press(&sort(2));
    browser.value("document.querySelector('#bizs tr:nth-child(9) a').focus()");
    let focused = browser.value("document.activeElement.textContent");
    browser.wait("(window.turns = (window.turns ?? 0) + 1) > 30");
    assert_eq!(browser.value("document.activeElement.textContent"), focused);
    browser.value(
        "document.getElementById('filter').value = '-12'; \
         document.getElementById('filter').dispatchEvent(new Event('input'))",
    );
    assert_eq!(texts(&mut browser, "#bizs tr").len(), 10);
    browser.value("document.getElementById('filter').value = '199'; view.show(true)");
    assert_eq!(texts(&mut browser, "#bizs th"), ["biz-199"]);
    // Rendering all businesses is quick, so the page stays usable.
    browser.value("document.getElementById('filter').value = ''");
    let took = "(() => { const begun = performance.now(); for (let turn = 0; turn < 10; turn++) \
                show(); return (performance.now() - begun) / 10 })()";
    let took = browser.value(took).as_f64().expect("a number");
    assert!(took < 250.0, "{took} ms for a look");
    searches_with_bounds(&mut browser);
    assert_no_complaints(&mut browser);
}

/// A search asks all businesses for the key, four at a time.
fn searches_with_bounds(browser: &mut Browser) {
    browser.value(
        "{ const real = fetch; window.most = window.open_ = 0; window.fetch = async (...all) => { \
         if (!String(all[0]).startsWith('node')) return real(...all); \
         most = Math.max(most, ++open_); try { return await real(...all); } finally { open_--; } } }",
    );
    visit(browser, "key/eve");
    let told = "document.getElementById('key-told').textContent";
    browser.wait(&format!("{told} == 'Looked in 200 of 200 businesses: 3 have a record.'"));
    let mut names = texts(browser, "#key-found th");
    names.sort();
    assert_eq!(names, ["biz-007", "biz-120", "biz-199"]);
    let most = browser.value("most").as_u64().expect("a number");
    assert!((1..=4).contains(&most), "{most} at once");
}

// Shows: dashboard-shows.
#[test]
fn without_figures_the_page_says_so() {
    let Some(program) = chromium() else { return };
    let plane = Plane::new(1);
    plane.setup.write_map("<map><group name=\"default\" keys=\"1000\"/></map>\n");
    let _server = plane.start(1);
    let mut browser = open(&plane, &program);
    browser.wait(
        "document.getElementById('no-refusing').textContent == \
                  'Nothing was refused in the last minute.'",
    );
    assert_eq!(texts(&mut browser, "#now-share"), ["–"]);
    for view in ["", "businesses", "biz/nobody", "key/nobody", "changes", "room", "processes"] {
        visit(&mut browser, view);
        browser.wait("!!stats");
        fits_any_screen(&mut browser);
    }
    visit(&mut browser, "biz/nobody");
    browser.wait("!document.getElementById('biz-gone').hidden");
    assert_eq!(browser.value("document.getElementById('biz-actions').hidden"), true);
    visit(&mut browser, "key/nobody");
    let told = "document.getElementById('key-told').textContent";
    browser.wait(&format!("{told} == 'Looked in 0 of 0 businesses: 0 have a record.'"));
    // An invalid address leads to the first view.
    for address in ["%zz/../x", "__proto__", "constructor/x", "toString"] {
        visit(&mut browser, "businesses");
        browser.wait("view.name == 'businesses'");
        browser.value(&format!("location.hash = '#/{address}'"));
        browser.wait("view.name == 'overview'");
        assert_eq!(browser.value("document.querySelector('h1').textContent"), json!("Overview"));
    }
    assert_ne!(browser.value("document.title"), Value::Null);
    assert_no_complaints(&mut browser);
}
