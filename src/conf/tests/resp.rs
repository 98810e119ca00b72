//! `<resp>`: its faults, the biz of CL.THROTTLE, and the files of its tokens.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{faults, good, parse, report};
use crate::memory_bound::Memory;
use crate::{Conf, Listen, Machine, Settings, Texts, active};

const TOKEN: &str = "0123456789abcdef";
/// Businesses that take limits of calls, that do not, and that also have another limit.
const MAP: &str = "<map><group name='g' files='1' key-nodes='8' node-size='128'/>\
    <biz id='7' name='throttle' key='string'><limit policy='gcra' rate='1/s' per-call='true'/></biz>\
    <biz id='8' name='fixed' key='string'><limit policy='gcra' rate='1/s'/></biz>\
    <biz id='9' name='login' key='string'><limit policy='total' max='1'/></biz>\
    <biz id='10' name='both' key='string'><limit policy='gcra' rate='1/s' per-call='true'/>\
    <limit policy='count'/></biz></map>";

#[test]
fn every_setting_is_taken() {
    let srv = "<srv><resp listen='127.0.0.1:6380'/>\
        <resp listen='unix:run/resp' token-file='t' throttle='throttle'/>\
        <resp listen='[::1]:6380' throttle='7'/></srv>";
    let [first, second, third] = good(srv, MAP).srv.resps.try_into().unwrap();
    assert_eq!(first.listen, Listen::Tcp("127.0.0.1:6380".parse().unwrap()));
    assert_eq!((first.token_file, first.throttle), (None, None));
    assert_eq!(second.listen, Listen::Unix("run/resp".into()));
    assert_eq!(second.token_file.as_deref(), Some(Path::new("t")));
    assert_eq!(second.throttle.as_deref(), Some("throttle"));
    assert_eq!((third.token_file, third.throttle.as_deref()), (None, Some("7")));
    assert_eq!(good("<srv/>", MAP).srv.resps, []);
}

#[test]
fn faulty_elements() {
    const CALLS: &str =
        "a biz of map.xml whose only limit is policy=\"gcra\" with per-call=\"true\"";
    let many: Vec<_> = (1..=17).map(|port| format!("<resp listen='[::1]:{port}'/>")).collect();
    let cases = [
        (
            "<resp/>".to_owned(),
            "2:1: found <resp> without listen, expected listen: ADDRESS:PORT, [ADDRESS]:PORT or \
             unix:PATH"
                .to_owned(),
        ),
        (
            "<resp listen='127.0.0.1:0'/>".to_owned(),
            "2:15: found listen=\"127.0.0.1:0\", expected a port from 1 to 65535".to_owned(),
        ),
        (
            "<resp listen='unix:'/>".to_owned(),
            "2:15: found listen=\"unix:\", expected unix: and a path of 1 to 107 bytes".to_owned(),
        ),
        (
            "<resp listen='[::1]:1' token-file=''/>".to_owned(),
            "2:36: found token-file=\"\", expected the path of a file".to_owned(),
        ),
        (
            "<resp listen='[::1]:1' throttle=''/>".to_owned(),
            format!("2:34: found throttle=\"\", expected {CALLS}"),
        ),
        (
            "<resp listen='[::1]:1' throttle='throtle'/>".to_owned(),
            format!(
                "2:34: found throttle=\"throtle\", expected the name or id of {CALLS} (nearest: \
                 throttle)"
            ),
        ),
        (
            "<resp listen='[::1]:1' throttle='8'/>".to_owned(),
            format!(
                "2:34: found throttle=\"8\", biz 8 \"fixed\" with policy=\"gcra\" without \
                 per-call=\"true\", expected {CALLS}"
            ),
        ),
        (
            "<resp listen='[::1]:1' throttle='login'/>".to_owned(),
            format!(
                "2:34: found throttle=\"login\", biz 9 \"login\" with policy=\"total\", expected \
                 {CALLS}"
            ),
        ),
        (
            "<resp listen='[::1]:1' throttle='both'/>".to_owned(),
            format!(
                "2:34: found throttle=\"both\", biz 10 \"both\" with policy=\"gcra\", \
                 policy=\"count\", expected {CALLS}"
            ),
        ),
        (
            "<resp listen='[::1]:1' tokenfile='t'/>".to_owned(),
            "2:24: found attribute tokenfile of <resp>, expected one of listen, tls, token-file, \
             throttle, registers, databases (nearest: token-file)"
                .to_owned(),
        ),
        (
            "<resp listen='[::1]:1'/><resp listen='[::1]:1'/>".to_owned(),
            "2:39: found listen=\"[::1]:1\" again, expected an address of its own: the <resp> of \
             line 2 has it"
                .to_owned(),
        ),
        (
            "<resp listen='unix:a'/><listen>unix:a</listen>".to_owned(),
            "2:15: found listen=\"unix:a\" again, expected an address of its own: <listen> has it"
                .to_owned(),
        ),
        (
            "<resp listen='127.0.0.1:7600'/>".to_owned(),
            "2:15: found listen=\"127.0.0.1:7600\" again, expected an address of its own: <listen> \
             has it"
                .to_owned(),
        ),
        (
            "<resp listen='[::1]:1'/><admin listen='[::1]:1'/>".to_owned(),
            "2:15: found listen=\"[::1]:1\" again, expected an address of its own: <admin> has it"
                .to_owned(),
        ),
        (
            many.join("\n"),
            "18:1: found another <resp>, expected at most 16 of <srv>".to_owned(),
        ),
    ];
    for (resp, expected) in cases {
        let found = parse(&format!("<srv>\n{resp}</srv>"), MAP);
        faults(found, &[&format!("srv.xml:{expected}")]);
    }
}

