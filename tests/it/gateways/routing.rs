//! The routers of conf/examples/cluster: nginx, HAProxy and Envoy send all requests for a key to
//! the same frs of several. Each runs with its shipped file in front of real servers.
//!
//! Only the addresses in the shipped files are changed, and the lines for one more machine. The
//! machine that a request reached is read from the machines' counts, not from the router.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::programs::{self, Gateway};
use crate::common::address::Reserved;
use crate::common::{Answer, BOUND, Client, MAP, Server, Settings, Setup, text, tools, wait_until};

/// Not a multiple of a number of machines: requests sent in turn would seem to be routed.
const KEYS: usize = 301;
/// The machines of the shipped files. The last one is added later.
const MACHINES: usize = 4;

/// The same stories for each router.
macro_rules! play_all {
    ($($router:ident)*) => {$(
        mod $router {
            play_all!(@ $router
                a_key_goes_to_one_machine_however_it_is_sent
                a_request_without_a_key_goes_by_the_callers_address
                a_machine_more_gets_its_part_and_moves_no_other_key
                with_one_lost_its_keys_move_the_others_stay_and_all_are_answered
                what_a_machine_may_have_read_is_not_sent_to_another_one);
        }
    )*};
    (@ $router:ident $($story:ident)*) => {$(
        #[test]
        fn $story() {
            crate::gateways::routing::$story(&crate::gateways::programs::$router());
        }
    )*};
}

play_all!(nginx haproxy envoy);

/// The directory of the routers.
pub fn example() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("conf/examples/cluster")
}

fn shipped(gateway: &Gateway) -> String {
    let path = example().join(gateway.name).join(gateway.files[0]);
    std::fs::read_to_string(path).expect("shipped")
}

/// The shipped file with other addresses. Envoy writes address and port apart.
fn rendered(gateway: &Gateway, router: SocketAddr, machines: &[Setup]) -> String {
    let here = |text: String, from: (&str, u16), to: SocketAddr| {
        let (joined, apart) = (
            format!("{}:{}", from.0, from.1),
            format!("address: {}, port_value: {} }}", from.0, from.1),
        );
        let other = format!("address: {}, port_value: {} }}", to.ip(), to.port());
        // The comments name the address too.
        assert!(text.contains(&joined) || text.contains(&apart), "{joined} in {text}");
        text.replace(&apart, &other).replace(&joined, &to.to_string())
    };
    // Replaces the addresses of the machines first: no address of a test begins with 10.
    let text = (1..=MACHINES).fold(shipped(gateway), |text, nth| {
        let address = machines[nth - 1].address;
        here(text, (&format!("10.0.0.{nth}"), 7600), address)
    });
    here(text, ("127.0.0.1", 7610), router)
}

/// The machines, of which the shipped file names the first three.
fn machines() -> Vec<Setup> {
    let more = r#"<authz key="header:FRS-Key"/>"#.to_owned();
    let settings = Settings { workers: 1, more, ..Settings::default() };
    let with_room = |_| {
        let setup = Setup::new(&settings);
        // With fewer key-nodes, half of all keys share chains, and in one of a hundred runs a chain
        // was full.
        setup.write_map(&MAP.replace("key-nodes=\"64\"", "key-nodes=\"512\""));
        setup
    };
    (0..MACHINES).map(with_room).collect()
}

fn key(nth: usize) -> String {
    format!("user-{nth}")
}

/// A router in front of machines.
struct Routed<'a> {
    address: SocketAddr,
    machines: Vec<Option<Server<'a>>>,
    router: Child,
    dir: tempfile::TempDir,
    _reserved: Reserved,
}

