//! The shipped configuration passes the check without warnings, and matches its schemas.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::needs;
use frs_conf::memory_bound::groups_bytes;
use frs_conf::report::{ConfReport, report};
use frs_conf::{Conf, DirFilesystem, Filesystem, Machine};

fn shipped(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("conf").join(name)
}

/// Whether xmllint finds the text valid. `None` if there is no xmllint.
pub fn valid(schema: &str, text: &str) -> Option<bool> {
    let mut xmllint = Command::new("xmllint");
    xmllint
        .args(["--noout", "--nonet", "--schema"])
        .arg(shipped(schema))
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = needs::spawn(&mut xmllint)?;
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("xmllint reads");
    let output = child.wait_with_output().expect("xmllint ends");
    let said = String::from_utf8_lossy(&output.stderr);
    // 3 and 4 mean not valid. Any other status is a fault of the schema or of the test.
    match output.status.code() {
        Some(0) => Some(true),
        Some(3 | 4) => {
            println!("{said}");
            Some(false)
        }
        code => panic!("xmllint: {code:?} {said}"),
    }
}

pub fn read(name: &str) -> String {
    std::fs::read_to_string(shipped(name)).expect("shipped")
}

#[test]
fn shipped_files_are_valid() {
    assert_ne!(valid("srv.xsd", &read("srv.xml")), Some(false));
    assert_ne!(valid("map.xsd", &read("map.xml")), Some(false));
}

#[test]
fn shipped_files_are_checked_and_warned_of_nothing() {
    let conf = Conf::load(&shipped("")).unwrap_or_else(|faults| panic!("{faults}"));
    let machine = Machine {
        ram_bytes: Some(4 << 30),
        filesystems: vec![DirFilesystem {
            dir: conf.srv.data.dir.clone(),
            filesystem: Ok(Filesystem::Ext4),
        }],
        missing_program: None,
        shm_free_bytes: None,
    };
    let ConfReport { text, warnings, faults } =
        report(&conf, &machine, &frs_server::buffer_sizes::BUFFER_SIZES);
    println!("{text}");
    assert_eq!((warnings, faults), (vec![], vec![]));
    assert!(groups_bytes(&conf.map) < 128 << 20);
    assert_eq!(conf.map.find_biz("1001"), conf.map.find_biz("login"));
    for biz in
        ["login", "sms", "seckill", "app-user-api", "api", "adhoc", "adhoc-fixed", "adhoc-counter"]
    {
        assert!(conf.map.find_biz(biz).is_some(), "{biz}");
    }
}

