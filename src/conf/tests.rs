//! Every kind of fault, with its position, and configurations that are accepted.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use proptest::prelude::*;

use super::memory_bound::BufferSizes;
use super::read::LocalHost;
use super::{
    AuthzKey, Checkpoint, Cidr, Conf, Data, Faults, FileAccess, Geometry, HashKind, Http, Interval,
    KeyType, Limit, Listen, LoadedConf, Log, LogFormat, LogLevel, Machine, OnFull, Policy, Rate,
    Scope, Settings, Total, report,
};

mod calls;
mod clients;
mod cluster;
mod fit;
mod limit;
mod list;
mod map;
mod peers;
mod registers;
mod resp;
mod settings;
mod share;
mod srv;
mod tls;
mod warm;

const GROUP: &str = r#"<group name="g" files="1" key-nodes="8" node-size="64"/>"#;

fn parse(srv: &str, map: &str) -> Result<Conf, Faults> {
    Conf::parse("srv.xml", srv, "map.xml", map)
}

fn good(srv: &str, map: &str) -> Conf {
    parse(srv, map).unwrap_or_else(|faults| panic!("{faults}"))
}

#[track_caller]
fn srv_faults(srv: &str, expected: &[&str]) {
    faults(parse(srv, &format!("<map>{GROUP}</map>")), expected);
}

/// Faults of a map that begins with one correct group, on its first line.
#[track_caller]
fn map_faults(map: &str, expected: &[&str]) {
    faults(parse("<srv/>", &format!("<map>{GROUP}\n{map}</map>")), expected);
}

