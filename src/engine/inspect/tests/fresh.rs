//! Records that begin anew, counted in real files.

use super::{MAP, T, used};
use crate::inspect::{Error, fresh_records};
use crate::testing::World;

/// The report on these changes of the map, at this time.
fn told(world: &World, changes: &[(&str, &str)], now: u64) -> Vec<String> {
    let map = changes.iter().fold(MAP.to_owned(), |map, (from, to)| {
        assert!(map.contains(from), "{from}");
        map.replace(from, to)
    });
    let conf = World::of(&world.dir, &map).conf.clone();
    fresh_records(&conf, now, None).unwrap().iter().map(ToString::to_string).collect()
}

// Shows: fresh-records.
#[test]
fn what_begins_anew_is_counted_and_nothing_else() {
    let world = used();
    let fresh = |changes: &[(&str, &str)]| told(&world, changes, T);
    let anew = |biz: &str, records: &str, why: &str| {
        vec![format!("biz {biz}: {records} anew, without counts and bans: {why}")]
    };
    let shape = "its limits have another policy, scope, interval, unit, share or order";
    assert_eq!(fresh(&[]), [""; 0]);
    assert_eq!(fresh(&[("max=\"5\" ban=\"10m\"", "max=\"7\"")]), [""; 0], "another max");
    assert_eq!(fresh(&[("name=\"login\"", "name=\"entry\"")]), [""; 0], "another name");
    assert_eq!(
        fresh(&[("id=\"1\"", "id=\"11\"")]),
        anew("login", "3 live records begin", "its id was 1 and is 11")
    );
    assert_eq!(
        fresh(&[("interval=\"60s\"", "interval=\"2h\"")]),
        anew("login", "3 live records begin", shape)
    );
    assert_eq!(
        fresh(&[(" group=\"log\"", "")]),
        anew("sms", "1 live record begins", "its group was log and is default")
    );
    assert_eq!(
        fresh(&[("name=\"sale\" key=\"ip\"", "name=\"sale\" key=\"ip\" ipv6-prefix=\"56\"")]),
        anew("sale", "1 live record begins", "its keys have another type or prefix"),
        "that of IPv6"
    );
    assert_eq!(
        fresh(&[(
            "policy=\"total\" scope=\"biz\"",
            "policy=\"interval\" interval=\"1h\" scope=\"biz\""
        )]),
        anew("sale", "1 live record begins", shape),
        "that of the whole business"
    );
    // Of `login` only the ban of mallory still counts.
    assert_eq!(
        told(&world, &[("id=\"1\"", "id=\"11\"")], T + 300_000),
        anew("login", "1 live record begins", "its id was 1 and is 11")
    );
}

// Shows: fresh-records.
#[test]
fn one_that_is_removed_or_new_begins_nothing_anew_and_nothing_was_in_force_before_a_first_start() {
    let world = used();
    let removed =
        "  <biz id=\"4\" name=\"secret\" key=\"digest\"><limit policy=\"count\"/></biz>\n";
    assert_eq!(told(&world, &[(removed, "")], T), [""; 0]);
    let added = format!("{removed}{}", removed.replace("4", "5").replace("secret", "other"));
    assert_eq!(told(&world, &[(removed, &added)], T), [""; 0]);
    let empty = tempfile::tempdir().unwrap();
    let conf = World::of(empty.path(), MAP).conf.clone();
    assert_eq!(fresh_records(&conf, T, None).unwrap(), []);
}

#[test]
fn a_cluster_needs_a_plug() {
    let world = used();
    let conf = world.shared_conf(MAP);
    assert!(conf.srv.cluster.is_some());
    assert!(matches!(fresh_records(&conf, T, None), Err(Error::Store(_))));
}
