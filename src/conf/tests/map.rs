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
            "<group name='h' node-size='64'/>",
            "1: found <group> without keys, expected keys, the number to plan for; or files and key-nodes",
        ),
        (
            "<group name='h' keys='0'/>",
            "23: found keys=\"0\", expected a whole number from 1 to 10000000000",
        ),
        (
            "<group name='h' keys='10000000001' files='2'/>",
            "23: found keys=\"10000000001\", expected a whole number from 1 to 10000000000",
        ),
        (
            "<group name='h' keys='7' files='2'/>",
            "26: found files=\"2\" beside keys, expected keys alone, from which it is derived; or files and key-nodes",
        ),
        (
            "<group name='h' key-nodes='9' keys='7'/>",
            "17: found key-nodes=\"9\" beside keys, expected keys alone, from which it is derived; or files and key-nodes",
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
    let lone = "<map><biz id='1' name='a' key='ip'><limit policy='total' max='1'/></biz></map>";
    faults(
        parse("<srv/>", lone),
        &["map.xml:1:1: found <map> with <biz> and without <group>, expected at least one <group>"],
    );
}

// Shows: no-business.
#[test]
fn a_file_of_no_business_is_a_configuration_that_says_so() {
    const ONE_GROUP: &str = "<map><group name='g' keys='1' node-size='64'/></map>";
    for (map, groups) in [("<map/>", 0), ("<map><!-- none --></map>", 0), (ONE_GROUP, 1)] {
        let conf = good("<srv/>", map);
        assert_eq!((conf.map.groups.len(), conf.map.bizs.len()), (groups, 0));
        let words = conf.no_biz_words().expect("said");
        assert!(words.contains("every item answers `unknown-biz`"), "{words}");
    }
    let refused = good("<srv><http unknown-biz='refuse'/></srv>", "<map/>");
    let words = refused.no_biz_words().expect("said");
    assert!(words.contains("every item is refused"), "{words}");
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
            "1: found <biz> without <limit>, expected at least one <limit>, or a <register>",
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
            "<biz id='1' name='a' key='ip' mode='of'><limit policy='total' max='1'/></biz>",
            "37: found mode=\"of\", expected one of enforce, shadow, off (nearest: off)",
        ),
        (
            "<biz id='1' name='a' key='ip' mod='off'><limit policy='total' max='1'/></biz>",
            "31: found attribute mod of <biz>, expected one of id, name, group, key, ipv6-prefix, mode, share, on-miss, on-down, wait, hosts, once, once-for, holds, hold-ttl, on-lapse (nearest: mode)",
        ),
        (
            "<biz id='1' name='a' key='ip'><limit policy='total' max='1'/><limits/></biz>",
            "62: found <limits> in <biz>, expected one of register, limit, allow, deny, override (nearest: limit)",
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
