//! Reloads that add, remove, lengthen and shorten ids and holds, with histories and bans beside
//! them, against a model: what fits both is kept.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::testing::World;
use crate::{Answers, Command, Extras, ItemError, ItemOptions, Request, Service, Verdict};

const NOW: u64 = 1_700_000_040_000;
const MINUTE_MS: u64 = 60_000;
const NONE: Extras<&str> = Extras::NONE;

/// What follows the states in a key's node. 0: no such part.
#[derive(Debug, Clone, Copy)]
struct Layout {
    once: usize,
    holds: usize,
    history: usize,
    has_ban: bool,
}

impl Layout {
    fn map(self) -> String {
        let said = |name: &str, number: usize, more: &str| match number {
            0 => String::new(),
            _ => format!("{name}='{number}' {more}"),
        };
        let once = said("once", self.once, "once-for='1h'");
        let holds = said("holds", self.holds, "hold-ttl='1h'");
        let history = said("history", self.history, "");
        let ban = if self.has_ban { "ban='1h'" } else { "" };
        format!(
            "<map><group name='g' files='1' key-nodes='2' chain='2' node-size='512'/>
            <biz id='1' name='b' key='string' {once} {holds}>
              <limit policy='total' max='1000000' {ban}/>
              <limit policy='calendar' unit='minute' max='1000000' {history}/>
            </biz></map>"
        )
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Charge,
    Hold(u64),
    Settle,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    count: u64,
    made_ms: u64,
    end_ms: u64,
    is_settled: bool,
}

/// What a record knows.
#[derive(Debug, Default)]
struct Model {
    used: u64,
    /// Newest first.
    ids: Vec<usize>,
    holds: BTreeMap<usize, Hold>,
    /// The uses of this window, and of earlier ones, newest first.
    window: u64,
    earlier: Vec<u32>,
}

impl Model {
    /// Another layout comes into force in the next window.
    fn adopt(&mut self, layout: Layout) {
        self.ids.truncate(layout.once);
        while self.holds.len() > layout.holds {
            let first = self.holds.iter().min_by_key(|(_, hold)| (!hold.is_settled, hold.end_ms));
            let (&first, _) = first.expect("there is one");
            self.holds.remove(&first);
        }
        self.earlier.truncate(layout.history);
        self.earlier.insert(0, std::mem::take(&mut self.window) as u32);
        self.earlier.truncate(layout.history);
    }

    fn charge(&mut self, count: u64) {
        self.used += count;
        self.window += count;
    }

    fn held(&self) -> u64 {
        let live = self.holds.values().filter(|hold| !hold.is_settled);
        live.map(|hold| hold.count).sum()
    }
}

/// A record and its model.
struct Beside<'w> {
    world: &'w World,
    service: Service,
    layout: Layout,
    model: Model,
    now: u64,
    /// Ids and holds so far.
    names: usize,
}