/// Schema and check agree on everything that a schema can express.
#[test]
fn schemas_take_and_refuse_what_the_check_does() {
    const MAP: &str = "<map><group name='g' files='1' key-nodes='8' node-size='128'/>\
        <biz id='1' name='a' key='string'><limit policy='gcra' rate='1/s' per-call='true'/></biz>\
        <group name='h' keys='1'/><biz id='2' name='r' group='h' key='string'><register/></biz>\
        </map>";
    let srv = [
        ("<srv/>", true),
        (
            "<srv><allow>::1</allow><log/><allow>10.0.0.0/8</allow><workers> 7 </workers></srv>",
            true,
        ),
        ("<srv><listen>[::1]:80</listen><listen>unix:a/b c</listen></srv>", true),
        ("<srv><authz key='header:X-A'><trusted>fc00::/7</trusted></authz></srv>", true),
        ("<srv><trusted>10.0.0.0/8</trusted><data live='/l' prefault='true'/></srv>", true),
        ("<srv><workers>1</workers><data max-programs='0'/></srv>", true),
        ("<srv><workers>1</workers><data max-programs='253'/></srv>", true),
        ("<srv><data max-programs='254'/></srv>", false),
        ("<srv><data max-programs='all'/></srv>", false),
        ("<srv><data mode='0660' group='root'/></srv>", true),
        ("<srv><data mode='0644'/></srv>", true),
        ("<srv><data mode='660'/></srv>", false),
        ("<srv><data mode='0620'/></srv>", false),
        ("<srv><data mode='0660' group=''/></srv>", false),
        ("<srv><map file='maps/map.xml'/></srv>", true),
        ("<srv><map/></srv>", true),
        ("<srv><map file='maps/'/></srv>", false),
        ("<srv><map file=''/></srv>", false),
        ("<srv><workers>201</workers></srv>", false),
        ("<srv><worker>1</worker></srv>", false),
        ("<srv><clients/></srv>", true),
        (
            "<srv><clients><client name='a' token-file='t' may='query update' biz='o* v'/>\
             <anonymous may='query' unix='update query' biz='*'/><client name='b' \
             cert='URI:spiffe://c/b' may='metrics'/></clients></srv>",
            true,
        ),
        ("<srv><clients><client cert='CN=a' may='metrics'/></clients></srv>", false),
        ("<srv><clients><client name='a b' cert='CN=a' may='metrics'/></clients></srv>", false),
        ("<srv><clients><client name='a' cert='a' may='metrics'/></clients></srv>", false),
        ("<srv><clients><client name='a' cert='CN=' may='metrics'/></clients></srv>", false),
        ("<srv><clients><client name='a' cert='CN=a' may=''/></clients></srv>", false),
        ("<srv><clients><client name='a' cert='CN=a' may='read'/></clients></srv>", false),
        (
            "<srv><clients><client name='a' cert='CN=a' may='query' biz='o*r'/></clients></srv>",
            false,
        ),
        ("<srv><clients><client name='a' cert='CN=a' may='query' biz=''/></clients></srv>", false),
        ("<srv><clients><anonymous biz='*' rights='query'/></clients></srv>", false),
        ("<srv><listen>localhost:80</listen></srv>", false),
        ("<srv><http max-atomic-items='1025'/></srv>", false),
        ("<srv><http idle-timeout='60'/></srv>", false),
        ("<srv><http max-body='1KB'/></srv>", false),
        ("<srv><http hosts='frs.internal'/></srv>", true),
        ("<srv><http hosts=' FRS:7600 10.0.0.5\n[::1]:80 a_b '/></srv>", true),
        ("<srv><http hosts=''/></srv>", false),
        ("<srv><http hosts='http://frs'/></srv>", false),
        ("<srv><http hosts='frs/'/></srv>", false),
        ("<srv><http hosts='frs:'/></srv>", false),
        ("<srv><http hosts='*.internal'/></srv>", false),
        ("<srv><http allow-origin='https://a.example http://[::1]:3000'/></srv>", true),
        ("<srv><http allow-origin='*'/></srv>", false),
        ("<srv><http allow-origin='null'/></srv>", false),
        ("<srv><http allow-origin='https://a.example/'/></srv>", false),
        ("<srv><http allow-origin=' '/></srv>", false),
        ("<srv><log level='loud'/></srv>", false),
        ("<srv><log file='/var/log/frs/frs.log'/></srv>", true),
        ("<srv><log file=''/></srv>", false),
        ("<srv><log file='log/'/></srv>", false),
        ("<srv><authz key='header:'/></srv>", false),
        ("<srv><admin listen='127.0.0.1:1'/></srv>", true),
        ("<srv><admin listen='[::1]:1' token-file='conf/t'/></srv>", true),
        ("<srv><admin listen='unix:run/admin.sock'/></srv>", true),
        ("<srv><admin token-file='conf/t'/></srv>", false),
        ("<srv><admin listen='[::1]:1'/><admin listen='unix:a' token-file='t'/></srv>", true),
        ("<srv><watch conf='5s'/></srv>", true),
        ("<srv><watch/></srv>", false),
        ("<srv><watch conf='5'/></srv>", false),
        ("<srv><watch conf='5s' map='1s'/></srv>", false),
        ("<srv><admin listen='10.0.0.1:1'/></srv>", false),
        ("<srv><admin listen='[::]:1'/></srv>", false),
        ("<srv><metrics listen='0.0.0.0:7602'/><metrics listen='[::]:7602'/></srv>", true),
        ("<srv><metrics listen='unix:run/metrics.sock'/></srv>", true),
        ("<srv><metrics/></srv>", false),
        ("<srv><metrics listen='localhost:7602'/></srv>", false),
        ("<srv><metrics listen='[::]:7602' token-file='t'/></srv>", false),
        ("<srv><metrics>0.0.0.0:7602</metrics></srv>", false),
        ("<srv><resp listen='10.0.0.1:6380'/><resp listen='unix:run/a b'/></srv>", true),
        ("<srv><resp listen='[::1]:6380' token-file='conf/t' throttle='a'/></srv>", true),
        ("<srv><resp listen='[::1]:6380' token-file='conf/t' throttle='1'/></srv>", true),
        ("<srv><resp token-file='conf/t'/></srv>", false),
        ("<srv><resp listen='localhost:6380'/></srv>", false),
        ("<srv><resp listen='[::1]:6380' token-file=''/></srv>", false),
        ("<srv><resp listen='[::1]:6380' throttle=''/></srv>", false),
        ("<srv><resp listen='[::1]:6380' registers='r' databases='16'/></srv>", true),
        ("<srv><resp listen='[::1]:6380' registers=''/></srv>", false),
        ("<srv><resp listen='[::1]:6380' registers='r' databases='0'/></srv>", false),
        ("<srv><resp listen='[::1]:6380' registers='r' databases='1025'/></srv>", false),
        ("<srv><resp listen='[::1]:6380' throttle='a b'/></srv>", false),
        ("<srv><resp listen='[::1]:6380' token='t'/></srv>", false),
        ("<srv><resp listen='[::1]:6380'>text</resp></srv>", false),
        ("<srv><degrade> true </degrade></srv>", true),
        ("<srv><degrade>false</degrade><workers>1</workers></srv>", true),
        ("<srv><degrade>yes</degrade></srv>", false),
        ("<srv><degrade/></srv>", false),
    ];
    for (text, good) in srv {
        let found = Conf::parse("srv.xml", text, "map.xml", MAP);
        assert_eq!(found.is_ok(), good, "{text} {found:?}");
        assert!(valid("srv.xsd", text).is_none_or(|valid| valid == good), "{text}");
    }
    const GROUP: &str = "<group name='g' files='1' key-nodes='8' node-size='64'/>";
    const LIMIT: &str = "<limit policy='total' max='1'/>";
    const ROOM: &str = "<group name='h' keys='1'/>";
    let map = [
        ("<group name='h' files='4096' key-nodes='1' chain='57' node-size='64'/>", false),
        ("<biz id='1' name='a' key='ip'>LIMIT</biz>GROUP", true),
        ("GROUP<biz id='1' name='a' key='ip' group='g' ipv6-prefix='1'>LIMIT</biz>", true),
        ("GROUP<biz id='1' name='a' key='ip' group='h'>LIMIT</biz>", false),
        ("GROUP<biz id='0' name='a' key='ip'>LIMIT</biz>", false),
        ("GROUP<biz id='1' name='1' key='ip'>LIMIT</biz>", false),
        ("GROUP<biz id='1' name='1-' key='ip'>LIMIT</biz>", true),
        ("GROUP<biz id='1' name='a' key='ip'/>", false),
        ("GROUP<biz id='1' name='a' key='text'>LIMIT</biz>", false),
        (
            "GROUP<biz id='1' name='a' key='ip'>LIMIT</biz><biz id='1' name='b' key='ip'>LIMIT</biz>",
            false,
        ),
        (
            "GROUP<biz id='1' name='a' key='ip'>LIMIT</biz><biz id='2' name='a' key='ip'>LIMIT</biz>",
            false,
        ),
        (
            "GROUP<biz id='1' name='a' key='ip'><limit policy='total' max='9007199254740992'/></biz>",
            false,
        ),
        ("ROOM<biz id='1' name='r' key='string'><register/></biz>", true),
        ("ROOM<biz id='1' name='r' key='string'><register text-bytes='0'/></biz>", true),
        ("ROOM<biz id='1' name='r' key='string'><register text-bytes='512'/></biz>", true),
        ("ROOM<biz id='1' name='r' key='string'><register text-bytes='513'/></biz>", false),
        ("ROOM<biz id='1' name='r' key='string'><register/><register/></biz>", false),
        ("ROOM<biz id='1' name='r' key='string'><register/>LIMIT</biz>", false),
        ("ROOM<biz id='1' name='r' key='string'>LIMIT<register/></biz>", false),
        ("GROUPGROUP", false),
        ("", true),
    ];
    for (text, good) in map {
        let text = text.replace("GROUP", GROUP).replace("LIMIT", LIMIT).replace("ROOM", ROOM);
        agreed(&format!("<map>{text}</map>"), good);
    }
}

