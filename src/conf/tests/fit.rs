//! What does not fit together.

use super::{faults, good, parse};

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
    // 512 / 8 words and one of tags.
    good(&srv(1008), &map("key", 512));
    faults(
        parse(&srv(1009), &map("key", 512)),
        &[
            "srv.xml:2:25: found max-atomic-items=\"1009\", with which a request may log 65585 words (65 an item), expected max-atomic-items=\"1008\" at most: the undo log holds 65536 words",
        ],
    );
    good(&srv(504), &map("biz", 512));
    faults(
        parse(&srv(505), &map("biz", 512)),
        &[
            "srv.xml:2:25: found max-atomic-items=\"505\", with which a request may log 65650 words (130 an item), expected max-atomic-items=\"504\" at most: the undo log holds 65536 words",
        ],
    );
    faults(
        parse("<srv>\n</srv>", &map("key", 32_768)),
        &[
            "srv.xml:1:1: found max-atomic-items=\"64\", with which a request may log 262208 words (4097 an item), expected max-atomic-items=\"15\" at most: the undo log holds 65536 words",
        ],
    );
}
