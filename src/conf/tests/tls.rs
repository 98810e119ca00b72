//! `<tls>` and the listeners that choose one: settings, faults, files and what they cost.

use std::os::unix::fs::PermissionsExt;

use super::{good, parse};
use crate::memory_bound::Memory;
use crate::report;
use crate::{ClientCertificates, Conf, Machine, SecretReaders, Texts, TlsVersion, active};

const MAP: &str = "<map><group name='g' files='1' key-nodes='8' node-size='128'/></map>";

#[test]
fn every_setting_is_taken() {
    let srv = good(
        "<srv><listen tls='edge'>127.0.0.1:1</listen><listen>127.0.0.1:2</listen>\
         <resp listen='127.0.0.1:3' tls='m.tls'/><metrics listen='127.0.0.1:4' tls='edge'/>\
         <admin listen='127.0.0.1:5' tls='edge'/><rls listen='127.0.0.1:6' tls='m.tls'/>\
         <tls name='edge' cert='a.pem' key='a.key'/>\
         <tls name='m.tls' cert='b.pem' key='b.key' client-ca='ca' client='wanted' min='1.3'/></srv>",
        MAP,
    )
    .srv;
    let listen: Vec<_> = srv.listen.iter().map(|endpoint| endpoint.tls.as_deref()).collect();
    assert_eq!(listen, [Some("edge"), None]);
    assert_eq!(srv.resps[0].tls.as_deref(), Some("m.tls"));
    assert_eq!(srv.metrics[0].tls.as_deref(), Some("edge"));
    assert_eq!(srv.admins[0].tls.as_deref(), Some("edge"));
    assert_eq!(srv.rls.unwrap().tls.as_deref(), Some("m.tls"));
    let [first, second] = srv.tls.try_into().unwrap();
    assert_eq!((first.clients, first.min), (None, TlsVersion::V12));
    let clients = ClientCertificates { ca: "ca".into(), required: false };
    assert_eq!((second.clients, second.min), (Some(clients), TlsVersion::V13));
}

#[test]
fn faulty_elements() {
    const PAIR: &str = "cert='a' key='b'";
    let many: String = (1..=17).map(|nth| format!("\n<tls name='{nth}' {PAIR}/>")).collect();
    for (element, expected) in [
        (
            "<tls cert='a' key='b'/>".to_owned(),
            "2:1: found <tls> without name, expected name: 1 to 64 letters, digits and ._-",
        ),
        (
            "<tls name='a' key='b'/>".to_owned(),
            "2:1: found <tls> without cert, expected cert: a file",
        ),
        (
            format!("<tls name='a' {PAIR} client='required'/>"),
            "2:40: found client=\"required\" without client-ca, expected client-ca: the file of \
             the authorities that sign clients' certificates",
        ),
        (
            format!("<tls name='a' {PAIR} client-ca='c'/>"),
            "2:43: found client-ca=\"c\", expected client=\"required\" or client=\"wanted\" \
             beside it",
        ),
        (
            format!("<tls name='a' {PAIR} min='1.1'/>"),
            "2:37: found min=\"1.1\", expected one of 1.2, 1.3",
        ),
        (
            format!("<tls name='a' {PAIR}/>\n<tls name='a' {PAIR}/>"),
            "3:12: found name=\"a\" again, expected it once (first in line 2)",
        ),
        (many, "19:1: found another <tls>, expected at most 16 of <srv>"),
        (
            "<listen tls='edge'>127.0.0.1:1</listen>".to_owned(),
            "2:14: found tls=\"edge\", expected the name of a <tls>, and there is none",
        ),
        (
            format!("<resp listen='[::1]:1' tls='edg'/><tls name='edge' {PAIR}/>"),
            "2:29: found tls=\"edg\", expected the name of a <tls>: edge (nearest: edge)",
        ),
        (
            format!("<metrics listen='[::1]:1' tls=''/><tls name='' {PAIR}/>"),
            "2:32: found tls=\"\", expected the name of a <tls>: ",
        ),
    ] {
        let found = parse(&format!("<srv>\n{element}</srv>"), MAP).unwrap_err().to_string();
        assert!(found.contains(&format!("srv.xml:{expected}")), "{found}");
    }
}

