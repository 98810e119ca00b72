//! A running gateway between clients and the application, with an frs that can be stopped.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use socket2::{Domain, Socket, Type};

use super::application::Application;
use super::programs::{Gateway, example};
use crate::common::address::Reserved;
use crate::common::{Answer, Client, Server, Settings, Setup, wait_until};

/// The variant of an example.
#[derive(Clone, Copy, PartialEq)]
pub enum Away {
    Closed,
    Open,
    /// Closed, and clients' header fields are passed on, as many gateways do.
    HandingOn,
}

/// The configuration of frs as shipped, on its own address.
pub fn frs(change: impl FnOnce(String) -> String) -> Setup {
    let read = |file: &str| std::fs::read_to_string(example().join(file)).expect("shipped");
    let setup = Setup::new(&Settings::default());
    let srv = replaced(&read("srv.xml"), "127.0.0.1:7600", &setup.address.to_string());
    std::fs::write(setup.path("conf/srv.xml"), srv).expect("written");
    setup.write_map(&change(read("map.xml")));
    setup
}

/// Replaces `from`, which must occur in the text.
pub fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} in {text}");
    text.replace(from, to)
}

/// All processes of a test. Dropping it ends them.
pub struct Stage<'a> {
    pub application: Application,
    pub frs: Option<Server<'a>>,
    setup: &'a Setup,
    address: SocketAddr,
    gateway: Child,
    _dir: tempfile::TempDir,
    _reserved: [Reserved; 2],
}

impl<'a> Stage<'a> {
    /// `None` if the gateway is not installed.
    pub fn start(gateway: &Gateway, setup: &'a Setup, away: Away) -> Option<Stage<'a>> {
        let program = gateway.program()?;
        let (dir, application) = (tempfile::tempdir().expect("a directory"), Application::start());
        let reserved = [Reserved::new(), Reserved::new()];
        let ports = [
            ("8080", reserved[0].address.port()),
            ("7610", reserved[1].address.port()),
            ("3000", application.address.port()),
            ("7600", setup.address.port()),
        ];
        render(gateway, dir.path(), &ports, away);
        let arguments = (gateway.arguments)(dir.path());
        let child = Command::new(program)
            .args(arguments)
            .current_dir(dir.path())
            // Caddy writes there.
            .env("XDG_DATA_HOME", dir.path())
            .env("XDG_CONFIG_HOME", dir.path())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.path().join("log")).expect("a log"))
            .process_group(0)
            .spawn()
            .expect("the gateway starts");
        let mut stage = Stage {
            application,
            frs: Some(setup.start()),
            setup,
            address: reserved[0].address,
            gateway: child,
            _dir: dir,
            _reserved: reserved,
        };
        stage.wait();
        Some(stage)
    }

    /// Waits until the gateway forwards requests.
    fn wait(&mut self) {
        let address = self.address;
        wait_until("the gateway serves", || {
            let ended = self.gateway.try_wait().expect("waited");
            assert!(ended.is_none(), "it ended instead: {ended:?}");
            let answer = Client::try_connect(address)?.try_get("/ready").ok()?;
            (answer.status == 200).then_some(())
        });
    }

    /// Sends a request as a client at 127.0.0.1.
    pub fn get(&self, target: &str) -> Answer {
        self.get_from([127, 0, 0, 1].into(), target, "")
    }

    /// Sends a request from an address, with these header fields.
    pub fn get_from(&self, from: IpAddr, target: &str, fields: &str) -> Answer {
        let mut client = self.connect(from);
        client.send(&format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"));
        client.answer()
    }

    /// Sends a form.
    pub fn post(&self, target: &str, body: &str) -> Answer {
        let mut client = self.connect([127, 0, 0, 1].into());
        let length = body.len();
        client.send(&format!(
            "POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        client.answer()
    }

    fn connect(&self, from: IpAddr) -> Client {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((from, 0)).into()).expect("bound");
        socket.connect(&self.address.into()).expect("connected");
        Client::over(socket.into())
    }

    /// Uses up the limit: makes five logins, which pass.
    pub fn use_up(&self) {
        for nth in 1..=5 {
            let answer = self.get("/login");
            assert_eq!(answer.status, 200, "login {nth}: {answer:?}");
        }
    }

    /// Checks that this many requests have reached the application.
    #[track_caller]
    pub fn expect_arrived(&self, count: usize) {
        let arrivals = self.application.arrivals();
        assert_eq!(arrivals.len(), count, "{arrivals:?}");
    }

    /// Kills frs with all its processes at once.
    pub fn end_frs(&mut self) {
        self.frs.take().expect("it runs").kill_all();
    }

    /// Starts frs again on the same files.
    pub fn restart_frs(&mut self) {
        self.frs = Some(self.setup.start());
    }
}

/// Writes the files of a gateway with the addresses of this test.
fn render(gateway: &Gateway, dir: &Path, ports: &[(&str, u16)], away: Away) {
    for (nth, file) in gateway.files.iter().enumerate() {
        let mut text = gateway.shipped(file);
        if away == Away::Open && nth == 0 {
            for (from, to) in gateway.open {
                text = replaced(&text, from, to);
            }
        }
        if let (Away::HandingOn, (named, from, to)) = (away, gateway.handing_on)
            && named == *file
        {
            text = replaced(&text, from, to);
        }
        text = text.replace(gateway.installed, &format!("{}/", dir.display()));
        // In two steps, since a new port may contain the digits of an old one.
        for (nth, (from, _)) in ports.iter().enumerate() {
            text = text.replace(from, &format!("<PORT{nth}>"));
        }
        for (nth, (_, to)) in ports.iter().enumerate() {
            text = text.replace(&format!("<PORT{nth}>"), &to.to_string());
        }
        std::fs::write(dir.join(file), text).expect("written");
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.gateway.id() as i32), Signal::SIGKILL);
        let _ = self.gateway.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self._dir.path().join("log")).unwrap_or_default();
            eprintln!("--- the gateway's log\n{log}---");
        }
    }
}
