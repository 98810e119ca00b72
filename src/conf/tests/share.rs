//! Shared limits in map.xml.

use super::{GROUP, faults, good, parse};
use crate::{OnDown, OnMiss, Share, Sharing};

const SRV: &str = "<srv><cluster name='c' secret-file='s'><node>a:1</node></cluster></srv>";

/// A map whose second line has one biz with these settings and this content.
fn map(settings: &str, content: &str) -> String {
    let group = GROUP.replace("64", "2048");
    format!("<map>{group}\n<biz id='1' name='b' key='string' {settings}>{content}</biz></map>")
}

fn sharing(settings: &str) -> Option<Sharing> {
    good(SRV, &map(settings, "<limit policy='total' max='1'/>")).map.bizs[0].sharing
}

#[track_caller]
fn faulty(settings: &str, content: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|fault| format!("map.xml:2:{fault}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    faults(parse(SRV, &map(settings, content)), &expected);
}

#[test]
fn defaults_go_by_the_share() {
    assert_eq!(sharing(""), None);
    assert_eq!(sharing("share='host'"), None);
    let cluster = Sharing {
        share: Share::Cluster,
        on_miss: OnMiss::Refuse,
        on_down: OnDown::Share,
        wait_ms: 20,
        hosts: 8,
    };
    assert_eq!(sharing("share='cluster' hosts='8'"), Some(cluster));
    let exact = Sharing { share: Share::Exact, on_down: OnDown::Refuse, hosts: 1, ..cluster };
    assert_eq!(sharing("share='exact'"), Some(exact));
    assert_eq!(sharing("share='exact' hosts='8'"), Some(Sharing { hosts: 8, ..exact }));
}

#[test]
fn every_setting_is_taken() {
    let of = |settings: &str| sharing(&format!("share='cluster' hosts='1024' {settings}")).unwrap();
    assert_eq!(of("").hosts, 1024);
    assert_eq!([of("wait='1ms'").wait_ms, of("wait='1s'").wait_ms], [1, 1000]);
    assert_eq!(of("on-miss='refuse'").on_miss, OnMiss::Refuse);
    assert_eq!(of("on-miss='admit'").on_miss, OnMiss::Admit);
    assert_eq!(of("on-miss='busy'").on_miss, OnMiss::Busy);
    assert_eq!(of("on-down='share'").on_down, OnDown::Share);
    assert_eq!(of("on-down='local'").on_down, OnDown::Local);
    assert_eq!(of("on-down='refuse'").on_down, OnDown::Refuse);
}

#[test]
fn every_policy_and_mode_may_be_shared() {
    let limits = "<limit policy='interval' interval='17592186044416ms' max='1125899906842624'/>
        <limit policy='calendar' unit='day' max='1125899906842624'/>
        <limit policy='total' scope='biz' max='1125899906842624'/>
        <limit policy='sliding' interval='1m' max='1'/>
        <limit policy='sliding-counter' interval='1099511627776ms' max='1125899906842624'/>
        <limit policy='token' rate='10/s' burst='213503982334'/>
        <limit policy='token' rate='213503982334/ms'/>
        <limit policy='token' rate='1125899906842624/d' burst='1'/>
        <limit policy='count'/><limit policy='total' max='1' on-exceed='captcha'/>
        <override key='a' limit='1' max='1125899906842624'/>";
    for mode in ["enforce", "shadow", "off"] {
        let settings = format!("share='cluster' hosts='2' mode='{mode}'");
        assert_eq!(good(SRV, &map(&settings, limits)).map.bizs[0].limits.len(), 10);
    }
}

#[test]
fn faulty_settings_of_a_share() {
    let cases: [(&str, &[&str]); 11] = [
        (
            "share='clutser'",
            &[
                "42: found share=\"clutser\", expected one of host, cluster, exact (nearest: cluster)",
            ],
        ),
        (
            "share='shared' on-miss='no' wait='0ms' hosts='0'",
            &[
                "42: found share=\"shared\", expected one of host, cluster, exact",
                "59: found on-miss=\"no\", expected one of refuse, admit, busy",
                "69: found wait=\"0ms\", expected a duration from 1ms to 1s, such as 250ms, 60s, 15m, 24h or 7d",
                "81: found hosts=\"0\", expected a whole number from 1 to 1024",
            ],
        ),
        (
            "share='cluster'",
            &["1: found <biz> without hosts, expected hosts: a whole number from 1 to 1024"],
        ),
        (
            "share='cluster' on-down='refuse'",
            &["1: found <biz> without hosts, expected hosts: a whole number from 1 to 1024"],
        ),
        (
            "share='exact' on-down='share'",
            &["1: found <biz> without hosts, expected hosts: a whole number from 1 to 1024"],
        ),
        (
            "share='cluster' hosts='1025'",
            &["58: found hosts=\"1025\", expected a whole number from 1 to 1024"],
        ),
        (
            "share='exact' wait='1001ms'",
            &[
                "55: found wait=\"1001ms\", expected a duration from 1ms to 1s, such as 250ms, 60s, 15m, 24h or 7d",
            ],
        ),
        (
            "share='exact' on-down='allow'",
            &["58: found on-down=\"allow\", expected one of share, local, refuse"],
        ),
        (
            "on-miss='admit'",
            &[
                "35: found attribute on-miss without share, expected it with share=\"cluster\" or \"exact\" only",
            ],
        ),
        (
            "hosts='8' on-down='local' wait='20ms'",
            &[
                "35: found attribute hosts without share, expected it with share=\"cluster\" or \"exact\" only",
                "45: found attribute on-down without share, expected it with share=\"cluster\" or \"exact\" only",
                "61: found attribute wait without share, expected it with share=\"cluster\" or \"exact\" only",
            ],
        ),
        (
            "share='host' hosts='8'",
            &[
                "48: found attribute hosts with share=\"host\", expected it with share=\"cluster\" or \"exact\" only",
            ],
        ),
    ];
    for (settings, expected) in cases {
        faulty(settings, "<limit policy='total' max='1'/>", expected);
    }
}

#[test]
fn faulty_limits_of_a_share() {
    let cases: [(&str, &[&str]); 14] = [
        (
            "<limit policy='total' max='1125899906842625'/>",
            &[
                "76: found max=\"1125899906842625\", expected at most 1125899906842624 with share=\"exact\"",
            ],
        ),
        (
            "<limit policy='count'/><limit policy='total' max='9007199254740991' on-exceed='w'/>",
            &[
                "99: found max=\"9007199254740991\", expected at most 1125899906842624 with share=\"exact\"",
            ],
        ),
        (
            "<deny key='a'/><limit policy='total' max='1'/><override key='b' limit='1' max='1125899906842625'/>",
            &[
                "128: found max=\"1125899906842625\", expected at most 1125899906842624 with share=\"exact\"",
            ],
        ),
        (
            "<limit policy='sliding-counter' interval='1099511627777ms' max='1'/>",
            &[
                "91: found interval=\"1099511627777ms\", expected at most 1099511627776ms with share=\"exact\"",
            ],
        ),
        (
            "<limit policy='interval' interval='203614d' max='1'/>",
            &[
                "84: found interval=\"203614d\", expected at most 17592186044416ms with share=\"exact\"",
            ],
        ),
        (
            "<limit policy='token' rate='1125899906842625/d' burst='9'/>",
            &[
                "77: found rate=\"1125899906842625/d\", expected at most 1125899906842624/d with share=\"exact\"",
            ],
        ),
        (
            "<limit policy='interval' interval='17592186044417ms' max='1125899906842625'/>",
            &[
                "84: found interval=\"17592186044417ms\", expected at most 17592186044416ms with share=\"exact\"",
                "107: found max=\"1125899906842625\", expected at most 1125899906842624 with share=\"exact\"",
            ],
        ),
        (
            "<limit policy='gcra' rate='1/s'/>",
            &[
                "64: found policy=\"gcra\", expected another policy, such as token, with share=\"exact\"",
            ],
        ),
        (
            "<limit policy='concurrent' max='9'/>",
            &[
                "64: found policy=\"concurrent\", expected another policy with share=\"exact\", or share=\"host\": holds are not shared over machines yet; route by key",
            ],
        ),
        (
            "<limit policy='interval' interval='1m' max='9' per-call='true'/>",
            &[
                "96: found per-call=\"true\", expected none with share=\"exact\": what machines lease is the maximum of map.xml",
            ],
        ),
        (
            "<limit policy='total' max='9' per-call='false'/><limit policy='total' max='9' per-call='true'/>",
            &[
                "127: found per-call=\"true\", expected none with share=\"exact\": what machines lease is the maximum of map.xml",
            ],
        ),
        (
            "<limit policy='interval' interval='1h' max='9' debt='3'/>",
            &[
                "102: found debt=\"3\", expected none with share=\"exact\": nothing can be lent of what is leased",
            ],
        ),
        (
            "<limit policy='count' unit='day' history='30'/>",
            &[
                "91: found history=\"30\", expected none with share=\"exact\": a machine knows its own uses of a window only",
            ],
        ),
        // A limit with a fault of its own does not hide the faults of the limits behind it.
        (
            "<limit policy='total'/><limit policy='calendar' unit='day' max='9' debt='1'/>",
            &[
                "49: found <limit> without max, expected max: a whole number from 0 to 9007199254740991",
                "122: found debt=\"1\", expected none with share=\"exact\": nothing can be lent of what is leased",
            ],
        ),
    ];
    for (limits, expected) in cases {
        faulty("share='exact'", limits, expected);
    }
    let alone = "<limit policy='interval' interval='1h' max='9007199254740991' debt='3'/>
        <limit policy='interval' interval='9007199254740991ms' max='1'/>
        <limit policy='token' rate='9007199254740991/d' burst='9'/>";
    good(SRV, &map("share='host'", alone));
}

#[test]
fn retries_may_be_remembered_beside_a_share_and_holds_may_not() {
    let total = "<limit policy='total' max='1'/>";
    let shared = "share='exact'";
    let conf = good(SRV, &map(&format!("{shared} once='8'"), total));
    assert!(conf.map.bizs[0].once.is_some());
    faulty(
        "share='exact' holds='8'",
        total,
        &[
            "56: found holds=\"8\", expected none with share=\"exact\": holds are not shared over machines yet; route by key",
        ],
    );
}

#[test]
fn a_share_needs_a_cluster() {
    let shared = map("share='exact'", "<limit policy='total' max='1'/>");
    let fault =
        "map.xml:2:42: found share=\"exact\", expected a <cluster> in srv.xml, or share=\"host\"";
    faults(parse("<srv/>", &shared), &[fault]);
    let alone = map("share='host'", "<limit policy='total' max='1'/>");
    assert_eq!(good("<srv/>", &alone).srv.cluster, None);
    // A cluster that is faulty, or that may follow a fault, is not reported as missing.
    for srv in ["<srv><cluster/></srv>", "<srv><workers>2</workers>", "<srv><oops", "<map/>", ""] {
        let found = parse(srv, &shared).unwrap_err();
        assert!(found.iter().all(|fault| fault.file == "srv.xml"), "{srv}: {found}");
    }
}

#[test]
fn leases_and_parts_are_of_the_max() {
    let of = |share, on_down, hosts| Sharing {
        share,
        on_miss: OnMiss::Refuse,
        on_down,
        wait_ms: 20,
        hosts,
    };
    let cluster = of(Share::Cluster, OnDown::Share, 8);
    for (max, lease, cut_off) in
        [(0, 0, 0), (1, 1, 0), (7, 3, 0), (8, 4, 1), (63, 31, 7), (64, 4, 8), (1000, 62, 125)]
    {
        assert_eq!((cluster.largest_lease(max), cluster.cut_off_max(max)), (lease, cut_off));
    }
    assert_eq!(of(Share::Exact, OnDown::Local, 8).largest_lease(1000), 1);
    assert_eq!(of(Share::Exact, OnDown::Local, 8).cut_off_max(1000), 1000);
    assert_eq!(of(Share::Exact, OnDown::Refuse, 8).cut_off_max(1000), 0);
}
