//! The servers to compare: start, readiness, processor time, end.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, geteuid, sysconf};
use tempfile::TempDir;

use crate::{KEYS, Result};

pub const FRS: &str = "frs";
pub const BARE: &str = "bare loop";
pub const MEMCACHED: &str = "memcached";
pub const REDIS: &str = "redis";

/// The longest time that a server may take to start or to end, and one under valgrind.
const PATIENCE: Duration = Duration::from_secs(10);
const VALGRIND_PATIENCE: Duration = Duration::from_secs(120);

/// A running server.
pub trait Server {
    fn name(&self) -> &'static str;
    fn address(&self) -> SocketAddr;
    fn process(&self) -> &Process;

    /// The processor time of all its processes so far, including the kernel's work for them.
    fn cpu(&self) -> Result<Duration> {
        cpu_of_tree(self.process().0.id())
    }
}

/// A child process. Dropping it stops it, by force if needed.
pub struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Waits until `ready` is true. Fails if the server ends meanwhile.
    fn await_ready(
        &mut self,
        patience: Duration,
        name: &str,
        ready: impl Fn() -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + patience;
        while !ready() {
            if let Some(status) = self.0.try_wait()? {
                return Err(format!("{name} ended before it was ready: {status}").into());
            }
            if Instant::now() > deadline {
                return Err(format!("{name} was not ready within {patience:?}").into());
            }
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// One biz whose limit is never reached; 2 × 2048 × 56 places, of which the keys fill 44 %.
pub const ONE_BIZ: &str = r#"<map>
  <group name="default" files="2" key-nodes="2048" chain="56" node-size="64" key-bytes="24" hash="bob"/>
  <biz id="1" name="bench" group="default" key="string">
    <limit policy="interval" interval="24h" max="1000000000"/>
  </biz>
</map>
"#;

/// frs with one worker.
pub struct Frs {
    // The order of the fields matters: the server ends before its directory is removed.
    process: Process,
    address: SocketAddr,
    data: PathBuf,
    _directory: TempDir,
}

impl Frs {
    pub fn start(map: &str) -> Result<Frs> {
        Frs::start_with(map, "")
    }

    /// Starts this version of frs with further elements of srv.xml.
    pub fn start_with(map: &str, more: &str) -> Result<Frs> {
        Frs::start_program(Path::new(env!("CARGO_BIN_EXE_frs")), map, more)
    }

    /// Starts another version of frs.
    pub fn start_program(program: &Path, map: &str, more: &str) -> Result<Frs> {
        Frs::start_by(Command::new(program), PATIENCE, map, more)
    }

    /// Starts a version of frs under valgrind, which writes a file with the instructions of each
    /// process into a directory.
    pub fn start_counted(program: &Path, map: &str, more: &str, counts: &Path) -> Result<Frs> {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--tool=callgrind", "--trace-children=yes"]);
        valgrind.arg(format!("--callgrind-out-file={}/%p", counts.display())).arg(program);
        Frs::start_by(valgrind, VALGRIND_PATIENCE, map, more)
    }

    /// Starts frs by a command, which gets the arguments of frs.
    fn start_by(mut program: Command, patience: Duration, map: &str, more: &str) -> Result<Frs> {
        let directory = tempfile::tempdir()?;
        let address = free_address()?;
        let data = directory.path().join("data");
        fs::write(
            directory.path().join("srv.xml"),
            format!(
                r#"<srv>
  <workers>1</workers>
  <listen>{address}</listen>
  <data dir="{}"/>
  <log level="warn"/>
  {more}
</srv>
"#,
                data.display()
            ),
        )?;
        fs::write(directory.path().join("map.xml"), map)?;
        let arguments = [OsStr::new("serve"), "--conf".as_ref(), directory.path().as_ref()];
        let child = program.args(arguments).stdin(Stdio::null()).spawn();
        let name = program.get_program().display();
        let mut process = Process(child.map_err(|error| format!("{name}: {error}"))?);
        process.await_ready(patience, FRS, || healthy(address).unwrap_or(false))?;
        Ok(Frs { process, address, data, _directory: directory })
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data
    }
}

impl Server for Frs {
    fn name(&self) -> &'static str {
        FRS
    }
    fn address(&self) -> SocketAddr {
        self.address
    }
    fn process(&self) -> &Process {
        &self.process
    }
}

/// Whether `GET /health` answers 200.
fn healthy(address: SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    Ok(status.ends_with(b" 200"))
}

/// The bare loop, benches/bare_loop.rs: the floor for frs.
pub struct Bare {
    process: Process,
    address: SocketAddr,
}

impl Bare {
    pub fn start(reply_bytes: usize) -> Result<Bare> {
        let program = bare_program();
        let child =
            Command::new(&program).arg(reply_bytes.to_string()).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| {
            let how = "cargo build -p frs-server --profile dist --example bare_loop";
            format!("{}: {error}; built by: {how}", program.display())
        })?;
        let mut process = Process(child);
        let mut line = String::new();
        let stdout = process.0.stdout.take().ok_or("the bare loop has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse().map_err(|_| "the bare loop did not name its address")?;
        Ok(Bare { process, address })
    }
}

impl Server for Bare {
    fn name(&self) -> &'static str {
        BARE
    }
    fn address(&self) -> SocketAddr {
        self.address
    }
    fn process(&self) -> &Process {
        &self.process
    }
}

