//! The dashboard of a machine that shares limits: the cluster's nodes, the share of local answers,
//! the waits, and a key's lease.

use serde_json::{Value, json};

use super::browser::{Browser, chromium};
use super::looks::fits_any_screen;
use super::{assert_no_complaints, grouped, open, texts, visit};
use crate::cluster::hosts::{self, Shared};
use crate::cluster::nodes::{MASTERS, Nodes};
use crate::common::Client;
use crate::common::plane::Plane;
use crate::common::wait_until;

/// A figure in the section of the cluster.
fn figure(browser: &mut Browser, id: &str) -> String {
    texts(browser, &format!("main #{id}")).remove(0)
}

/// The rows of the nodes: address and state.
fn nodes_shown(browser: &mut Browser) -> Vec<String> {
    let mut rows = texts(browser, "#nodes tr");
    rows.sort();
    rows
}

/// The cluster in /stats.
fn cluster(plane: &Plane) -> Value {
    plane.json("/stats")["cluster"].clone()
}

// Shows: dashboard-shows.
#[test]
fn the_page_shows_a_cluster_where_there_is_one() {
    let Some(program) = chromium() else { return };
    let Some(mut nodes) = Nodes::start() else { return };
    let limit = "policy=\"interval\" interval=\"1h\" max=\"1000\"";
    let biz = "share=\"cluster\" hosts=\"2\" wait=\"300ms\"";
    let map = hosts::map(&[Shared::new(biz, limit)]);
    let arguments = "timeout=\"300ms\" learn=\"300ms\"";
    let plane = hosts::plane(&nodes.seeds(), arguments, &map);
    let server = plane.start(2);
    let mut client = server.client();
    wait_until("the masters grant", || {
        (client.get("/update?biz=b0&key=alice&count=5").status == 200).then_some(())
    });
    let more = (0..99).filter(|_| client.get("/update?biz=b0&key=alice").status == 200).count();
    let mut browser = open(&plane, &program);
    browser.wait("!document.getElementById('nav-cluster').hidden");
    visit(&mut browser, "cluster");
    let up = |i| format!("{}up", nodes.node(i));
    let mut expected: Vec<String> = (0..MASTERS).map(up).collect();
    expected.sort();
    browser.wait(&format!("document.querySelectorAll('#nodes td.up').length == {MASTERS}"));
    assert_eq!(nodes_shown(&mut browser), expected);
    // A wait is counted at once. The courier publishes its figures each second.
    let told = wait_until("the courier has told", || {
        Some(cluster(&plane)).filter(|told| told["leases"]["grants"].as_u64() > Some(0))
    });
    let waits = &told["waits"];
    for name in ["answered", "missed", "unreachable"] {
        let shown = format!("document.getElementById('waits-{name}').textContent");
        browser.wait(&format!("{shown} == '{}'", waits[name]));
    }
    assert_eq!(figure(&mut browser, "waits-now"), "0");
    let asked: u64 = ["answered", "missed", "unreachable"]
        .iter()
        .map(|name| waits[name].as_u64().expect("a number"))
        .sum();
    let items = told["items"].as_u64().expect("a number");
    assert!(items >= 100 && (1..items).contains(&asked), "{told}");
    let local = figure(&mut browser, "shared-local");
    let percent: f64 = local.strip_suffix(" %").expect("a share").parse().expect("a number");
    let expected = 100.0 * (items - asked) as f64 / items as f64;
    assert!((percent - expected).abs() <= 0.5, "{local} of {told}");
    shows_a_lease(&mut browser, &mut client, 5 + more);
    visit(&mut browser, "cluster");
    // The uses of an idle key are returned after a while.
    browser.wait("Number(document.getElementById('lease-returns').textContent) > 0");
    assert_eq!(figure(&mut browser, "lease-recalls"), "0");
    fits_any_screen(&mut browser);
    tells_colors_apart(&mut browser);
    shows_what_is_down(&mut browser, &plane, &mut nodes);
    assert_no_complaints(&mut browser);
}

/// A looked-up key shows its allowance here, and the uses last known to be left elsewhere. An idle
/// lease is returned, so the key is used before each look.
fn shows_a_lease(browser: &mut Browser, client: &mut Client, mut used: usize) {
    visit(browser, "biz/b0");
    browser.value("document.getElementById('key').value = 'alice'");
    let said = "document.getElementById('key-said')";
    let expected = format!(
        "/here: \\d+ of \\d+ allowed used, ends in \\d+ min\\n +elsewhere: \\d+ left, heard \\d+ m?s ago/\
         .test({said}.textContent)"
    );
    wait_until("a lease on the page", || {
        used += usize::from(client.get("/update?biz=b0&key=alice").status == 200);
        browser.press("#key-show");
        browser.value(&format!("showKey(bizNamed('b0'), 'alice', {said})"));
        (browser.value(&expected) == json!(true)).then_some(())
    });
    let shown = browser.value(&format!("{said}.textContent"));
    let shown = shown.as_str().expect("a text");
    assert!(shown.contains(&format!("{} of 1,000 used", grouped(used as u64))), "{used}: {shown}");
}

/// The states of nodes are words, with marks that show in light and dark.
fn tells_colors_apart(browser: &mut Browser) {
    let mut marks = Vec::new();
    for scheme in ["light", "dark"] {
        browser.look_like(1400, scheme);
        let mark = "getComputedStyle(document.querySelector('#nodes td.up'), '::before')";
        marks.push(browser.value(&format!("{mark}.color")));
        assert!(browser.value(&format!("{mark}.content")).as_str().expect("a text").contains('●'));
    }
    assert_ne!(marks[0], marks[1]);
}

fn shows_what_is_down(browser: &mut Browser, plane: &Plane, nodes: &mut Nodes) {
    (0..2 * MASTERS).for_each(|i| nodes.kill(i));
    let down = format!("document.querySelectorAll('#nodes td.down').length == {MASTERS}");
    browser.wait(&down);
    browser.wait("document.title == 'frs: not well'");
    let alerts = "document.getElementById('alerts').textContent";
    browser.wait(&format!("{alerts}.includes('cluster: no node answers')"));
    assert_eq!(cluster(plane)["nodes"].as_array().expect("a list").len(), MASTERS);
    // Without a courier the nodes are unknown.
    let gone = "(() => { stats.cluster.nodes = []; stats.cluster.courier = false; view.show(); \
                return document.getElementById('no-nodes').textContent })()";
    assert_eq!(browser.value(gone), json!("The courier is not there."));
}