impl<'a> Routed<'a> {
    /// `None` if the router is not installed.
    fn start(gateway: &Gateway, setups: &'a [Setup]) -> Option<Routed<'a>> {
        let program = gateway.program()?;
        let reserved = Reserved::new();
        let dir = tempfile::tempdir().expect("a directory");
        let text = rendered(gateway, reserved.address, setups);
        std::fs::write(dir.path().join(gateway.files[0]), text).expect("written");
        let machines = setups.iter().map(|setup| Some(setup.start())).collect();
        let router = spawn(gateway, &program, dir.path());
        let address = reserved.address;
        let mut routed = Routed { address, machines, router, dir, _reserved: reserved };
        routed.wait();
        Some(routed)
    }

    fn wait(&mut self) {
        wait_until("the router serves", || {
            let ended = self.router.try_wait().expect("waited");
            assert!(ended.is_none(), "it ended instead: {ended:?}");
            let answer = Client::try_connect(self.address)?.try_get("/health").ok()?;
            (answer.status == 200).then_some(())
        });
    }

    /// Starts the router again, with one more machine, as its file describes.
    fn add_machine(&mut self, gateway: &Gateway) {
        self.end_router();
        let path = self.dir.path().join(gateway.files[0]);
        let text = std::fs::read_to_string(&path).expect("written");
        // Envoy's number of points depends on the number of machines, as its file explains.
        let points = ("minimum_ring_size: 12288", "minimum_ring_size: 16384");
        let text = text.replace("# ADD: ", "").replace(points.0, points.1);
        std::fs::write(&path, text).expect("written");
        self.router = spawn(gateway, &gateway.program().expect("it was there"), self.dir.path());
        self.wait();
    }

    fn end_router(&mut self) {
        let _ = killpg(Pid::from_raw(self.router.id() as i32), Signal::SIGKILL);
        let _ = self.router.wait();
    }

    fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// The uses of each key that each living machine has counted.
    fn counts(&self) -> Vec<Vec<u64>> {
        let count = |machine: &Option<Server<'_>>| {
            machine.as_ref().map_or(vec![0; KEYS], |machine| counts(&mut machine.client()))
        };
        self.machines.iter().map(count).collect()
    }

    /// The machine that each key's requests reach, which must be the same for all. `ask` sends one
    /// request for a key, and returns how much it charges.
    #[track_caller]
    fn placed(&self, mut ask: impl FnMut(&mut Client, &str) -> u64) -> Vec<usize> {
        let before = self.counts();
        let mut client = self.client();
        let charged: Vec<u64> = (0..KEYS).map(|nth| ask(&mut client, &key(nth))).collect();
        let after = self.counts();
        let place = |nth: usize| {
            let more = before.iter().zip(&after).map(|(before, after)| after[nth] - before[nth]);
            let more: Vec<u64> = more.collect();
            let place = more.iter().position(|&more| more > 0).expect("a machine has it");
            assert_eq!(more[place], charged[nth], "{}: {more:?}", key(nth));
            assert_eq!(more.iter().sum::<u64>(), charged[nth], "{}: {more:?}", key(nth));
            place
        };
        (0..KEYS).map(place).collect()
    }
}

impl Drop for Routed<'_> {
    fn drop(&mut self) {
        self.end_router();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            eprintln!("--- the router's log\n{log}---");
        }
    }
}

fn spawn(gateway: &Gateway, program: &Path, dir: &Path) -> Child {
    let log = std::fs::File::create(dir.join("log")).expect("a log");
    let mut command = Command::new(program);
    command.args((gateway.arguments)(dir)).current_dir(dir).process_group(0);
    command.stdout(Stdio::null()).stderr(log).spawn().expect("the router starts")
}

/// The uses of each key that a machine has counted.
fn counts(client: &mut Client) -> Vec<u64> {
    let items: String =
        (0..KEYS).map(|nth| format!("<item biz=\"plenty\" key=\"{}\"/>", key(nth))).collect();
    let answer = post(client, "/query", "", &format!("<request>{items}</request>"));
    let used = answer.body.split(" used=\"").skip(1);
    let used = used.map(|rest| rest.split('"').next().expect("a value").parse().expect("a number"));
    let used: Vec<u64> = used.collect();
    assert_eq!(used.len(), KEYS, "{answer:?}");
    used
}

/// Sends a document. `fields` are header fields, each with its end of line.
fn post(client: &mut Client, target: &str, fields: &str, document: &str) -> Answer {
    client.send(&format!(
        "POST {target} HTTP/1.1\r\nHost: frs\r\nContent-Type: application/xml\r\n{fields}\
         Content-Length: {}\r\n\r\n{document}",
        document.len()
    ));
    client.answer()
}

