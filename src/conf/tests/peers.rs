//! `<peers>` of srv.xml, mirrored groups of map.xml, and the lines of `frs check` about them.

use std::path::Path;

use super::{GROUP, SIZES, faults, good, parse, srv_faults};
use crate::memory_bound::{Memory, slot_bytes};
use crate::{
    ClusterNode, Conf, Machine, Peers, SecretReaders, Setting, Settings, Texts, VERSION_WORDS,
    active, report,
};

/// A srv.xml with a whole `<peers>` that also has these attributes and this content.
fn srv(attributes: &str, content: &str) -> String {
    format!(
        "<srv>\n<peers name='prod' secret-file='s' listen='10.0.0.1:7610' {attributes}>{content}\
         </peers></srv>"
    )
}

fn peers(attributes: &str, content: &str) -> Peers {
    good(&srv(attributes, content), &format!("<map>{GROUP}</map>")).srv.peers.expect("peers")
}

const PEER: &str = "<peer>10.0.0.2:7610</peer>";
const LIMIT: &str = "<limit policy='interval' interval='1m' max='9'/>";

/// A map of one group and one biz with these settings.
fn map(group: &str, biz: &str, limits: &str) -> String {
    format!(
        "<map>\n<group name='g' files='1' key-nodes='8' {group}/>\n\
         <biz id='1' name='b' key='string' {biz}>{limits}</biz></map>"
    )
}

fn reported(srv: &str, map: &str) -> report::ConfReport {
    let machine = Machine {
        ram_bytes: None,
        filesystems: vec![],
        missing_program: None,
        shm_free_bytes: None,
    };
    report::report(&good(srv, map), &machine, &SIZES)
}

#[test]
fn a_name_a_secret_an_address_and_a_peer_give_the_defaults() {
    assert_eq!(
        peers("", PEER),
        Peers {
            name: "prod".to_owned(),
            secret_file: "s".into(),
            listen: "10.0.0.1:7610".parse().unwrap(),
            timeout_ms: 50,
            rate: 50 << 20,
            max_parked: 1024,
            peers: vec![ClusterNode { host: "10.0.0.2".to_owned(), port: 7610 }],
        }
    );
    let alone = good("<srv/>", &format!("<map>{GROUP}</map>")).srv;
    assert_eq!((&alone.peers, alone.has_mailboxes(), alone.max_parked()), (&None, false, None));
}

