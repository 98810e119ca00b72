//! Tests of changes of the configuration. The test plays the master.

use super::*;
use crate::process::message::{ChildChannel, NumberedAsk, ToMaster};
use frs_engine::testing::World;

const MAP: &str = "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>";
const BIZ: &[u8] = b"<biz id='1' name='a' key='integer'><limit policy='total' max='1'/></biz>";

struct Handler {
    world: World,
    changes: MapChanges<()>,
    master: ChildChannel,
}

impl Handler {
    fn new() -> Handler {
        let world = World::new(MAP);
        let texts = active::read_texts(&world.dir, 1).unwrap();
        std::fs::write(world.dir.join("srv.xml"), texts.srv).unwrap();
        std::fs::write(world.dir.join("map.xml"), MAP).unwrap();
        let (master, channel) = Channel::pair().unwrap();
        let changes = MapChanges::new(world.dir.clone(), world.dir.clone(), channel);
        Handler { world, changes, master: ChildChannel::new(master) }
    }

    fn map(&self) -> String {
        std::fs::read_to_string(self.world.dir.join("map.xml")).unwrap()
    }

    /// Puts a biz. Returns the number of the reload request to the master.
    fn put(&mut self) -> u64 {
        let put = BizPut {
            biz: "1".into(),
            growth: Growth::Refused,
            lifts_bans: false,
            begins_anew: false,
        };
        self.begin(Change::PutBiz(put), BIZ)
    }

    /// Begins a change. Returns the number of the reload request to the master.
    fn begin(&mut self, change: Change, body: &[u8]) -> u64 {
        let (author, body) = (Author::named("alice"), body.to_vec());
        let wanted = WantedChange { who: (), author, change, body, cleared: None };
        let runtime = self.world.runtime();
        assert!(self.changes.begin(wanted, &runtime, 7).is_none());
        let Some(ToMaster::Ask(NumberedAsk { number, ask: Ask::Reload(_) })) =
            self.master.receive()
        else {
            panic!("the master is asked for nothing");
        };
        number
    }

    fn answer(&mut self, begun_ns: u64, result: Reloaded) -> Done {
        assert!(self.changes.poll(8).is_none(), "there is no answer yet");
        ReloadOutcome { master: 1, begun_ns, result }.write_asked(&self.world.dir).unwrap();
        self.changes.poll(9).expect("an answer").what
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
    std::mem::forget(changes.channel);
    drop(changes.asked);
    let (master, channel) = Channel::pair().unwrap();
    let changes = MapChanges::new(world.dir.clone(), world.dir.clone(), channel);
    Handler { world, changes, master: ChildChannel::new(master) }
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
        let Some(ToMaster::Ask(NumberedAsk { number, ask: Ask::Reload(options) })) =
            handler.master.receive()
        else {
            panic!("the master is asked for nothing");
        };
        assert!(options.is_edit);
        let result = if is_taken {
            handler.world.publish(&made, 2);
            taken()
        } else {
            no()
        };
        let outcome = ReloadOutcome { master: 1, begun_ns: number, result };
        outcome.write_asked(&handler.world.dir).unwrap();
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
        assert!(handler.master.receive().is_none());
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
    let read = Guard::to_read(&handler.world.dir, soon).unwrap();
    let change = || Change::DeleteBiz("1".into());
    let author = Author::named("alice");
    let wanted =
        WantedChange { who: (), author, change: change(), body: Vec::new(), cleared: None };
    let runtime = handler.world.runtime();
    let done = handler.changes.begin(wanted, &runtime, 7).expect("an answer").what;
    assert_eq!(done.unwrap_err().status, 503);
    drop(read);
    let number = handler.put();
    assert!(Guard::to_read(&handler.world.dir, soon).is_err());
    handler.answer(number, no()).unwrap_err();
    assert!(Guard::to_read(&handler.world.dir, soon).is_ok());
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