impl Beside<'_> {
    fn ask(
        &mut self,
        command: Command,
        count: u64,
        extras: Extras<&str>,
    ) -> (Result<Verdict, ItemError>, Answers) {
        let mut request = Request::default();
        request.begin(command);
        request.push("b", "k", ItemOptions::of(count as i32).detailed());
        request.bring(extras);
        let answers = self.service.answers(&request, self.now);
        (answers.items[0].result, answers)
    }

    fn update(&mut self, count: u64, extras: Extras<&str>) -> Result<Verdict, ItemError> {
        self.ask(Command::Update, count, extras).0
    }

    fn reload(&mut self, layout: Layout, generation: u64) {
        self.now += MINUTE_MS;
        self.world.publish(&layout.map(), generation);
        self.model.adopt(layout);
        self.layout = layout;
    }

    fn play(&mut self, step: Step) {
        self.names += 1;
        let name = self.names.to_string();
        let once = (self.layout.once > 0).then_some(name.as_str());
        match step {
            Step::Charge => {
                let verdict = self.update(1, Extras { once, ..NONE }).unwrap();
                assert!(!verdict.repeated() && !verdict.limited);
                self.model.charge(1);
                if once.is_some() {
                    self.model.ids.insert(0, self.names);
                    self.model.ids.truncate(self.layout.once);
                }
            }
            Step::Hold(count) => self.hold(&name, count),
            Step::Settle => self.settle(),
        }
    }

    /// No two holds end at once.
    fn ttl_ms(&self) -> u64 {
        20 * MINUTE_MS + 7 * self.names as u64
    }

    fn hold(&mut self, name: &str, count: u64) {
        let ttl_ms = self.ttl_ms();
        let extras = Extras { hold: Some(name), ttl_ms: Some(Some(ttl_ms)), ..NONE };
        let result = self.update(count, extras);
        if self.layout.holds == 0 {
            assert_eq!(result, Err(ItemError::BadHold));
            return;
        }
        if self.model.holds.len() == self.layout.holds {
            let settled = self.model.holds.iter().filter(|(_, hold)| hold.is_settled);
            let Some((&first, _)) = settled.min_by_key(|(_, hold)| hold.end_ms) else {
                assert_eq!(result, Err(ItemError::FullHolds));
                return;
            };
            self.model.holds.remove(&first);
        }
        assert!(result.is_ok_and(|verdict| !verdict.repeated()), "{result:?}");
        self.model.charge(count);
        let (made_ms, end_ms) = (self.now, self.now + ttl_ms);
        let hold = Hold { count, made_ms, end_ms, is_settled: false };
        self.model.holds.insert(self.names, hold);
    }

    /// Settles the oldest live hold: it has cost one.
    fn settle(&mut self) {
        let live = self.model.holds.iter().find(|(_, hold)| !hold.is_settled);
        let Some((&of, &hold)) = live else { return };
        let (ttl_ms, text) = (self.ttl_ms(), of.to_string());
        let ttl = Some(Some(ttl_ms));
        let extras = Extras { hold: Some(text.as_str()), ttl_ms: ttl, settle: true, ..NONE };
        let verdict = self.update(1, extras).unwrap();
        assert!(!verdict.repeated() && !verdict.unknown_hold());
        self.model.used -= hold.count - 1;
        if hold.made_ms == self.now {
            // What was charged in an earlier window does not come back into this one.
            self.model.window -= hold.count - 1;
        }
        let end_ms = hold.end_ms.max(self.now + ttl_ms);
        self.model.holds.insert(of, Hold { count: 1, end_ms, is_settled: true, ..hold });
    }

    /// Compares the record with the model.
    fn check(&mut self) {
        let (result, answers) = self.ask(Command::Query, 0, NONE);
        let model = &self.model;
        let verdict = result.unwrap();
        assert_eq!(answers.details.limits[0].figures.used, model.used, "{model:?}");
        assert_eq!(answers.details.limits[1].figures.used, model.window, "{model:?}");
        let earlier = answers.details.limits[1].totals(&answers.details.windows);
        let expected = (self.layout.history > 0).then_some(&model.earlier[..]);
        assert_eq!(earlier, expected, "{model:?}");
        let held = (self.layout.holds > 0).then(|| model.held());
        assert_eq!(verdict.held(), held, "{model:?}");
        for id in model.ids.clone() {
            let text = id.to_string();
            let verdict = self.update(1, Extras { once: Some(&text), ..NONE }).unwrap();
            assert!(verdict.repeated(), "{id} of {:?}", self.model);
        }
        for (id, hold) in self.model.holds.clone() {
            let text = id.to_string();
            let left_ms = Some(Some(hold.end_ms - self.now));
            let extras = Extras { hold: Some(text.as_str()), ttl_ms: left_ms, ..NONE };
            let verdict = self.update(hold.count, extras).unwrap();
            assert!(verdict.repeated(), "{id} of {:?}", self.model);
        }
    }
}

