//! The programs of docs/redis.md for PHP, Go and Java, which run as written but for addresses and
//! times.
//!
//! Needs php with the components of Laravel and Symfony, go with redigo, and a JDK with the API of
//! servlets and Spring's annotations, as Debian packages them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::{fs, io, thread};

use crate::common::address::Reserved;
use crate::common::{Settings, Setup, needs, text};

const PAGE: &str = include_str!("../../docs/redis.md");
const MAP: &str = "<map><group name='default' keys='1000'/>
  <biz id='1' name='adhoc' key='string' once='8'>
    <limit policy='sliding' interval='60s' max='5' per-call='true' most='200' max-period='1d'/>
  </biz></map>";
/// What six questions are answered, where five uses are allowed.
const FIVE: &str = "200\n200\n200\n200\n200\n429\n";
const ALL: &str = "200\n200\n200\n200\n200\n200\n";
const NONE: &str = "500\n500\n500\n500\n500\n500\n";
const JARS: &str = "/usr/share/java/jakarta-servlet-api.jar:/usr/share/java/spring3-context.jar";
const GOPATH: &str = "/usr/share/gocode";

/// The block of the page in a language that has these words.
fn block(language: &str, words: &str) -> &'static str {
    let fence = format!("```{language}\n");
    let mut blocks = PAGE.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.contains(words)).unwrap_or_else(|| panic!("no {words} in {language}"))
}

/// How a program differs from the page.
struct Changes {
    resp: u16,
    http: u16,
    biz: &'static str,
    open: bool,
}

impl Changes {
    /// Writes a file of a program. It waits for answers as long as a busy machine takes.
    fn write(&self, path: &Path, program: &str) {
        let changed = program
            .replace("6380", &self.resp.to_string())
            .replace("7600", &self.http.to_string())
            .replace("adhoc", self.biz)
            .replace("OPEN = false", &format!("OPEN = {}", self.open))
            .replace("$timeout = 0.5", "$timeout = 20.0")
            .replace("timeout = 500 * time.Millisecond", "timeout = 20 * time.Second")
            .replace("TIMEOUT_MS = 500", "TIMEOUT_MS = 20_000");
        assert!(changed.len() < program.len() + 100, "as written");
        fs::write(path, changed).expect("written");
    }
}

/// The port of a relay to another one. It breaks the connection of the first verdict, in place of
/// the verdict.
fn losing_a_verdict(to: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let is_armed = Arc::new(AtomicBool::new(true));
    thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.expect("accepted");
            let far = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).expect("connected");
            let (mut asks, mut asked) =
                (near.try_clone().expect("cloned"), far.try_clone().expect("cloned"));
            thread::spawn(move || {
                let _ = io::copy(&mut asks, &mut asked);
                let _ = asked.shutdown(Shutdown::Both);
            });
            let is_armed = Arc::clone(&is_armed);
            thread::spawn(move || answers(far, near, &is_armed));
        }
    });
    port
}

fn answers(mut far: TcpStream, mut near: TcpStream, is_armed: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = far.read(&mut bytes) {
        let is_verdict = text(&bytes[..length]).contains("limited");
        if (is_verdict && is_armed.swap(false, SeqCst)) || near.write_all(&bytes[..length]).is_err()
        {
            break;
        }
    }
    let _ = near.shutdown(Shutdown::Both);
}

/// The port of a server that answers each question, of RESP or HTTP, that it is busy.
fn busy() -> u16 {
    const RESP: &[u8] = b"-ERR busy (the record was not free within lock-timeout)\r\n";
    const HTTP: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for asker in listener.incoming() {
            let mut asker = asker.expect("accepted");
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = asker.read(&mut bytes) {
                    let answer = if bytes[..length].starts_with(b"GET ") { HTTP } else { RESP };
                    asker.write_all(answer).expect("the program listens");
                }
            });
        }
    });
    port
}

