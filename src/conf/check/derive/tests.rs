//! The derived numbers, and the files that stay.

use super::*;
use crate::schema::{Conf, HashKind, MAX_FILES, MAX_KEYS};

const LIMIT: &str = "<limit policy='interval' interval='1m' max='1'/>";

fn map(group: &str, bizs: &str) -> Conf {
    let map = format!("<map><group name='g' {group}/>{bizs}</map>");
    Conf::parse("srv.xml", "<srv/>", "map.xml", &map).unwrap_or_else(|faults| panic!("{faults}"))
}

fn group(group: &str, bizs: &str) -> Group {
    map(group, bizs).map.groups.remove(0)
}

fn biz(limits: &str) -> String {
    format!("<biz id='1' name='a' key='string'>{limits}</biz>")
}

/// The numbers as `[files, key-nodes, chain, node-size, key-bytes]`.
fn numbers(geometry: &Geometry) -> [u32; 5] {
    let Geometry { files, key_nodes, chain, node_bytes, key_bytes, .. } = *geometry;
    [files, key_nodes, chain, node_bytes, key_bytes]
}

// Shows: derived-geometry.
#[test]
fn keys_give_files_and_key_nodes() {
    let cases = [
        ("keys='1'", [1, 2, 56, 64, 24]),
        ("keys='57'", [1, 3, 56, 64, 24]),
        ("keys='1000'", [1, 37, 56, 64, 24]),
        ("keys='200000'", [1, 7151, 56, 64, 24]),
        ("keys='1000000'", [1, 35_729, 56, 64, 24]),
        ("keys='1000000' chain='8'", [1, 250_007, 8, 64, 24]),
        ("keys='1000000' node-size='512'", [1, 35_729, 56, 512, 24]),
        ("keys='1000000' node-size='1024'", [3, 11_909, 56, 1024, 24]),
        ("keys='1000000' key-bytes='64'", [1, 35_729, 56, 128, 64]),
        ("keys='100000000'", [13, 274_739, 56, 64, 24]),
        ("keys='10000000000'", [61, 5_854_801, 56, 64, 24]),
        ("keys='10000000000' chain='1' node-size='32768'", [61, 327_868_861, 1, 32_768, 24]),
    ];
    for (written, expected) in cases {
        let group = group(written, "");
        assert_eq!(numbers(&group.geometry), expected, "{written}");
        assert_eq!((group.geometry, group.written.is_derived()), (group.derived, true));
    }
}

// Shows: derived-geometry.
#[test]
fn every_derived_geometry_is_within_its_bounds_and_half_full() {
    for keys in (0..34).map(|bits| 1u64 << bits).chain([3, 99, 12_345_678, MAX_KEYS]) {
        for chain in [1, 2, 8, 55, 56] {
            for node_bytes in [64, 128, 4096, 32_768] {
                let hash = HashKind::Siphash;
                let room = NodeCount::Keys(keys);
                let written =
                    GeometrySettings { room, chain, node_bytes: None, key_bytes: 24, hash };
                let geometry = written.geometry(node_bytes);
                let Geometry { files, key_nodes, .. } = geometry;
                assert!(geometry.nodes() >= 2 * keys, "{written:?} {geometry:?}");
                // The next prime adds at most this many nodes in each file.
                let surplus = u64::from(files) * u64::from(chain) * 400;
                assert!(geometry.nodes() < 2 * keys + surplus, "{written:?} {geometry:?}");
                assert!(files == 1 || is_prime(files) && files % 2 + files % 5 > 1, "{files}");
                assert!(files <= MAX_FILES && is_prime(key_nodes));
                assert!(geometry.file_bytes() < 1 << 48, "{written:?} {geometry:?}");
                // A file has at most 1 GiB, as far as the number of files allows it.
                let spare = u64::from(chain) * u64::from(node_bytes) * 400;
                assert!(files == 61 || geometry.file_bytes() <= FILE_BYTES + spare);
                assert_eq!(geometry.node_bytes, node_bytes);
            }
        }
    }
}

#[test]
fn primes_are_prime() {
    let sieved = |number: u32| number >= 2 && !(2..number).any(|by| number.is_multiple_of(by));
    for number in 0..2000 {
        assert_eq!(is_prime(number), sieved(number), "{number}");
    }
    assert_eq!(next_prime(0), 2);
    assert_eq!(next_prime(14), 17);
    assert_eq!(next_prime(4_294_967_280), 4_294_967_291, "the largest of 32 bits");
}

/// Numbers that a system assigns in steps still spread over all key-nodes.
#[test]
fn integers_in_steps_spread() {
    use crate::key::{KeyField, Seed};
    let geometry = group("keys='2000000' node-size='1024' key-bytes='8'", "").geometry;
    assert!(geometry.files > 1);
    for step in [1, 2, 10, 64, 100, 1000, 4096, 1 << 22] {
        let mut used = std::collections::HashSet::new();
        for number in 0..20_000u64 {
            let mut field = KeyField::default();
            let text = (number * step).to_string();
            let kind = crate::KeyType::Integer;
            field.encode(kind, text.as_bytes(), 8, Seed([1, 2])).unwrap();
            let at = field.key().locate(1, &geometry, Seed([1, 2]));
            used.insert((at.file, at.key_node));
        }
        assert!(used.len() > 19_000, "step {step}: {} key-nodes", used.len());
    }
}

