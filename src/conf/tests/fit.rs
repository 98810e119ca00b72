//! Parts that do not fit together.

use super::{faults, good, parse};
use crate::{Conf, Scope};

#[test]
fn nodes_must_hold_the_states_of_every_biz() {
    let map = "<map><group name='g' files='1' key-nodes='8' node-size='64'/>
        <biz id='1' name='a' key='ip'><limit policy='interval' interval='1m' max='1' ban='1m'/></biz>
        <biz id='2' name='b' key='ip'>
          <limit policy='interval' scope='biz' interval='1m' max='1'/>
          <limit policy='total' max='1'/>
          <limit policy='interval' scope='biz' interval='1m' max='1' ban='5m'/>
        </biz>
        <biz id='3' name='c' key='ip'><limit policy='interval' interval='1m' max='1'/></biz></map>";
    faults(
        parse("<srv/>", map),
        &[
            "map.xml:1:57: found node-size=\"64\", expected node-size=\"128\": biz 1 \"a\" needs 72 bytes (header 24, key 24, limit 1 (interval) 16, ban 8)",
            "map.xml:1:57: found node-size=\"64\", expected node-size=\"128\": biz 2 \"b\" needs 64 bytes (header 24, key 24, limit 2 (total) 8, ban 8) for each key and 80 bytes (header 24, key 24, limit 1 (interval) 16, limit 3 (interval) 16) for the biz",
        ],
    );
    let limits = "<limit policy='interval' interval='1m' max='1'/>".repeat(2046);
    let biz = format!("<biz id='1' name='a' key='ip'>{limits}</biz>");
    let group = "<group name='g' files='1' key-nodes='8' node-size='32768'/>";
    let found = parse("<srv/>", &format!("<map>{group}{biz}</map>")).unwrap_err().to_string();
    assert!(found.contains("expected fewer limits: node-size is at most 32768: biz 1"), "{found}");
    let left_out = group.replace(" node-size='32768'", "");
    let found = parse("<srv/>", &format!("<map>{left_out}{biz}</map>")).unwrap_err().to_string();
    let expected = "map.xml:1:6: found a node of 32,784 bytes, expected fewer limits: node-size is \
                    at most 32768: biz 1 \"a\" needs 32,784 bytes (";
    assert!(found.starts_with(expected), "{found}");
    // Half of the limits need no number in map.xml.
    let fewer = biz.replacen(&limits, &limits[..limits.len() / 2], 1);
    let conf =
        good("<srv><http max-atomic-items='1'/></srv>", &format!("<map>{left_out}{fewer}</map>"));
    assert_eq!(conf.map.groups[0].geometry.node_bytes, 16_448);
}

#[test]
fn the_bytes_of_every_policy_are_named() {
    let map = "<map><group name='g' files='1' key-nodes='8' node-size='64'/>
        <biz id='1' name='a' key='ip'>
          <limit policy='sliding' interval='1m' max='15'/>
          <limit policy='calendar' unit='day' max='1' history='30'/>
          <limit policy='sliding' interval='1d' max='20' ban='1m'/>
          <limit policy='sliding-counter' interval='1m' max='1'/>
          <limit policy='token' rate='1/s'/>
          <limit policy='count'/>
          <limit policy='count' unit='day'/>
          <limit policy='sliding' interval='1m' max='2' scope='biz'/>
          <override key='10.0.0.0/8' limit='1' max='50'/>
          <override key='10.0.0.0/8' limit='4' max='5000'/>
        </biz></map>";
    let key = "488 bytes (header 24, key 24, limit 1 (sliding) in the ring, limit 2 (calendar) 16, limit 3 (sliding) in the ring, limit 4 (sliding-counter) 24, limit 5 (token) 16, limit 6 (count) 8, limit 7 (count) 16, ban 8, history of 30 windows of limit 2 136, ring of 50 uses 216)";
    let biz = "72 bytes (header 24, key 24, limit 8 (sliding) in the ring, ring of 2 uses 24)";
    let expected = format!(
        "map.xml:1:57: found node-size=\"64\", expected node-size=\"512\": biz 1 \"a\" needs {key} for each key and {biz} for the biz"
    );
    faults(parse("<srv/>", map), &[&expected]);
    good("<srv/>", &map.replace("node-size='64'", "node-size='512'"));
}

#[test]
fn key_fields_must_hold_addresses_and_digests() {
    let map = |key: &str| {
        format!(
            "<map><group name='g' files='1' key-nodes='8' node-size='64' key-bytes='8'/>
             <biz id='1' name='a' key='integer'><limit policy='total' max='1'/></biz>
             <biz id='2' name='b' key='{key}'><limit policy='total' max='1'/></biz></map>"
        )
    };
    good("<srv/>", &map("integer"));
    for key in ["string", "ip", "digest"] {
        faults(
            parse("<srv/>", &map(key)),
            &[
                "map.xml:1:72: found key-bytes=\"8\", expected at least 16: the keys of the biz in line 3 are no integers",
            ],
        );
    }
}

