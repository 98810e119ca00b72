//! What `frs check` prints about shared limits.

use crate::tests::SIZES;
use crate::{Conf, Machine, report};

fn report_of(cluster: &str, bizs: &str) -> report::ConfReport {
    let srv = format!(
        "<srv><cluster name='prod' secret-file='s' {cluster}><node>a:1</node>\
         <node>[::1]:6379</node></cluster></srv>"
    );
    let group = "<group name='g' files='1' key-nodes='8' node-size='1024' hash='siphash'/>";
    let map = format!("<map>{group}{bizs}</map>");
    report_on(&srv, &map)
}

fn report_on(srv: &str, map: &str) -> report::ConfReport {
    let conf = Conf::parse("s", srv, "m", map).unwrap_or_else(|faults| panic!("{faults}"));
    report::report(
        &conf,
        &Machine {
            ram_bytes: None,
            filesystems: vec![],
            missing_program: None,
            shm_free_bytes: None,
        },
        &SIZES,
    )
}

/// The lines about the promises of a biz with these settings and limits.
fn promised(settings: &str, limits: &str) -> Vec<String> {
    let biz = format!("<biz id='1' name='b' key='string' {settings}>{limits}</biz>");
    let text = report_of("", &biz).text;
    let lines = text.lines().skip_while(|line| !line.starts_with("    a node needs")).skip(1);
    let lines = lines.take_while(|line| line.starts_with("    "));
    lines.map(|line| line.trim_start_matches("    ").to_owned()).collect()
}

/// The lines about the only limit of a biz.
fn of_limit(settings: &str, limit: &str) -> [String; 3] {
    let lines = promised(settings, &format!("<limit {limit}/>"));
    let [cost, lost, cut_off, ..] = lines.as_slice() else { panic!("{lines:?}") };
    [cost, lost, cut_off].map(|line| line.trim_start().to_owned())
}

const MINUTE: &str = "policy='interval' interval='1m'";

#[test]
fn a_biz_says_what_it_promises_in_each_failure() {
    let limits = "<limit policy='interval' interval='1m' max='1000'/>\
                  <limit policy='count'/><limit policy='total' max='9' on-exceed='captcha'/>";
    assert_eq!(
        promised("share='cluster' hosts='8'", limits),
        [
            "limit 1: leases of up to 62; about 94 % of the checks stay local where keys are routed",
            "  a machine lost: 0 over; missing: its unspent leases, until the window turns",
            "  cluster not reached: 125 (1,000 / 8) in each window a machine; over by at most k × 125 for k machines, up to twice that where two such windows meet",
            "limit 2: refuses nothing, so it needs no lease: counted at once, and told to the cluster each second",
            "limit 3: refuses nothing, so it needs no lease: counted at once, and told to the cluster each second",
            "what refuses nothing: a message a second for each key and machine in use; sums are right within seconds; a machine lost: its last second is not counted",
            "no lease within 20 ms: refused, 0 over",
            "a key costs a message a machine and window: those used once or twice are better off with share=\"host\"",
            "any process killed: 0 over, 0 missing",
        ]
    );
    assert_eq!(
        promised(
            "share='exact' wait='1s' on-miss='busy'",
            "<limit policy='total' max='1' ban='1m'/>"
        ),
        [
            "limit 1: each use asks the cluster: a message and a wait",
            "  a machine lost: 0 over; missing: the uses that it had just asked for, for good",
            "  cluster not reached: refused once its leases are used up; 0 over",
            "no lease within 1 s: answered busy, 0 over",
            "any process killed: 0 over, 0 missing",
            "a ban holds on the machine that refused",
        ]
    );
    assert_eq!(promised("", "<limit policy='total' max='1'/>"), [""; 0]);
    assert_eq!(
        promised("share='cluster' hosts='8'", "<limit policy='count'/>"),
        [
            "limit 1: refuses nothing, so it needs no lease: counted at once, and told to the cluster each second",
            "what refuses nothing: a message a second for each key and machine in use; sums are right within seconds; a machine lost: its last second is not counted",
        ]
    );
}

#[test]
fn modes_and_misses_are_told() {
    let limit = "<limit policy='total' max='1'/>";
    assert_eq!(promised("share='exact' mode='off'", limit), ["off: no lease is asked for"]);
    let lines = promised("share='exact' mode='shadow' on-miss='admit'", limit);
    assert_eq!(
        lines[3..],
        [
            "no lease within 20 ms: admitted and counted; over by at most 1 a machine and window, then refused",
            "any process killed: 0 over, 0 missing",
            "in shadow: leases are asked for and waited for as if it enforced",
        ]
    );
}