#[test]
fn bounds_of_peers_are_taken() {
    let least = peers("timeout='1ms' rate='100KiB/s' max-parked='1'", PEER);
    assert_eq!((least.timeout_ms, least.rate, least.max_parked), (1, 100 << 10, 1));
    let most = peers("timeout='10s' rate='1024GiB/s' max-parked='65536'", PEER);
    assert_eq!((most.timeout_ms, most.rate, most.max_parked), (10_000, 1 << 40, 65_536));
    let names = |content: &str| {
        peers("", content).peers.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let two = "<peer>Frs-2.a_b:65535</peer><peer> [FC00:0::1]:1 </peer>";
    assert_eq!(names(two), ["frs-2.a_b:65535", "[fc00::1]:1"]);
}

#[test]
fn any_address_of_this_machine_may_be_listened_at() {
    for listen in ["0.0.0.0:7610", "[::]:1", "127.0.0.1:65535"] {
        let srv = srv("", PEER).replace("10.0.0.1:7610", listen);
        let found = good(&srv, &format!("<map>{GROUP}</map>")).srv.peers.expect("peers");
        assert_eq!(found.listen.to_string(), listen);
    }
}

#[test]
fn faulty_peers() {
    let cases = [
        (
            "<peers/>",
            &[
                "1: found <peers> without listen, expected listen: ADDRESS:PORT or [ADDRESS]:PORT",
                "1: found <peers> without name, expected name: 1 to 32 of a-z, 0-9 and -",
                "1: found <peers> without secret-file, expected secret-file: a file",
                "1: found <peers> without <peer>, expected one <peer> or two: HOST:PORT",
            ] as &[&str],
        ),
        (
            "<peers name='Prod' secret-file='s/' listen='10.0.0.1:7610'>PEER</peers>",
            &[
                "14: found name=\"Prod\", expected 1 to 32 of a-z, 0-9 and -",
                "33: found secret-file=\"s/\", expected a file",
            ],
        ),
        (
            "<peers name='prod' secret-file='s' listen='frs-1:7610'>PEER</peers>",
            &["44: found listen=\"frs-1:7610\", expected ADDRESS:PORT or [ADDRESS]:PORT"],
        ),
        (
            "<peers name='prod' secret-file='s' listen='unix:s'>PEER</peers>",
            &["44: found listen=\"unix:s\", expected ADDRESS:PORT or [ADDRESS]:PORT"],
        ),
        (
            "<peers name='prod' secret-file='s' listen='10.0.0.1:0'>PEER</peers>",
            &["44: found listen=\"10.0.0.1:0\", expected a port from 1 to 65535"],
        ),
        (
            "<peers name='prod' secret-file='s' listen='127.0.0.1:7600'>PEER</peers>",
            &[
                "44: found listen=\"127.0.0.1:7600\" again, expected an address of its own: <listen> has it",
            ],
        ),
        (
            "PEERS timeout='11s'>PEER</peers>",
            &[
                "68: found timeout=\"11s\", expected a duration from 1ms to 10s, such as 250ms, 60s, 15m, 24h or 7d",
            ],
        ),
        (
            "PEERS rate='99KiB/s'>PEER</peers>",
            &[
                "65: found rate=\"99KiB/s\", expected a rate from 100KiB/s to 1024GiB/s, such as 100MiB/s",
            ],
        ),
        (
            "PEERS rate='50MiB'>PEER</peers>",
            &[
                "65: found rate=\"50MiB\", expected a rate from 100KiB/s to 1024GiB/s, such as 100MiB/s",
            ],
        ),
        (
            "PEERS max-parked='0'>PEER</peers>",
            &["71: found max-parked=\"0\", expected a whole number from 1 to 65536"],
        ),
        (
            "PEERS learn='1s'>PEER</peers>",
            &[
                "59: found attribute learn of <peers>, expected one of name, secret-file, listen, timeout, rate, max-parked",
            ],
        ),
        ("PEERS><node>a:1</node>PEER</peers>", &["59: found <node> in <peers>, expected peer"]),
        (
            "PEERS>PEER<peer>a:1</peer><peer>b:1</peer></peers>",
            &["101: found another <peer>, expected at most 2 of <peers>"],
        ),
        ("PEERS><peer>a</peer></peers>", &["65: found <peer>a</peer>, expected HOST:PORT"]),
        (
            "PEERS><peer>redis://a:1</peer></peers>",
            &["65: found <peer>redis://a:1</peer>, expected HOST:PORT"],
        ),
        (
            "PEERS><peer>a:0</peer></peers>",
            &["65: found <peer>a:0</peer>, expected a port from 1 to 65535"],
        ),
        (
            "PEERS><peer user='u'>a:1</peer></peers>",
            &["65: found attribute user of <peer>, expected none"],
        ),
        (
            "PEERS><peer>A:1</peer><peer>a:1</peer></peers>",
            &["75: found <peer>a:1</peer> again, expected it once (first in line 2)"],
        ),
        (
            "PEERS>PEER<peer>10.0.0.1:7610</peer></peers>",
            &[
                "85: found <peer>10.0.0.1:7610</peer>, expected the address of another machine: this is listen of <peers>",
            ],
        ),
        (
            "<peers name='prod' secret-file='s' listen='[fc00::1]:1'><peer>[FC00:0::1]:1</peer></peers>",
            &[
                "57: found <peer>[FC00:0::1]:1</peer>, expected the address of another machine: this is listen of <peers>",
            ],
        ),
        (
            "PEERS>PEER</peers><peers/>",
            &["93: found <peers> again, expected one (the first is in line 2)"],
        ),
        (
            "PEERS>PEER</peers>\n<cluster name='prod' secret-file='s'><node>a:1</node></cluster>",
            &["1: found <peers> beside <cluster>, expected one of them (<cluster> is in line 3)"],
        ),
    ];
    for (text, expected) in cases {
        let text = text
            .replace("PEERS", "<peers name='prod' secret-file='s' listen='10.0.0.1:7610'")
            .replace("PEER", PEER);
        let expected: Vec<String> =
            expected.iter().map(|fault| format!("srv.xml:2:{fault}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        srv_faults(&format!("<srv>\n{text}</srv>"), &expected);
    }
}

/// The secret is neither a part of the configuration nor of its published form.
#[test]
fn the_file_of_the_secret_is_named_and_never_copied() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    let srv = srv("", PEER).replace("'s'", &format!("'{}'", secret.display()));
    std::fs::write(dir.path().join("srv.xml"), &srv).unwrap();
    std::fs::write(dir.path().join("map.xml"), format!("<map>{GROUP}</map>")).unwrap();
    let faults = Conf::load(dir.path()).unwrap_err().to_string();
    let expected = format!(
        "{0}: found no such file, expected 32 bytes or 64 hexadecimal digits, the same on all \
         machines: make them once with (umask 077; openssl rand -hex 32 > {0})",
        secret.display()
    );
    assert_eq!(faults, expected);
    let digits = "0123456789abcdef".repeat(4);
    let draft = dir.path().join("draft");
    crate::publish::write_durably(&draft, digits.as_bytes()).unwrap();
    std::fs::rename(draft, &secret).unwrap();
    let conf = Conf::load(dir.path()).unwrap_or_else(|faults| panic!("{faults}"));
    assert!(conf.srv.files(dir.path()).contains(&secret));
    let found = conf.srv.peers.expect("peers").secrets(&SecretReaders::of(None)).unwrap();
    assert_eq!((found.secret.bytes()[1], found.password), (0x23, None));

    let srv = srv.replace(&format!("{}/", dir.path().display()), "");
    active::write(dir.path(), 1, &Texts::of(srv, format!("<map>{GROUP}</map>"))).unwrap();
    let published = std::fs::read(active::path(dir.path(), 1)).unwrap();
    for secret in [digits.as_bytes(), b"\x01\x23\x45\x67\x89\xab\xcd\xef"] {
        assert!(!published.windows(secret.len()).any(|bytes| bytes == secret));
    }
    let read = active::read(dir.path(), 1).unwrap().srv.peers.expect("peers");
    let here = std::env::current_dir().unwrap();
    assert_eq!(read.secret_file, here.join("secret"), "whatever the reader's directory");
}

#[test]
fn settings_from_outside_replace_those_of_peers() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    crate::publish::write_durably(&secret, &[7; 32]).unwrap();
    std::fs::write(dir.path().join("srv.xml"), srv("timeout='1s'", PEER)).unwrap();
    std::fs::write(dir.path().join("map.xml"), format!("<map>{GROUP}</map>")).unwrap();
    let load = |texts: &[&str]| {
        let read = |text: &&str| Setting::parse(text, "--set").unwrap();
        let secret = Setting::named("peers.secret-file", secret.to_str().unwrap(), "--set secret");
        let settings = texts.iter().map(read).chain([secret]).collect();
        Conf::load_texts(dir.path(), &Settings::new(settings, Vec::new()))
    };
    let conf = load(&["peers.timeout=80ms", "peers.listen=0.0.0.0:1"]).unwrap().conf;
    let found = conf.srv.peers.expect("peers");
    assert_eq!((found.timeout_ms, found.listen.port()), (80, 1));
    assert_eq!((found.secret_file.as_path(), found.peers.len()), (&*secret, 1));
    let faults = load(&["peers.listen=10.0.0.2:7610"]).unwrap_err().to_string();
    assert!(faults.contains("found <peer>10.0.0.2:7610</peer>, expected the address"), "{faults}");
    let faults = load(&["peers.rate=1"]).unwrap_err().to_string();
    assert!(faults.starts_with("--set peers.rate: found rate=\"1\", expected a rate"), "{faults}");
}

#[test]
fn a_delay_of_the_mirror_is_taken() {
    let of = |group: &str| good(&srv("", PEER), &map(group, "", LIMIT)).map.groups[0].mirror_ms;
    assert_eq!(of(""), None);
    assert_eq!(["50ms", "200ms", "1m"].map(|delay| of(&format!("mirror='{delay}'"))), {
        [Some(50), Some(200), Some(60_000)]
    });
}

#[test]
fn faulty_mirrors() {
    let of = |srv: &str, group: &str, fault: &str| {
        faults(parse(srv, &map(group, "", LIMIT)), &[&format!("map.xml:2:{fault}")]);
    };
    let with = srv("", PEER);
    for delay in ["49ms", "61s", "", "often"] {
        let fault = format!(
            "49: found mirror=\"{delay}\", expected a duration from 50ms to 1m, such as 250ms, \
             60s, 15m, 24h or 7d"
        );
        of(&with, &format!("mirror='{delay}'"), &fault);
        of("<srv/>", &format!("mirror='{delay}'"), &fault);
    }
    let fault = "49: found mirror=\"1s\", expected <peers> in srv.xml, or no mirror";
    of("<srv/>", "mirror='1s'", fault);
    let cluster = "<srv><cluster name='c' secret-file='s'><node>a:1</node></cluster></srv>";
    of(cluster, "mirror='1s'", fault);
    for (other, name) in [("backup='1s'", "backup"), ("spill='true'", "spill")] {
        let fault = format!(
            "49: found mirror=\"1s\" beside {name}, expected one of them: mirror needs <peers>, \
             {name} needs <cluster>"
        );
        of(cluster, &format!("mirror='1s' {other}"), &fault);
    }
    good(&with, &map("mirror='1s' spill='false'", "", LIMIT));
    // Peers hold no ledgers.
    faults(
        parse(&with, &map("mirror='1s'", "share='exact'", LIMIT)),
        &[
            "map.xml:3:42: found share=\"exact\", expected a <cluster> in srv.xml, or share=\"host\"",
        ],
    );
    // The unread rest of a file may have peers.
    let found = parse("<srv><", &map("mirror='1s'", "", LIMIT)).unwrap_err().to_string();
    assert!(!found.contains("map.xml"), "{found}");
}

#[test]
fn nodes_of_a_mirrored_group_hold_versions() {
    let with = srv("", PEER);
    let of = |group: &str, limits: &str| good(&with, &map(group, "", limits)).map;
    let sized = |group: &str, limits: &str| {
        let map = of(group, limits);
        (map.groups[0].version_bytes(), map.groups[0].geometry.node_bytes)
    };
    assert_eq!(8 * VERSION_WORDS, 16);
    // An interval takes 16 bytes, a total 8, a ban 8.
    assert_eq!(sized("", LIMIT), (0, 64));
    assert_eq!(sized("mirror='1s'", LIMIT), (16, 128));
    let total = "<limit policy='total' max='9'/>";
    assert_eq!(sized("mirror='1s' key-bytes='16'", total), (16, 64));
    assert_eq!(sized("mirror='1s' key-bytes='16'", &total.replace("max", "ban='1m' max")).1, 128);
    assert_eq!(sized("mirror='1s' node-size='128'", LIMIT), (16, 128));
    // A group without a biz has room for a version, too.
    let empty = |mirror: &str| {
        let map = format!("<map><group name='g' keys='9' key-bytes='40' {mirror}/></map>");
        good(&with, &map).map.groups[0].geometry.node_bytes
    };
    assert_eq!([empty(""), empty("mirror='1s'")], [64, 128]);

    let fault = "map.xml:2:52: found node-size=\"64\", expected node-size=\"128\": biz 1 \"b\" \
                 needs 80 bytes (header 24, key 24, limit 1 (interval) 16, version 16)";
    faults(parse(&with, &map("node-size='64' mirror='1s'", "", LIMIT)), &[fault]);
    good(&with, &map("node-size='64'", "", LIMIT));
    // 32,768 bytes hold 2,045 intervals, and one less beside a version.
    let limits = |count| LIMIT.repeat(count);
    let srv = with.replace("<peers", "<http max-atomic-items='1'/><peers");
    good(&srv, &map("mirror='1s'", "", &limits(2044)));
    good(&srv, &map("", "", &limits(2045)));
    let found = parse(&srv, &map("mirror='1s'", "", &limits(2045))).unwrap_err().to_string();
    assert!(found.contains("expected fewer limits: node-size is at most 32768"), "{found}");
}

#[test]
fn other_machines_know_the_keys_of_a_mirrored_group() {
    let known = |group: &str| {
        let map = good(&srv("", PEER), &map(group, "", LIMIT)).map;
        assert!(!map.groups[0].keeps(&map.bizs[0]) && !map.groups[0].has_warm_tier());
        map.is_known_in_cluster(&map.bizs[0])
    };
    assert!(known("mirror='1s'") && !known(""));
}

#[test]
fn check_says_what_a_mirror_promises_and_costs() {
    let text = reported(&srv("", PEER), &map("mirror='200ms'", "", LIMIT)).text;
    let expected = "
  mirror 200 ms: a machine lost: over by at most the uses of the last 200 ms and one round trip, \
of keys that it owned
  mirror: 16 bytes a node for the version of its record, 7,168 bytes in all
  biz 1 b: 9 in 60 s from the first use
    a node needs 80 bytes (header 24, key 24, limit 1 (interval) 16, version 16); it holds 128
peers prod: 10.0.0.2:7610; this machine is 10.0.0.1:7610
  timeout 50 ms, rate 50 MiB a second to each peer, max-parked 1,024 requests of each worker
  route by key: each key to one machine at a time; where two are used for a key, each counts \
alone, and one count is forgotten afterwards
  after a start: the first use of a key asks the peers for its record, until this machine has \
compared all of them; no answer in 50 ms: it goes on with the record here
  parked requests at worst: ";
    assert!(text.contains(expected), "{text}");
    let alone = reported("<srv/>", &map("", "", LIMIT)).text;
    assert!(!alone.contains("mirror") && !alone.contains("peer"), "{alone}");
}

#[test]
fn peers_cost_a_courier_mailboxes_and_parked_requests() {
    let cost = |srv: &str| {
        let conf = good(srv, &format!("<map>{GROUP}</map>"));
        let Memory { processes, parked, .. } = Memory::of(&conf, &SIZES);
        let slots = (conf.srv.needed_slots(), slot_bytes(&conf));
        (slots, processes, parked, conf.srv.data.max_programs)
    };
    let with = srv("max-parked='500'", PEER);
    let cluster = "<srv>\n<cluster name='c' secret-file='s' max-parked='500'><node>a:1</node>\
                   </cluster></srv>";
    assert_eq!(cost(&with), cost(cluster));
    assert_ne!(cost(&with), cost("<srv/>"));
    let text = reported(&with, &format!("<map>{GROUP}</map>")).text;
    assert!(text.contains(" workers + keeper + courier + reload"), "{text}");
}

#[test]
fn what_is_not_mirrored_is_warned_of() {
    let warnings = |group: &str, biz: &str, limits: &str| {
        let report = reported(&srv("", PEER), &map(group, biz, limits));
        let is_meant = |line: &String| line.contains("mirror");
        report.warnings.into_iter().filter(is_meant).collect::<Vec<_>>()
    };
    assert_eq!(warnings("mirror='1s'", "", LIMIT), [""; 0]);
    assert_eq!(
        warnings("", "", LIMIT),
        ["peers \"prod\": nothing is sent to them: no group of map.xml has mirror"]
    );
    let both = format!("{LIMIT}<limit policy='total' scope='biz' max='9'/>");
    assert_eq!(
        warnings("mirror='1s'", "", &both),
        ["biz 1 \"b\": limit 2 has scope=\"biz\" in the group \"g\" with mirror: it counts on \
          each machine alone, and is not mirrored"]
    );
    assert_eq!(warnings("mirror='1s'", "mode='off'", &both), [""; 0]);
}

/// The files that a reload reads contain the secret only of configured peers.
#[test]
fn the_secret_is_among_the_files() {
    let files = |srv: &str| good(srv, &format!("<map>{GROUP}</map>")).srv.files(Path::new("conf"));
    assert!(files(&srv("", PEER)).contains(&"s".into()));
    assert_eq!(files("<srv/>").len(), 2);
}
