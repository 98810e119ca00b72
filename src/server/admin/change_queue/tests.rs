//! Tests of changes of the configuration. The test plays the master.

use super::*;
use crate::process::control::{ANSWER_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::process::control_stream::Message;
use frs_engine::testing::World;
use std::os::unix::net::UnixStream;

const MAP: &str = "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>";
const BIZ: &[u8] = b"<biz id='1' name='a' key='integer'><limit policy='total' max='1'/></biz>";

struct Handler {
    world: World,
    changes: MapChanges<()>,
    master: ControlStream,
}

impl Handler {
    fn new() -> Handler {
        let world = World::new(MAP);
        let texts = active::read_texts(&world.dir, 1).unwrap();
        std::fs::write(world.dir.join("srv.xml"), texts.srv).unwrap();
        std::fs::write(world.dir.join("map.xml"), MAP).unwrap();
        Handler::of(world)
    }

    fn of(world: World) -> Handler {
        let (master, plane) = UnixStream::pair().unwrap();
        let plane = ControlStream::over(plane, ANSWER_BYTES_MAX).unwrap();
        let changes = MapChanges::new(world.dir.clone(), world.dir.clone(), plane);
        let master = ControlStream::over(master, REQUEST_BYTES_MAX).unwrap();
        Handler { world, changes, master }
    }

    /// The number and the options of the reload that the master is asked for.
    fn asked(&mut self) -> Option<(u64, ReloadOptions)> {
        let Message { number, text } = self.master.receive().unwrap()?;
        match Ask::of_text(&text) {
            Some(Ask::Reload(options)) => Some((number, options)),
            other => panic!("{other:?}"),
        }
    }

    fn map(&self) -> String {
        std::fs::read_to_string(self.world.dir.join("map.xml")).unwrap()
    }

    /// Puts a biz. Returns the number of the reload request to the master.
    fn put(&mut self) -> u64 {
        let put = BizPut {
            biz: "1".into(),
            growth: GrowthMode::Refused,
            lifts_bans: false,
            begins_anew: false,
        };
        self.begin(Change::PutBiz(put), BIZ)
    }

    /// Begins a change. Returns the number of the reload request to the master.
    fn begin(&mut self, change: Change, body: &[u8]) -> u64 {
        let (author, body) = (Author::named("alice"), body.to_vec());
        let wanted = WantedChange { requester: (), author, change, body, cleared: None };
        let runtime = self.world.runtime();
        assert!(self.changes.begin(wanted, &runtime, 7).is_none());
        self.asked().expect("the master is asked").0
    }

    fn answer(&mut self, number: u64, result: Reloaded) -> Done {
        assert!(self.changes.poll(8).is_none(), "there is no answer yet");
        self.master.send(number, &result.to_text()).unwrap();
        self.changes.poll(9).expect("an answer").content
    }
}

fn taken() -> Reloaded {
    Reloaded::Taken { generation: 2, laggards: vec![], fresh: vec![] }
}

fn no() -> Reloaded {
    Reloaded::Refused { cause: Cause::Fault, faults: vec!["no".into()] }
}

// Shows: refused-preparation.
#[test]
fn what_the_master_refuses_has_the_status_of_what_helps() {
    let causes =
        [(Cause::Fault, 422), (Cause::NoRoom, 507), (Cause::Moving, 409), (Cause::NotNow, 503)];
    for (cause, status) in causes {
        let mut handler = Handler::new();
        let number = handler.put();
        let refused = Reloaded::Refused { cause, faults: vec!["no".into()] };
        assert_eq!(handler.answer(number, refused).unwrap_err().status, status);
        assert_eq!(handler.map(), MAP);
    }
}

/// A keeper after the death of another one, on the same files.
fn next_keeper(handler: Handler) -> Handler {
    let Handler { world, changes, .. } = handler;
    // The previous keeper is killed, so its destructors do not run.
    std::mem::forget(changes.control);
    drop(changes.asked);
    Handler::of(world)
}

// Shows: admin-changes.
#[test]
fn what_a_killed_keeper_has_left_the_next_one_finishes_or_takes_back() {
    for is_taken in [true, false] {
        let mut handler = Handler::new();
        handler.put();
        let made = handler.map();
        let mut handler = next_keeper(handler);
        handler.changes.resume(&handler.world.runtime(), 7);
        let (number, options) = handler.asked().expect("the master is asked");
        assert!(options.is_edit);
        let result = if is_taken {
            handler.world.publish(&made, 2);
            taken()
        } else {
            no()
        };
        handler.master.send(number, &result.to_text()).unwrap();
        assert!(handler.changes.poll(9).is_none(), "nobody waits for it");
        assert_eq!(handler.map(), if is_taken { &*made } else { MAP });
        assert!(!handler.changes.is_busy());
        // The next change finds the files as they are in force.
        if !is_taken {
            handler.put();
        }
    }
}

#[test]
fn an_edit_that_is_in_force_already_or_written_over_is_not_asked_for_again() {
    for in_force in [true, false] {
        let mut handler = Handler::new();
        handler.put();
        let made = handler.map();
        match in_force {
            true => handler.world.publish(&made, 2),
            false => std::fs::write(handler.world.dir.join("map.xml"), "<map/>").unwrap(),
        }
        let mut handler = next_keeper(handler);
        let before = handler.map();
        handler.changes.resume(&handler.world.runtime(), 7);
        assert_eq!(handler.asked(), None);
        assert!(!handler.changes.is_busy());
        assert_eq!(handler.map(), before);
        assert_eq!(PendingEdit::read(&handler.world.dir).unwrap(), None);
    }
}

#[test]
fn what_is_in_force_is_said_to_be() {
    let mut handler = Handler::new();
    let number = handler.put();
    let made = handler.map();
    assert_ne!(made, MAP);
    handler.world.publish(&made, 2);
    let done = handler.answer(number, taken());
    assert_eq!(done.unwrap().status, 201);
}

// Shows: admin-changes.
#[test]
fn a_change_that_somebody_wrote_over_is_not_said_to_be_in_force() {
    let mut handler = Handler::new();
    let number = handler.put();
    // A manual edit, before the master has read the file.
    let other = MAP.replace("<map>", "<map><!-- by hand -->");
    std::fs::write(handler.world.dir.join("map.xml"), &other).unwrap();
    handler.world.publish(&other, 2);
    let done = handler.answer(number, taken());
    assert_eq!(done.unwrap_err().status, 409);
    assert_eq!(handler.map(), other);
}

#[test]
fn a_change_that_nobody_will_hear_of_is_undone_unless_it_is_in_force() {
    for in_force in [false, true] {
        let mut handler = Handler::new();
        handler.put();
        let made = handler.map();
        if in_force {
            handler.world.publish(&made, 2);
        }
        let runtime = handler.world.runtime();
        handler.changes.end(&runtime);
        assert_eq!(handler.map(), if in_force { &*made } else { MAP });
    }
}

#[test]
fn nothing_is_written_while_a_new_binary_reads_and_none_reads_in_the_middle() {
    let mut handler = Handler::new();
    let soon = std::time::Duration::from_millis(10);
    let read = ConfGuard::to_read(&handler.world.dir, soon).unwrap();
    let change = || Change::DeleteBiz("1".into());
    let author = Author::named("alice");
    let wanted =
        WantedChange { requester: (), author, change: change(), body: Vec::new(), cleared: None };
    let runtime = handler.world.runtime();
    let done = handler.changes.begin(wanted, &runtime, 7).expect("an answer").content;
    assert_eq!(done.unwrap_err().status, 503);
    drop(read);
    let number = handler.put();
    assert!(ConfGuard::to_read(&handler.world.dir, soon).is_err());
    handler.answer(number, no()).unwrap_err();
    assert!(ConfGuard::to_read(&handler.world.dir, soon).is_ok());
}

#[test]
fn a_refused_change_is_undone_but_not_what_somebody_wrote_over_it() {
    for by_hand in [None, Some("<map><!-- half -->")] {
        let mut handler = Handler::new();
        let number = handler.put();
        if let Some(text) = by_hand {
            std::fs::write(handler.world.dir.join("map.xml"), text).unwrap();
        }
        let done = handler.answer(number, no());
        let refusal = done.unwrap_err();
        assert_eq!(refusal.status, 422);
        assert_eq!(refusal.words.contains("has changed meanwhile"), by_hand.is_some());
        assert_eq!(handler.map(), by_hand.unwrap_or(MAP));
    }
}

// Shows: one-answer-each.
#[test]
fn an_answer_that_came_too_late_is_not_taken_for_the_next_one() {
    let mut handler = Handler::new();
    let late = handler.begin(Change::Reload, b"");
    let no_answer = handler.changes.poll(8 + BOUND_NS).expect("its time is over").content;
    assert_eq!(no_answer.unwrap_err().status, 504);
    let number = handler.begin(Change::Reload, b"");
    handler.master.send(late, &no().to_text()).unwrap();
    assert!(handler.answer(number, taken()).is_ok());
}