/// The path of the bare loop. Examples are built beside the binaries.
fn bare_program() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_frs")).with_file_name("examples").join("bare_loop")
}

/// memcached with one serving thread, and a value for every key.
pub struct Memcached {
    process: Process,
    address: SocketAddr,
}

impl Memcached {
    /// `None` if memcached is not installed.
    pub fn start() -> Result<Option<Memcached>> {
        let address = free_address()?;
        let mut command = Command::new("memcached");
        command.args(["-t", "1", "-U", "0", "-l", "127.0.0.1", "-p"]);
        command.arg(address.port().to_string());
        if geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        let child = match command.stdin(Stdio::null()).spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            child => child?,
        };
        let mut process = Process(child);
        process.await_ready(PATIENCE, MEMCACHED, || TcpStream::connect(address).is_ok())?;
        set_keys(address)?;
        Ok(Some(Memcached { process, address }))
    }
}

impl Server for Memcached {
    fn name(&self) -> &'static str {
        MEMCACHED
    }
    fn address(&self) -> SocketAddr {
        self.address
    }
    fn process(&self) -> &Process {
        &self.process
    }
}

/// Redis or Valkey, without files on disk.
pub struct Redis {
    process: Process,
    address: SocketAddr,
}

impl Redis {
    /// Starts this program. `None` if it is not installed.
    pub fn start(program: &str) -> Result<Option<Redis>> {
        let address = free_address()?;
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--loglevel", "warning"]);
        let child = match command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            child => child?,
        };
        let mut process = Process(child);
        process.await_ready(PATIENCE, REDIS, || TcpStream::connect(address).is_ok())?;
        Ok(Some(Redis { process, address }))
    }
}

impl Server for Redis {
    fn name(&self) -> &'static str {
        REDIS
    }
    fn address(&self) -> SocketAddr {
        self.address
    }
    fn process(&self) -> &Process {
        &self.process
    }
}

/// Sets the initial values that incr needs.
fn set_keys(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    for chunk in (0..KEYS).collect::<Vec<_>>().chunks(1000) {
        let sets: String =
            chunk.iter().map(|key| format!("set k{key:06} 0 0 1\r\n0\r\n")).collect();
        stream.write_all(sets.as_bytes())?;
        for _ in chunk {
            line.clear();
            replies.read_line(&mut line)?;
            if line.trim_end() != "STORED" {
                return Err(format!("memcached: expected STORED, found {line:?}").into());
            }
        }
    }
    Ok(())
}

/// A free address of the loopback interface.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// utime and stime of a process and all its descendants, including ended ones.
pub fn cpu_of_tree(root: u32) -> Result<Duration> {
    let mut stats = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        // The process may have ended.
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        stats.push((pid, Stat::read(&text).ok_or("/proc/PID/stat is not understood")?));
    }
    let mut family = vec![root];
    let mut ticks = 0;
    while let Some(parent) = family.pop() {
        for (pid, stat) in &stats {
            if *pid == parent {
                ticks += stat.ticks;
            }
            if stat.parent == parent {
                family.push(*pid);
            }
        }
    }
    let per_second = sysconf(SysconfVar::CLK_TCK)?.ok_or("no clock tick")?;
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// The fields of /proc/PID/stat that are used.
struct Stat {
    parent: u32,
    /// utime + stime + cutime + cstime.
    ticks: u64,
}

impl Stat {
    /// The fields after the name in parentheses (proc(5)).
    fn read(stat: &str) -> Option<Stat> {
        let (_, after_name) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let parent = fields.get(1)?.parse().ok()?;
        let ticks = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<u64>().ok());
        Some(Stat { parent, ticks: ticks.sum::<Option<u64>>()? })
    }
}