#[track_caller]
fn faults(found: Result<Conf, Faults>, expected: &[&str]) {
    let found = found.expect_err("taken").to_string();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

/// Sizes that the server had at some time. `frs check` uses the current ones.
pub(super) const SIZES: BufferSizes = BufferSizes {
    arena_bytes: 1 << 20,
    pool_buffers: 256,
    pooled_bytes: 64 << 10,
    tick_answer_bytes: 64 << 10,
    queue_requests: 16,
    queue_bytes: 2 << 10,
    in_hand_buffers: 38,
    refused_clients: 1024,
    client_bytes: 1 << 10,
    tls_bytes: 40 << 10,
    certificate_bytes: 12 << 10,
    head_bytes: 1 << 10,
    answer_bytes: 320,
    window_bytes: 13,
    echo_factor: 6,
    item_bytes: 18,
    register_key_bytes: 6,
    register_value_bytes: 8,
    number_bytes: 20,
    scanned_keys: 1056,
    register_buffers: 4,
    waiting_item_bytes: 344,
    waiting_limit_bytes: 88,
    waiting_window_bytes: 4,
    spare_bytes: 2 << 10,
    admin_bytes: 214_438_280,
    history_biz_bytes: 5_172_480,
    history_bizs: 257,
    metrics_bytes: 51_904_512,
    metrics_biz_bytes: 49_152,
    admin_clients: 64,
    metrics_client_bytes: 12_288,
    admin_maps: 2,
};

#[test]
fn nothing_but_a_group_gives_the_defaults() {
    let conf = good("<srv/>", &format!("<map>{GROUP}</map>"));
    assert!((1..=200).contains(&conf.srv.workers));
    assert_eq!(conf.srv.listen, [Listen::Tcp((Ipv4Addr::LOCALHOST, 7600).into()).into()]);
    assert_eq!(conf.srv.allow, Cidr::LOCAL);
    let max_programs = conf.srv.data.max_programs;
    assert_eq!(
        conf.srv.data,
        Data {
            dir: "data".into(),
            live: None,
            flush_ms: 5000,
            prefault: false,
            max_programs,
            access: FileAccess::OWN,
            checkpoint: None,
        }
    );
    assert_eq!(conf.srv.http, Http::default());
    assert_eq!(
        conf.srv.log,
        Log { level: LogLevel::Info, format: LogFormat::Text, file: None, refusals: None }
    );
    assert_eq!((conf.srv.user, conf.srv.authz), (None, AuthzKey::Peer));
    assert_eq!(conf.srv.trusted, []);
    assert!(!conf.srv.degrade);
    assert_eq!(
        conf.map.groups[0].geometry,
        Geometry {
            files: 1,
            key_nodes: 8,
            chain: 56,
            node_bytes: 64,
            key_bytes: 24,
            hash: HashKind::Siphash
        }
    );
    assert_eq!(conf.map.groups[0].on_full, OnFull::Evict);
    assert_eq!(conf.map.bizs, []);
}

#[test]
fn everything_is_taken() {
    let srv = "\u{feff}<?xml version='1.0' encoding='utf-8'?>
        <?xml-model href='srv.xsd'?>
        <srv>
          <!-- in any order -->
          <trusted>10.0.0.0/8</trusted>
          <log format='json' level='debug' file='log/frs.log' refusals='20/m'/>
          <authz key='header:X-User'><trusted>192.0.2.1</trusted></authz>
          <http max-connections='10' max-body='1MiB' max-head='512' max-items='2048'
                max-atomic-items='1024' idle-timeout='1h' request-timeout='5s' lock-timeout='1ms'/>
          <data dir='d&amp;d' live='/dev/shm/frs' flush='250ms' prefault='true'
                max-programs='252' mode='0660' group='root' checkpoint='90s'
                checkpoint-rate='3MiB/s'/>
          <allow>0.0.0.0/0</allow><allow>::/0</allow>
          <listen>0.0.0.0:&#55;600</listen>
          <listen>[::1]:7600</listen>
          <listen> unix:run/frs.sock </listen>
          <user>root</user>
          <degrade> true </degrade>
          <workers><![CDATA[2]]></workers>
        </srv>\n";
    let map = r#"
        <map>
          <biz id="1" name="a" key="ip" ipv6-prefix="48">
            <limit policy="interval" interval="60s" max="5" debt="3" ban="10m"/>
            <limit policy="total" scope="biz" max="9007199254740991"/>
          </biz>
          <group name="g" files="2" key-nodes="8" node-size="128" chain="1" key-bytes="16"
                 hash="siphash" on-full="refuse"/>
          <group name="n" files="1" key-nodes="1" node-size="64" key-bytes="8"/>
          <biz id="4294967295" name="b" key="integer" group="n"><limit policy="total" max="0"/></biz>
          <biz id="3" name="c" key="digest"><limit policy="total" max="0"></limit></biz>
        </map>"#;
    let conf = good(srv, map);
    assert_eq!(conf.srv.workers, 2);
    assert_eq!(
        conf.srv.listen,
        [
            Listen::Tcp("0.0.0.0:7600".parse().unwrap()).into(),
            Listen::Tcp("[::1]:7600".parse().unwrap()).into(),
            Listen::Unix("run/frs.sock".into()).into()
        ]
    );
    assert_eq!(conf.srv.allow.len(), 2);
    assert_eq!(
        conf.srv.data,
        Data {
            dir: "d&d".into(),
            live: Some(PathBuf::from("/dev/shm/frs")),
            flush_ms: 250,
            prefault: true,
            max_programs: 252,
            access: FileAccess { mode: 0o660, group: Some("root".to_owned()) },
            checkpoint: Some(Checkpoint { every_ms: 90_000, bytes_per_second: 3 << 20 }),
        }
    );
    assert_eq!(conf.srv.http.max_body_bytes, 1 << 20);
    assert_eq!(conf.srv.http.max_atomic_items, 1024);
    let file = Some("log/frs.log".into());
    let refusals = Some(Rate { number: 20, per_ms: 60_000 });
    let (level, format) = (LogLevel::Debug, LogFormat::Json);
    assert_eq!(conf.srv.log, Log { level, format, file, refusals });
    assert_eq!(conf.srv.authz, AuthzKey::Header("x-user".to_owned()));
    assert_eq!(conf.srv.trusted.len(), 2);
    assert_eq!(conf.srv.user.as_deref(), Some("root"));
    assert!(conf.srv.degrade);

    let [a, b, c] = conf.map.bizs.as_slice() else { panic!("{:?}", conf.map.bizs) };
    assert_eq!((a.group, a.key), (0, KeyType::Ip { ipv6_prefix: 48 }));
    assert_eq!(
        a.limits,
        [
            Limit {
                ban_ms: Some(600_000),
                ..Limit::new(
                    Scope::Key,
                    Policy::Interval(Interval { interval_ms: 60_000, max: 5, debt: 3 })
                )
            },
            Limit::new(Scope::Biz, Policy::Total(Total { max: (1 << 53) - 1 }))
        ]
    );
    assert_eq!((b.id, b.group, b.key), (u32::MAX, 1, KeyType::Integer));
    assert_eq!(c.key, KeyType::Digest);
    assert_eq!(conf.map.groups[0].on_full, OnFull::Refuse);
    assert_eq!(conf.map.groups[0].geometry.hash, HashKind::Siphash);
    assert_eq!(conf.map.find_biz("b"), Some(1));
}

// Shows: faulty-configuration.
#[test]
fn all_faults_of_both_files_at_once() {
    let srv =
        "<srv>\n  <wrokers>2</wrokers>\n  <http max-body='1KB'/>\n  <log levle='info'/>\n</srv>";
    let map = "<map>\n  <group name='g' files='0' key-nodes='8' node-size='64'/>\n  \
               <biz id='0' name='7' key='strin'>\n    <limit policy='interval' max='-1'/>\n  </biz>\n</map>";
    faults(
        parse(srv, map),
        &[
            "srv.xml:2:3: found <wrokers> in <srv>, expected one of workers, data, http, log, user, authz, degrade, cluster, peers, rls, map, watch, clients, listen, admin, metrics, resp, allow, trusted, tls (nearest: workers)",
            "srv.xml:3:19: found max-body=\"1KB\", expected a size from 64 to 64MiB, such as 512, 64KiB or 1MiB",
            "srv.xml:4:8: found attribute levle of <log>, expected one of level, format, file, refusals (nearest: level)",
            "map.xml:2:26: found files=\"0\", expected a whole number from 1 to 4096",
            "map.xml:3:12: found id=\"0\", expected a whole number from 1 to 4294967295",
            "map.xml:3:21: found name=\"7\", expected 1 to 64 of A-Z, a-z, 0-9, ., _ and -, not digits only",
            "map.xml:3:29: found key=\"strin\", expected one of string, integer, ip, digest (nearest: string)",
            "map.xml:4:5: found <limit> without interval, expected interval: a duration from 1ms to 9007199254740991ms, such as 250ms, 60s, 15m, 24h or 7d",
            "map.xml:4:35: found max=\"-1\", expected a whole number from 0 to 9007199254740991",
        ],
    );
}

#[test]
fn files_that_are_not_there_are_faults() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("srv.xml")).unwrap();
    let name = |file: &str| dir.path().join(file).display().to_string();
    faults(
        Conf::load(dir.path()),
        &[
            &format!(
                "{}: found something that is no file, expected a readable file of at most 16 MiB",
                name("srv.xml")
            ),
            &format!(
                "{}: found No such file or directory (os error 2), expected a readable file of at most 16 MiB",
                name("map.xml")
            ),
        ],
    );
    std::fs::write(dir.path().join("map.xml"), "<map><biz/></map>").unwrap();
    let found = Conf::load(dir.path()).unwrap_err().to_string();
    let expected = "map.xml:1:1: found <map> with <biz> and without <group>, expected at least";
    assert!(found.contains(expected), "{found}");
}