#[test]
fn the_largest_transaction_must_fit_the_undo_log() {
    let map = |scope: &str, size: u32| {
        format!(
            "<map><group name='g' files='1' key-nodes='8' node-size='{size}'/>
             <biz id='1' name='a' key='ip'><limit policy='total' scope='{scope}' max='1'/></biz></map>"
        )
    };
    let srv = |items: u32| format!("<srv>\n<http max-atomic-items='{items}'/></srv>");
    // 512 / 8 words, and two words of tags.
    good(&srv(992), &map("key", 512));
    faults(
        parse(&srv(993), &map("key", 512)),
        &[
            "srv.xml:2:25: found max-atomic-items=\"993\", with which a request may log 65,538 words (66 an item), expected max-atomic-items=\"992\" at most: the undo log holds 65,536 words",
        ],
    );
    good(&srv(496), &map("biz", 512));
    faults(
        parse(&srv(497), &map("biz", 512)),
        &[
            "srv.xml:2:25: found max-atomic-items=\"497\", with which a request may log 65,604 words (132 an item), expected max-atomic-items=\"496\" at most: the undo log holds 65,536 words",
        ],
    );
    faults(
        parse("<srv>\n</srv>", &map("key", 32_768)),
        &[
            "srv.xml:1:1: found max-atomic-items=\"64\", with which a request may log 262,272 words (4,098 an item), expected max-atomic-items=\"15\" at most: the undo log holds 65,536 words",
        ],
    );
}

/// A ring makes a node large. With more than some 2000 uses, the default of max-atomic-items is too
/// large.
#[test]
fn long_rings_lower_max_atomic_items() {
    let map = |max: u32, size: u32| {
        format!(
            "<map><group name='g' files='1' key-nodes='8' node-size='{size}'/>
             <biz id='1' name='a' key='ip'><limit policy='sliding' interval='1d' max='{max}'/></biz></map>"
        )
    };
    good("<srv/>", &map(2000, 8128));
    faults(
        parse("<srv/>", &map(4096, 16_384)),
        &[
            "map.xml:1:57: found node-size=\"16384\", expected node-size=\"16448\": biz 1 \"a\" needs 16,448 bytes (header 24, key 24, limit 1 (sliding) in the ring, ring of 4,096 uses 16,400)",
        ],
    );
    faults(
        parse("<srv>\n<http/></srv>", &map(4096, 16_448)),
        &[
            "srv.xml:2:1: found max-atomic-items=\"64\", with which a request may log 131,712 words (2,058 an item), expected max-atomic-items=\"31\" at most: the undo log holds 65,536 words",
        ],
    );
    good("<srv><http max-atomic-items='31'/></srv>", &map(4096, 16_448));
}

/// The bytes of a node with a key of up to 24 bytes, before rounding up to a multiple of 64. This
/// shows them: `cargo test bytes_a_node -- --nocapture`.
#[test]
fn bytes_a_node_of_each_policy() {
    for (settings, bytes) in [
        ("policy='interval' interval='1h' max='9'", 64),
        ("policy='interval' interval='1h' max='9' debt='9'", 64),
        ("policy='interval' interval='1h' max='9' ban='1h'", 72),
        ("policy='calendar' unit='day' max='9'", 64),
        ("policy='sliding' interval='1h' max='9'", 48 + 16 + 4 * 10),
        ("policy='sliding' interval='1h' max='50'", 48 + 16 + 4 * 50),
        ("policy='sliding' interval='1h' max='4096'", 48 + 16 + 4 * 4096),
        ("policy='sliding-counter' interval='1h' max='9'", 72),
        ("policy='token' rate='9/s'", 64),
        ("policy='total' max='9'", 56),
        ("policy='count'", 56),
        ("policy='count' unit='day'", 64),
    ] {
        let map = format!(
            "<map><group name='g' files='1' key-nodes='1' node-size='32768'/>
             <biz id='1' name='b' key='string'><limit {settings}/></biz></map>"
        );
        // In a transaction over the largest nodes, fewer items than the default fit into the undo
        // log.
        let srv = "<srv><http max-atomic-items='8'/></srv>";
        let conf = Conf::parse("s", srv, "m", &map).unwrap_or_else(|faults| panic!("{faults}"));
        let found = conf.map.bizs[0].node_bytes(Scope::Key, 24);
        println!("{found:>6} bytes: {settings}");
        assert_eq!(found, bytes, "{settings}");
    }
}
