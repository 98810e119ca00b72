//! Groups whose records the cluster keeps: map.xml, and the lines of `frs check`.

use super::{SIZES, faults, good, parse};
use crate::{Machine, report};

const SRV: &str = "<srv><cluster name='c' secret-file='s'><node>a:1</node></cluster></srv>";

/// A map of one group and one biz with these settings.
fn map(group: &str, biz: &str, limits: &str) -> String {
    format!(
        "<map>\n<group name='g' files='1' key-nodes='8' node-size='1024' {group}/>\n\
         <biz id='1' name='b' key='string' {biz}>{limits}</biz></map>"
    )
}

const LIMIT: &str = "<limit policy='interval' interval='1m' max='9'/>";

#[test]
fn a_pause_between_rounds_is_taken() {
    let of = |group: &str| good(SRV, &map(group, "", LIMIT)).map.groups[0].backup_ms;
    assert_eq!(of(""), None);
    assert_eq!(["1s", "10s", "1h"].map(|pause| of(&format!("backup='{pause}'"))), {
        [Some(1000), Some(10_000), Some(3_600_000)]
    });
}

#[test]
fn faults_are_named() {
    for pause in ["999ms", "2h", "", "often"] {
        let map = map(&format!("backup='{pause}'"), "", LIMIT);
        let at = format!(
            "map.xml:2:66: found backup=\"{pause}\", expected a duration from 1s to 1h, such as \
             250ms, 60s, 15m, 24h or 7d"
        );
        faults(parse(SRV, &map), &[&at]);
    }
    let expected =
        "map.xml:2:66: found backup=\"10s\", expected a <cluster> in srv.xml, or no backup";
    faults(parse("<srv/>", &map("backup='10s'", "", LIMIT)), &[expected]);
    let expected =
        "map.xml:2:65: found spill=\"true\", expected a <cluster> in srv.xml, or no spill";
    faults(parse("<srv/>", &map("spill='true'", "", LIMIT)), &[expected]);
    good("<srv/>", &map("spill='false'", "", LIMIT));
    let expected = "map.xml:2:65: found spill=\"yes\", expected one of true, false";
    faults(parse(SRV, &map("spill='yes'", "", LIMIT)), &[expected]);
    let shared = map("spill='true'", "share='cluster' hosts='2'", LIMIT);
    let expected = "map.xml:3:42: found share=\"cluster\" in the group \"g\" with spill=\"true\", \
                    expected another group, or share=\"host\"";
    faults(parse(SRV, &shared), &[expected]);
    good(SRV, &map("spill='true'", "share='host'", LIMIT));
}

#[test]
fn holds_stay_on_their_machine_and_ids_of_retries_need_not() {
    const WHY: &str =
        "expected another group: holds are not shared over machines yet; route by key";
    let limit = LIMIT.replace("interval'", "interval' ");
    for (group, with) in [("backup='10s'", "backup"), ("spill='true'", "spill=\"true\"")] {
        let holding = map(group, "holds='4'", &limit);
        let expected =
            format!("map.xml:3:42: found holds=\"4\" in the group \"g\" with {with}, {WHY}");
        faults(parse(SRV, &holding), &[&expected]);
        let places = map(group, "", &format!("{limit}<limit policy='concurrent' max='4'/>"));
        let found = parse(SRV, &places).unwrap_err().to_string();
        let expected = format!("policy=\"concurrent\" in the group \"g\" with {with}, {WHY}");
        assert!(found.ends_with(&expected), "{found}");
        good(SRV, &map(group, "once='4'", &limit));
    }
    good(SRV, &map("spill='false'", "holds='4'", &limit));
}

#[test]
fn only_what_one_machine_counts_for_its_keys_is_kept() {
    let keeps = |group: &str, biz: &str, limits: &str| {
        let map = good(SRV, &map(group, biz, limits)).map;
        map.groups[0].keeps(&map.bizs[0])
    };
    let backup = "backup='10s'";
    assert!(keeps(backup, "", LIMIT));
    assert!(keeps(backup, "mode='shadow'", LIMIT));
    assert!(keeps("spill='true'", "", LIMIT));
    assert!(!keeps("", "", LIMIT) && !keeps("spill='false'", "", LIMIT));
    assert!(!keeps(backup, "share='cluster' hosts='2'", LIMIT));
    assert!(!keeps(backup, "mode='off'", LIMIT));
    assert!(!keeps(backup, "", &LIMIT.replace("policy", "scope='biz' policy")));
}

#[test]
fn check_says_what_is_promised_and_what_it_costs() {
    let said = |group: &str, limits: &str| {
        let conf = good(SRV, &map(group, "", limits));
        let machine = Machine {
            ram_bytes: None,
            filesystems: vec![],
            missing_program: None,
            shm_free_bytes: None,
        };
        report::report(&conf, &machine, &SIZES).text
    };
    let text = said("backup='10s'", LIMIT);
    for line in [
        "  backup each 10 s: the courier remembers what it has sent in 1,792 bytes",
        "    kept in the cluster each 10 s: a machine lost: over by at most the uses since its last \
         round",
        "    a key without a record here asks the cluster for it, once; where the cluster does not \
         answer it starts fresh",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let spills = said("spill='true'", LIMIT);
    for line in [
        "  spill: where a chain is full, the record used least lately goes to the cluster, and its \
         item waits for that",
        "  spill: where the cluster does not answer, a record that refuses nothing is evicted, or \
         the item is full",
        "    a key whose record may have been spilled asks the cluster for it; where the cluster \
         does not answer the item is busy",
    ] {
        assert!(spills.lines().any(|found| found == line), "{line}\n{spills}");
    }
    assert!(!spills.contains("cluster each") && !text.contains("spill"));
    assert!(said("spill='true' on-full='refuse'", LIMIT).contains("not answer, the item is full"));
    let both = format!("{LIMIT}<limit policy='total' scope='biz' max='9'/>");
    let scope = "limits of scope biz count on each machine, and are not kept there";
    assert!(said("backup='10s'", &both).contains(scope) && !text.contains(scope));
    assert!(!said("", LIMIT).contains("cluster each"));
}
