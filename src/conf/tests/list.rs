//! Lists: the accepted keys of each type, and every fault of an entry.

use super::super::{Cidr, ListRule, Listed, Mode, Pattern};
use super::{faults, good, map_faults, parse};

const LIMIT: &str = "<limit policy='interval' interval='1m' max='5'/>";

/// Checks the only fault of this entry in a biz with one limit. `expected` begins with the column.
#[track_caller]
fn one_fault(key_type: &str, entry: &str, expected: &str) {
    let map = format!("<biz id='1' name='a' key='{key_type}'>{LIMIT}\n{entry}</biz>");
    map_faults(&map, &[&format!("map.xml:3:{expected}")]);
}

/// The list that is read from these entries of a biz.
#[track_caller]
fn listed(key_type: &str, entries: &str) -> Vec<Listed> {
    let map = format!(
        "<map><group name='g' files='1' key-nodes='8' node-size='64'/>\
         <biz id='1' name='a' key='{key_type}' mode='shadow'>{entries}{LIMIT}</biz></map>"
    );
    let conf = good("<srv/>", &map);
    assert_eq!(conf.map.bizs[0].mode, Mode::Shadow);
    conf.map.bizs[0].listed.clone()
}

#[track_caller]
fn pattern(key_type: &str, key: &str) -> Pattern {
    let [listed] = <[Listed; 1]>::try_from(listed(key_type, &format!("<deny key='{key}'/>")))
        .unwrap_or_else(|listed| panic!("{listed:?}"));
    listed.pattern
}

#[test]
fn entries_keep_their_order_and_rules() {
    let found = listed(
        "string",
        "<deny key='app7|bob'/><override key='app7|*' limit='1' max='5000'/><allow key='*'/>\
         <allow key='app7|bob'/>",
    );
    let of = |pattern, rule| Listed { pattern, rule };
    let bob = || Pattern::Exact("app7|bob".to_owned());
    assert_eq!(
        found,
        [
            of(bob(), ListRule::Deny),
            of(Pattern::Prefix("app7|".to_owned()), ListRule::Override { limit: 0, max: 5000 }),
            of(Pattern::Prefix(String::new()), ListRule::Allow),
            of(bob(), ListRule::Allow),
        ]
    );
}

#[test]
fn patterns_are_of_their_type() {
    let exact = |text: &str| Pattern::Exact(text.to_owned());
    let prefix = |text: &str| Pattern::Prefix(text.to_owned());
    let block = |text: &str| Pattern::Block(Cidr::parse(text).unwrap());
    for (key_type, key, expected) in [
        ("string", "a", exact("a")),
        ("string", "10.0.0.0/8", exact("10.0.0.0/8")),
        ("string", "a*b", exact("a*b")),
        ("string", "a**", prefix("a*")),
        ("string", "*", prefix("")),
        ("digest", "a*", prefix("a")),
        ("integer", "7", exact("7")),
        ("integer", "007", exact("7")),
        ("integer", "000", exact("0")),
        ("integer", "18446744073709551615", exact("18446744073709551615")),
        ("integer", "138*", prefix("138")),
        ("integer", "0*", prefix("0")),
        ("integer", "*", prefix("")),
        ("ip", "10.0.0.0/8", block("10.0.0.0/8")),
        ("ip", "10.0.0.1", block("10.0.0.1/32")),
        ("ip", "::ffff:10.0.0.1", block("10.0.0.1/32")),
        ("ip", "2001:db8::/32", block("2001:db8::/32")),
        ("ip", "::1", block("::1/128")),
    ] {
        assert_eq!(pattern(key_type, key), expected, "{key_type} {key}");
    }
    assert_eq!(pattern("string", &"x".repeat(1024)), exact(&"x".repeat(1024)));
}

