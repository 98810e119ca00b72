//! The output of `frs check`, and its warnings.

use std::io;
use std::path::PathBuf;

use super::*;
use crate::tests::SIZES;

const MAP: &str = "<map>
  <group name='default' files='2' key-nodes='8192' node-size='128' hash='bob'/>
  <group name='safe' files='1' key-nodes='10' chain='8' node-size='64' hash='siphash'/>
  <group name='strict' files='1' key-nodes='10' node-size='64' key-bytes='8' on-full='refuse'/>
  <biz id='1' name='login' key='string'>
    <limit policy='interval' interval='60s' max='5' ban='10m'/>
  </biz>
  <biz id='2' name='digest' key='digest'><limit policy='total' scope='biz' max='9'/></biz>
  <biz id='3' name='sip' key='ip' group='safe'><limit policy='total' max='9'/></biz>
  <biz id='4' name='int' key='integer' group='safe'>
    <limit policy='interval' interval='1h' max='9' debt='3'/>
  </biz>
  <biz id='5' name='strict' key='integer' group='strict'><limit policy='total' max='9'/></biz>
</map>";

fn conf() -> Conf {
    let srv = "<srv><workers>2</workers></srv>";
    Conf::parse("srv.xml", srv, "map.xml", MAP).unwrap_or_else(|faults| panic!("{faults}"))
}

fn machine(ram_bytes: u64, filesystem: io::Result<Filesystem>) -> Machine {
    let data = DirFilesystem { dir: PathBuf::from("data"), filesystem };
    Machine {
        ram_bytes: Some(ram_bytes),
        filesystems: vec![data],
        missing_program: None,
        shm_free_bytes: None,
    }
}

#[test]
fn displaced_shares_are_those_of_poisson() {
    let percent = |chain, load| 100.0 * displaced_share(chain, load);
    assert!((percent(8, 0.5) - 0.84).abs() < 0.005, "{}", percent(8, 0.5));
    assert!((percent(56, 0.5) - 0.000_01).abs() < 0.000_005, "{}", percent(56, 0.5));
    assert!((percent(8, 0.7) - 4.0).abs() < 0.5, "{}", percent(8, 0.7));
    assert!((percent(56, 0.7) - 0.03).abs() < 0.005, "{}", percent(56, 0.7));
    assert_eq!(percent(56, 0.0), 0.0);
    // With chains of one place, it is the share of keys that are not the first of their key-node.
    let one = 1.0 - (1.0 - (-0.5_f64).exp()) / 0.5;
    assert!((displaced_share(1, 0.5) - one).abs() < 1e-12);
}

#[test]
fn text_says_what_a_group_of_registers_holds() {
    let told = |on_full: &str| {
        let map = format!(
            "<map><group name='r' files='1' key-nodes='10' chain='8' on-full='{on_full}'/>
             <biz id='9000' name='redis' key='string'><register/></biz></map>"
        );
        let conf = Conf::parse("srv.xml", "<srv/>", "map.xml", &map).unwrap();
        let ConfReport { text, .. } =
            report(&conf, &machine(u64::MAX, Err(io::Error::other(""))), &SIZES);
        text
    };
    let expected = "
  good for 40 keys at 50 % load (0.84 % of them displaced), 56 at 70 % (4.0 %)
  biz 9000 redis: registers, each a number or a text of at most 40 bytes
    a node needs 152 bytes (header 24, key 72, register with a text of 40 bytes 56); it holds 192
    room for at most 80 registers; in a full chain expired ones make room, ";
    let evicts = "then those that were not used for the longest time, even if they never expire\n";
    let refuses = "no other ones, so those that never expire stay until they are deleted\n";
    for (on_full, next) in [("evict", evicts), ("refuse", refuses)] {
        let text = told(on_full);
        assert!(text.contains(&format!("{expected}{next}")), "{text}");
    }
}

