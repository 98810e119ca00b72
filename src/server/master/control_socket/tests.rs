//! Clients of every kind, over the real socket in one thread.

use std::io::Write;

use super::*;
use crate::process::control::{ANSWER_BYTES_MAX, Cause, Loss, ReloadOptions};
use frs_base::clock;
use frs_base::sys::process::Pid;

struct Played {
    dir: tempfile::TempDir,
    socket: ControlSocket,
    now: Instant,
}

impl Played {
    fn new() -> Played {
        let dir = tempfile::tempdir().expect("a directory");
        let mut socket = ControlSocket::default();
        socket.look(dir.path()).expect("opened");
        Played { dir, socket, now: clock::instant() }
    }

    fn connect(&self) -> ControlStream {
        ControlStream::connect(self.dir.path(), Pid::this()).expect("connected")
    }

    /// Connects without the form of messages.
    fn connect_plain(&self) -> UnixStream {
        UnixStream::connect(self.dir.path().join(NAME)).expect("connected")
    }

    /// A command that has sent a request under this number.
    fn asking(&self, number: u64) -> ControlStream {
        let mut stream = self.connect();
        stream.send(number, &reload().to_text()).expect("sent");
        stream
    }

    fn receive(&mut self) -> Vec<Request> {
        self.socket.receive(self.now)
    }

    /// Receives one request; who has sent it.
    fn receive_one(&mut self) -> Asker {
        let requests = self.receive();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].by.expect("a connection")
    }

    fn answer(&mut self, to: Asker, result: &Reloaded) {
        self.socket.answer(to, result, self.now);
    }
}

fn reload() -> Ask {
    Ask::Reload(Loss::Refused.into())
}

fn taken(generation: u64) -> Reloaded {
    Reloaded::Taken { generation, laggards: Vec::new(), fresh: Vec::new() }
}

/// The answer that has arrived, and the number of its request.
fn heard(stream: &mut ControlStream) -> Option<(u64, Reloaded)> {
    let Message { number, text } = stream.receive().expect("open")?;
    Some((number, Reloaded::of_text(&text).expect("an answer")))
}

// Shows: one-answer-each.
#[test]
fn each_command_gets_its_own_answer_in_any_order() {
    let mut played = Played::new();
    let mut clients: Vec<ControlStream> = (0..5).map(|number| played.asking(number)).collect();
    let askers: Vec<Asker> = played.receive().iter().filter_map(|request| request.by).collect();
    assert_eq!(askers.len(), 5);
    assert_eq!(heard(&mut clients[0]), None);
    for (number, asker) in askers.iter().enumerate().rev() {
        played.answer(*asker, &taken(10 + number as u64));
    }
    for (number, client) in (0..).zip(&mut clients) {
        assert_eq!(heard(client), Some((number, taken(10 + number))));
    }
    // The connection is good for another request.
    clients[3].send(77, &reload().to_text()).expect("sent");
    let asker = played.receive_one();
    played.answer(asker, &taken(20));
    assert_eq!(heard(&mut clients[3]), Some((77, taken(20))));
}

// Shows: one-answer-each.
#[test]
fn clients_that_break_the_rules_are_closed_and_others_are_served() {
    let mut played = Played::new();
    let nonsense: [&[u8]; 4] = [b"GET / HTTP/1.1\r\n\r\n", &[0; 64], &[0xff; 4096], &[]];
    let plain: Vec<UnixStream> = nonsense.iter().map(|_| played.connect_plain()).collect();
    for (mut stream, bytes) in plain.iter().zip(nonsense) {
        stream.write_all(bytes).expect("sent");
    }
    let mut foreign = Vec::new();
    for ask in [
        Ask::Degrade(true),
        Ask::Reset { biz: 1, cleared: None },
        Ask::Reload(ReloadOptions { is_edit: true, ..ReloadOptions::default() }),
        Ask::Reload(ReloadOptions { lift_bans: Some(1), ..ReloadOptions::default() }),
    ] {
        let mut stream = played.connect();
        stream.send(1, &ask.to_text()).expect("sent");
        foreign.push(stream);
    }
    // A second request before the answer to the first.
    let mut hasty = played.asking(1);
    hasty.send(2, &reload().to_text()).expect("sent");
    let mut good = played.asking(9);
    let requests = played.receive();
    let open: Vec<Asker> = requests.iter().filter_map(|request| request.by).collect();
    let open: Vec<&Asker> = open.iter().filter(|asker| played.socket.has(asker)).collect();
    assert!(matches!(open[..], [asker] if asker.number == 9), "{open:?}");
    played.answer(*open[0], &taken(2));
    assert_eq!(heard(&mut good), Some((9, taken(2))));
    for mut stream in foreign.into_iter().chain([hasty]) {
        stream.receive().expect_err("closed");
    }
}

