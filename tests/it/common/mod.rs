//! Real servers for the tests: a configuration in its own directory, the frs binary started on it,
//! and clients over plain sockets.
//!
//! Nothing here waits for a fixed time, only for conditions, each with a bound.

pub mod address;
pub mod c_library;
pub mod files;
pub mod items;
pub mod load;
pub mod metrics;
pub mod needs;
pub mod plane;
pub mod power;
pub mod programs;
pub mod python;
pub mod secure;
pub mod terminal;
pub mod tools;
pub mod years;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use address::Reserved;

/// Long enough for anything that works, on a busy machine.
pub const BOUND: Duration = Duration::from_secs(20);

/// A directory with a configuration, and an address that no other test gets.
pub struct Setup {
    pub dir: tempfile::TempDir,
    pub address: SocketAddr,
    _reserved: Reserved,
}

/// The settings of srv.xml that tests choose.
#[derive(Clone)]
pub struct Settings {
    pub workers: u16,
    /// The attributes of `<http>`.
    pub http: String,
    /// Further elements.
    pub more: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { workers: 2, http: String::new(), more: String::new() }
    }
}

/// A business with a time zone. Its first call reads the time zone database.
pub const ZONED_MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="192"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
    <limit policy="calendar" unit="day" tz="Asia/Shanghai" max="1000000"/>
  </biz>
</map>"#;

pub const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
  <biz id="2" name="three" key="string">
    <limit policy="interval" interval="1h" max="3"/>
  </biz>
</map>
"#;

impl Setup {
    pub fn new(settings: &Settings) -> Setup {
        let reserved = Reserved::new();
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("conf")).expect("created");
        let setup = Setup { dir, address: reserved.address, _reserved: reserved };
        setup.write_srv(settings);
        setup.write_map(MAP);
        setup
    }

    /// A setup with this map.xml.
    pub fn of_map(map: &str) -> Setup {
        let setup = Setup::new(&Settings::default());
        setup.write_map(map);
        setup
    }

    pub fn write_srv(&self, settings: &Settings) {
        let Settings { workers, http, more } = settings;
        let address = self.address;
        let text = format!(
            "<srv><workers>{workers}</workers><listen>{address}</listen><http {http}/>{more}</srv>\n"
        );
        std::fs::write(self.path("conf/srv.xml"), text).expect("written");
    }

    pub fn write_map(&self, text: &str) {
        std::fs::write(self.path("conf/map.xml"), text).expect("written");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The process ids of a role's attached processes, by `frs status`.
    pub fn attached(&self, role: &str) -> Vec<Pid> {
        text(&self.frs(&["status"]).stdout)
            .lines()
            .filter(|line| line.starts_with(role) && !line.ends_with("dead"))
            .filter_map(|line| line.split("process ").nth(1)?.split(',').next())
            .filter_map(|pid| pid.parse().ok().map(Pid::from_raw))
            // While the slot of a dead process is recovered, `frs status` reports the process as
            // alive.
            .filter(|&pid| is_alive(pid))
            .collect()
    }

    /// Runs an frs command to its end. A command that serves instead is killed, so the test fails.
    pub fn frs(&self, arguments: &[&str]) -> Output {
        let mut command = frs_in(self.dir.path());
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("frs runs");
        let pid = Pid::from_raw(child.id().cast_signed());
        let (ended, end) = mpsc::channel();
        let watchdog = std::thread::spawn(move || {
            if end.recv_timeout(3 * BOUND) == Err(RecvTimeoutError::Timeout) {
                kill(pid, Signal::SIGKILL).expect("killed");
            }
        });
        let output = child.wait_with_output().expect("frs runs");
        drop::<mpsc::Sender<()>>(ended);
        watchdog.join().expect("ends");
        output
    }

    /// An frs-inspect command, in the setup's directory.
    pub fn inspector(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(tools::tool("frs-inspect"));
        command.current_dir(self.dir.path()).args(arguments);
        command
    }

    /// Runs an frs-inspect command to its end.
    pub fn inspect(&self, arguments: &[&str]) -> Output {
        self.inspector(arguments).output().expect("frs-inspect runs")
    }

    /// Starts the server and waits until it serves.
    pub fn start(&self) -> Server<'_> {
        self.start_unready().ready()
    }

    /// As [`Setup::start`], with these variables in its environment.
    pub fn start_with(&self, variables: &[(&str, &str)]) -> Server<'_> {
        let mut command = frs_in(self.dir.path());
        command.process_group(0).envs(variables.iter().copied());
        self.spawn(&mut command).ready()
    }

    /// As [`Setup::start`], but the server may start without lost data.
    pub fn start_accepting_loss(&self) -> Server<'_> {
        self.spawn(frs_in(self.dir.path()).process_group(0).args(["serve", "--accept-loss"]))
            .ready()
    }

    /// As [`Setup::start`], in its own session, as under a service manager. When the master dies,
    /// the kernel continues none of its stopped children.
    pub fn start_apart(&self) -> Server<'_> {
        let mut command = Command::new("setsid");
        command.current_dir(self.dir.path()).arg(env!("CARGO_BIN_EXE_frs"));
        self.spawn(&mut command).ready()
    }

    /// Starts the server.
    pub fn start_unready(&self) -> Server<'_> {
        self.spawn(frs_in(self.dir.path()).process_group(0))
    }

    fn spawn(&self, command: &mut Command) -> Server<'_> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .expect("a log");
        let child = command.stderr(log).stdout(Stdio::null()).spawn().expect("frs starts");
        Server { setup: self, child }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