/// Checks a program that asks six times. `make` builds it in a folder, and gives its command.
#[track_caller]
fn check(make: impl Fn(&Path, &Changes) -> Command) {
    let listener = Reserved::new();
    let more = format!("<resp listen='{}'/>", listener.address);
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    setup.write_map(MAP);
    let folder = tempfile::tempdir().expect("a directory");
    let (resp, http) = (listener.address.port(), setup.address.port());
    let expect = |what: &str, expected: &str, changes: &Changes| {
        let output = make(folder.path(), changes).output().expect("it was there");
        let said = text(&output.stdout);
        assert_eq!(said, expected, "{what}: {}", text(&output.stderr));
    };
    let server = setup.start();
    let lossy = (losing_a_verdict(resp), losing_a_verdict(http));
    let usual = Changes { resp: lossy.0, http: lossy.1, biz: "adhoc", open: false };
    expect("a lost answer is asked for again, and charged once", FIVE, &usual);
    let wrong = Changes { resp, http, biz: "nobody", open: true };
    expect("what is set wrongly never admits", NONE, &wrong);
    drop(server);
    let [closed, open] = [false, true].map(|open| Changes { resp, http, biz: "adhoc", open });
    expect("away, fails closed", NONE, &closed);
    expect("away, fails open", ALL, &open);
    let busy = busy();
    let [closed, open] =
        [false, true].map(|open| Changes { resp: busy, http: busy, biz: "adhoc", open });
    expect("busy, fails closed", NONE, &closed);
    expect("busy, fails open", ALL, &open);
}

/// Whether a command runs. Reports a skip if it does not.
#[track_caller]
fn has(what: &str, command: &mut Command) -> bool {
    let Some(output) = needs::output(command) else { return false };
    if !output.status.success() {
        needs::skip(&format!("{what}: {}", text(&output.stderr)));
    }
    output.status.success()
}

fn check_php(autoload: &str, class: &str, program: &str) {
    let loads = format!("require '/usr/share/php/{autoload}'; new \\Redis();");
    if !has(autoload, Command::new("php").args(["-r", &loads])) {
        return;
    }
    let page = [block("php", "final class Frs\n"), block("php", class)].concat();
    check(|folder, changes| {
        let path = folder.join("program.php");
        changes.write(&path, &program.replace("// THE PAGE\n", &page));
        let mut php = Command::new("php");
        php.arg(path);
        php
    });
}

// Shows: limiter-libraries.
#[test]
fn the_middleware_of_laravel_runs_as_written() {
    let program = include_str!("snippets/laravel.php");
    check_php("Illuminate/Http/autoload.php", "class FrsThrottle", program);
}

// Shows: limiter-libraries.
#[test]
fn the_limiter_of_symfony_runs_as_written() {
    let program = include_str!("snippets/symfony.php");
    check_php("Symfony/Component/RateLimiter/autoload.php", "class FrsLimiter", program);
}

// Shows: limiter-libraries.
#[test]
fn the_handler_of_go_runs_as_written() {
    let redigo = Path::new(GOPATH).join("src/github.com/gomodule/redigo");
    if !has("go", Command::new("go").arg("version")) {
        return;
    }
    if !redigo.exists() {
        return needs::skip("redigo is not installed");
    }
    check(|folder, changes| {
        changes.write(&folder.join("page.go"), block("go", "func Limit("));
        changes.write(&folder.join("main.go"), include_str!("snippets/main.go"));
        let mut go = Command::new("go");
        go.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go")).env("GOPATH", GOPATH);
        go.env("GO111MODULE", "off").env("GOFLAGS", "").env("CGO_ENABLED", "0");
        go.args(["build", "-o", "program", "page.go", "main.go"]).current_dir(folder);
        let built = go.output().expect("it was there");
        assert!(built.status.success(), "{}", text(&built.stderr));
        Command::new(folder.join("program"))
    });
}

// Shows: limiter-libraries.
#[test]
fn the_filter_of_spring_runs_as_written() {
    if !has("javac", Command::new("javac").arg("-version")) {
        return;
    }
    if let Some(jar) = JARS.split(':').find(|jar| !Path::new(jar).exists()) {
        return needs::skip(&format!("{jar} is not installed"));
    }
    check(|folder, changes| {
        changes.write(&folder.join("FrsFilter.java"), block("java", "class FrsFilter"));
        changes.write(&folder.join("Main.java"), include_str!("snippets/Main.java"));
        let mut javac = Command::new("javac");
        javac.args(["-cp", JARS, "FrsFilter.java", "Main.java"]).current_dir(folder);
        let built = javac.output().expect("it was there");
        assert!(built.status.success(), "{}", text(&built.stderr));
        let mut java = Command::new("java");
        java.arg("-cp").arg(format!("{JARS}:{}", folder.display())).arg("Main");
        java
    });
}
