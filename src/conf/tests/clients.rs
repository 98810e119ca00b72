//! `<clients>`: what is taken, every fault, and the files of tokens.

use std::os::unix::fs::PermissionsExt;

use super::{good, srv_faults};
use crate::{ClientIndex, Conf, Right, Rights, Settings, Texts, active};

const MAP: &str = "<map><group name='g' files='1' key-nodes='8' node-size='64'/></map>";
const TOKENS: [&str; 3] = ["0123456789abcdef", "fedcba9876543210", "0011223344556677"];

#[test]
fn every_setting_is_taken() {
    let srv = "<srv><clients>
        <client name='checkout' token-file='conf/checkout.token' may='query update'
                biz='order* voucher'/>
        <client name='billing' cert='CN=billing' may='query update give-back force hold' biz='*'/>
        <client name='metrics' token-file='t' cert='URI:spiffe://c/m' may=' metrics '/>
        <anonymous may='query' unix='query update' biz='order*'/></clients></srv>";
    let clients = good(srv, MAP).srv.clients.expect("there");
    let [checkout, billing, metrics] = &clients.list[..] else { panic!("{clients:?}") };
    assert_eq!(checkout.token_file.as_deref(), Some("conf/checkout.token".as_ref()));
    assert_eq!(checkout.rights, Rights::of(&[Right::Query, Right::Update]));
    assert!(checkout.bizs.has("order-line") && !checkout.bizs.has("login"));
    assert_eq!(billing.cert.as_ref().map(|cert| cert.text()), Some("CN=billing"));
    assert!(billing.token_file.is_none() && billing.bizs.is_all());
    assert!(billing.rights.has(Right::Force) && !billing.rights.has(Right::Registers));
    assert_eq!(metrics.rights, Rights::of(&[Right::Metrics]));
    assert!(metrics.cert.is_some() && !metrics.bizs.has("order"));
    assert_eq!(clients.anonymous.rights, Rights::of(&[Right::Query]));
    assert_eq!(clients.anonymous.unix, Rights::of(&[Right::Query, Right::Update]));
    let names: Vec<_> = (0..clients.places())
        .map(|place| clients.name(ClientIndex::of_place(place).expect("a place")))
        .collect();
    let expected = ["anonymous", "default", "admin", "checkout", "billing", "metrics"];
    assert_eq!(names, expected.map(Some));
    assert_eq!(good("<srv/>", MAP).srv.clients, None);
    let empty = good("<srv><clients/></srv>", MAP).srv.clients.expect("there");
    assert_eq!((empty.places(), empty.anonymous.rights), (3, Rights::NONE));
    // Without unix, peers on a unix socket are like others.
    let srv = "<srv><clients><anonymous may='query' biz='*'/></clients></srv>";
    let anonymous = good(srv, MAP).srv.clients.expect("there").anonymous;
    assert_eq!(anonymous.unix, anonymous.rights);
}