// Shows: one-answer-each.
#[test]
fn silent_clients_are_closed_in_time_and_make_room_for_those_that_wait() {
    let mut played = Played::new();
    let silent: Vec<UnixStream> = (0..COMMANDS_MAX).map(|_| played.connect_plain()).collect();
    // Half a request.
    (&silent[0]).write_all(&[0; 5]).expect("sent");
    let mut late = played.asking(5);
    assert!(played.receive().is_empty());
    assert_eq!(played.socket.connections.len(), COMMANDS_MAX);
    let descriptors = played.socket.fds().count();
    assert_eq!(descriptors, COMMANDS_MAX, "it does not listen while there is no room");
    let due = played.socket.due().expect("a time limit");
    assert_eq!(due, played.now + PATIENCE);
    played.now = due;
    assert!(played.receive().is_empty(), "the silent ones are closed");
    let asker = played.receive_one();
    assert_eq!(played.socket.due(), None, "it waits for the master");
    played.now += PATIENCE * 9;
    assert!(played.receive().is_empty());
    played.answer(asker, &taken(2));
    assert_eq!(heard(&mut late), Some((5, taken(2))));
    // It keeps its connection for nothing.
    played.now += PATIENCE;
    played.receive();
    assert!(played.socket.connections.is_empty());
}

// Shows: one-answer-each.
#[test]
fn a_client_that_takes_no_answer_delays_nobody_and_is_closed() {
    let mut played = Played::new();
    let deaf = played.asking(1);
    let asker = played.receive_one();
    let faults = vec!["a fault".to_owned(); 100_000];
    played.answer(asker, &Reloaded::Refused { cause: Cause::Fault, faults });
    let mut other = played.asking(2);
    let asker = played.receive_one();
    played.answer(asker, &taken(2));
    assert_eq!(heard(&mut other), Some((2, taken(2))));
    drop(other);
    played.receive();
    assert_eq!(played.socket.connections.len(), 1);
    played.now += PATIENCE;
    played.receive();
    assert!(played.socket.connections.is_empty());
    drop(deaf);
}

// Shows: one-answer-each.
#[test]
fn the_request_of_a_killed_client_has_no_connection() {
    let mut played = Played::new();
    drop(played.asking(1));
    let asker = played.receive()[0].by.expect("a connection");
    assert!(!played.socket.has(&asker), "it has sent and died");
    let client = played.asking(2);
    let asker = played.receive_one();
    assert!(played.socket.has(&asker));
    drop(client);
    assert!(played.receive().is_empty());
    assert!(!played.socket.has(&asker));
    played.answer(asker, &taken(2));
}

#[test]
fn the_admin_plane_may_ask_for_everything_and_waits_without_a_limit() {
    let mut played = Played::new();
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    played.socket.add(ours, None);
    let mut plane = ControlStream::over(theirs, ANSWER_BYTES_MAX).expect("set");
    let edit = ReloadOptions { is_edit: true, lift_bans: Some(7), ..ReloadOptions::default() };
    let asks = [Ask::Degrade(true), Ask::Reset { biz: 1, cleared: None }, Ask::Reload(edit)];
    for (number, ask) in (1..).zip(asks) {
        plane.send(number, &ask.to_text()).expect("sent");
    }
    let requests = played.receive();
    assert_eq!(requests.iter().map(|request| request.ask).collect::<Vec<_>>(), asks);
    assert!(requests.iter().all(|request| request.by.is_some_and(|by| by.is_plane)));
    assert_eq!(played.socket.due(), None);
    played.answer(requests[1].by.expect("the plane"), &taken(3));
    assert_eq!(heard(&mut plane), Some((2, taken(3))));
    // Another master serves the commands.
    let mut command = played.asking(4);
    played.receive();
    played.socket.close();
    command.receive().expect_err("closed");
    played.answer(requests[2].by.expect("the plane"), &taken(4));
    assert_eq!(heard(&mut plane), Some((3, taken(4))));
    assert_eq!(played.socket.fds().count(), 1);
}

// Shows: one-answer-each.
#[test]
fn the_socket_is_opened_again_where_it_was_and_former_files_go() {
    let mut played = Played::new();
    let path = played.dir.path().join(NAME);
    let mode = fs::symlink_metadata(&path).expect("there").mode() & 0o777;
    assert_eq!(mode, MODE, "only its owner may ask");
    let place = place_of(&path);
    played.socket.look(played.dir.path()).expect("looked");
    assert_eq!(place_of(&path), place, "it is there");
    for name in FORMER {
        fs::write(played.dir.path().join(name), "former").expect("written");
    }
    fs::remove_file(&path).expect("removed");
    played.socket.look(played.dir.path()).expect("opened");
    let names = fs::read_dir(played.dir.path()).expect("readable").flatten();
    assert_eq!(names.map(|entry| entry.file_name()).collect::<Vec<_>>(), [NAME]);
    let mut client = played.asking(1);
    let asker = played.receive_one();
    played.answer(asker, &taken(2));
    assert_eq!(heard(&mut client), Some((1, taken(2))));
    // The next master takes the name, and the former one leaves its socket alone.
    let mut next = ControlSocket::default();
    next.look(played.dir.path()).expect("opened");
    played.socket.remove(played.dir.path());
    assert!(path.exists());
    next.remove(played.dir.path());
    assert!(!path.exists());
    // What cannot be removed is an error, and the next look tries again.
    fs::create_dir(&path).expect("made");
    played.socket.look(played.dir.path()).expect_err("a directory");
    fs::remove_dir(&path).expect("removed");
    played.socket.look(played.dir.path()).expect("opened");
    assert!(!played.dir.path().join(DRAFT).exists());
}
