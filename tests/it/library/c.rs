//! The C library: frs.h against the Rust structures, C programs beside a real server, the first
//! program of its page, and the examples in PHP and Go.

use std::io::{BufRead, BufReader, Write};
use std::mem::offset_of;
use std::process::{Command, Output, Stdio};

use super::setup_of;
use crate::common::c_library::{Installed, bindings};
use crate::common::needs::{output, skip, spawn};
use crate::common::years::{self, Before};
use crate::common::{Settings, Setup, files, text, wait_until};

#[allow(dead_code, reason = "a part of the library, of which only the layout is used here")]
#[path = "../../../bindings/c/src/layout.rs"]
mod layout;

const SHIPPED_MAP: &str = include_str!("../../../conf/map.xml");
const PAGE: &str = include_str!("../../../docs/c.md");
const LIBRARY_PAGE: &str = include_str!("../../../docs/library.md");

/// The businesses for bindings/c/tests/session.c.
const SESSION_MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="64" chain="8" node-size="512"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
  <biz id="2" name="three" key="string"><limit policy="interval" interval="1h" max="3"/></biz>
  <biz id="3" name="banning" key="string">
    <limit policy="interval" interval="1h" max="1" ban="2h"/>
  </biz>
  <biz id="4" name="listed" key="string">
    <allow key="root"/><deny key="mallory"/>
    <limit policy="interval" interval="1h" max="1"/>
  </biz>
  <biz id="5" name="advised" key="string">
    <limit policy="interval" interval="1h" max="1" on-exceed="captcha"/>
  </biz>
  <biz id="6" name="shadowed" key="string" mode="shadow">
    <limit policy="interval" interval="1h" max="1"/>
  </biz>
  <biz id="7" name="paced" key="string">
    <limit policy="gcra" rate="1/s" burst="3" per-call="true"/>
  </biz>
  <biz id="8" name="two" key="string">
    <limit policy="interval" interval="1h" max="2"/>
    <limit policy="total" max="100"/>
  </biz>
  <biz id="10" name="devices" key="string">
    <limit policy="distinct" precision="exact" max="2"/>
  </biz>
  <biz id="9" name="before" key="string">
    <limit policy="count" unit="year" history="4"/>
    <limit policy="total" max="100"/>
  </biz>
  <biz id="11" name="planned" key="string">
    <limit policy="interval" interval="1h" max="3" per-call="true" most="100"/>
  </biz>
  <biz id="12" name="tokens" key="string" once="8" holds="4" hold-ttl="10m">
    <limit policy="interval" interval="1h" max="10"/>
  </biz>
  <biz id="13" name="places" key="string" hold-ttl="10m">
    <limit policy="concurrent" max="2"/>
  </biz>
</map>"#;

/// Uses of past years for bindings/c/tests/session.c.
const BEFORE: [Before<'_>; 2] = [
    Before { biz: "before", key: "h", years_ago: 3, count: 4 },
    Before { biz: "before", key: "h", years_ago: 2, count: 7 },
];

/// The businesses for bindings/c/tests/codes.c.
const CODES_MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="64" chain="8" node-size="192"/>
  <group name="narrow" files="1" key-nodes="1" chain="2" node-size="64" on-full="refuse"/>
  <group name="damaged" files="1" key-nodes="64" chain="8" node-size="64"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
  <biz id="2" name="narrow" group="narrow" key="string"><limit policy="total" max="9"/></biz>
  <biz id="3" name="damaged" group="damaged" key="string"><limit policy="total" max="9"/></biz>
  <biz id="4" name="shared" key="string" share="exact" wait="100ms" on-miss="busy">
    <limit policy="total" max="9"/>
  </biz>
  <biz id="5" name="devices" key="string">
    <limit policy="distinct" precision="exact" max="2"/>
  </biz>
  <biz id="6" name="holding" key="string" holds="1"><limit policy="total" max="9"/></biz>
</map>"#;

#[track_caller]
fn expect_ok(output: &Output) {
    let (said, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said == "ok\n", "{said}{error}");
}

/// C assertions about each field of a structure, or of its part behind some bytes.
macro_rules! asserted {
    ($name:literal, $behind:expr, $type:ty, $($field:ident),+) => {{
        let mut lines = String::new();
        $(
            let (at, field) = ($behind + offset_of!($type, $field), stringify!($field));
            lines += &format!("CHECK(offsetof({}, {field}) == {at});\n", $name);
        )+
        lines
    }};
}