#[test]
fn faulty_elements() {
    const RIGHTS: &str = "query, update, give-back, force, hold, registers, metrics, admin-read, \
                          admin";
    const BIZ: &str = "names of businesses separated by white space, of which some may end with \
                       *, or * for all";
    let one = |attributes: &str| format!("<client {attributes}/>");
    // Each expectation begins with the last text before its column.
    let cases = [
        (one("name='a' token-file='t' may='query update' biz=''"), format!(
            "biz=: found biz=\"\", expected {BIZ}")),
        (one("name='a' token-file='t' may='query' biz='o*r'"), format!(
            "biz=: found biz=\"o*r\", expected {BIZ}")),
        (one("name='a' token-file='t' may='hold'"), format!(
            ": found <client> without biz, expected biz: {BIZ}")),
        (one("name='a' token-file='t' may='query updat' biz='*'"), format!(
            "may=: found may=\"query updat\", expected one of {RIGHTS} (nearest: update)")),
        (one("name='a' token-file='t' may='' biz='*'"), format!(
            "may=: found may=\"\", expected one of {RIGHTS}")),
        (one("name='a' token-file='t' may='query force' biz='*'"),
            "may=: found may=\"query force\", expected update with it: force is a right about \
             Updates".into()),
        (one("name='a' token-file='t' may='give-back' biz='*'"),
            "may=: found may=\"give-back\", expected update with it: give-back is a right about \
             Updates".into()),
        (one("name='a' may='query' biz='*'"),
            ": found <client> without token-file and cert, expected token-file=\"FILE\", \
             cert=\"CN=NAME\" or both: what the client shows".into()),
        (one("name='a' cert='billing' may='query' biz='*'"),
            "cert=: found cert=\"billing\", expected a name in the certificate behind its kind, one \
             of CN=, DNS:, URI:, IP:, EMAIL:".into()),
        (one("name='default' cert='CN=a' may='query' biz='*'"),
            "name=: found name=\"default\", expected another name: anonymous, default, admin stand \
             for callers of other elements".into()),
        (one("name='a b' cert='CN=a' may='metrics'"),
            "name=: found name=\"a b\", expected 1 to 64 letters, digits and ._-".into()),
        (one("name='a' cert='CN=a' may='metrics'/><client name='a' cert='CN=b' may='metrics'"),
            "name=: found name=\"a\" again, expected it once (first in line 2)".into()),
        (one("name='a' cert='CN=a' may='metrics' bizs='*'"),
            "bizs: found attribute bizs of <client>, expected one of name, token-file, cert, may, \
             biz (nearest: biz)".into()),
        ("<anonymous/>".into(),
            ": found <anonymous> without may and unix, expected may=\"query\" or \
             unix=\"query\", or no <anonymous>".into()),
        ("<anonymous may='admin'/>".into(),
            "may=: found may=\"admin\", expected rights without admin: over TCP, a change needs a \
             token or a certificate".into()),
        ("<anonymous unix='force' biz='*'/>".into(),
            "unix=: found unix=\"force\", expected update with it: force is a right about \
             Updates".into()),
        ("<anonymous unix='admin'/><anonymous unix='admin'/>".into(),
            "<anonymous: found <anonymous> again, expected one (the first is in line 2)".into()),
    ];
    for (found, expected) in cases {
        let (place, expected) = expected.split_once(": ").expect("a place");
        let column = match (place, place.ends_with('=')) {
            ("", _) => 1,
            (_, true) => found.rfind(place).expect(place) + place.len() + 2,
            (_, false) => found.rfind(place).expect(place) + 1,
        };
        let srv = format!("<srv><clients>\n{found}</clients></srv>");
        srv_faults(&srv, &[&format!("srv.xml:2:{column}: {expected}")]);
    }
    let many = |most: usize| -> String {
        let each = (0..most).map(|nth| format!("<client name='c{nth}' cert='CN=c' may='admin'/>"));
        format!("<srv><clients>\n{}</clients></srv>", each.collect::<Vec<_>>().join("\n"))
    };
    assert_eq!(good(&many(256), MAP).srv.clients.expect("there").list.len(), 256);
    let fault = "srv.xml:258:1: found another <client>, expected at most 256 of <clients>";
    srv_faults(&many(257), &[fault]);
}