/// A directory with a configuration whose second `<resp>` requires the token in the file `token`.
fn protected() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let srv = format!(
        "<srv><resp listen='[::1]:1'/>\n<resp listen='[::1]:2' token-file='{}'/></srv>",
        path.display()
    );
    std::fs::write(dir.path().join("srv.xml"), srv).unwrap();
    std::fs::write(dir.path().join("map.xml"), MAP).unwrap();
    dir
}

// Shows: resp-token.
#[test]
fn a_file_without_a_token_is_a_fault_at_its_place() {
    const EXPECTED: &str =
        "a file with one line of 16 to 1024 characters, letters, digits and -._~+/=";
    let dir = protected();
    let path = dir.path().join("token");
    let check = |found: &str, expected: &str| {
        let errors = Conf::load(dir.path()).expect_err("taken");
        let fault = errors.iter().next().unwrap();
        let srv = dir.path().join("srv.xml");
        let found = format!("found token-file=\"{}\"{found}", path.display());
        let place = format!("{}:2:36", srv.display());
        assert_eq!(errors.to_string(), format!("{place}: {found}, expected {expected}"));
        assert!(fault.line.as_ref().unwrap().to_string().contains("<resp"), "it shows the line");
    };
    check(", which does not exist", EXPECTED);
    std::fs::create_dir(&path).unwrap();
    check(": it is no file", EXPECTED);
    std::fs::remove_dir(&path).unwrap();
    for text in ["", "\n", "short", &"x".repeat(1025), "0123456789abcdef 0123456789abcdef"] {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        check(", which holds no token", EXPECTED);
    }
    std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
    for mode in [0o644, 0o604] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let expected = "0400, 0440, 0600 or 0640, so that nobody but the server can read it";
        check(&format!(" with mode {mode:04o}"), expected);
    }
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    Conf::load(dir.path()).unwrap_or_else(|faults| panic!("{faults}"));
}

/// Only the process that serves has tokens, and no copy of the configuration holds them.
// Shows: resp-token.
#[test]
fn tokens_are_read_by_who_serves_and_never_copied() {
    let dir = protected();
    let path = dir.path().join("token");
    std::fs::write(&path, TOKEN).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let texts = Conf::load_texts(dir.path(), &Settings::default())
        .unwrap_or_else(|faults| panic!("{faults}"))
        .texts;
    let srv = texts.srv.replace(&format!("{}/", dir.path().display()), "");
    active::write(dir.path(), 1, &Texts { srv, ..texts }).unwrap();
    let published = std::fs::read(active::path(dir.path(), 1)).unwrap();
    assert!(!published.windows(TOKEN.len()).any(|bytes| bytes == TOKEN.as_bytes()));
    let mut srv = active::read(dir.path(), 1).unwrap().srv;
    let here = std::env::current_dir().unwrap();
    assert_eq!(srv.resps[1].token_file, Some(here.join("token")), "whatever the directory");
    srv.resps[1].token_file = Some(path.clone());
    let tokens = srv.read_tokens().unwrap();
    std::fs::remove_file(path).unwrap();
    assert!(srv.read_tokens().unwrap_err().to_string().contains("does not exist"));
    assert_eq!(tokens.resps[0], [], "it needs none");
    assert!(tokens.resps[1][0].matches(TOKEN.as_bytes()));
}

#[test]
fn the_check_shows_them_and_counts_their_clients_once() {
    let machine = Machine {
        ram_bytes: None,
        filesystems: vec![],
        missing_program: None,
        shm_free_bytes: None,
    };
    let without = good("<srv><workers>1</workers></srv>", MAP);
    let with = "<srv><workers>1</workers><resp listen='127.0.0.1:6380'/>\
        <resp listen='unix:run/resp' token-file='conf/t' throttle='7'/></srv>";
    let with = good(with, MAP);
    let said = report::report(&with, &machine, &super::SIZES).text;
    for line in [
        "resp 127.0.0.1:6380: no AUTH, no CL.THROTTLE",
        "resp unix:run/resp: AUTH with the token of conf/t, CL.THROTTLE on biz 7",
    ] {
        assert!(said.lines().any(|other| other == line), "{said}");
    }
    // Besides the next command, a client may have as many bytes in an open MULTI.
    let [with_memory, memory] = [&with, &without].map(|conf| Memory::of(conf, &super::SIZES));
    let http = &with.srv.http;
    let queued = u64::from(http.max_connections) * u64::from(http.max_body_bytes);
    assert_eq!(with_memory, Memory { clients: memory.clients + queued, ..memory });
}