// Shows: c-header.
#[test]
fn the_header_has_the_layout_of_the_library() {
    use layout::{
        BatchOptions, Item, ItemCall, ItemMember, Limit, LimitHistory, Options, Outcome,
        OutcomeMore, Structure,
    };
    let mut source =
        String::from("#include <frs.h>\n#define CHECK(is) typedef char check_[(is) ? 1 : -1]\n");
    for (name, bytes) in [
        ("frs_item", Item::KNOWN),
        ("frs_options", Options::KNOWN),
        ("frs_batch_options", BatchOptions::KNOWN),
        ("frs_limit", size_of::<Limit>() + size_of::<LimitHistory>()),
        ("frs_result", Outcome::KNOWN),
    ] {
        source += &format!("CHECK(sizeof({name}) == {bytes});\n");
    }
    source += &asserted!(
        "frs_item", 0, Item, size, biz, biz_bytes, key, key_bytes, count, flags, reserved, rate,
        period_ns, burst
    );
    source += &asserted!("frs_item", layout::ITEM_MEMBER_AT, ItemMember, member, member_bytes);
    source += &asserted!(
        "frs_item",
        layout::ITEM_CALL_AT,
        ItemCall,
        rates,
        rates_bytes,
        max,
        once,
        once_bytes,
        hold,
        hold_bytes,
        ttl_ms
    );
    source += &asserted!("frs_options", 0, Options, size, places, reserved);
    source +=
        &asserted!("frs_batch_options", 0, BatchOptions, size, flags, reserved, once, once_bytes);
    source += &asserted!(
        "frs_limit",
        0,
        Limit,
        size,
        index,
        limited,
        reserved,
        standard_error,
        reserved2,
        used,
        max,
        remaining,
        reset_ms,
        retry_ms,
        policy
    );
    let behind = size_of::<Limit>();
    source += &asserted!("frs_limit", behind, LimitHistory, history, history_room, history_count);
    source += &asserted!(
        "frs_result",
        0,
        Outcome,
        size,
        code,
        limited,
        banned,
        shadow,
        degraded,
        list,
        reserved,
        limit,
        reserved2,
        used,
        max,
        remaining,
        reset_ms,
        retry_ms,
        weight,
        action,
        limits,
        limits_room,
        limits_count
    );
    source += &asserted!(
        "frs_result",
        size_of::<Outcome>(),
        OutcomeMore,
        granted,
        held,
        repeated,
        unknown_hold,
        reserved3
    );
    for (name, value) in [
        ("FRS_ABI", layout::ABI as u32),
        ("FRS_FORCE", layout::FORCE),
        ("FRS_DETAIL", layout::DETAIL),
        ("FRS_RATE", layout::RATE),
        ("FRS_BURST", layout::BURST),
        ("FRS_MAX", layout::MAX),
        ("FRS_PARTIAL", layout::PARTIAL),
        ("FRS_TTL", layout::TTL),
        ("FRS_SETTLE", layout::SETTLE),
        ("FRS_QUERY", layout::QUERY),
        ("FRS_ATOMIC", layout::ATOMIC),
        ("FRS_TRY", layout::TRY),
        ("FRS_LIST_ALLOW", layout::LIST_ALLOW.into()),
        ("FRS_LIST_DENY", layout::LIST_DENY.into()),
    ] {
        source += &format!("CHECK({name} == {value});\n");
    }
    source += "CHECK(FRS_TEXT == (size_t)-1);\n";
    source += "#ifdef WRONG\nCHECK(offsetof(frs_item, key) == 25);\n#endif\n";
    source +=
        "static frs_item item = FRS_ITEM(\"a\", \"b\");\nstatic frs_result result = FRS_RESULT;\n";
    source += "static frs_limit limit = FRS_LIMIT;\n";
    source += "static frs_options options = FRS_OPTIONS;\n";
    source += "static frs_batch_options batch = FRS_BATCH_OPTIONS;\n";
    source += "int use(void); int use(void) { return item.flags + result.code + limit.index + \
               options.places + batch.flags; }\n";
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("layout.c");
    std::fs::write(&file, &source).expect("written");
    // Compiles in both languages, and with a mistake that must be found.
    for (compiler, language) in [("cc", "c"), ("c++", "c++")] {
        let run = |define: &str| {
            let mut command = Command::new(compiler);
            command.args(["-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]);
            command.args(["-Wno-unused-local-typedefs", define]);
            output(command.arg("-I").arg(bindings("c")).arg(&file))
        };
        let Some(found) = run("-DFINE") else { return };
        assert!(found.status.success(), "{}", text(&found.stderr));
        let found = run("-DWRONG").expect("it was there");
        assert!(!found.status.success(), "a wrong offset is a fault");
    }
}

// Shows: c-header.
#[test]
fn a_session_in_c_gets_every_answer_and_every_error() {
    let installed = Installed::new();
    let Some(program) = installed.compile(&bindings("c/tests/session.c"), "session") else {
        return;
    };
    let setup = setup_of(SESSION_MAP);
    let _server = setup.start();
    let (data, nothing) = (setup.path("data"), setup.path("conf"));
    years::charge(&data, &BEFORE);
    let run = |command: &mut Command| output(command.arg(&data).arg(&nothing));
    expect_ok(&run(&mut installed.command(&program)).expect("it was built"));

    // Runs the same program under valgrind, on a store without records.
    let setup = setup_of(SESSION_MAP);
    let _server = setup.start();
    years::charge(&setup.path("data"), &BEFORE);
    let mut checker = installed.command("valgrind");
    checker.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all"]);
    checker.args(["--errors-for-leak-kinds=definite,indirect"]).arg(&program);
    let Some(checked) = output(checker.arg(setup.path("data")).arg(&nothing)) else { return };
    expect_ok(&checked);
}

/// The names and numbers that frs.h defines as codes.
fn codes_of_the_header() -> Vec<(String, i32)> {
    let header = std::fs::read_to_string(bindings("c/frs.h")).expect("readable");
    let from = header.find("/* Codes.").expect("codes");
    let to = header.find("/* A handle:").expect("their end");
    let defined = header[from..to].lines().filter_map(|line| line.strip_prefix("#define "));
    let split = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().expect("a name").to_owned();
        let number = words.next().expect("a number").trim_matches(['(', ')']);
        (name, number.parse().expect("a number"))
    };
    defined.map(split).collect()
}

// Shows: c-header.
#[test]
fn every_code_of_the_header_is_provoked_or_named() {
    let installed = Installed::new();
    let Some(program) = installed.compile(&bindings("c/tests/codes.c"), "codes") else {
        return;
    };
    // The cluster's only node accepts connections, but never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let node = silent.local_addr().expect("an address");
    let more = format!(
        "<data max-programs=\"3\"/><cluster name=\"test\" secret-file=\"conf/cluster.secret\" \
         timeout=\"10s\" learn=\"60s\"><node>{node}</node></cluster>"
    );
    let http = "lock-timeout=\"10s\"".to_owned();
    let setup = Setup::new(&Settings { http, more, ..Settings::default() });
    files::write_secret(&setup.path("conf/cluster.secret"), "a".repeat(64));
    setup.write_map(CODES_MAP);
    let _server = setup.start();
    // The server has the file open. Programs that attach from now on do not find the group's file.
    std::fs::rename(setup.path("data/damaged.0.mmap"), setup.path("data/aside")).expect("moved");
    std::fs::write(setup.path("data/damaged.0.mmap"), [0; 100]).expect("written");
    let folder = setup.path("folder");
    std::fs::create_dir(&folder).expect("made");
    // Another user passes through it.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&folder, open).expect("set");
    let mut command = installed.command(&program);
    let output = output(command.arg(setup.path("data")).arg(&folder)).expect("it was built");
    let (said, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && error.is_empty(), "{said}{error}");
    let (mut named, mut not_provoked) = (Vec::new(), Vec::new());
    for line in said.lines() {
        let mut words = line.split(' ');
        let name = words.next().expect("a name").to_owned();
        let number: i32 = words.next().expect("a number").parse().expect("a number");
        not_provoked.extend(words.next().map(|_| name.clone()));
        named.push((name, number));
    }
    assert_eq!(named, codes_of_the_header());
    assert_eq!(not_provoked, ["FRS_OTHER", "FRS_PANIC"]);
}

// Shows: one-place-per-process.
#[test]
fn threads_in_c_use_one_place_and_a_forked_child_its_own() {
    let installed = Installed::new();
    let Some(program) = installed.compile(&bindings("c/tests/threads.c"), "threads") else {
        return;
    };
    let setup = setup_of(SESSION_MAP);
    let server = setup.start();
    let mut command = installed.command(program);
    command.arg(setup.path("data")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawn(&mut command).expect("it was built");
    let (mut input, said) = (child.stdin.take(), child.stdout.take());
    let mut lines = BufReader::new(said.expect("piped")).lines();
    for (expected, places) in [
        ("threads", 1..=1),
        ("child", 2..=2),
        ("parent", 1..=1),
        // A second handle, with two to four of them.
        ("places", 3..=5),
        ("one", 1..=1),
        ("ok", 0..=0),
    ] {
        let line = lines.next().expect("it goes on").expect("readable");
        assert_eq!(line, expected);
        let attached = || server.attached("program").len();
        wait_until("calls have met", || (attached() >= *places.start()).then_some(()));
        assert!(places.contains(&attached()), "{expected}: {}", attached());
        let input = input.as_mut().expect("piped");
        let _ = input.write_all(b"\n");
    }
    assert!(child.wait().expect("it ends").success());
}

/// The texts of a page's blocks in this language.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let begin = format!("\n```{language}\n");
    let rests = page.split(&begin).skip(1);
    rests.map(|rest| &rest[..rest.find("\n```").expect("its end") + 1]).collect()
}

// Shows: c-header.
#[test]
fn the_programs_of_the_page_run_as_written() {
    let installed = Installed::new();
    let added = blocks(LIBRARY_PAGE, "xml").concat() + "</map>";
    let setup = setup_of(&SHIPPED_MAP.replace("</map>", &added));
    let _server = setup.start();
    if output(Command::new("pkg-config").arg("--version")).is_none() {
        return;
    }
    let [first, calls] = blocks(PAGE, "c")[..] else { panic!("two programs") };
    let commands = blocks(PAGE, "console");
    for (nth, (name, program)) in [("first.c", first), ("calls.c", calls)].into_iter().enumerate() {
        std::fs::write(setup.path(name), program).expect("written");
        let mut compile = installed.command("sh");
        compile.args(["-c", commands[nth].trim_start_matches("$ ")]);
        let output = output(compile.current_dir(setup.dir.path())).expect("a shell");
        let (said, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && error.is_empty(), "{said}{error}");
        assert_eq!(said, blocks(PAGE, "text")[nth]);
    }
}

/// A program asks for alice five times and then for others. The shipped map allows five.
#[track_caller]
fn expect_login(setup: &Setup, command: &mut Command) -> Option<()> {
    let server = setup.start();
    server.client().charge("login", "alice", 4);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command)?;
    let users = "alice\nalice\n\nbób\n".as_bytes();
    let _ = child.stdin.take().expect("piped").write_all(users);
    let output = child.wait_with_output().expect("it ends");
    let (said, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && error.is_empty(), "{said}{error}");
    let lines: Vec<&str> = said.lines().collect();
    let [first, refused, bad, other] = lines[..] else { panic!("{said}") };
    assert_eq!(first, "alice: yes, 0 more");
    assert!(refused.starts_with("alice: no, try again in "), "{said}");
    assert!(bad.starts_with(": not judged: bad-key"), "{said}");
    assert_eq!(other, "bób: yes, 4 more");
    Some(())
}