#[test]
fn text_shows_geometry_memory_and_nodes() {
    let ConfReport { text, .. } = report(&conf(), &machine(u64::MAX, Ok(Filesystem::Ext4)), &SIZES);
    let expected = "\
group default: files 2, key-nodes 8,192, chain 56, node-size 128, key-bytes 24, hash bob, on-full evict
  memory: 118,497,280 bytes (113.0 MiB) = 2 × (4,096 + 8,192 × (64 + 56 × 128))
  good for 458,752 keys at 50 % load (0.0000067 % of them displaced), 642,252 at 70 % (0.032 %)
  biz 1 login: 5 in 60 s from the first use, then banned for 10 m
    a node needs 72 bytes (header 24, key 24, limit 1 (interval) 16, ban 8); it holds 128
  biz 2 digest: 9 in all, for all keys together
    a node needs 56 bytes (header 24, key 24, limit 1 (total) 8) for the biz; it holds 128
group safe: files 1, key-nodes 10, chain 8, node-size 64, key-bytes 24, hash siphash, on-full evict
  memory: 9,856 bytes (9.6 KiB) = 1 × (4,096 + 10 × (64 + 8 × 64))
  good for 40 keys at 50 % load (0.84 % of them displaced), 56 at 70 % (4.0 %)
  biz 3 sip: 9 in all
    a node needs 56 bytes (header 24, key 24, limit 1 (total) 8); it holds 64
  biz 4 int: 9 and 3 on credit in 1 h from the first use
    a node needs 64 bytes (header 24, key 24, limit 1 (interval) 16); it holds 64
group strict: files 1, key-nodes 10, chain 56, node-size 64, key-bytes 8, hash siphash, on-full refuse
";
    assert!(text.starts_with(expected), "{text}");
    let memory = "
memory
  groups: 118,547,712 bytes (113.1 MiB)
  page tables: 711,288 bytes (694.6 KiB) = 0.2 % of that × (2 workers + 1 keeper)
  runtime.mmap: 19,369,984 bytes (18.5 MiB) = 1,576,960 + 8 slots × 2,224,128
    slots: 256, of them 8 kept for the server (2 workers + keeper + reload, twice), at most 192 for programs
  processes: 159,475,440 bytes (152.1 MiB) = (2 workers + keeper + master) × 8 MiB + 2 workers × 62,960,504
  clients at worst: 23,197,840,000 bytes (21.6 GiB) = workers 2 × max-connections 10,000 × (input 64 KiB + answers 64 KiB + queue 88,788 + reply 939,008 + 1,024)
    input: the largest of max-head, max-body and 64 KiB
    reply, the longest to one request: 1,024 items × 320 × (1 + limits of a biz) + 6 × the rest of max-body (echoed, escaped)
  all at worst: 23,495,944,424 bytes (21.9 GiB), and the kernel's socket buffers
    worst: each of the connections sends the longest request, and nobody reads the answers; max-connections, max-body and max-items of <http> bound it
    at rest: 298,104,424 bytes (284.3 MiB), and 1,024 bytes for each idle connection
largest atomic request: 2,304 of 65,536 words of the undo log
";
    assert!(text.ends_with(memory), "{text}");
}

