//! Faults of srv.xml alone.

use super::{GROUP, good, srv_faults};

#[test]
fn faulty_srv_values() {
    let cases = [
        (
            "<srv><workers>0</workers></srv>",
            "1:15: found <workers>0</workers>, expected auto or a whole number from 1 to 200",
        ),
        (
            "<srv><workers>\n 201 </workers></srv>",
            "2:2: found <workers>201</workers>, expected auto or a whole number from 1 to 200",
        ),
        (
            "<srv><workers/></srv>",
            "1:6: found <workers></workers>, expected auto or a whole number from 1 to 200",
        ),
        (
            "<srv><listen>localhost:7600</listen></srv>",
            "1:14: found <listen>localhost:7600</listen>, expected ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH",
        ),
        (
            "<srv><listen>127.0.0.1:0</listen></srv>",
            "1:14: found <listen>127.0.0.1:0</listen>, expected a port from 1 to 65535",
        ),
        (
            "<srv><listen>unix:</listen></srv>",
            "1:14: found <listen>unix:</listen>, expected unix: and a path of 1 to 107 bytes",
        ),
        (
            "<srv><listen>1.2.3.4:1</listen>\n<listen>1.2.3.4:1</listen></srv>",
            "2:1: found <listen>1.2.3.4:1</listen> again, expected it once (first in line 1)",
        ),
        (
            "<srv><allow>10.1.0.0/8</allow></srv>",
            "1:13: found <allow>10.1.0.0/8</allow>, expected 10.0.0.0/8 (an address without bits behind the prefix)",
        ),
        (
            "<srv><allow>all</allow></srv>",
            "1:13: found <allow>all</allow>, expected an address or a block of addresses such as 10.0.0.0/8 or fc00::/7",
        ),
        ("<srv><data dir=''/></srv>", "1:17: found dir=\"\", expected a directory"),
        (
            "<srv><data flush='1ms'/></srv>",
            "1:19: found flush=\"1ms\", expected a duration from 10ms to 1d, such as 250ms, 60s, 15m, 24h or 7d",
        ),
        (
            "<srv><data prefault='yes'/></srv>",
            "1:22: found prefault=\"yes\", expected one of true, false",
        ),
        (
            "<srv><workers>2</workers><data max-programs='253'/></srv>",
            "1:46: found max-programs=\"253\", expected a whole number from 0 to 252: of 256 slots the server's own processes need 4",
        ),
        (
            "<srv><data mode='660'/></srv>",
            "1:18: found mode=\"660\", expected one of 0600, 0640, 0644, 0660, 0664, 0666",
        ),
        (
            "<srv><data mode='0777'/></srv>",
            "1:18: found mode=\"0777\", expected one of 0600, 0640, 0644, 0660, 0664, 0666",
        ),
        (
            "<srv><data mode='0660' group='no such group'/></srv>",
            "1:31: found group=\"no such group\", expected the name of a group of this system",
        ),
        (
            "<srv><data group='root'/></srv>",
            "1:19: found group=\"root\", expected mode=\"0660\" beside it: 0600 lets no group in",
        ),
        (
            "<srv><data checkpoint='99ms'/></srv>",
            "1:24: found checkpoint=\"99ms\", expected a duration from 100ms to 1d, such as 250ms, 60s, 15m, 24h or 7d",
        ),
        (
            "<srv><data checkpoint='60s' checkpoint-rate='100MiB'/></srv>",
            "1:46: found checkpoint-rate=\"100MiB\", expected a rate from 64KiB/s to 1024GiB/s, such as 100MiB/s",
        ),
        (
            "<srv><data checkpoint-rate='1MiB/s'/></srv>",
            "1:29: found checkpoint-rate, expected checkpoint=\"60s\" beside it: without it there are no checkpoints",
        ),
        (
            "<srv><http max-atomic-items='1025' max-items='2000'/></srv>",
            "1:30: found max-atomic-items=\"1025\", expected a whole number from 1 to 1024",
        ),
        (
            "<srv><http max-items='10' max-atomic-items='11'/></srv>",
            "1:45: found max-atomic-items=\"11\", expected at most max-items, 10",
        ),
        (
            "<srv><http max-connections='many'/></srv>",
            "1:29: found max-connections=\"many\", expected a whole number from 1 to 1000000",
        ),
        (
            "<srv><http max-head='2MiB'/></srv>",
            "1:22: found max-head=\"2MiB\", expected a size from 256 to 1MiB, such as 512, 64KiB or 1MiB",
        ),
        (
            "<srv><http lock-timeout='0ms'/></srv>",
            "1:26: found lock-timeout=\"0ms\", expected a duration from 1ms to 1m, such as 250ms, 60s, 15m, 24h or 7d",
        ),
        (
            "<srv><http hosts=' '/></srv>",
            "1:19: found hosts=\" \", expected 1 to 64 hosts such as frs.internal, frs.internal:7600, 10.0.0.5 or [fc00::5], separated by white space",
        ),
        (
            "<srv><http hosts='frs http://frs'/></srv>",
            "1:19: found hosts=\"frs http://frs\", expected hosts such as frs.internal, frs.internal:7600, 10.0.0.5 or [fc00::5], separated by white space (http://frs is none)",
        ),
        (
            "<srv><http allow-origin='*'/></srv>",
            "1:26: found allow-origin=\"*\", expected origins such as https://app.example.com or http://localhost:3000, separated by white space (* is none)",
        ),
        (
            "<srv><http allow-origin='https://a.example/ http://b'/></srv>",
            "1:26: found allow-origin=\"https://a.example/ http://b\", expected origins such as https://app.example.com or http://localhost:3000, separated by white space (https://a.example/ is none)",
        ),
        (
            "<srv><http unknown-biz='limited'/></srv>",
            "1:25: found unknown-biz=\"limited\", expected one of error, refuse",
        ),
        (
            "<srv><http allow-origins='http://b'/></srv>",
            "1:12: found attribute allow-origins of <http>, expected one of max-connections, max-body, max-head, max-items, max-atomic-items, idle-timeout, request-timeout, lock-timeout, hosts, allow-origin, unknown-biz (nearest: allow-origin)",
        ),
        (
            "<srv><log level='inof'/></srv>",
            "1:18: found level=\"inof\", expected one of error, warn, info, debug, trace (nearest: info)",
        ),
        ("<srv><log file='log/'/></srv>", "1:17: found file=\"log/\", expected a file"),
        (
            "<srv><user>no such user</user></srv>",
            "1:12: found <user>no such user</user>, expected the name of a user of this system",
        ),
        (
            "<srv><user/></srv>",
            "1:6: found <user></user>, expected the name of a user of this system",
        ),
        (
            "<srv><authz key='peers'/></srv>",
            "1:18: found key=\"peers\", expected one of peer, forwarded, header:NAME (nearest: peer)",
        ),
        (
            "<srv><authz key='header:a b'/></srv>",
            "1:18: found key=\"header:a b\", expected header: and the name of a header field",
        ),
        (
            "<srv><trusted>x</trusted></srv>",
            "1:15: found <trusted>x</trusted>, expected an address or a block of addresses such as 10.0.0.0/8 or fc00::/7",
        ),
        (
            "<srv><authz><trusted>x</trusted></authz></srv>",
            "1:22: found <trusted>x</trusted>, expected an address or a block of addresses such as 10.0.0.0/8 or fc00::/7",
        ),
        (
            "<srv>\n<admin listen='10.0.0.1:7601'/></srv>",
            "2:16: found listen=\"10.0.0.1:7601\", expected a loopback address such as \
             127.0.0.1:7601 or [::1]:7601, or unix:PATH",
        ),
        (
            "<srv><listen>[::1]:1</listen>\n<admin listen='[::1]:1'/></srv>",
            "2:16: found listen=\"[::1]:1\" again, expected an address of its own: <listen> has it",
        ),
        (
            "<srv>\n<metrics/></srv>",
            "2:1: found <metrics> without listen, expected listen: ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH",
        ),
        (
            "<srv>\n<metrics listen='localhost:7602'/></srv>",
            "2:18: found listen=\"localhost:7602\", expected ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH",
        ),
        (
            "<srv>\n<metrics listen='0.0.0.0:7602' token-file='t'/></srv>",
            "2:32: found attribute token-file of <metrics>, expected one of listen, tls",
        ),
        (
            "<srv>\n<metrics listen='127.0.0.1:7600'/></srv>",
            "2:18: found listen=\"127.0.0.1:7600\" again, expected an address of its own: <listen> has it",
        ),
        (
            "<srv>\n<metrics listen='[::1]:1'/><admin listen='[::1]:1'/></srv>",
            "2:18: found listen=\"[::1]:1\" again, expected an address of its own: <admin> has it",
        ),
        (
            "<srv>\n<metrics listen='[::1]:1'/>\n<metrics listen='[::1]:1'/></srv>",
            "3:18: found listen=\"[::1]:1\" again, expected an address of its own: the <metrics> of line 2 has it",
        ),
        (
            "<srv>\n<resp listen='[::1]:1'/><metrics listen='[::1]:1'/></srv>",
            "2:15: found listen=\"[::1]:1\" again, expected an address of its own: the <metrics> of line 2 has it",
        ),
        (
            "<srv>\n<rls listen='[::1]:1'/><metrics listen='[::1]:1'/></srv>",
            "2:14: found listen=\"[::1]:1\" again, expected an address of its own: the <metrics> of line 2 has it",
        ),
        (
            "<srv><degrade>of</degrade></srv>",
            "1:15: found <degrade>of</degrade>, expected one of true, false",
        ),
        ("<srv><degrade/></srv>", "1:6: found <degrade></degrade>, expected one of true, false"),
        (
            "<srv><degrade>true</degrade>\n<degrade>true</degrade></srv>",
            "2:1: found <degrade> again, expected one (the first is in line 1)",
        ),
        (
            "<srv><degarde>true</degarde></srv>",
            "1:6: found <degarde> in <srv>, expected one of workers, data, http, log, user, authz, degrade, cluster, peers, rls, map, watch, clients, listen, admin, metrics, resp, allow, trusted, tls (nearest: degrade)",
        ),
        (
            "<srv><log/>\n<log/></srv>",
            "2:1: found <log> again, expected one (the first is in line 1)",
        ),
        ("<srv>text</srv>", "1:6: found text \"text\", expected none in <srv>"),
        ("<srv><log>text</log></srv>", "1:11: found text \"text\", expected none in <log>"),
        (
            "<srv><workers n='1'>2</workers></srv>",
            "1:15: found attribute n of <workers>, expected none",
        ),
        (
            "<srv><workers>2<b/></workers></srv>",
            "1:16: found <b> in <workers>, expected no element",
        ),
        ("<srv xmlns='urn:x'/>", "1:6: found attribute xmlns of <srv>, expected none"),
        ("<server/>", "1:1: found <server>, expected <srv> as the root element"),
    ];
    for (srv, expected) in cases {
        srv_faults(srv, &[&format!("srv.xml:{expected}")]);
    }
}