#[test]
fn files_are_read_at_a_load_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let shown = dir.path().display();
    let srv = format!(
        "<srv><data dir='{shown}/data'/><tls name='edge' cert='{shown}/c' key='{shown}/k' \
         client-ca='{shown}/a' client='required'/></srv>"
    );
    std::fs::write(path("srv.xml"), srv).unwrap();
    std::fs::write(path("map.xml"), MAP).unwrap();
    let load = || Conf::load(dir.path()).map_err(|faults| faults.to_string());
    for (name, mode, expected) in [
        ("c", 0o644, "/c: found no such file, expected certificates as PEM"),
        ("k", 0o604, "/k: found no such file, expected a private key as PEM"),
        ("a", 0o644, "/k: found mode 0604"),
    ] {
        let found = load().unwrap_err();
        assert!(found.contains(expected), "{found}");
        std::fs::write(path(name), "x").unwrap();
        std::fs::set_permissions(path(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    std::fs::set_permissions(path("k"), PermissionsExt::from_mode(0o600)).unwrap();
    let files = load().unwrap().srv.tls[0].read_files(&SecretReaders::of(None)).unwrap();
    assert_eq!(files.client_ca.as_deref(), Some(&b"x"[..]));
    std::fs::write(path("c"), vec![b'x'; (256 << 10) + 1]).unwrap();
    assert!(load().unwrap_err().contains("/c: found more than 262144 bytes"));
}

#[test]
fn paths_are_those_of_the_directory_that_they_were_read_in() {
    let dir = tempfile::tempdir().unwrap();
    let srv = "<srv><tls name='a' cert='c' key='k' client-ca='/a' client='wanted'/></srv>";
    active::write(dir.path(), 7, &Texts::of(srv, MAP)).unwrap();
    let block = active::read(dir.path(), 7).unwrap().srv.tls.remove(0);
    let here = std::env::current_dir().unwrap();
    assert_eq!((block.cert, block.key), (here.join("c"), here.join("k")));
    assert_eq!(block.clients.unwrap().ca, std::path::Path::new("/a"));
}

// Shows: memory-bound.
#[test]
fn the_memory_of_tls_is_counted_where_it_is_spoken() {
    let conf = |listen: &str, more: &str| {
        let http = "<http max-connections='10'/><workers>2</workers>";
        let tls = "<tls name='edge' cert='a' key='b'/>\
                   <tls name='mtls' cert='a' key='b' client-ca='c' client='required'/>";
        good(&format!("<srv>{http}{tls}<listen{listen}>127.0.0.1:1</listen>{more}</srv>"), MAP)
    };
    let of = |conf: &Conf| Memory::of(conf, &super::SIZES);
    let plain = of(&conf("", ""));
    assert_eq!(of(&conf(" tls='edge'", "")).clients - plain.clients, 20 * (40 << 10));
    assert_eq!(of(&conf(" tls='mtls'", "")).clients - plain.clients, 20 * (52 << 10));
    let resp = |tls: &str| of(&conf("", &format!("<resp listen='[::1]:1'{tls}/>"))).clients;
    assert_eq!(resp(" tls='edge'") - resp(""), 20 * (40 << 10));
    let admin = |tls: &str| of(&conf("", &format!("<admin listen='[::1]:1'{tls}/>"))).admin;
    assert_eq!(admin(" tls='edge'") - admin(""), 64 * (40 << 10));
    let machine = Machine {
        ram_bytes: None,
        shm_free_bytes: None,
        filesystems: Vec::new(),
        missing_program: None,
    };
    let conf = conf(" tls='mtls'", "<metrics listen='[::1]:1' tls='mtls'/>");
    let text = report::report(&conf, &machine, &super::SIZES).text;
    let line = "tls mtls: a on 127.0.0.1:1, [::1]:1, TLS 1.2 and 1.3, clients must show a \
                certificate of c\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains(" + 1,024 + TLS 53,248)"), "{text}");
}
