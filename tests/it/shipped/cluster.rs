//! Settings of shared limits: the schemas accept and reject the same as the check, and the
//! commented examples in the shipped files work.

use super::schema::{read, valid};
use frs_conf::{Conf, Share};

const MAP: &str = "<map><group name='g' files='1' key-nodes='8' node-size='64'/></map>";

/// Both the check and the schema of srv.xml accept the text, or both reject it.
fn srv_agreed(srv: &str, good: bool) {
    let found = Conf::parse("srv.xml", srv, "map.xml", MAP);
    assert_eq!(found.is_ok(), good, "{srv} {found:?}");
    assert!(valid("srv.xsd", srv).is_none_or(|valid| valid == good), "{srv}");
}

#[test]
fn schema_and_check_agree_on_clusters() {
    let node = |address: &str| format!("NAMED><node>{address}</node></cluster>");
    let with = |attributes: &str| format!("NAMED {attributes}><node>a:1</node></cluster>");
    let nodes = |count: u32| {
        let nodes: String = (1..=count).map(|port| format!("<node>a:{port}</node>")).collect();
        format!("NAMED>{nodes}</cluster>")
    };
    let cases = [
        (node("a:1"), true),
        (node(" redis://10.0.0.1:6379 "), true),
        (node("rediss://[fc00::1]:6379"), true),
        (node("a"), false),
        (node("http://a:1"), false),
        (node("redis://u:p@a:1"), false),
        (node("redis://a:1/0"), false),
        (node(""), false),
        (nodes(0), false),
        (nodes(64), true),
        (nodes(65), false),
        (with("timeout='1ms' learn='1m' wait-replicas='8' batch='1024' max-parked='65536'"), true),
        (with("timeout='50'"), false),
        (with("wait-replicas='9'"), false),
        (with("batch='0'"), false),
        (with("batch='1025'"), false),
        (with("max-parked='0'"), false),
        (with("max-parked='65537'"), false),
        (with("secret='s'"), false),
        ("NAMED><node user='u' password-file='p'>a:1</node></cluster>".to_owned(), true),
        ("NAMED><node password-file='p/'>a:1</node></cluster>".to_owned(), false),
        ("NAMED><node user='a b' password-file='p'>a:1</node></cluster>".to_owned(), false),
        ("NAMED><node password='p'>a:1</node></cluster>".to_owned(), false),
        ("<cluster name='A' secret-file='s'><node>a:1</node></cluster>".to_owned(), false),
        ("<cluster name='a'><node>a:1</node></cluster>".to_owned(), false),
        ("<cluster secret-file='s'><node>a:1</node></cluster>".to_owned(), false),
    ];
    for (text, good) in cases {
        let text = text.replace("NAMED", "<cluster name='prod' secret-file='conf/s'");
        srv_agreed(&format!("<srv>{text}</srv>"), good);
    }
}

const SRV: &str = "<srv><cluster name='prod' secret-file='conf/s'><node>a:1</node></cluster></srv>";

/// Both the check and the schema of map.xml accept the text, or both reject it.
fn map_agreed(map: &str, good: bool) {
    let found = Conf::parse("srv.xml", SRV, "map.xml", map);
    assert_eq!(found.is_ok(), good, "{map} {found:?}");
    assert!(valid("map.xsd", map).is_none_or(|valid| valid == good), "{map}");
}

#[test]
fn schema_and_check_agree_on_shares() {
    let cases = [
        ("share='host'", true),
        ("share='cluster' hosts='1'", true),
        ("share='cluster' hosts='1024' on-miss='refuse' on-down='share' wait='1ms'", true),
        ("share='exact' on-miss='admit' on-down='local' wait='1s'", true),
        ("share='exact' on-miss='busy' on-down='refuse'", true),
        ("share='all'", false),
        ("share='exact' on-miss='wait'", false),
        ("share='exact' on-down='admit'", false),
        ("share='exact' wait='20'", false),
        ("share='exact' hosts='0'", false),
        ("share='exact' hosts='1025'", false),
        ("share='exact' host='8'", false),
    ];
    for (settings, good) in cases {
        let group = "<group name='g' files='1' key-nodes='8' node-size='256'/>";
        let limit = "<limit policy='total' max='1'/>";
        let biz = format!("<biz id='1' name='a' key='string' {settings}>{limit}</biz>");
        map_agreed(&format!("<map>{group}{biz}</map>"), good);
    }
}

