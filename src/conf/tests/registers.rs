//! `<register>` of a biz, and `registers` of `<resp>`: what is read, and every fault.

use super::{faults, good, parse};
use crate::{Biz, Conf, RegisterRoom, Scope, check};

/// A map whose second line has one biz with these settings and this content.
fn map(settings: &str, content: &str) -> String {
    format!(
        "<map><group name='g' keys='9'/>\n<biz id='1' name='a' {settings}>{content}</biz></map>"
    )
}

fn biz(content: &str) -> (Conf, Biz) {
    let conf = good("<srv/>", &map("key='string'", content));
    let biz = conf.map.bizs[0].clone();
    (conf, biz)
}

#[track_caller]
fn faulty(settings: &str, content: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|fault| format!("map.xml:2:{fault}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    faults(parse("<srv/>", &map(settings, content)), &expected);
}

#[test]
fn a_register_has_room_for_a_number_and_its_text() {
    for (content, text_bytes, words, node_bytes) in [
        ("<register/>", 40, 7, 192),
        ("<register text-bytes='0'/>", 0, 3, 128),
        ("<register text-bytes='8'/>", 8, 3, 128),
        ("<register text-bytes='9'/>", 9, 4, 128),
        ("<register text-bytes='512'/>", 512, 66, 640),
    ] {
        let (conf, biz) = biz(content);
        assert_eq!(biz.register, Some(RegisterRoom { text_bytes }), "{content}");
        assert_eq!(biz.register_words(Scope::Key), words, "{content}");
        assert_eq!((biz.register_words(Scope::Biz), biz.limits.len()), (0, 0));
        let group = &conf.map.groups[0];
        assert_eq!(group.geometry.key_bytes, 72, "keys of libraries are long");
        assert_eq!(group.geometry.node_bytes, node_bytes, "{content}");
    }
    let (_, biz) = biz("<register/>");
    assert_eq!(
        check::needs(&biz, check::NodeFrame { key_bytes: 72, version_bytes: 0 }),
        "152 bytes (header 24, key 72, register with a text of 40 bytes 56)"
    );
}

#[test]
fn key_bytes_of_a_group_with_registers_can_be_stated() {
    let text = map("key='string'", "<register/>");
    let stated = good("<srv/>", &text.replace("keys='9'", "keys='9' key-bytes='24'"));
    assert_eq!(stated.map.groups[0].geometry.key_bytes, 24);
    let other = "<group name='g' keys='9'/>\n<group name='h' keys='9'/>\
        <biz id='2' name='b' key='string'><limit policy='count'/></biz>\
        <biz id='1' name='a' group='h' key='string'><register/></biz>";
    let groups = good("<srv/>", &format!("<map>{other}</map>")).map.groups;
    assert_eq!([0, 1].map(|at: usize| groups[at].geometry.key_bytes), [24, 72]);
}

#[test]
fn nothing_of_limits_stands_beside_a_register() {
    let string = "key='string'";
    faulty(
        string,
        "<register text-bytes='513'/>",
        &["57: found text-bytes=\"513\", expected a whole number from 0 to 512"],
    );
    faulty(
        string,
        "<register bytes='8'/>",
        &["45: found attribute bytes of <register>, expected text-bytes"],
    );
    faulty(
        string,
        "<register/><limit policy='count'/><allow key='a'/>",
        &[
            "46: found <limit> beside <register>, expected limits or a register: another <biz> for \
             one of them",
            "69: found <allow> beside <register>, expected limits or a register: another <biz> for \
             one of them",
        ],
    );
    faulty(
        string,
        "<register/><register/>",
        &["46: found <register> again, expected one (the first is in line 2)"],
    );
    faulty(
        "key='string' once='1' mode='shadow'",
        "<register/>",
        &[
            "35: found attribute once beside <register>, expected it beside limits only",
            "44: found attribute mode beside <register>, expected it beside limits only",
        ],
    );
    faulty(
        "key='integer'",
        "<register/>",
        &["27: found key=\"integer\" with <register>, expected key=\"string\""],
    );
    faulty(
        string,
        "",
        &["1: found <biz> without <limit>, expected at least one <limit>, or a \
                          <register>"],
    );
}

#[test]
fn the_undo_log_holds_all_registers_of_a_transaction() {
    let with = |node_bytes: u32| {
        map("key='string'", "<register/>")
            .replace("keys='9'", &format!("keys='9' node-size='{node_bytes}'"))
    };
    good("<srv/>", &with(32_704));
    faults(
        parse("<srv/>", &with(32_768)),
        &[
            "map.xml:1:42: found nodes of 32,768 bytes, of which 16 registers may log 65,568 words, \
           expected another group for the registers of biz 1 \"a\": the undo log holds 65,536 \
           words",
        ],
    );
}

#[test]
fn registers_stay_on_their_machine() {
    let cluster = "<srv><cluster name='c' secret-file='s'><node>10.0.0.1:1</node></cluster></srv>";
    for (setting, with) in [("backup='1m'", "backup"), ("spill='true'", "spill=\"true\"")] {
        let text = map("key='string'", "<register/>");
        let text = text.replace("keys='9'", &format!("keys='9' {setting}"));
        faults(
            parse(cluster, &text),
            &[&format!(
                "map.xml:2:35: found <register> in the group \"g\" with {with}, expected another \
                 group: registers stay on this machine"
            )],
        );
    }
}

const BOTH: &str = "<map><group name='g' keys='9'/>\
    <biz id='9000' name='redis' key='string'><register/></biz>\
    <biz id='1' name='login' key='string'><limit policy='count'/></biz></map>";

#[test]
fn resp_names_a_biz_with_registers() {
    let of = |settings: &str| {
        let srv = format!("<srv>\n<resp listen='[::1]:1' {settings}/></srv>");
        parse(&srv, BOTH)
    };
    let resp =
        |settings: &str| of(settings).unwrap_or_else(|it| panic!("{it}")).srv.resps[0].clone();
    assert_eq!((resp("").registers, resp("").databases), (None, 1));
    let named = resp("registers='9000' databases='16'");
    assert_eq!((named.registers.as_deref(), named.databases), (Some("9000"), 16));
    assert_eq!(resp("registers='redis'").registers.as_deref(), Some("redis"));
    for (settings, fault) in [
        ("registers=''", "35: found registers=\"\", expected a biz of map.xml with a <register>"),
        (
            "registers='rediss'",
            "35: found registers=\"rediss\", expected the name or id of a biz of map.xml with a \
             <register> (nearest: redis)",
        ),
        (
            "registers='login'",
            "35: found registers=\"login\", biz 1 \"login\" with policy=\"count\", expected a biz \
             of map.xml with a <register>",
        ),
        (
            "registers='redis' databases='0'",
            "53: found databases=\"0\", expected a whole number from 1 to 1024",
        ),
        (
            "databases='16'",
            "24: found attribute databases without registers, expected it with registers only",
        ),
        (
            "throttle='redis'",
            "34: found throttle=\"redis\", biz 9000 \"redis\" with <register>, expected a biz of \
             map.xml whose only limit is policy=\"gcra\" with per-call=\"true\"",
        ),
    ] {
        faults(of(settings), &[&format!("srv.xml:2:{fault}")]);
    }
}

#[test]
fn calls_of_envoy_find_no_registers() {
    let srv = "<srv>\n<rls listen='[::1]:1'><domain name='d'>\
        <descriptor entries='a' biz='redis' key='{a}'/></domain></rls></srv>";
    faults(
        parse(srv, BOTH),
        &["srv.xml:2:69: found biz=\"redis\", which has registers, expected a biz with limits"],
    );
}