#[test]
fn loaded_texts_are_those_checked() {
    let dir = tempfile::tempdir().unwrap();
    let map = format!("<map>{GROUP}</map>");
    std::fs::write(dir.path().join("srv.xml"), "<srv><workers>3</workers></srv>").unwrap();
    std::fs::write(dir.path().join("map.xml"), &map).unwrap();
    let LoadedConf { conf, texts } = Conf::load_texts(dir.path(), &Settings::default()).unwrap();
    assert_eq!(conf.srv.workers, 3);
    assert_eq!((texts.srv.as_str(), &texts.map), ("<srv><workers>3</workers></srv>", &map));
    assert_eq!(texts.check(&LocalHost::this()), Ok(conf));
}

#[test]
fn the_data_directory_is_found_whatever_else_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let found = |srv: &str| {
        std::fs::write(dir.path().join("srv.xml"), srv).unwrap();
        Conf::data_dir(dir.path(), &Settings::default()).map_err(|faults| faults.to_string())
    };
    for (srv, expected) in [
        ("<srv/>", "data"),
        ("<srv><workers>many</workers><data dir='d' flush='x'/><oops/></srv>", "d"),
        ("<srv><data dir='d'/><data dir='e'/></srv>", "d"),
        ("<srv><data dir='d' dir='e'/></srv>", "d"),
        ("<srv><data/></srv>", "data"),
        ("<srv><data dir='d'/></oops>", "d"),
        ("<srv><data dir='d'/>", "d"),
    ] {
        assert_eq!(found(srv), Ok(expected.into()), "{srv}");
    }
    for (srv, expected) in [
        ("", "1:1: "),
        ("<map><data dir='d'/></map>", "expected <srv> as the root element"),
        ("<srv><data dir=''/></srv>", "expected a directory"),
        ("<srv><data dir=d/></srv>", "1:"),
        ("<srv></oops><data dir='d'/></srv>", "1:6: "),
    ] {
        let faults = found(srv).unwrap_err();
        assert!(faults.contains(expected), "{srv}: {faults}");
    }
    std::fs::remove_file(dir.path().join("srv.xml")).unwrap();
    let faults = Conf::data_dir(dir.path(), &Settings::default()).unwrap_err().to_string();
    assert!(faults.contains("srv.xml: found No such file"), "{faults}");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Conf::parse("s", &bytes, "m", &bytes);
    }

    // Shows: faulty-configuration.
    #[test]
    fn no_markup_panics(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "<map>", "</map>", "<srv>", "</srv>", "<group name='g' files='1' key-nodes='8' node-size='64'/>",
                "<group", "<biz id='1' name='a' key='ip'>", "</biz>", "<limit policy='interval'", " max='5'",
                " interval='1m'", " ban='", "/>", ">", "<", "'", "\"", "&", ";", "&#x41;", "&#0;", "<!--", "-->",
                "--", "<![CDATA[", "]]>", "<!DOCTYPE x [", "]", "<?xml", "?>", " ", "\n", "é", "\u{feff}", "=", "</",
                "<workers>", "<http max-atomic-items='1024'/>", "x", "\0", "<user>", "scope='biz'",
                "<degrade>", "true", "<cluster name='c' secret-file='s'>", "<node", ">[::1]:1</node>",
                "share='cluster'",
            ]),
            0..40,
        )
    ) {
        let text = pieces.concat();
        let _ = Conf::parse("s", &text, "m", &text);
        let _ = Conf::parse("s", &format!("<srv>{text}</srv>"), "m", &format!("<map>{text}</map>"));
    }

    /// Every accepted combination of settings can be reported on, and no combination panics.
    #[test]
    fn no_settings_panic(
        key in proptest::sample::select(vec!["string", "integer", "ip", "digest"]),
        mode in proptest::sample::select(vec!["enforce", "shadow", "off", "on"]),
        share in proptest::sample::select(vec![
            "", "share='exact'", "share='cluster' hosts='1'", "share='cluster' hosts='1024'",
            "share='exact' on-down='local' on-miss='admit'", "hosts='8'",
        ]),
        calls in proptest::sample::select(vec![
            "", "once='64' once-for='1h'", "holds='1024'", "hold-ttl='7d'", "on-lapse='free'",
            "once='1' holds='1' hold-ttl='1s' on-lapse='keep'", "once-for='1s'", "holds='0'",
        ]),
        limits in proptest::collection::vec(some_limit(), 1..4),
        lists in proptest::collection::vec(some_list(), 0..5),
    ) {
        let (limits, lists) = (limits.concat(), lists.concat());
        let map = format!(
            "<map><group name='g' files='1' key-nodes='8' node-size='32768'/>\
             <biz id='1' name='a' key='{key}' mode='{mode}' {share} {calls}>\
             {limits}{lists}</biz></map>"
        );
        let srv = "<srv><http max-atomic-items='15'/><cluster name='c' secret-file='s'>\
                   <node>a:1</node></cluster></srv>";
        if let Ok(conf) = Conf::parse("s", srv, "m", &map) {
            let (ram_bytes, shm_free_bytes) = (None, None);
            let filesystems = vec![];
            let machine =
                Machine { ram_bytes, shm_free_bytes, filesystems, missing_program: None };
            let _ = report::report(&conf, &machine, &SIZES);
        }
    }
}