fn layouts() -> impl Strategy<Value = Layout> {
    let sizes = || prop::sample::select(vec![0, 1, 2, 5]);
    (sizes(), sizes(), sizes(), any::<bool>()).prop_map(|(once, holds, history, has_ban)| Layout {
        once,
        holds,
        history,
        has_ban,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Charge),
        3 => (1..9u64).prop_map(Step::Hold),
        1 => Just(Step::Settle),
    ];
    vec(step, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Shows: retries, holds.
    #[test]
    fn what_fits_both_layouts_is_kept(plays in vec((layouts(), steps()), 1..8)) {
        let world = World::new(&plays[0].0.map());
        let (layout, service) = (plays[0].0, world.attach());
        let model = Model::default();
        let mut beside = Beside { world: &world, service, layout, model, now: NOW, names: 0 };
        for (generation, (layout, steps)) in (2..).zip(plays) {
            // The layout is that of the record after its next charge.
            beside.play(Step::Charge);
            beside.reload(layout, generation);
            beside.check();
            beside.play(Step::Charge);
            for step in steps {
                beside.play(step);
            }
            beside.check();
            world.verify();
        }
    }
}

/// The worth of a node is asked without the node of the whole business.
#[test]
fn what_has_lapsed_makes_room_beside_a_limit_of_the_whole_business() {
    let world = World::new(
        "<map><group name='g' files='1' key-nodes='1' chain='3' node-size='192'/>
        <biz id='1' name='b' key='string' holds='2' hold-ttl='10s' on-lapse='free'>
          <limit policy='interval' interval='1m' max='9'/>
          <limit policy='interval' scope='biz' interval='1h' max='99'/>
        </biz></map>",
    );
    let mut service = world.attach();
    let mut hold = |key: &str, now: u64| {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.push("b", key, ItemOptions::of(1));
        request.bring(Extras { hold: Some("h"), ..NONE });
        service.answers(&request, now).items[0].result
    };
    for key in ["x", "y"] {
        assert!(hold(key, NOW).is_ok());
    }
    assert!(hold("z", NOW + 20_000).is_ok());
    world.verify();
}

const FULL: Layout = Layout { once: 5, holds: 5, history: 6, has_ban: true };

// Shows: retries, holds.
#[test]
fn a_ban_runs_on_beside_ids_and_holds_that_change() {
    let world = World::new(&FULL.map());
    let (service, model) = (world.attach(), Model::default());
    let mut beside = Beside { world: &world, service, layout: FULL, model, now: NOW, names: 0 };
    for step in [Step::Charge, Step::Hold(3), Step::Charge, Step::Hold(2)] {
        beside.play(step);
    }
    assert!(beside.update(1_000_000, NONE).unwrap().banned);
    let is_banned = |beside: &mut Beside<'_>| beside.ask(Command::Query, 1, NONE).0.unwrap().banned;
    let smaller = Layout { once: 1, holds: 1, ..FULL };
    let larger = Layout { once: 2, history: 9, ..FULL };
    for (generation, layout) in (2..).zip([smaller, larger, Layout { holds: 2, ..FULL }, FULL]) {
        beside.reload(layout, generation);
        beside.check();
        assert!(is_banned(&mut beside), "{layout:?}");
    }
    assert_eq!((beside.model.ids.len(), beside.model.holds.len()), (1, 1));
    beside.reload(Layout { has_ban: false, ..FULL }, 6);
    assert!(!is_banned(&mut beside));
    beside.play(Step::Hold(4));
    beside.check();
    beside.reload(FULL, 7);
    beside.check();
    assert!(!is_banned(&mut beside), "the word of the ban was given up");
    world.verify();
}

// Shows: retries, holds, per-call.
#[test]
fn numbers_of_calls_come_and_go_and_nothing_is_lost() {
    const POLICIES: [&str; 3] = [
        "policy='total' max='9'",
        "policy='token' rate='1/d' burst='9'",
        "policy='gcra' rate='9/d' burst='9'",
    ];
    for policy in POLICIES {
        let map = |per_call: &str| {
            format!(
                "<map><group name='g' files='1' key-nodes='2' chain='2' node-size='256'/>
                <biz id='1' name='b' key='string' once='2' holds='2'>
                  <limit {policy} {per_call}/></biz></map>"
            )
        };
        let world = World::new(&map(""));
        let mut service = world.attach();
        let mut ask = |count: i32, extras: Extras<&str>, now: u64| {
            let mut request = Request::default();
            request.begin(Command::Update);
            request.push("b", "k", ItemOptions::of(count));
            request.bring(extras);
            service.answers(&request, now).items[0].result.unwrap()
        };
        let once = Extras { once: Some("a"), ..NONE };
        let hold = Extras { hold: Some("h"), ..NONE };
        assert_eq!(ask(2, once, NOW).figures.used, 2, "{policy}");
        assert_eq!(ask(3, hold, NOW).figures.used, 5, "{policy}");
        for (generation, per_call) in (2..).zip(["per-call='true'", ""]) {
            world.publish(&map(per_call), generation);
            let repeated = [ask(2, once, NOW), ask(3, hold, NOW)];
            for verdict in repeated {
                assert!(verdict.repeated(), "{policy} {per_call}");
                assert_eq!((verdict.held(), verdict.figures.used), (Some(3), 5), "{policy}");
            }
        }
        assert_eq!(ask(1, Extras { settle: true, ..hold }, NOW).figures.used, 3, "{policy}");
        world.verify();
    }
}