/// A directory with two clients, whose token files hold these texts.
fn with_files(texts: [&str; 2]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let client = |name: &str| {
        let file = path(name);
        format!("<client name='{name}' token-file='{}' may='admin'/>", file.display())
    };
    let srv = format!("<srv><clients>{}\n{}</clients></srv>", client("one"), client("two"));
    std::fs::write(path("srv.xml"), srv).unwrap();
    std::fs::write(path("map.xml"), MAP).unwrap();
    for (name, text) in ["one", "two"].into_iter().zip(texts) {
        std::fs::write(path(name), text).unwrap();
        std::fs::set_permissions(path(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    dir
}

// Shows: client-tokens.
#[test]
fn files_hold_one_token_or_the_old_and_the_new_one() {
    let [one, two, three] = TOKENS;
    for text in [one.to_owned(), format!("\n{one}\r\n"), format!("{one}\n{two}\n")] {
        let dir = with_files([&text, three]);
        let conf = Conf::load(dir.path()).unwrap_or_else(|faults| panic!("{faults}"));
        let tokens = conf.srv.read_tokens().unwrap();
        assert_eq!(tokens.clients[0].len(), if text.contains(two) { 2 } else { 1 });
        assert!(tokens.clients[0][0].matches(one.as_bytes()));
        assert!(tokens.clients[1][0].matches(three.as_bytes()));
    }
    const SHAPE: &str =
        "a file with one line of 16 to 1024 characters, letters, digits and -._~+/=";
    const LINES: &str = "at most two lines: the old token and the new one";
    for (text, found, expected) in [
        (String::new(), ", which holds no token", SHAPE),
        (format!("{one} {two}"), ", which holds no token", SHAPE),
        (format!("{one}\n{two}\n{three}\n"), ", line 3: one more token", LINES),
        (format!("{one}\n{one}"), ", line 2: the token of a line before", "another token"),
    ] {
        let dir = with_files([&text, three]);
        let errors = Conf::load(dir.path()).expect_err("taken").to_string();
        let file = dir.path().join("one").display().to_string();
        let fault = format!("found token-file=\"{file}\"{found}, expected {expected}");
        assert!(errors.ends_with(&fault), "{errors}");
        assert!(!TOKENS.iter().any(|token| errors.contains(token)), "{errors}");
    }
    let dir = with_files([one, &format!("{two}\n{one}")]);
    let errors = Conf::load(dir.path()).expect_err("taken").to_string();
    let fault = ", which holds the token of another client, expected a token of its own: the \
                 <client> of line 1 has it";
    assert!(errors.contains("srv.xml:2:") && errors.ends_with(fault), "{errors}");
}

// Shows: client-tokens.
#[test]
fn the_configuration_in_force_holds_no_token() {
    let dir = with_files([TOKENS[0], TOKENS[1]]);
    let texts = Conf::load_texts(dir.path(), &Settings::default()).unwrap().texts;
    let srv = texts.srv.replace(&format!("{}/", dir.path().display()), "");
    active::write(dir.path(), 1, &Texts { srv, ..texts }).unwrap();
    let published = std::fs::read(active::path(dir.path(), 1)).unwrap();
    for token in TOKENS {
        assert!(!published.windows(token.len()).any(|bytes| bytes == token.as_bytes()));
    }
    let clients = active::read(dir.path(), 1).unwrap().srv.clients.expect("there");
    let here = std::env::current_dir().unwrap();
    assert_eq!(clients.list[0].token_file, Some(here.join("one")), "whatever the directory");
}

// Shows: open-listeners.
#[test]
fn the_check_warns_of_listeners_that_everybody_reaches() {
    let warnings = |srv: &str| {
        let machine = crate::Machine {
            ram_bytes: None,
            filesystems: vec![],
            missing_program: None,
            shm_free_bytes: None,
        };
        let report = crate::report::report(&good(srv, MAP), &machine, &super::SIZES);
        let no_biz = |warning: &String| warning.starts_with("map.xml names no business");
        report.warnings.into_iter().filter(|warning| !no_biz(warning)).collect::<Vec<_>>()
    };
    const OPEN: &str = "everybody who gets there charge, give back and force any key: <clients> \
                        of srv.xml says who may";
    let listen = |more: &str| format!("<srv><listen>0.0.0.0:7600</listen>{more}</srv>");
    assert_eq!(warnings(&listen("")), [format!("0.0.0.0:7600 lets {OPEN}")]);
    let resp = "<resp listen='[::]:6380'/><resp listen='[::]:6381' token-file='t'/>";
    assert_eq!(warnings(&listen(resp)), [format!("0.0.0.0:7600, [::]:6380 let {OPEN}")]);
    let local = "<srv><listen>127.0.0.1:1</listen><listen>[::1]:1</listen>\
                 <listen>unix:a</listen><metrics listen='0.0.0.0:2'/></srv>";
    assert!(warnings(local).is_empty());
    assert!(warnings(&listen("<clients/>")).is_empty());
    let client = "<clients><client name='a' cert='CN=a' may='query' biz='lo* *'/>\
                  <client name='b' cert='CN=b' may='query' biz='order'/></clients>";
    assert_eq!(
        warnings(&listen(client)),
        [
            "client a: map.xml has no biz for biz=\"lo*\"",
            "client b: map.xml has no biz for biz=\"order\""
        ]
    );
}