#[test]
fn leases_cost_by_their_max() {
    let cost = |hosts: u32, max: u64| {
        let [cost, ..] =
            of_limit(&format!("share='cluster' hosts='{hosts}'"), &format!("{MINUTE} max='{max}'"));
        cost.trim_start_matches("limit 1: ").to_owned()
    };
    let asks = "each use asks the cluster: a message and a wait";
    for (hosts, max) in [(8, 0), (8, 1), (8, 3), (1024, 4095)] {
        assert_eq!(cost(hosts, max), asks, "{hosts} {max}");
    }
    let leases = |lease: &str, local: &str| format!("leases of up to {lease}; {local}");
    let local =
        |percent| format!("about {percent} % of the checks stay local where keys are routed");
    assert_eq!(cost(8, 4), leases("2", "most uses ask the cluster"));
    assert_eq!(cost(8, 5), leases("2", &local(86)));
    assert_eq!(cost(8, 20), leases("10", &local(90)));
    assert_eq!(cost(8, 64), leases("4", &local(90)));
    assert_eq!(cost(8, 100), leases("6", &local(94)));
    assert_eq!(cost(1024, 4096), leases("2", &local(94)));
    assert_eq!(cost(1, 10_000), leases("5,000", &local(94)));
}

#[test]
fn every_policy_says_what_a_lost_machine_and_a_lost_cluster_cost() {
    for (limit, lost, cut_off) in [
        (
            "policy='calendar' unit='day' max='80'",
            "its unspent leases, until the window turns",
            "10 (80 / 8) in each window a machine; over by at most k × 10 for k machines",
        ),
        (
            "policy='total' max='80'",
            "its unspent leases, for good (share=\"exact\" loses next to none)",
            "10 (80 / 8) in all a machine; over by at most k × 10 for k machines",
        ),
        (
            "policy='sliding' interval='1m' max='80'",
            "its unspent leases, until they and the interval end",
            "10 (80 / 8) in any interval a machine; over by at most k × 10 for k machines",
        ),
        (
            "policy='sliding-counter' interval='1m' max='80'",
            "its unspent leases, until the next window ends",
            "10 (80 / 8) in each window a machine; over by at most k × 10 for k machines, up \
             to twice that where two such windows meet",
        ),
        (
            "policy='token' rate='10/s' burst='80'",
            "its unspent leases, until they end and are refilled",
            "1/8 of rate and burst a machine; over by at most k/8 of both for k machines, up \
             to twice that where two such windows meet",
        ),
    ] {
        let [_, found_lost, found_cut_off] = of_limit("share='cluster' hosts='8'", limit);
        assert_eq!(found_lost, format!("a machine lost: 0 over; missing: {lost}"));
        assert_eq!(found_cut_off, format!("cluster not reached: {cut_off}"));
    }
    let local = |limit: &str| {
        let [_, _, cut_off] = of_limit("share='cluster' hosts='8' on-down='local'", limit);
        cut_off
    };
    assert_eq!(
        local(&format!("{MINUTE} max='80'")),
        "cluster not reached: 80 in each window a machine; over by at most k × 80 for k machines, \
         up to twice that where two such windows meet"
    );
    assert_eq!(
        local("policy='token' rate='10/s'"),
        "cluster not reached: the whole rate and burst a machine; over by at most k times both \
         for k machines, up to twice that where two such windows meet"
    );
    let [_, lost, _] = of_limit("share='exact'", &format!("{MINUTE} max='80'"));
    assert_eq!(
        lost,
        "a machine lost: 0 over; missing: the uses that it had just asked for, as long as they count"
    );
}