/// An Update of a key, by the short form.
fn by_url(client: &mut Client, key: &str) -> u64 {
    let answer = client.get(&format!("/update?biz=plenty&key={key}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    1
}

/// An Update by a document, whose key no router reads, with FRS-Key.
fn by_field(client: &mut Client, key: &str) -> u64 {
    let fields = format!("FRS-Key: {key}\r\n");
    let document = format!("<request><item biz=\"plenty\" key=\"{key}\" count=\"3\"/></request>");
    let answer = post(client, "/update", &fields, &document);
    assert_eq!(answer.status, 200, "{answer:?}");
    3
}

/// A request as a gateway sends it.
fn by_authz(client: &mut Client, key: &str) -> u64 {
    client.send(&format!(
        "GET /authz/plenty/any/path HTTP/1.1\r\nHost: frs\r\nFRS-Key: {key}\r\n\r\n"
    ));
    let answer = client.answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    1
}

/// Whether a process has connections to this port of the loopback interface, even broken ones.
fn has_connections_to(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("readable");
    let remote = format!(":{port:04X}");
    sockets.lines().skip(1).any(|socket| {
        let mut columns = socket.split_whitespace().skip(2);
        let is_to_port = columns.next().is_some_and(|address| address.ends_with(&remote));
        // 06 is TIME_WAIT, which belongs to no process any more.
        is_to_port && columns.next() != Some("06")
    })
}

/// The number of keys of each machine.
fn parts(places: &[usize]) -> [usize; MACHINES] {
    let mut parts = [0; MACHINES];
    places.iter().for_each(|&place| parts[place] += 1);
    parts
}

// Shows: routing.
pub fn a_key_goes_to_one_machine_however_it_is_sent(gateway: &Gateway) {
    let setups = machines();
    let Some(routed) = Routed::start(gateway, &setups) else { return };
    let places = routed.placed(by_url);
    assert_eq!(routed.placed(by_url), places, "asked again");
    assert_eq!(routed.placed(by_field), places, "by FRS-Key");
    assert_eq!(routed.placed(by_authz), places, "by a gateway");
    let parts = parts(&places);
    let fair = KEYS / 3;
    assert!(parts[..3].iter().all(|&part| part > fair / 2 && part < fair * 3 / 2), "{parts:?}");
    assert_eq!(parts[3], 0, "it is not added yet");
}

pub fn a_request_without_a_key_goes_by_the_callers_address(gateway: &Gateway) {
    let setups = machines();
    let Some(routed) = Routed::start(gateway, &setups) else { return };
    for nth in 0..10 {
        let document = format!("<request><item biz=\"plenty\" key=\"{}\"/></request>", key(nth));
        let answer = post(&mut routed.client(), "/update", "", &document);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let counted: Vec<u64> = routed.counts().iter().map(|counts| counts.iter().sum()).collect();
    assert_eq!(counted.iter().max(), Some(&10), "{counted:?}");
}

// Shows: routing.
pub fn a_machine_more_gets_its_part_and_moves_no_other_key(gateway: &Gateway) {
    let setups = machines();
    let Some(mut routed) = Routed::start(gateway, &setups) else { return };
    let before = routed.placed(by_field);
    routed.add_machine(gateway);
    let after = routed.placed(by_field);
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
    let moved: Vec<usize> = moved.map(|(_, &to)| to).collect();
    assert!(moved.iter().all(|&to| to == 3), "to the new machine only: {moved:?}");
    let fair = KEYS / 4;
    assert!(moved.len() > fair / 2 && moved.len() <= fair * 3 / 2, "{} of {KEYS}", moved.len());
}

// Shows: routing.
pub fn with_one_lost_its_keys_move_the_others_stay_and_all_are_answered(gateway: &Gateway) {
    let setups = machines();
    let Some(mut routed) = Routed::start(gateway, &setups) else { return };
    let before = routed.placed(by_field);
    routed.machines[1].take().expect("it runs").kill_all_and_wait();
    // A request on a broken connection may be lost. This test is not about that.
    let port = setups[1].address.port();
    wait_until("the router drops its connections", || (!has_connections_to(port)).then_some(()));
    // From the first request after the loss on, every request is answered.
    let at_once = routed.placed(by_field);
    assert!(at_once.iter().all(|&place| place == 0 || place == 2), "{at_once:?}");
    let lost = before.iter().filter(|&&place| place == 1).count();
    let moved = |after: &[usize]| {
        let pairs = before.iter().zip(after).filter(|(before, after)| before != after);
        let stayed = pairs.clone().all(|(&before, _)| before == 1);
        (stayed, pairs.count())
    };
    assert_eq!(moved(&at_once), (true, lost), "the keys of the others stay");
    // Once the router knows of the loss, both other machines share the lost machine's keys.
    let mut last = Vec::new();
    wait_until("the router has settled", || {
        let places = routed.placed(by_field);
        let settled = places == last;
        last = places;
        settled.then_some(())
    });
    assert_eq!(moved(&last), (true, lost));
    for heir in [0, 2] {
        let part = (0..KEYS).filter(|&nth| before[nth] == 1 && last[nth] == heir).count();
        assert!(part > lost / 6, "{part} of {lost} to machine {heir}");
    }
    // A machine that comes back gets its own keys again, and no others.
    routed.machines[1] = Some(setups[1].start());
    wait_until("its keys are back", || (routed.placed(by_field) == before).then_some(()));
}

// Shows: routing.
pub fn what_a_machine_may_have_read_is_not_sent_to_another_one(gateway: &Gateway) {
    let setups = machines();
    let Some(routed) = Routed::start(gateway, &setups) else { return };
    let place = routed.placed(by_field)[0];
    let before: u64 = routed.counts().iter().map(|counts| counts[0]).sum();
    let master = routed.machines[place].as_ref().expect("it runs").master();
    killpg(master, Signal::SIGSTOP).expect("stopped");
    let fields = format!("FRS-Key: {}\r\n", key(0));
    let document = format!("<request><item biz=\"plenty\" key=\"{}\"/></request>", key(0));
    let begun = std::time::Instant::now();
    let answer = post(&mut routed.client(), "/update", &fields, &document);
    assert!(matches!(answer.status, 502..=504), "{answer:?}");
    assert!(begun.elapsed() < BOUND / 2, "{:?}", begun.elapsed());
    killpg(master, Signal::SIGCONT).expect("continued");
    let after: u64 = routed.counts().iter().map(|counts| counts[0]).sum();
    assert!(after - before <= 1, "charged {} times", after - before);
    let others = routed.counts().into_iter().enumerate().map(|(nth, counts)| (nth, counts[0]));
    let others: Vec<_> = others.filter(|&(nth, used)| nth != place && used > 0).collect();
    assert!(others.is_empty(), "{others:?}");
}

// Shows: routing.
#[test]
fn frs_load_sends_a_key_where_nginx_does() {
    let setups = machines();
    let Some(routed) = Routed::start(&programs::nginx(), &setups) else { return };
    let urls: String =
        setups[..3].iter().map(|setup| format!("--url http://{} ", setup.address)).collect();
    let words = format!("{urls} --route key --biz plenty --keys {KEYS} --zipf 0 --requests 3000");
    let output = Command::new(tools::tool("frs-load"))
        .args(words.split_whitespace())
        .output()
        .expect("frs-load runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut client = routed.client();
    for nth in 0..KEYS {
        let answer = client.get(&format!("/query?biz=plenty&key=k{nth}"));
        let used: u64 = answer.attribute("used").expect("used").parse().expect("a number");
        assert!(used > 0, "k{nth} was sent elsewhere: {answer:?}");
    }
}

#[test]
fn every_file_says_how_a_machine_is_added() {
    for gateway in [programs::nginx(), programs::haproxy(), programs::envoy()] {
        let text = shipped(&gateway);
        let added: Vec<&str> = text.lines().filter(|line| line.contains("# ADD: ")).collect();
        assert_eq!(added.len(), 1, "{}", gateway.name);
        assert!(added[0].contains("10.0.0.4"), "{}", added[0]);
        let points = text.contains("minimum_ring_size: 12288") && text.contains("write 16384");
        assert_eq!(points, gateway.name == "envoy");
    }
}