fn frs_in(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frs"));
    command.current_dir(dir);
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A running server. Dropping it kills all of its processes.
pub struct Server<'a> {
    pub setup: &'a Setup,
    child: Child,
}

impl Server<'_> {
    /// Waits until it serves.
    pub fn ready(mut self) -> Self {
        wait_until("the server serves", || {
            let ended = self.child.try_wait().expect("waited");
            assert!(ended.is_none(), "it ended instead: {ended:?}\n{}", self.setup.log());
            let mut client = Client::try_connect(self.setup.address)?;
            client.try_get("/health").ok().filter(|answer| answer.status == 200)
        });
        self
    }

    pub fn master(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.master(), signal).expect("signalled");
    }

    pub fn client(&self) -> Client {
        Client::connect(self.setup.address)
    }

    /// The process ids of a role's attached processes, by `frs status`.
    pub fn attached(&self, role: &str) -> Vec<Pid> {
        self.setup.attached(role)
    }

    pub fn workers(&self) -> Vec<Pid> {
        self.attached("worker")
    }

    /// Waits until this many workers are attached, and no others.
    pub fn wait_for_workers(&self, count: usize) -> Vec<Pid> {
        wait_until("the workers are attached", || {
            let workers = self.workers();
            (workers.len() == count).then_some(workers)
        })
    }

    /// The exit status of the master, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("waited")
    }

    /// Waits for the end of the master.
    pub fn wait(&mut self) -> ExitStatus {
        wait_until("the master ends", || self.child.try_wait().expect("waited"))
    }

    /// Kills every process at once with SIGKILL.
    pub fn kill_all(&mut self) {
        killpg(self.master(), Signal::SIGKILL).expect("killed");
        self.wait();
    }

    /// As [`Self::kill_all`], and waits until all processes are gone: only then none is attached.
    pub fn kill_all_and_wait(&mut self) {
        self.kill_all();
        let group = self.master();
        wait_until("all processes are gone", || group_is_gone(group).then_some(()));
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = killpg(self.master(), Signal::SIGKILL);
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the server's log\n{}---", self.setup.log());
        }
    }
}

/// Calls `look` until it finds something. Panics after [`BOUND`].
#[track_caller]
pub fn wait_until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    try_wait(look).unwrap_or_else(|| panic!("waited too long until {what}"))
}