#[test]
fn a_cluster_says_what_a_failover_costs() {
    let lines = |cluster: &str| {
        let text = report_of(cluster, "").text;
        let lines = text.lines().skip_while(|line| !line.starts_with("cluster ")).take(4);
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        lines(""),
        [
            "cluster prod: a:1, [::1]:6379",
            "  timeout 50 ms, learn 500 ms, wait-replicas 0, batch 64, max-parked 4,096 requests of each worker",
            "  a failover: no leases for it and 500 ms; 0 over if all holders claim in that time, else by grants not replicated",
            "  an old master in a minority: over: at most its grants until it steps down; wait-replicas prevents that",
        ]
    );
    let minority = |replicas| lines(&format!("wait-replicas='{replicas}'")).pop().unwrap();
    assert_eq!(
        minority(1),
        "  an old master in a minority: over: 0 where each master has 1 replica"
    );
    assert_eq!(
        minority(2),
        "  an old master in a minority: over: 0 where each master has 2 replicas"
    );
}

#[test]
fn a_learn_too_short_for_claims_is_warned_of() {
    let warnings = |settings: &str| {
        let mut warnings = report_of(settings, "").warnings;
        warnings.retain(|warning| !warning.starts_with("map.xml names no business"));
        warnings
    };
    assert_eq!(warnings("timeout='125ms'"), [""; 0]);
    assert_eq!(
        warnings("timeout='126ms'"),
        [
            "cluster \"prod\": learn is 500 ms and timeout 126 ms: after a failover leases may be claimed too late, and go over; write a learn of 504 ms or more"
        ]
    );
}

#[test]
fn more_leases_than_can_be_claimed_in_time_are_warned_of() {
    let warnings_of = |room: &str, share: &str, limits: &str| {
        let srv = "<srv><cluster name='prod' secret-file='s'><node>a:1</node></cluster></srv>";
        let map = format!(
            "<map><group name='g' {room} node-size='1024'/>\
             <biz id='1' name='b' key='digest' {share}>{limits}</biz></map>"
        );
        report_on(srv, &map).warnings
    };
    let warnings = |share: &str, limits: &str, key_nodes: u32| {
        warnings_of(&format!("files='1' key-nodes='{key_nodes}' chain='10'"), share, limits)
    };
    let (exact, one) = ("share='exact'", format!("<limit {MINUTE} max='9'/>"));
    let warning = "group \"g\" is for 100,010 leases: after the cluster was emptied a machine claims about 100,000 of them in the ten seconds that a master waits, the largest first, and the uses of the others may be granted once more";
    assert_eq!(warnings(exact, &one, 10_001), [warning]);
    assert_eq!(warnings(exact, &one, 10_000), [""; 0]);
    let two = one.clone() + "<limit policy='total' max='9'/><limit policy='count'/>";
    assert_eq!(warnings(exact, &two, 10_000).len(), 1, "two for each key");
    assert_eq!(warnings(exact, "<limit policy='count'/>", 10_001), [""; 0]);
    assert_eq!(warnings("", &one, 10_001), [""; 0]);
    // A group sized by keys has more places than that.
    assert_eq!(warnings_of("keys='100000'", exact, &one), [""; 0]);
    assert_eq!(warnings_of("keys='100001'", exact, &one).len(), 1);
}

#[test]
fn a_part_of_nothing_is_warned_of() {
    let warnings = |settings: &str, content: &str| {
        let biz = format!("<biz id='1' name='b' key='string' {settings}>{content}</biz>");
        report_of("", &biz).warnings
    };
    let limit = |max: u64| format!("<limit {MINUTE} max='{max}'/>");
    let warning = |what: &str| {
        format!(
            "biz 1 \"b\": {what} / hosts 8 is 0: a machine that cannot reach the cluster admits \
             nothing; write on-down=\"refuse\" to say so, or \"local\""
        )
    };
    let cluster = "share='cluster' hosts='8'";
    assert_eq!(warnings(cluster, &limit(7)), [warning("limit 1: max 7")]);
    assert_eq!(warnings("share='exact' on-down='share' hosts='8'", &limit(7)).len(), 1);
    let both = limit(8) + "<override key='a' limit='1' max='1'/><deny key='b'/>";
    assert_eq!(warnings(cluster, &both), [warning("an override of limit 1: max 1")]);
    for (settings, content) in [
        (cluster, limit(8)),
        (cluster, limit(0)),
        (cluster, "<limit policy='total' max='1' on-exceed='w'/>".to_owned()),
        ("share='cluster' hosts='8' on-down='refuse'", limit(7)),
        ("share='cluster' hosts='8' on-down='local'", limit(7)),
        ("share='exact'", limit(7)),
        ("", limit(7)),
    ] {
        assert_eq!(warnings(settings, &content), [""; 0], "{settings} {content}");
    }
}