#[test]
fn faulty_patterns() {
    const BYTES: &str = "a key of 1 to 1024 bytes";
    const NUMBER: &str = "a whole number from 0 to 18446744073709551615";
    const DIGITS: &str = "the first digits of a number to 18446744073709551615, and *";
    const BLOCK: &str = "an address or a block of addresses such as 10.0.0.0/8 or fc00::/7";
    const NO_STAR: &str =
        "an address or a block of addresses without * (0.0.0.0/0 is all of IPv4, ::/0 all of IPv6)";
    for (key_type, key, expected) in [
        ("string", "", BYTES),
        ("ip", "", BYTES),
        ("integer", "", BYTES),
        ("integer", "a", NUMBER),
        ("integer", "-1", NUMBER),
        ("integer", "18446744073709551616", NUMBER),
        ("integer", "a*", DIGITS),
        ("integer", "1**", DIGITS),
        ("integer", "007*", DIGITS),
        ("integer", "18446744073709551616*", DIGITS),
        ("ip", "localhost", BLOCK),
        ("ip", "10.0.0.0:80", BLOCK),
        ("ip", "10.*", NO_STAR),
        ("ip", "*", NO_STAR),
        ("ip", "10.0.0.0/33", "at most 32 leading bits"),
        ("ip", "10.0.0.1/8", "10.0.0.0/8 (an address without bits behind the prefix)"),
    ] {
        for list in ["allow", "deny"] {
            let column = list.len() + 8;
            let expected = format!("{column}: found key=\"{key}\", expected {expected}");
            one_fault(key_type, &format!("<{list} key='{key}'/>"), &expected);
        }
        let entry = format!("<override limit='1' max='1' key='{key}'/>");
        one_fault(key_type, &entry, &format!("34: found key=\"{key}\", expected {expected}"));
    }
    let long = "x".repeat(1025);
    let shown = "x".repeat(64);
    one_fault(
        "string",
        &format!("<allow key='{long}'/>"),
        &format!("13: found key=\"{shown}…\", expected {BYTES}"),
    );
    one_fault("ip", "<allow/>", &format!("1: found <allow> without key, expected key: {BYTES}"));
    one_fault(
        "ip",
        "<allow key='::1' max='1'/>",
        "18: found attribute max of <allow>, expected key",
    );
}

#[test]
fn keys_of_an_unknown_type_are_no_faults_of_their_own() {
    map_faults(
        &format!("<biz id='1' name='a' key='addr'>{LIMIT}<deny key='10.*'/></biz>"),
        &["map.xml:2:27: found key=\"addr\", expected one of string, integer, ip, digest"],
    );
}

