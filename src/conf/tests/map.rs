//! Faults of map.xml alone.

use super::{faults, good, map_faults, parse};

#[test]
fn faulty_groups() {
    let cases = [
        (
            "<group files='1' key-nodes='8' node-size='64'/>",
            "1: found <group> without name, expected name: 1 to 32 of a-z, 0-9 and -",
        ),
        (
            "<group name='G' files='1' key-nodes='8' node-size='64'/>",
            "14: found name=\"G\", expected 1 to 32 of a-z, 0-9 and -",
        ),
        (
            "<group name='h' key-nodes='8' node-size='64'/>",
            "1: found <group> without files, expected files: a whole number from 1 to 4096",
        ),
        (
            "<group name='h' files='1' node-size='64'/>",
            "1: found <group> without key-nodes, expected key-nodes: a whole number from 1 to 4294967295",
        ),
        (
            "<group name='h' files='1' key-nodes='8'/>",
            "1: found <group> without node-size, expected node-size: a multiple of 64 from 64 to 32768",
        ),
        (
            "<group name='h' files='1' key-nodes='8' node-size='100'/>",
            "52: found node-size=\"100\", expected a multiple of 64 from 64 to 32768",
        ),
        (
            "<group name='h' files='1' key-nodes='8' node-size='64' chain='57'/>",
            "63: found chain=\"57\", expected a whole number from 1 to 56",
        ),
        (
            "<group name='h' files='1' key-nodes='8' node-size='64' key-bytes='20'/>",
            "67: found key-bytes=\"20\", expected a multiple of 8 from 8 to 256",
        ),
        (
            "<group name='h' files='1' key-nodes='8' node-size='64' hash='bbo'/>",
            "62: found hash=\"bbo\", expected one of bob, siphash (nearest: bob)",
        ),
        (
            "<group name='h' files='1' key-nodes='8' node-size='64' on-full='drop'/>",
            "65: found on-full=\"drop\", expected one of evict, refuse",
        ),
        (
            "<group name='g' files='1' key-nodes='8' node-size='64'/>",
            "14: found name=\"g\" again, expected one that no <group> has (line 1 has it)",
        ),
        (
            "<group name='h' files='4096' key-nodes='8' node-size='64'/>",
            "24: found files=\"4096\", 4097 in all so far, expected at most 4096 files of all groups",
        ),
        (
            "<group name='h' files='1' key-nodes='4294967295' node-size='32768'/>",
            "38: found key-nodes=\"4294967295\", files of 7881574223974336 bytes, expected at most 153386339 (a file is smaller than 2^48 bytes)",
        ),
        (
            "<group name='h' files='1' key-nodes='8' node-size='64'><biz/></group>",
            "56: found <biz> in <group>, expected no element",
        ),
        ("<gruop/>", "1: found <gruop> in <map>, expected one of group, biz (nearest: group)"),
    ];
    for (map, expected) in cases {
        map_faults(map, &[&format!("map.xml:2:{expected}")]);
    }
    faults(
        parse("<srv/>", "<map/>"),
        &["map.xml:1:1: found <map> without <group>, expected at least one <group>"],
    );
}

#[test]
fn the_largest_file_fits() {
    good(
        "<srv/>",
        "<map><group name='h' files='1' key-nodes='153386339' node-size='32768'/></map>",
    );
}

#[test]
fn faulty_businesses() {
    let cases = [
        (
            "<biz name='a' key='ip'><limit policy='total' max='1'/></biz>",
            "1: found <biz> without id, expected id: a whole number from 1 to 4294967295",
        ),
        (
            "<biz id='4294967296' name='a' key='ip'><limit policy='total' max='1'/></biz>",
            "10: found id=\"4294967296\", expected a whole number from 1 to 4294967295",
        ),
        (
            "<biz id='1' key='ip'><limit policy='total' max='1'/></biz>",
            "1: found <biz> without name, expected name: 1 to 64 of A-Z, a-z, 0-9, ., _ and -, not digits only",
        ),
        (
            "<biz id='1' name='a b' key='ip'><limit policy='total' max='1'/></biz>",
            "19: found name=\"a b\", expected 1 to 64 of A-Z, a-z, 0-9, ., _ and -, not digits only",
        ),
        (
            "<biz id='1' name='a'><limit policy='total' max='1'/></biz>",
            "1: found <biz> without key, expected key: one of string, integer, ip, digest",
        ),
        (
            "<biz id='1' name='a' key='ip'/>",
            "1: found <biz> without <limit>, expected at least one <limit>",
        ),
        (
            "<biz id='1' name='a' key='string' ipv6-prefix='64'><limit policy='total' max='1'/></biz>",
            "35: found attribute ipv6-prefix, expected it with key=\"ip\" only",
        ),
        (
            "<biz id='1' name='a' key='ip' ipv6-prefix='129'><limit policy='total' max='1'/></biz>",
            "44: found ipv6-prefix=\"129\", expected a whole number from 1 to 128",
        ),
        (
            "<biz id='1' name='a' key='ip' group='gg'><limit policy='total' max='1'/></biz>",
            "38: found group=\"gg\", expected the name of a <group>: g (nearest: g)",
        ),
        (
            "<biz id='1' name='a' key='ip' group='log'><limit policy='total' max='1'/></biz>",
            "38: found group=\"log\", expected the name of a <group>: g",
        ),
        (
            "<biz id='1' name='a' key='ip' mode='off'><limit policy='total' max='1'/></biz>",
            "31: found attribute mode of <biz>, expected none: this version of frs does not have it yet",
        ),
        (
            "<biz id='1' name='a' key='ip'><deny key='1.2.3.4'/><limit policy='total' max='1'/></biz>",
            "31: found <deny> in <biz>, expected none: this version of frs does not have it yet",
        ),
        (
            "<biz id='1' name='a' key='ip'><limit policy='total' max='1'/><limits/></biz>",
            "62: found <limits> in <biz>, expected limit (nearest: limit)",
        ),
    ];
    for (map, expected) in cases {
        map_faults(map, &[&format!("map.xml:2:{expected}")]);
    }
    let two = "<biz id='1' name='a' key='ip'><limit policy='total' max='1'/></biz>\n\
               <biz id='01' name='a' key='ip'><limit policy='total' max='1'/></biz>";
    map_faults(
        two,
        &[
            "map.xml:3:10: found id=\"01\" again, expected one that no <biz> has (line 2 has it)",
            "map.xml:3:20: found name=\"a\" again, expected one that no <biz> has (line 2 has it)",
        ],
    );
}