/// The commented example of `<resp>` in srv.xml works as it is, with the shipped map.xml and no
/// other file.
#[test]
fn the_shipped_resp_is_valid() {
    let shipped = read("srv.xml");
    let resp = shipped.lines().find(|line| line.starts_with("  <resp ")).expect("an example");
    let srv = format!("<srv>{resp}</srv>");
    let conf = Conf::parse("srv.xml", &srv, "map.xml", &read("map.xml")).unwrap_or_else(|faults| {
        panic!("{faults}");
    });
    let [resp] = conf.srv.resps.as_slice() else { panic!("{:?}", conf.srv.resps) };
    assert!(resp.token_file.is_none() && resp.throttle.is_none() && resp.registers.is_none());
    assert_ne!(valid("srv.xsd", &srv), Some(false));
}

/// The commented `<metrics>` in srv.xml equals that of the package and of the image.
#[test]
fn the_shipped_metrics_are_those_of_the_package() {
    let metrics = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("  <metrics "));
        line.expect("an example").to_owned()
    };
    let shipped = metrics(&read("srv.xml"));
    assert_eq!(shipped, "  <metrics listen=\"0.0.0.0:7602\"/>");
    for packaged in ["../deploy/srv.xml", "../deploy/container/srv.xml"] {
        assert_eq!(metrics(&read(packaged)), shipped, "{packaged}");
    }
    assert_ne!(valid("srv.xsd", &format!("<srv>{shipped}</srv>")), Some(false));
}