/// A shipped file with the commented example of an element put into force.
fn with_example(file: &str, element: &str) -> String {
    let text = read(file);
    let end_tag = format!("</{}>", element.trim_start_matches('<').split(' ').next().unwrap_or(""));
    let at = text.find(element).unwrap_or_else(|| panic!("{element} in {file}"));
    let end = at + text[at..].find(&end_tag).expect("it ends") + end_tag.len();
    let comment_end = at + text[at..].find("-->").expect("in a comment") + 3;
    assert!(end < comment_end && text[..at].rfind("<!--") > text[..at].rfind("-->"), "a comment");
    format!("{}\n{}{}", &text[..comment_end], &text[at..end], &text[comment_end..])
}

/// A shipped map with the commented group of this name put into force.
fn with_group(name: &str, map: &str) -> String {
    let at = map.find(&format!("<group name=\"{name}\"")).expect("the example of a group");
    let group = &map[at..at + map[at..].find("/>").expect("it ends") + 2];
    map.replace("</map>", &format!("{group}\n</map>"))
}

#[test]
fn the_shipped_example_of_a_cluster_is_taken() {
    let srv = with_example("srv.xml", "<cluster ");
    srv_agreed(&srv, true);
    let conf = Conf::parse("srv.xml", &srv, "map.xml", MAP).unwrap();
    let cluster = conf.srv.cluster.expect("a cluster");
    assert_eq!((cluster.name.as_str(), cluster.nodes.len()), ("prod", 2));
    // Settings that are left out have the values shown.
    let bare = "<srv><cluster name='prod' secret-file='conf/cluster.secret'>\
                <node>10.0.0.1:6379</node><node>10.0.0.2:6379</node></cluster></srv>";
    let bare = Conf::parse("srv.xml", bare, "map.xml", MAP).unwrap();
    assert_eq!(bare.srv.cluster, Some(cluster));
}

#[test]
fn the_shipped_examples_of_shares_are_taken() {
    let map = |element: &str| {
        let map = with_group("shared", &with_example("map.xml", element));
        map_agreed(&map, true);
        Conf::parse("srv.xml", SRV, "map.xml", &map).unwrap().map
    };
    let partner = map("<biz id=\"2001\"");
    let partner = &partner.bizs[partner.find_biz("partner").expect("the example")];
    // The values shown are the defaults.
    let bare = "<map><group name='g' files='1' key-nodes='8' node-size='256'/>\
                <biz id='1' name='a' key='string' share='cluster' hosts='8'>\
                <limit policy='total' max='1'/></biz></map>";
    let bare = Conf::parse("srv.xml", SRV, "map.xml", bare).unwrap();
    assert_eq!(partner.sharing, bare.map.bizs[0].sharing);
    let quota = map("<biz id=\"2002\"");
    let quota = &quota.bizs[quota.find_biz("quota").expect("the example")];
    assert!(quota.sharing.is_some_and(|sharing| sharing.share == Share::Exact));
}

#[test]
fn the_worked_example_of_a_cluster_is_taken() {
    let (srv, map) = (
        include_str!("../../../conf/examples/cluster/srv.xml"),
        include_str!("../../../conf/examples/cluster/map.xml"),
    );
    Conf::parse("srv.xml", srv, "map.xml", map).expect("a configuration");
    assert!(valid("srv.xsd", srv).is_none_or(|valid| valid));
    assert!(valid("map.xsd", map).is_none_or(|valid| valid));
}