#[test]
fn fewer_items_lower_the_default_of_atomic_items() {
    let conf = good("<srv><http max-items='10'/></srv>", &format!("<map>{GROUP}</map>"));
    assert_eq!(conf.srv.http.max_atomic_items, 10);
}

#[test]
fn the_admin_plane_listens_on_a_socket_and_on_tcp() {
    let map = format!("<map>{GROUP}</map>");
    let (unix, tcp) = ("<admin listen='unix:a'/>", "<admin listen='[::1]:1' token-file='t'/>");
    for both in [format!("{unix}{tcp}"), format!("{tcp}{unix}")] {
        let srv = good(&format!("<srv>{both}</srv>"), &map).srv;
        assert_eq!(srv.admins.len(), 2);
        assert_eq!(srv.admin_token_file(), Some("t".as_ref()), "its token is that of TCP");
    }
    assert_eq!(good(&format!("<srv>{unix}</srv>"), &map).srv.admin_token_file(), None);
    let other = "<admin listen='unix:b'/>";
    for (elements, expected) in [
        (
            format!("{unix}\n{other}"),
            "2:16: found another <admin listen=\"unix:b\">, expected one on TCP and one on a unix \
             socket (first in line 1)",
        ),
        (
            format!("{tcp}\n{unix}\n{other}"),
            "3:1: found another <admin>, expected at most 2 of <srv>",
        ),
    ] {
        let expected = format!("srv.xml:{expected}");
        srv_faults(&format!("<srv>{elements}</srv>"), &[&expected]);
    }
}

#[test]
fn metrics_listen_beside_an_admin_plane_or_without_one() {
    let map = format!("<map>{GROUP}</map>");
    let metrics = "<metrics listen='0.0.0.0:7602'/><metrics listen='[::]:7602'/>\
                   <metrics listen='unix:run/metrics.sock'/>";
    let admin = "<admin listen='127.0.0.1:7601'/>";
    let srv =
        |elements: &str| good(&format!("<srv><workers>3</workers>{elements}</srv>"), &map).srv;
    assert_eq!(srv(metrics).metrics.len(), 3);
    let slots = ["", metrics, admin, &format!("{metrics}{admin}")].map(|elements| {
        let srv = srv(elements);
        (srv.has_plane(), srv.needed_slots())
    });
    assert_eq!(slots, [(false, 5), (true, 6), (true, 6), (true, 6)]);
    let many: String = (1..=17).map(|port| format!("\n<metrics listen='[::1]:{port}'/>")).collect();
    let expected = "srv.xml:18:1: found another <metrics>, expected at most 16 of <srv>";
    srv_faults(&format!("<srv>{many}</srv>"), &[expected]);
}