// Shows: c-header.
#[test]
fn the_example_in_php_asks_through_the_library() {
    let has_ffi = |output: &Output| text(&output.stdout).lines().any(|line| line == "FFI");
    match output(Command::new("php").arg("-m")) {
        None => return,
        Some(modules) if !has_ffi(&modules) => return skip("php has no FFI"),
        Some(_) => {}
    }
    let (installed, setup) = (Installed::new(), setup_of(SHIPPED_MAP));
    let mut php = installed.command("php");
    php.env("FRS_H", installed.path("include/frs.h"));
    expect_login(&setup, php.arg(bindings("examples/login.php")).arg(setup.path("data")));
    let mut nowhere = installed.command("php");
    nowhere.env("FRS_H", installed.path("include/frs.h"));
    nowhere.arg(bindings("examples/login.php")).arg(setup.path("nothing"));
    let output = nowhere.output().expect("it was there");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no server runs"), "{}", text(&output.stderr));
}

// Shows: c-header.
#[test]
fn the_example_in_go_asks_through_the_library() {
    for (tool, version) in [("go", "version"), ("cc", "--version"), ("pkg-config", "--version")] {
        if output(Command::new(tool).arg(version)).is_none() {
            return;
        }
    }
    let (installed, setup) = (Installed::new(), setup_of(SHIPPED_MAP));
    let mut build = installed.command("go");
    build.env("GOCACHE", installed.path("cache")).env("CGO_ENABLED", "1");
    build.env("GO111MODULE", "off").env("GOFLAGS", "").args(["build", "-o"]);
    build.arg(installed.path("login")).arg(bindings("examples/go/login.go"));
    let built = build.output().expect("it was there");
    assert!(built.status.success(), "{}", text(&built.stderr));
    let mut login = installed.command(installed.path("login"));
    expect_login(&setup, login.arg(setup.path("data")));
}