#[test]
fn faulty_overrides() {
    let limits = "<limit policy='interval' interval='1m' max='5' debt='3'/>
                  <limit policy='sliding' interval='1m' max='5'/>
                  <limit policy='token' rate='1/d' burst='5'/>
                  <limit policy='count'/>
                  <limit policy='calendar' unit='year' max='1000' debt='995'/>
                  <limit policy='total' max='5'/>";
    const USES: &str = "a whole number from 0 to 9007199254740991";
    for (entry, expected) in [
        (
            "<override key='a' max='1'/>",
            "1: found <override> without limit, expected limit: a whole number from 1 to 6",
        ),
        (
            "<override key='a' limit='1'/>",
            "1: found <override> without max, expected max: a whole number from 1 to 9007199254740991 for limit 1 (interval)",
        ),
        (
            "<override key='a' limit='0' max='1'/>",
            "26: found limit=\"0\", expected a whole number from 1 to 6",
        ),
        (
            "<override key='a' limit='7' max='1'/>",
            "26: found limit=\"7\", expected a whole number from 1 to 6",
        ),
        (
            "<override key='a' limit='7' max='x'/>",
            "26: found limit=\"7\", expected a whole number from 1 to 6|34: found max=\"x\", expected USES",
        ),
        (
            "<override key='a' limit='1' max='0'/>",
            "34: found max=\"0\", expected a whole number from 1 to 9007199254740991 for limit 1 (interval)",
        ),
        (
            "<override key='a' limit='2' max='4097'/>",
            "34: found max=\"4097\", expected a whole number from 0 to 4096 for limit 2 (sliding)",
        ),
        (
            "<override key='a' limit='3' max='0'/>",
            "34: found max=\"0\", expected a whole number from 1 to 104249991 for limit 3 (token)",
        ),
        (
            "<override key='a' limit='3' max='104249992'/>",
            "34: found max=\"104249992\", expected a whole number from 1 to 104249991 for limit 3 (token)",
        ),
        (
            "<override key='a' limit='4' max='1'/>",
            "26: found limit=\"4\", which counts only, expected a limit with a max",
        ),
        (
            "<override key='a' limit='5' max='0'/>",
            "34: found max=\"0\", expected a whole number from 1 to 9007199254740991 for limit 5 (calendar)",
        ),
        (
            "<override key='a' limit='6' max='9007199254740992'/>",
            "34: found max=\"9007199254740992\", expected USES for limit 6 (total)",
        ),
        (
            "<override key='a' limit='1' mx='1' max='1'/>",
            "29: found attribute mx of <override>, expected one of key, limit, max (nearest: max)",
        ),
    ] {
        let map = format!(
            "<map><group name='g' files='1' key-nodes='8' node-size='192'/>\n\
             <biz id='1' name='a' key='string'>{limits}\n{entry}</biz></map>"
        );
        let expected = expected.replace("USES", USES);
        let expected: Vec<String> =
            expected.split('|').map(|fault| format!("map.xml:8:{fault}")).collect();
        faults(parse("<srv/>", &map), &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// A debt may be paid back in time with the limit's max, but not with the max of an override.
#[test]
fn overrides_pay_debts_back_in_time() {
    let map = |max: u32| {
        format!(
            "<biz id='1' name='a' key='string'>
             <limit policy='calendar' unit='year' max='5000' debt='1000000'/>
             <override key='a' limit='1' max='{max}'/></biz>"
        )
    };
    // 366,000 days are 997 of the longest years. 1000000 / 1004 + 2 is one year too many.
    map_faults(
        &map(1004),
        &[
            "map.xml:4:47: found max=\"1004\", expected a whole number from 1005 to 9007199254740991 for limit 1 (calendar)",
        ],
    );
    let group = "<group name='g' files='1' key-nodes='8' node-size='64'/>";
    good("<srv/>", &format!("<map>{group}{}</map>", map(1005)));
}

#[test]
fn the_same_keys_twice_are_faults() {
    let limits = "<limit policy='total' max='1'/><limit policy='total' max='2'/>";
    for (key_type, entries, expected) in [
        (
            "string",
            "<allow key='a'/>\n<allow key='a'/>",
            vec!["4:13: found key=\"a\" again, expected one that no <allow> has (line 3 has it)"],
        ),
        (
            "integer",
            "<deny key='7'/>\n<deny key='007'/>\n<deny key='7'/>",
            vec![
                "4:12: found key=\"007\" again, expected one that no <deny> has (line 3 has it)",
                "5:12: found key=\"7\" again, expected one that no <deny> has (line 3 has it)",
            ],
        ),
        (
            "ip",
            "<deny key='10.0.0.1'/>\n<deny key='::ffff:10.0.0.1/128'/>",
            vec![
                "4:12: found key=\"::ffff:10.0.0.1/128\" again, expected one that no <deny> has (line 3 has it)",
            ],
        ),
        (
            "string",
            "<override key='a*' limit='1' max='1'/>\n<override key='a*' limit='2' max='1'/>\n\
             <override key='a*' limit='1' max='2'/>",
            vec![
                "5:16: found key=\"a*\" again, expected one that no <override> of limit 1 has (line 3 has it)",
            ],
        ),
    ] {
        let map = format!("<biz id='1' name='a' key='{key_type}'>{limits}\n{entries}</biz>");
        let expected: Vec<String> =
            expected.iter().map(|fault| format!("map.xml:{fault}")).collect();
        map_faults(&map, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let differs =
        "<allow key='a'/><deny key='a'/><override key='a' limit='1' max='1'/><allow key='a*'/>";
    assert_eq!(listed("string", differs).len(), 4);
}