#[test]
fn text_says_what_is_derived_and_what_stays() {
    let map = "<map><group name='users' keys='1000000'/>
      <group name='ips' keys='1000' node-size='64'/>
      <group name='old' files='1' key-nodes='9'/>
      <biz id='1' name='a' key='ip'><limit policy='interval' interval='1h' max='9'/></biz></map>";
    let texts = crate::Texts::of("<srv><workers>2</workers></srv>", map);
    let loaded = crate::LoadedConf { conf: texts.parse().unwrap(), texts };
    let text = |loaded: &crate::LoadedConf| {
        report(&loaded.conf, &machine(u64::MAX, Ok(Filesystem::Ext4)), &SIZES).text
    };
    let expected = "\
group users: files 1, key-nodes 35,729, chain 56, node-size 64, key-bytes 24, hash siphash, on-full evict
  derived: files and key-nodes from keys 1,000,000, node-size from the biz that needs most
  memory: 130,343,488 bytes (124.3 MiB) = 1 × (4,096 + 35,729 × (64 + 56 × 64))
  good for 1,000,412 keys at 50 % load (0.0000067 % of them displaced), 1,400,576 at 70 % (0.032 %)
  biz 1 a: 9 in 1 h from the first use
    a node needs 64 bytes (header 24, key 24, limit 1 (interval) 16); it holds 64
group ips: files 1, key-nodes 37, chain 56, node-size 64, key-bytes 24, hash siphash, on-full evict
  derived: files and key-nodes from keys 1,000
";
    let found = text(&loaded);
    assert!(found.starts_with(expected), "{found}");
    assert!(found.contains("on-full evict\n  derived: node-size from the biz that needs most\n"));
    // The files that it finds have somewhat more room.
    let mut geometry = loaded.conf.map.groups[0].geometry;
    (geometry.files, geometry.key_nodes, geometry.node_bytes) = (2, 18_000, 128);
    let live = [crate::LiveGeometry { group: "users".into(), geometry }];
    let found = text(&loaded.over(&live).unwrap());
    let expected = "\
group users: files 2, key-nodes 18,000, chain 56, node-size 128, key-bytes 24, hash siphash, on-full evict
  derived: files and key-nodes from keys 1,000,000, node-size from the biz that needs most: files 1, key-nodes 35,729, node-size 64; the files have that and little more, so they stay as they are
  memory: 260,360,192 bytes (248.3 MiB) = 2 × (4,096 + 18,000 × (64 + 56 × 128))
";
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn a_cluster_costs_a_courier_and_each_slot_of_the_server_a_ring_of_wants() {
    let memory = |srv: &str| {
        let map = "<map><group name='g' files='1' key-nodes='8' node-size='64'/></map>";
        let conf = Conf::parse("s", srv, "m", map).unwrap_or_else(|faults| panic!("{faults}"));
        let slots = u64::from(conf.srv.reserved_slots());
        let Memory { runtime, processes, .. } = Memory::of(&conf, &SIZES);
        (runtime - slots * slot_bytes(&conf), processes, slots, slot_bytes(&conf))
    };
    let (rest, processes, slots, each) = memory("<srv/>");
    let cluster = "<cluster name='prod' secret-file='s'><node>a:6379</node></cluster>";
    let with = memory(&format!("<srv>{cluster}</srv>"));
    // Two couriers, because an upgrade runs two.
    assert_eq!(with, (rest, processes + (8 << 20), slots + 2, each + 335_872));
}

// Shows: server-places.
#[test]
fn all_slots_that_frs_envoy_may_take_are_kept_for_the_server() {
    let of = |srv: &str| {
        let map = "<map><group name='g' files='1' key-nodes='8' node-size='64'/></map>";
        let conf = Conf::parse("s", srv, "m", map).unwrap_or_else(|faults| panic!("{faults}"));
        let text = report(&conf, &machine(u64::MAX, Ok(Filesystem::Ext4)), &SIZES).text;
        let lines = ["page tables:", "slots:", "processes:"];
        let shown = |line: &&str| lines.iter().any(|start| line.trim().starts_with(start));
        let shown: String = text.lines().filter(shown).collect();
        (conf.srv.needed_slots(), shown)
    };
    let rls = "<rls listen='127.0.0.1:7603'><domain name='d'/></rls>";
    let cluster = "<cluster name='prod' secret-file='s'><node>a:6379</node></cluster>";
    let (alone, text) = of(&format!("<srv><workers>2</workers>{rls}</srv>"));
    assert_eq!(alone, 5);
    assert!(text.contains("(2 workers + keeper + frs-envoy + reload, twice)"), "{text}");
    let (shared, text) = of(&format!("<srv><workers>2</workers>{cluster}{rls}</srv>"));
    assert_eq!(shared, 6);
    for words in [
        "(2 workers + 1 keeper + courier + frs-envoy)",
        "12 kept for the server (2 workers + keeper + courier + frs-envoy + reload, twice)",
        "(2 workers + keeper + master + courier + frs-envoy) ×",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_cluster_has_requests_parked_and_their_memory_is_bounded() {
    let text = |srv: &str| {
        let map = "<map><group name='g' files='1' key-nodes='8' node-size='64'/>
            <biz id='1' name='b' key='string'>
            <limit policy='total' max='1'/><limit policy='total' max='2'/></biz></map>";
        let conf = Conf::parse("s", srv, "m", map).unwrap_or_else(|faults| panic!("{faults}"));
        let Memory { parked, .. } = Memory::of(&conf, &SIZES);
        let with = Memory::of(&conf, &SIZES).total();
        assert_eq!(with - parked, Memory { parked: 0, ..Memory::of(&conf, &SIZES) }.total());
        (parked, report(&conf, &machine(u64::MAX, Ok(Filesystem::Ext4)), &SIZES).text)
    };
    let (parked, alone) = text("<srv><workers>2</workers></srv>");
    assert!(parked == 0 && !alone.contains("parked"), "{alone}");
    let srv = "<srv><workers>2</workers><cluster name='prod' secret-file='s' max-parked='1000'>
        <node>a:6379</node></cluster></srv>";
    let (parked, text) = text(srv);
    // The text twice, and 1,024 items with 113 behind them, all grown by doubling, and 16 spare
    // parts.
    let each = 2 * (2 * (65_536 + 2048) + (1024 + 113) * (344 + 2 * 88)) + 16 * 2048;
    assert_eq!(parked, 2 * 1000 * each);
    for line in [
        "\n  parked requests at worst: 2,971,168,000 bytes (2.8 GiB) = workers 2 × max-parked \
         1,000 × 1,485,584 (the longest request, its answer, and those behind it)\n",
        "\n  parked requests at worst: 2,971,168,000 bytes (2.8 GiB)\n  all at worst",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn choosers_of_keys_are_warned_of() {
    let ConfReport { warnings, faults, .. } =
        report(&conf(), &machine(u64::MAX, Ok(Filesystem::Xfs)), &SIZES);
    assert_eq!(faults, [""; 0]);
    assert_eq!(
        warnings,
        [
            "biz 1 \"login\" refuses, and its group \"default\" evicts and has hash=\"bob\": where several writers choose keys, one of them can evict what limits it; then write hash=\"siphash\" or on-full=\"refuse\"",
            "biz 4 \"int\" refuses, and its group \"safe\" evicts and has integer keys: where several writers choose keys, one of them can evict what limits it; then write key=\"digest\" or on-full=\"refuse\"",
        ]
    );
}

/// Filling chains cannot free a key that is not refused, or not by its own node.
#[test]
fn only_what_refuses_by_its_nodes_is_warned_of() {
    let warned = |mode: &str, limit: &str| {
        let map = format!(
            "<map><group name='g' files='1' key-nodes='8' node-size='128' hash='bob'/>
             <biz id='1' name='a' key='string' mode='{mode}'><limit {limit}/></biz></map>"
        );
        let conf = Conf::parse("s", "<srv/>", "m", &map).unwrap_or_else(|f| panic!("{f}"));
        let machine = Machine {
            ram_bytes: None,
            filesystems: vec![],
            missing_program: None,
            shm_free_bytes: None,
        };
        !report(&conf, &machine, &SIZES).warnings.is_empty()
    };
    assert!(warned("enforce", "policy='token' rate='1/s'"));
    assert!(warned("enforce", "policy='total' max='1' scope='biz' ban='1m'"));
    assert!(!warned("enforce", "policy='total' max='1' scope='biz'"));
    assert!(!warned("enforce", "policy='count'"));
    assert!(!warned("enforce", "policy='total' max='1' on-exceed='captcha'"));
    assert!(!warned("shadow", "policy='token' rate='1/s'"));
    assert!(!warned("off", "policy='token' rate='1/s'"));
}

#[test]
fn degrade_and_a_map_of_no_business_are_warned_of() {
    const NONE: &str = "map.xml names no business: every item answers `unknown-biz`";
    let map = "<map><group name='g' files='1' key-nodes='8' node-size='64'/></map>";
    let warnings = |srv: &str| {
        let conf = Conf::parse("s", srv, "m", map).unwrap_or_else(|faults| panic!("{faults}"));
        report(
            &conf,
            &Machine {
                ram_bytes: None,
                filesystems: vec![],
                missing_program: None,
                shm_free_bytes: None,
            },
            &SIZES,
        )
        .warnings
    };
    assert_eq!(warnings("<srv/>"), [NONE]);
    assert_eq!(
        warnings("<srv><degrade>true</degrade></srv>"),
        [NONE, "<degrade>true</degrade>: nothing is limited"]
    );
}

/// The warnings and faults about the machine alone.
fn about(machine: &Machine) -> (Vec<String>, Vec<String>) {
    let ConfReport { warnings, faults, .. } = report(&conf(), machine, &SIZES);
    (warnings.into_iter().filter(|warning| !warning.starts_with("biz ")).collect(), faults)
}

// Shows: clear-messages.
#[test]
fn much_on_disk_is_warned_of() {
    let groups = groups_bytes(&conf().map);
    let (warnings, _) = about(&machine(groups * 10 - 10, Ok(Filesystem::Ext4)));
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(
        warning.starts_with(
            "data: groups of 118,547,712 bytes (113.1 MiB) on disk are more than 10 %"
        )
    );
    // Only a cure that fits is proposed: the groups are less than half of the memory, and /dev/shm
    // has room.
    let of_shm = |shm_free_bytes| {
        let machine = machine(groups * 10 - 10, Ok(Filesystem::Ext4));
        about(&Machine { shm_free_bytes, ..machine }).0.remove(0)
    };
    assert!(of_shm(Some(groups)).ends_with("write <data live=\"/dev/shm/frs\">"));
    let small = "a tmpfs of at least 113.1 MiB (/dev/shm has 64 MiB free; mount -o \
                 remount,size=… makes it larger), or make the groups smaller";
    assert!(of_shm(Some(64 << 20)).ends_with(small), "{}", of_shm(Some(64 << 20)));
    assert!(of_shm(None).contains("/dev/shm has nothing free"), "{}", of_shm(None));
    let much = Machine { shm_free_bytes: Some(groups), ..machine(groups, Ok(Filesystem::Ext4)) };
    assert!(about(&much).0[0].ends_with("a larger machine or smaller groups"));
    assert_eq!(about(&machine(groups * 10, Ok(Filesystem::Ext4))).0, [""; 0]);
    assert_eq!(about(&machine(groups * 3, Ok(Filesystem::Tmpfs))).0, [""; 0]);
    assert!(about(&machine(groups, Ok(Filesystem::Tmpfs))).0[0].contains("more than half"));
}

#[test]
fn file_systems_are_judged() {
    let of = |magic| about(&machine(u64::MAX, Ok(Filesystem::from_magic(magic))));
    for good in [0xef53, 0x5846_5342, 0x0102_1994] {
        assert_eq!(of(good), (vec![], vec![]));
    }
    for (magic, name) in [
        (0x9123_683e, "btrfs"),
        (0x2fc1_2fc1, "zfs"),
        (0x794c_7630, "overlayfs"),
        (0x7777, "0x7777"),
    ] {
        let (warnings, faults) = of(magic);
        assert!(warnings[0].contains(name) && faults.is_empty(), "{warnings:?} {faults:?}");
    }
    for (magic, name) in [
        (0x6969, "NFS"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "CIFS"),
        (0x517b, "CIFS"),
        (0x0102_1997, "9p"),
        (0x6573_5546, "FUSE"),
    ] {
        let expected = format!(
            "data: found {name}, expected ext4, xfs or tmpfs: mapped files there are not safe"
        );
        assert_eq!(of(magic), (vec![], vec![expected]));
    }
    let (_, faults) = about(&machine(u64::MAX, Err(io::ErrorKind::PermissionDenied.into())));
    assert!(faults[0].starts_with("data: found no file system (permission denied)"));
}

#[test]
fn shares_are_readable() {
    assert_eq!(percent_text(0.0084), "0.84");
    assert_eq!(percent_text(0.5), "50");
    assert_eq!(percent_text(1e-30), "0");
}

#[test]
fn the_largest_settings_do_not_overflow() {
    let srv = "<srv><workers>200</workers><http max-connections='1000000' max-body='64MiB' \
               max-head='1MiB' max-items='65536'/></srv>";
    let map = "<map><group name='g' files='4096' key-nodes='2147483647' node-size='64'/></map>";
    let conf = Conf::parse("s", srv, "m", map).unwrap_or_else(|faults| panic!("{faults}"));
    report(&conf, &machine(1, Ok(Filesystem::Ext4)), &SIZES);
}

// Shows: clear-messages.
#[test]
fn a_biz_that_makes_the_records_of_its_group_long_is_named() {
    let text = |map: &str| {
        let conf = Conf::parse("srv.xml", "<srv/>", "map.xml", map);
        let conf = conf.unwrap_or_else(|faults| panic!("{faults}"));
        report(&conf, &machine(u64::MAX, Ok(Filesystem::Ext4)), &SIZES).text
    };
    let short =
        "<biz id='1' name='a' key='string'><limit policy='token' rate='1/s' burst='9'/></biz>
      <biz id='2' name='b' key='string'><limit policy='interval' interval='1h' max='9'/></biz>";
    let long =
        "<biz id='3' name='c' key='string'><limit policy='sliding' interval='1h' max='99'/></biz>";
    let of =
        |keys: u32, bizs: &str| text(&format!("<map><group name='g' keys='{keys}'/>{bizs}</map>"));
    let said = of(100_000, &format!("{short}{long}"));
    let words = "biz c makes its records 512 bytes long; the others need 64: a <group> of its own for \
                 it, with keys=\"…\" for its keys, takes ";
    assert!(said.contains(words), "{said}");
    let places = "<biz id='3' name='c' key='string' holds='20'>
      <limit policy='concurrent' max='20'/></biz>";
    assert!(of(100_000, &format!("{short}{places}")).contains("makes its records 576 bytes long"));
    assert!(!of(100_000, short).contains("bytes long"));
    assert!(!of(100_000, long).contains("bytes long"), "it is alone");
    assert!(!of(1000, &format!("{short}{long}")).contains("bytes long"), "little is to be gained");
}
