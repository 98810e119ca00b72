//! A real Envoy with the shipped configuration of conf/examples/gateways/rls, in front of an
//! application and beside a real frs.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::common::address::Reserved;
use crate::common::{Answer, Client, Server, Settings, Setup, text, tools, wait_until};
use crate::gateways::application::Application;
use crate::gateways::programs;

/// The example of this page of tests.
const GATEWAY: &str = "gateways/rls";

fn shipped(name: &str) -> String {
    of_example(GATEWAY, name)
}

fn of_example(example: &str, name: &str) -> String {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/examples"));
    std::fs::read_to_string(examples.join(example).join(name)).expect("shipped")
}

/// The configuration of frs as shipped in an example, with the addresses of this test.
pub struct Files {
    pub setup: Setup,
    example: &'static str,
    rls: Reserved,
    program: PathBuf,
}

impl Files {
    /// `None` if Envoy is not installed.
    fn new() -> Option<Files> {
        Files::of(GATEWAY)
    }

    /// The files of an example. `None` if Envoy is not installed.
    pub fn of(example: &'static str) -> Option<Files> {
        let program = programs::envoy().program()?;
        tools::tool("frs-envoy");
        let setup = Setup::new(&Settings::default());
        let files = Files { setup, example, rls: Reserved::new(), program };
        files.setup.write_map(&of_example(example, "map.xml"));
        files.write_srv(|text| text);
        Some(files)
    }

    pub fn write_srv(&self, change: impl FnOnce(String) -> String) {
        let text = of_example(self.example, "srv.xml");
        let text = text.replace("127.0.0.1:7600", &self.setup.address.to_string());
        let text = text.replace("127.0.0.1:7603", &self.rls.address.to_string());
        std::fs::write(self.setup.path("conf/srv.xml"), change(text)).expect("written");
    }

    /// Starts Envoy, which calls frs, and waits until it forwards requests.
    pub fn envoy(&self, change: impl FnOnce(String) -> String) -> Envoy {
        let (application, web) = (Application::start(), Reserved::new());
        let file = self.setup.path("envoy.yaml");
        let ports = [
            ("8080", web.address.port()),
            ("7603", self.rls.address.port()),
            ("3000", application.address.port()),
        ];
        let mut yaml = change(of_example(self.example, "envoy.yaml"));
        // In two steps, since a new port may contain the digits of an old one.
        for (nth, (from, _)) in ports.iter().enumerate() {
            yaml = yaml.replace(&format!("port_value: {from}"), &format!("port_value: <{nth}>"));
        }
        for (nth, (_, to)) in ports.iter().enumerate() {
            yaml = yaml.replace(&format!("<{nth}>"), &to.to_string());
        }
        std::fs::write(&file, yaml).expect("written");
        let log = self.setup.path("envoy.log");
        let mut child = Command::new(&self.program)
            .args(["--disable-hot-restart", "--concurrency", "1", "-l", "warning", "-c"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("a log"))
            .process_group(0)
            .spawn()
            .expect("Envoy starts");
        wait_until("Envoy serves", || {
            let ended = child.try_wait().expect("waited");
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "it ended instead: {ended:?}\n{}", said());
            let answer = Client::try_connect(web.address)?.try_get("/ready").ok()?;
            (answer.status == 200).then_some(())
        });
        Envoy { application, web, child }
    }
}

pub struct Envoy {
    pub application: Application,
    web: Reserved,
    child: Child,
}

impl Envoy {
    pub fn get(&self, target: &str) -> Answer {
        Client::connect(self.web.address).get(target)
    }