/// A `<limit>` of any policy, with settings of all policies.
fn some_limit() -> impl Strategy<Value = String> {
    const POLICIES: [&str; 11] = [
        "interval",
        "calendar",
        "sliding",
        "sliding-counter",
        "token",
        "gcra",
        "total",
        "count",
        "distinct",
        "concurrent",
        "tokn",
    ];
    const NEEDS: [&str; 11] = [
        "interval='1m' max='5'",
        "unit='day' max='5'",
        "interval='1m' max='4096'",
        "interval='9007199254740991ms' max='9007199254740991'",
        "rate='10/s'",
        "rate='30/m' per-call='true'",
        "max='0'",
        "",
        "precision='exact' max='5'",
        "max='5'",
        "",
    ];
    let more = proptest::sample::select(vec![
        " ban='1m'",
        " on-exceed='captcha'",
        " on-exceed='refuse'",
        " on-exceed=''",
        " scope='biz'",
        " debt='1'",
        " debt='9007199254740991'",
        " tz='Asia/Shanghai'",
        " tz='Asia/Sanghai'",
        " tz='../../etc/passwd'",
        " tz='é\u{0}'",
        " at='04:00'",
        " at='::'",
        " at='é1:é2'",
        " unit='minute'",
        " unit='year'",
        " rate='9007199254740991/d'",
        " rate='/'",
        " rate='é/é'",
        " burst='213503982334'",
        " burst='18446744073709551615'",
        " max='4097'",
        " interval='45d'",
        " per-call='true'",
        " per-call='true' most='4096'",
        " per-call='true' max-period='45d'",
        " most='18446744073709551615'",
    ]);
    let weight = proptest::sample::select(vec![
        "<weight at='0' value='1'/>",
        "<weight at='9' value='0.001'/>",
        "<weight at='9' value='é.é'/>",
        "<weight/>",
    ]);
    let more = proptest::collection::vec(more, 0..4);
    let weights = proptest::collection::vec(weight, 0..3);
    (0..POLICIES.len(), any::<bool>(), more, weights).prop_map(|(at, whole, more, weights)| {
        let needs = if whole { NEEDS[at] } else { "" };
        let (more, weights) = (more.concat(), weights.concat());
        format!("<limit policy='{}' {needs}{more}>{weights}</limit>", POLICIES[at])
    })
}

/// An entry of any list.
fn some_list() -> impl Strategy<Value = String> {
    let kinds =
        vec!["allow", "deny", "override limit='1' max='1'", "override limit='3' max='4096'"];
    let kinds = proptest::sample::select(kinds);
    let keys = vec![
        "",
        "*",
        "**",
        "a",
        "a*",
        "é*",
        "7",
        "007",
        "7*",
        "07*",
        "18446744073709551615",
        "18446744073709551616*",
        "10.0.0.0/8",
        "::ffff:10.0.0.0/104",
        "::/0",
        "10.0.0.0/99",
        "/",
    ];
    let keys = proptest::sample::select(keys);
    (kinds, keys).prop_map(|(kind, key)| format!("<{kind} key='{key}'/>"))
}