/// Both the check and the schema of map.xml accept the text, or both reject it.
fn agreed(map: &str, good: bool) {
    let found = Conf::parse("srv.xml", "<srv/>", "map.xml", map);
    assert_eq!(found.is_ok(), good, "{map} {found:?}");
    assert!(valid("map.xsd", map).is_none_or(|valid| valid == good), "{map}");
}

/// Schema and check agree on limits, lists and modes.
#[test]
fn schemas_know_every_policy() {
    let limits = [
        ("<limit policy='interval' interval='60s' max='5' debt='3' ban='10m'/>", true),
        ("<limit policy='sliding' interval='1m' max='1'/>", true),
        ("<limit policy='sliding-counter' interval='1m' max='9007199254740991'/>", true),
        ("<limit policy='token' rate='10/s' burst='20' scope='biz'/>", true),
        ("<limit policy='token' rate='1/d'/>", true),
        ("<limit policy='gcra' rate='30/m' burst='16'/>", true),
        ("<limit policy='gcra' rate='30/m' per-call='true' max-period='2h'/>", true),
        ("<limit policy='gcra' rate='30/m' per-call='1'/>", false),
        ("<limit policy='gcra' rate='30/m' per-call='true' max-period='2'/>", false),
        ("<limit policy='sliding' interval='1m' max='5' per-call='true' most='9'/>", true),
        ("<limit policy='calendar' unit='day' max='5' per-call='true' max-period='32d'/>", true),
        ("<limit policy='total' max='5' per-call='true' most='9007199254740992'/>", false),
        ("<limit policy='total' max='5' per-call='true' most=''/>", false),
        ("<limit policy='concurrent' max='2' ban='1m'/>", true),
        ("<limit policy='concurrent' max='2' on-exceed='slow'/>TOTAL", true),
        ("<limit policy='concurrency' max='2'/>", false),
        ("<limit policy='total' max='0' on-exceed='captcha'/>", true),
        ("<limit policy='count'/>", true),
        ("<limit policy='count' unit='week' tz='America/Port-au-Prince' at='23:59'/>", true),
        ("<limit policy='calendar' unit='day' max='1' tz='Etc/GMT+8' at='00:00'/>", true),
        (
            "<limit policy='count'><weight at='0' value='1'/><weight at='4' value='0.3'/></limit>",
            true,
        ),
        ("<limit policy='total' max='1'/><limit policy='count'/>", true),
        ("<limit policy='buckets' max='1'/>", false),
        ("<limit max='1'/>", false),
        ("<limit policy='total' max='-1'/>", false),
        ("<limit policy='calendar' unit='days' max='1'/>", false),
        ("<limit policy='calendar' unit='day' max='1' at='24:00'/>", false),
        ("<limit policy='calendar' unit='day' max='1' at='4:00'/>", false),
        ("<limit policy='calendar' unit='day' max='1' tz=''/>", false),
        ("<limit policy='token' rate='0/s'/>", false),
        ("<limit policy='token' rate='10/w'/>", false),
        ("<limit policy='token' rate='10'/>", false),
        ("<limit policy='token' rate='10/s' burst='0'/>", false),
        ("<limit policy='token' rate='10/s' burst='213503982335'/>", false),
        ("<limit policy='total' max='1' on-exceed='a b'/>", false),
        ("<limit policy='total' max='1' ban='10'/>", false),
        ("<limit policy='count'><weight at='0'/></limit>", false),
        ("<limit policy='count'><weight at='0' value='1000.5'/></limit>", false),
        ("<limit policy='count'><weight at='0' value='.5'/></limit>", false),
        ("<limit policy='count'><weight at='0' value='0.1234'/></limit>", false),
        (
            "<limit policy='count'><weight at='4' value='1'/><weight at='4' value='0'/></limit>",
            false,
        ),
        ("<allow key='a'/>TOTAL<deny key='a'/><override key='a*' limit='1' max='2'/>TOTAL", true),
        (
            "TOTAL TOTAL<override key='a' limit='1' max='2'/><override key='a' limit='2' max='2'/>",
            true,
        ),
        ("<allow key='a'/>", false),
        ("TOTAL<allow/>", false),
        ("TOTAL<deny key=''/>", false),
        ("TOTAL<deny key='a'/><deny key='a'/>", false),
        ("TOTAL<allow key='a' max='1'/>", false),
        ("TOTAL<override key='a' max='1'/>", false),
        ("TOTAL<override key='a' limit='1'/>", false),
        ("TOTAL<override key='a' limit='0' max='1'/>", false),
        ("TOTAL<override key='a' limit='1' max='2'/><override key='a' limit='1' max='3'/>", false),
        ("TOTAL<exempt key='a'/>", false),
    ];
    let group = "<group name='g' files='1' key-nodes='8' node-size='128'/>";
    let biz = |settings: &str, content: &str| {
        let content = content.replace("TOTAL", "<limit policy='total' max='1'/>");
        format!("<map>{group}<biz id='1' name='a' key='string'{settings}>{content}</biz></map>")
    };
    for (content, good) in limits {
        agreed(&biz("", content), good);
    }
    for (mode, good) in [("enforce", true), ("shadow", true), ("off", true), ("on", false)] {
        agreed(&biz(&format!(" mode='{mode}'"), "TOTAL"), good);
    }
    for (settings, good) in [
        ("once='1'", true),
        ("once='3' once-for='1h'", true),
        ("once='0'", false),
        ("once='65'", false),
        ("once='3' once-for='60'", false),
        ("holds='2' hold-ttl='7d' on-lapse='free'", true),
        ("holds='2' on-lapse='keep'", true),
        ("holds='0'", false),
        ("holds='1025'", false),
        ("holds='2' hold-ttl='long'", false),
        ("holds='2' on-lapse='drop'", false),
        ("hold='2'", false),
    ] {
        agreed(&biz(&format!(" {settings}"), "TOTAL"), good);
    }
}