    /// GETs with these header fields, each with its end of line.
    pub fn get_with(&self, target: &str, fields: &str) -> Answer {
        let mut client = Client::connect(self.web.address);
        client.send(&format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"));
        client.answer()
    }

    pub fn statuses(&self, target: &str, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.get(target).status).collect()
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

pub fn frs_envoy(server: &Server<'_>) -> Pid {
    wait_until("frs-envoy is attached", || {
        let found = server.attached("envoy");
        (found.len() == 1).then(|| found[0])
    })
}

pub fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    let mut values = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    values.next().map(|(_, value)| value)
}

// Shows: envoy-api.
#[test]
fn the_sixth_login_is_refused_with_its_header_fields() {
    let Some(files) = Files::new() else { return };
    let server = files.setup.start();
    frs_envoy(&server);
    let envoy = files.envoy(|yaml| yaml);
    for left in (0..5).rev() {
        let answer = envoy.get("/login?next=/");
        assert_eq!(answer.status, 200, "{answer:?}");
        let limit = field(&answer, "RateLimit").expect("told");
        assert!(limit.starts_with(&format!("\"login\";r={left};t=")), "{limit}");
        assert_eq!(field(&answer, "RateLimit-Policy"), Some("\"login\";q=5;w=60"));
    }
    let refused = envoy.get("/login");
    assert_eq!(refused.status, 429, "{refused:?}");
    let retry: u64 = field(&refused, "Retry-After").expect("told").parse().expect("seconds");
    assert!((1..=60).contains(&retry), "{refused:?}");
    assert_eq!(envoy.statuses("/other", 20), [200; 20]);
    assert_eq!(envoy.application.arrivals().len(), 25);
}

// Shows: envoy-api.
#[test]
fn hits_of_a_descriptor_are_charged_and_given_back() {
    let Some(files) = Files::new() else { return };
    let server = files.setup.start();
    frs_envoy(&server);
    let envoy = files.envoy(|yaml| yaml);
    assert_eq!(envoy.statuses("/export", 4), [200, 200, 200, 429], "ten units, three each");
    assert_eq!(envoy.get("/cancel").status, 200);
    let answer = server.client().get("/query?biz=export&key=all&count=0");
    assert_eq!(answer.attribute("used"), Some("7"), "{answer:?}");
    assert_eq!(envoy.statuses("/export", 2), [200, 429]);
}

// Shows: frs-envoy-replaced.
#[test]
fn killed_under_load_envoy_fails_as_it_says_and_all_is_well_within_a_second() {
    let Some(files) = Files::new() else { return };
    for (deny, away) in [("true", 503), ("false", 200)] {
        let server = files.setup.start();
        let envoy = files.envoy(|yaml| {
            yaml.replace("failure_mode_deny: true", &format!("failure_mode_deny: {deny}"))
        });
        let plenty = shipped("map.xml").replace("max=\"10\"", "max=\"1000000\"");
        files.setup.write_map(&plenty);
        assert!(files.setup.frs(&["reload"]).status.success());
        assert_eq!(envoy.get("/export").status, 200);
        let old = frs_envoy(&server);
        kill(old, Signal::SIGSTOP).expect("stopped");
        let late = envoy.get("/export");
        assert_eq!(late.status, away, "{deny}: a second without an answer");
        let begun = Instant::now();
        kill(old, Signal::SIGKILL).expect("killed");
        let (mut seen, mut well) = (Vec::new(), 0);
        // Waits for many answers in a row with header fields of frs.
        while well < 50 {
            let answer = envoy.get("/export");
            seen.push(answer.status);
            well = if field(&answer, "RateLimit").is_some() { well + 1 } else { 0 };
            assert!(begun.elapsed() < Duration::from_secs(20), "{seen:?}");
            if well == 1 {
                let took = begun.elapsed();
                assert!(took < Duration::from_secs(2), "{took:?}: {seen:?}");
            }
        }
        assert!(seen.iter().all(|status| [200, away].contains(status)), "{seen:?}");
        assert_ne!(frs_envoy(&server), old);
        drop(envoy);
        let mut server = server;
        server.kill_all_and_wait();
    }
}

// Shows: frs-envoy-replaced.
#[test]
fn a_reload_and_an_upgrade_lose_no_request() {
    let Some(files) = Files::new() else { return };
    let server = files.setup.start();
    frs_envoy(&server);
    // Envoy denies a request whose call fails, so a lost call shows.
    let envoy = files.envoy(|yaml| yaml);
    assert_eq!(envoy.get("/export").status, 200);
    let plenty = shipped("map.xml").replace("max=\"10\"", "max=\"1000000\"");
    files.setup.write_map(&plenty);
    files.write_srv(|text| text.replace("key=\"all\"", "key=\"everything\""));
    let output = files.setup.frs(&["reload"]);
    assert!(output.status.success(), "{output:?}");
    let mut made = 0;
    let mut export = || {
        made += 1;
        let answer = envoy.get("/export");
        assert_eq!(answer.status, 200, "{answer:?}");
        let limit = field(&answer, "RateLimit").expect("told");
        assert!(limit.starts_with(&format!("\"export\";r={};", 1_000_000 - 3 * made)), "{limit}");
    };
    (0..20).for_each(|_| export());
    let old = frs_envoy(&server);
    server.signal(Signal::SIGUSR2);
    wait_until("another frs-envoy serves alone", || {
        export();
        let status = text(&files.setup.frs(&["status"]).stdout);
        let found: Vec<&str> = status.lines().filter(|line| line.starts_with("envoy")).collect();
        (found.len() == 1 && !found[0].contains(&format!("process {old},"))).then_some(())
    });
    (0..20).for_each(|_| export());
    let status = text(&files.setup.frs(&["status"]).stdout);
    let master = status.lines().next().and_then(|line| line.split("process ").nth(1));
    let master = master.and_then(|pid| pid.parse().ok()).expect("a master");
    kill(Pid::from_raw(master), Signal::SIGKILL).expect("killed");
}