#[test]
fn node_size_is_what_the_largest_business_needs() {
    let ban = "<limit policy='interval' interval='1m' max='1' ban='1m'/>";
    let log = "<limit policy='sliding' interval='1m' max='100'/>";
    let whole = "<limit policy='sliding' interval='1m' max='300' scope='biz'/>";
    for (limits, expected) in [(LIMIT, 64), (ban, 128), (log, 512), (whole, 1280)] {
        for size in ["files='2' key-nodes='8'", "keys='100'"] {
            let group = group(size, &biz(limits));
            assert_eq!(group.geometry.node_bytes, expected, "{limits}");
        }
    }
    let both = format!("{}<biz id='2' name='b' key='ip'>{log}</biz>", biz(LIMIT));
    assert_eq!(group("keys='100'", &both).geometry.node_bytes, 512);
    // A written size stays as written.
    assert_eq!(group("keys='100' node-size='1024'", &both).geometry.node_bytes, 1024);
    let all = group("files='2' key-nodes='8' node-size='64'", &biz(LIMIT));
    assert_eq!(
        (all.written.is_derived(), all.written),
        (false, GeometrySettings::of(&all.geometry))
    );
}

/// Only the text of map.xml decides: the numbers do not depend on the workers.
#[test]
fn the_server_and_its_machine_do_not_matter() {
    let map = format!("<map><group name='g' keys='1000000'/>{}</map>", biz(LIMIT));
    let of = |srv: &str| Conf::parse("srv.xml", srv, "map.xml", &map).unwrap().map;
    assert_eq!(of("<srv><workers>1</workers></srv>"), of("<srv><workers>99</workers></srv>"));
    assert_eq!(of("<srv/>"), of("<srv><workers>3</workers></srv>"));
}

#[test]
fn files_stay_that_are_roomy_enough_and_not_much_roomier() {
    let live = |written: &str, bizs: &str| group(written, bizs).geometry;
    let sized = |files: &str, size: u32| live(&format!("{files} node-size='{size}'"), "");
    let wanted = group("keys='1000000'", &biz(LIMIT));
    let keeps = |geometry: &Geometry| wanted.keeps_files(geometry);
    assert!(keeps(&wanted.geometry));
    // Room for the keys, in any number of files.
    assert!(keeps(&sized("files='2' key-nodes='17858'", 64)), "2,000,096 nodes");
    assert!(!keeps(&sized("files='2' key-nodes='17857'", 64)), "1,999,984 nodes");
    // At most a quarter more nodes: 44,660 key-nodes.
    assert!(keeps(&sized("files='4' key-nodes='11165'", 64)));
    assert!(!keeps(&sized("files='4' key-nodes='11166'", 64)));
    assert!(!keeps(&sized("keys='2000000'", 64)), "twice as many");
    assert!(!keeps(&sized("keys='999999'", 64)) || sized("keys='999999'", 64) == wanted.geometry);
    assert!(!keeps(&sized("keys='900000'", 64)), "fewer");
    // Nodes up to twice as large, as after the removal of a business.
    assert!(keeps(&sized("keys='1000000'", 128)));
    assert!(!keeps(&sized("keys='1000000'", 192)));
    let wide = group("keys='1000000'", &biz("<limit policy='sliding' interval='1m' max='100'/>"));
    assert!(!wide.keeps_files(&sized("keys='1000000'", 448)), "too short");
    assert!(wide.keeps_files(&sized("keys='1000000'", 512)));
    assert!(wide.keeps_files(&sized("keys='1000000'", 1024)));
    // Numbers that are not derived must be equal.
    for (name, other) in [("chain", "chain='55'"), ("key-bytes", "key-bytes='32'")] {
        let other = live(&format!("files='2' key-nodes='18200' node-size='64' {other}"), "");
        assert!(!keeps(&other), "{name}");
    }
    assert!(!keeps(&Geometry { hash: HashKind::Bob, ..wanted.geometry }));
    // Written numbers must be equal.
    let written = group("files='1' key-nodes='35729' node-size='64'", "");
    assert!(written.keeps_files(&wanted.geometry));
    assert!(!written.keeps_files(&Geometry { node_bytes: 128, ..wanted.geometry }));
    assert!(!written.keeps_files(&Geometry { key_nodes: 35_731, ..wanted.geometry }));
    let size_left_out = group("files='1' key-nodes='35729'", "");
    assert!(size_left_out.keeps_files(&Geometry { node_bytes: 128, ..wanted.geometry }));
    assert!(!size_left_out.keeps_files(&Geometry { key_nodes: 35_731, ..wanted.geometry }));
}

/// The derived files of a group stay, however small it is.
#[test]
fn derived_files_stay() {
    for keys in 1..2000 {
        let group = group(&format!("keys='{keys}' chain='{}'", 1 + keys % 56), "");
        assert!(group.keeps_files(&group.derived), "{keys}");
    }
}