#[test]
fn faulty_limits() {
    let cases = [
        ("max='1'", "1: found <limit> without policy, expected policy: one of interval, total"),
        (
            "policy='intervall' max='1'",
            "16: found policy=\"intervall\", expected one of interval, total (nearest: interval)",
        ),
        (
            "policy='sliding' interval='1m' max='1'",
            "16: found policy=\"sliding\", expected interval or total: this version of frs does not have sliding yet",
        ),
        (
            "policy='calendar' unit='day' tz='UTC' max='1'",
            "16: found policy=\"calendar\", expected interval or total: this version of frs does not have calendar yet",
        ),
        (
            "policy='sliding-counter' interval='1m' max='1'",
            "16: found policy=\"sliding-counter\", expected interval or total: this version of frs does not have sliding-counter yet",
        ),
        (
            "policy='token' rate='10/s' burst='20'",
            "16: found policy=\"token\", expected interval or total: this version of frs does not have token yet",
        ),
        (
            "policy='count'",
            "16: found policy=\"count\", expected interval or total: this version of frs does not have count yet",
        ),
        (
            "policy='interval' interval='1m'",
            "1: found <limit> without max, expected max: a whole number from 0 to 9007199254740991",
        ),
        (
            "policy='interval' interval='60' max='1'",
            "36: found interval=\"60\", expected a duration from 1ms to 9007199254740991ms, such as 250ms, 60s, 15m, 24h or 7d",
        ),
        (
            "policy='interval' interval='1m' max='9007199254740992'",
            "45: found max=\"9007199254740992\", expected a whole number from 0 to 9007199254740991",
        ),
        (
            "policy='interval' interval='1m' max='0' debt='1'",
            "54: found debt=\"1\" with max=\"0\", expected a max of at least 1, or no debt",
        ),
        (
            "policy='interval' interval='1m' max='1' debt='9007199254740991'",
            "54: found debt=\"9007199254740991\", which takes 9007199254740993 intervals to pay back, expected at most 9007199254740991 ms for that",
        ),
        (
            "policy='interval' interval='1m' max='1' ban='0s'",
            "53: found ban=\"0s\", expected a duration from 1ms to 9007199254740991ms, such as 250ms, 60s, 15m, 24h or 7d",
        ),
        (
            "policy='interval' interval='1m' max='1' scope='user'",
            "55: found scope=\"user\", expected one of key, biz",
        ),
        (
            "policy='total' max='1' interval='1m'",
            "31: found attribute interval with policy=\"total\", expected it with policy=\"interval\" only",
        ),
        (
            "policy='total' max='1' debt='1'",
            "31: found attribute debt with policy=\"total\", expected it with policy=\"interval\" only",
        ),
        (
            "policy='total' max='1' on-exceed='captcha'",
            "31: found attribute on-exceed of <limit>, expected none: this version of frs does not have it yet",
        ),
        (
            "policy='total' max='1' unit='day'",
            "31: found attribute unit of <limit>, expected none: this version of frs does not have it yet",
        ),
        (
            "policy='total' maxx='1' max='2'",
            "23: found attribute maxx of <limit>, expected one of policy, scope, interval, max, debt, ban (nearest: max)",
        ),
    ];
    for (limit, expected) in cases {
        let map = format!("<biz id='1' name='a' key='ip'>\n<limit {limit}/></biz>");
        map_faults(&map, &[&format!("map.xml:3:{expected}")]);
    }
    map_faults(
        "<biz id='1' name='a' key='ip'><limit policy='total' max='1'>\n<weight at='1' value='0.5'/></limit></biz>",
        &[
            "map.xml:3:1: found <weight> in <limit>, expected none: this version of frs does not have it yet",
        ],
    );
}

#[test]
fn bounds_of_limits_are_taken() {
    for limit in [
        "policy='interval' interval='9007199254740991ms' max='0'",
        "policy='interval' interval='1ms' max='9007199254740991' debt='9007199254740991'",
        "policy='interval' interval='1ms' max='1' debt='9007199254740989'",
        "policy='total' max='0' ban='9007199254740991ms'",
    ] {
        let map = format!(
            "<map><group name='g' files='1' key-nodes='1' node-size='128'/>\
             <biz id='1' name='a' key='ip'><limit {limit}/></biz></map>"
        );
        good("<srv/>", &map);
    }
}