/// Calls `look` until it finds something. `None` after [`BOUND`].
pub fn try_wait<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let found = look();
        if found.is_some() || begun.elapsed() >= BOUND {
            return found;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process lives. A zombie counts as gone.
pub fn is_alive(pid: Pid) -> bool {
    Stat::of(&pid.to_string()).is_some_and(|stat| stat.state != "Z")
}

/// The files that a process has open.
pub fn descriptors(pid: Pid) -> std::io::Result<Vec<PathBuf>> {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd"))?;
    Ok(all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect())
}

/// Whether a process group has no processes.
fn group_is_gone(group: Pid) -> bool {
    let group = group.to_string();
    let mut entries = std::fs::read_dir("/proc").expect("readable").flatten();
    !entries.any(|entry| {
        let found = Stat::of(&entry.file_name().to_string_lossy());
        found.is_some_and(|stat| stat.group == group && stat.state != "Z")
    })
}

/// The fields of /proc/PID/stat.
struct Stat {
    state: String,
    group: String,
}

impl Stat {
    fn of(pid: &str) -> Option<Stat> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        let mut words = rest.split_whitespace();
        let state = words.next()?.to_owned();
        Some(Stat { state, group: words.nth(1)?.to_owned() })
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn closes(&self) -> bool {
        self.head.to_ascii_lowercase().contains("connection: close")
    }

    /// An attribute of a single item.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.body.split(&format!(" {name}=\"")).nth(1)?.split('"').next()
    }
}

/// A client's connection, by default over plain TCP.
pub struct Client<S = TcpStream> {
    pub stream: S,
    received: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Self::try_connect(address).expect("connected")
    }

    pub fn try_connect(address: SocketAddr) -> Option<Client> {
        Some(Self::over(TcpStream::connect(address).ok()?))
    }

    /// A client on an existing connection.
    pub fn over(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(BOUND)).expect("set");
        stream.set_write_timeout(Some(BOUND)).expect("set");
        stream.set_nodelay(true).expect("set");
        Client::of(stream)
    }
}

impl<S: Read + Write> Client<S> {
    /// A client on a stream that has its time limits.
    pub fn of(stream: S) -> Client<S> {
        Client { stream, received: Vec::new() }
    }

    pub fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).expect("sent");
    }

    pub fn get(&mut self, target: &str) -> Answer {
        self.try_get(target).unwrap_or_else(|error| panic!("GET {target}: {error}"))
    }

    /// Charges a key of a business. The limit must admit the charge.
    #[track_caller]
    pub fn charge(&mut self, biz: &str, key: &str, count: u64) {
        let answer = self.get(&format!("/update?biz={biz}&key={key}&count={count}"));
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    pub fn try_get(&mut self, target: &str) -> std::io::Result<Answer> {
        write!(self.stream, "GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")?;
        self.try_answer()
    }

    pub fn answer(&mut self) -> Answer {
        self.try_answer().expect("an answer")
    }

    pub fn try_answer(&mut self) -> std::io::Result<Answer> {
        loop {
            if let Some(answer) = self.take_answer() {
                return Ok(answer);
            }
            let mut room = [0; 16 << 10];
            match self.stream.read(&mut room) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.received.extend_from_slice(&room[..read]),
                // A stopped or continued child may interrupt the call.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_answer(&mut self) -> Option<Answer> {
        let end = self.received.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = text(&self.received[..end]);
        let field = |name: &str| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
            line.split(": ").nth(1)?.trim().parse::<usize>().ok()
        };
        let length = field("content-length:").unwrap_or(0);
        let body = text(self.received.get(end..end + length)?);
        let status = head.split(' ').nth(1)?.parse().ok()?;
        self.received.drain(..end + length);
        Some(Answer { status, head, body })
    }

    /// Whether the server has closed the connection. Its output must have been read.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }
}
