//! Calls that say more: numbers of their own, a part, an id, a hold.

use crate::testing::World;
use crate::{Answers, Command, Extras, ItemError, ItemOptions, Request, Service, Verdict};

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="64" chain="8"/>
  <biz id="1" name="window" key="string">
    <limit policy="interval" interval="60s" max="5" per-call="true" most="100"/>
  </biz>
  <biz id="2" name="log" key="string">
    <limit policy="sliding" interval="60s" max="5" per-call="true" most="20"/>
  </biz>
  <biz id="3" name="month" key="string">
    <limit policy="calendar" unit="day" max="5" per-call="true" most="100" max-period="32d"/>
  </biz>
  <biz id="4" name="two" key="string">
    <limit policy="interval" interval="60s" max="5" per-call="true" most="100"/>
    <limit policy="sliding-counter" interval="1h" max="50" per-call="true" most="100"/>
  </biz>
  <biz id="5" name="once" key="string" once="2" once-for="1m">
    <limit policy="interval" interval="60s" max="5"/>
  </biz>
  <biz id="6" name="places" key="string" hold-ttl="10s">
    <limit policy="concurrent" max="3"/>
  </biz>
  <biz id="7" name="tokens" key="string" holds="2" hold-ttl="10s">
    <limit policy="interval" interval="60s" max="100"/>
  </biz>
  <biz id="8" name="loan" key="string" holds="2" hold-ttl="10s" on-lapse="free">
    <limit policy="interval" interval="60s" max="100"/>
  </biz>
</map>"#;

const NOW: u64 = 1_700_000_000_000;
const NONE: Extras<&str> = Extras::NONE;

struct Caller {
    service: Service,
    now: u64,
}

impl Caller {
    fn request(command: Command, biz: &str, count: i32, extras: Extras<&str>) -> Request {
        let mut request = Request::default();
        request.begin(command);
        request.push(biz, "k", ItemOptions::of(count));
        request.bring(extras);
        request
    }

    fn ask(
        &mut self,
        command: Command,
        biz: &str,
        count: i32,
        extras: Extras<&str>,
    ) -> Result<Verdict, ItemError> {
        let mut answers = Answers::default();
        let request = Caller::request(command, biz, count, extras);
        self.service.run(&request, self.now, &mut answers);
        answers.items.remove(0).result
    }

    fn update(&mut self, biz: &str, count: i32, extras: Extras<&str>) -> Verdict {
        self.ask(Command::Update, biz, count, extras).unwrap()
    }

    fn query(&mut self, biz: &str, count: i32, extras: Extras<&str>) -> Verdict {
        self.ask(Command::Query, biz, count, extras).unwrap()
    }

    fn error(&mut self, biz: &str, count: i32, extras: Extras<&str>) -> ItemError {
        self.ask(Command::Update, biz, count, extras).unwrap_err()
    }
}

fn caller(world: &World) -> Caller {
    Caller { service: world.attach(), now: NOW }
}

fn rate(rate: &str) -> Extras<&str> {
    Extras { rate: Some(rate), ..NONE }
}

fn hold(id: &str) -> Extras<&str> {
    Extras { hold: Some(id), ..NONE }
}

fn settle(id: &str) -> Extras<&str> {
    Extras { settle: true, ..hold(id) }
}

fn once(id: &str) -> Extras<&str> {
    Extras { once: Some(id), ..NONE }
}

/// (used, max, remaining)
fn figures(verdict: &Verdict) -> (u64, u64, u64) {
    (verdict.figures.used, verdict.figures.max, verdict.figures.remaining)
}

// Shows: per-call.
#[test]
fn an_interval_keeps_its_start_and_its_count() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    let first = caller.update("window", 4, rate("10/90s"));
    assert_eq!((figures(&first), first.figures.reset_ms), ((4, 10, 6), Some(90_000)));
    caller.now += 30_000;
    let fewer = caller.update("window", 1, rate("4/60s"));
    assert_eq!((fewer.limited, figures(&fewer)), (true, (4, 4, 0)));
    assert_eq!((fewer.retry_ms, fewer.window_ms), (Some(30_000), Some(60_000)));
    let configured = caller.update("window", 1, NONE);
    assert_eq!((figures(&configured), configured.figures.reset_ms), ((5, 5, 0), Some(30_000)));
    let alone = caller.query("window", 1, Extras { max: Some(Some(7)), ..NONE });
    assert_eq!((alone.limited, figures(&alone)), (false, (5, 7, 2)));
    caller.now += 30_000;
    assert_eq!(figures(&caller.query("window", 1, rate("10/90s"))), (5, 10, 5));
    assert_eq!(figures(&caller.query("window", 1, NONE)), (0, 5, 5));
    world.verify();
}

// Shows: per-call.
#[test]
fn a_log_counts_within_the_interval_of_the_call() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    caller.update("log", 3, rate("20/1d"));
    caller.now += 100_000;
    assert_eq!(figures(&caller.update("log", 2, NONE)), (2, 5, 3));
    assert_eq!(figures(&caller.query("log", 1, rate("6/2m"))), (5, 6, 1));
    assert_eq!(caller.error("log", 1, rate("21/1m")), ItemError::BadRate);
    assert_eq!(caller.error("log", 1, rate("5/25h")), ItemError::BadRate);
    world.verify();
}

// Shows: per-call.
#[test]
fn another_unit_begins_anew() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    assert_eq!(figures(&caller.update("month", 9, rate("50/month"))), (9, 50, 41));
    caller.now += 60_000;
    assert_eq!(figures(&caller.update("month", 1, rate("50/month"))), (10, 50, 40));
    assert_eq!(figures(&caller.query("month", 1, NONE)), (0, 5, 5));
    assert_eq!(figures(&caller.query("month", 1, rate("50/month"))), (10, 50, 40));
    assert_eq!(figures(&caller.update("month", 1, rate("7/hour"))), (1, 7, 6));
    assert_eq!(figures(&caller.query("month", 1, rate("50/month"))), (0, 50, 50));
    for bad in ["5/year", "5/60s", "101/month"] {
        assert_eq!(caller.error("month", 1, rate(bad)), ItemError::BadRate, "{bad}");
    }
    world.verify();
}

// Shows: per-call.
#[test]
fn rates_go_to_limits_in_order() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    let first = caller.update("two", 3, rate("3/10s 4/20s"));
    assert_eq!((first.limit, figures(&first)), (1, (3, 3, 0)));
    caller.now += 10_000;
    let second = caller.update("two", 2, rate("3/10s 4/20s"));
    assert_eq!((second.limited, second.limit), (true, 2));
    // The second limit keeps the numbers of map.xml, and begins anew.
    assert_eq!(figures(&caller.update("two", 2, rate("3/10s"))), (2, 3, 1));
    for bad in ["3/10s 4/20s 5/30s", "3/day"] {
        assert_eq!(caller.error("two", 1, rate(bad)), ItemError::BadRate, "{bad}");
    }
    let max = Extras { max: Some(Some(7)), ..NONE };
    assert_eq!(caller.error("two", 1, max), ItemError::BadRate);
    assert_eq!(caller.error("once", 1, max), ItemError::BadRate);
    assert_eq!(
        caller.error("window", 1, Extras { burst: Some(Some(7)), ..NONE }),
        ItemError::BadRate
    );
    let burst = Extras { burst: Some(Some(7)), ..rate("3/s") };
    assert_eq!(caller.error("window", 1, burst), ItemError::BadRate);
    world.verify();
}

// Shows: partial-grants.
#[test]
fn a_part_is_granted() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    let part = Extras { partial: true, ..NONE };
    assert_eq!(caller.query("window", 7, part).granted(), Some(5));
    let most = caller.update("window", 3, part);
    assert_eq!((most.granted(), most.limited, figures(&most)), (Some(3), false, (3, 5, 2)));
    let rest = caller.update("window", 3, part);
    assert_eq!((rest.granted(), rest.limited, figures(&rest)), (Some(2), false, (5, 5, 0)));
    let none = caller.update("window", 3, part);
    assert_eq!((none.granted(), none.limited, none.retry_ms), (Some(0), true, Some(60_000)));
    assert_eq!(caller.update("log", 9, part).granted(), Some(5));
    for (count, extras) in [(0, part), (-1, part), (1, Extras { hold: Some("x"), ..part })] {
        assert_eq!(caller.error("window", count, extras), ItemError::BadCount);
    }
    assert_eq!(caller.error("places", 1, part), ItemError::BadCount);
    world.verify();
}

// Shows: retries.
#[test]
fn an_id_is_charged_once() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    assert!(!caller.update("once", 2, once("a")).repeated());
    let again = caller.update("once", 2, once("a"));
    assert_eq!((again.repeated(), again.limited, figures(&again)), (true, false, (2, 5, 3)));
    caller.update("once", 3, once("b"));
    assert!(caller.update("once", 1, once("c")).limited, "and is not remembered");
    assert!(caller.update("once", 1, once("c")).limited);
    assert!(caller.update("once", 2, once("a")).repeated(), "although the limit is reached");
    assert!(!caller.query("once", 1, once("a")).repeated());
    caller.now += 60_000;
    assert_eq!(figures(&caller.update("once", 2, once("a"))), (2, 5, 3));
    caller.update("once", 0, once("d"));
    caller.update("once", 0, once("e"));
    assert!(!caller.update("once", 1, once("a")).repeated(), "two younger ones came");
    for (biz, id) in [("once", ""), ("once", &"x".repeat(65)[..]), ("window", "a")] {
        assert_eq!(caller.error(biz, 1, once(id)), ItemError::BadOnce, "{biz} {id}");
    }
    world.verify();
}

// Shows: retries.
#[test]
fn an_atomic_request_is_charged_once() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    let mut request = Request::default();
    request.begin(Command::Update);
    request.atomic = true;
    for key in ["k", "k", "other"] {
        request.push("once", key, ItemOptions::ONE);
    }
    request.set_once("a");
    let mut answers = Answers::default();
    for repeated in [false, true, true] {
        caller.service.run(&request, NOW, &mut answers);
        let items: Vec<_> = answers.items.iter().map(|answer| answer.result.unwrap()).collect();
        assert!(items.iter().all(|item| item.repeated() == repeated && !item.limited));
        assert_eq!([0, 1, 2].map(|at| items[at].figures.used), [2, 2, 1]);
    }
    assert!(caller.update("once", 1, once("a")).repeated());
    request.push("window", "k", ItemOptions::ONE);
    caller.service.run(&request, NOW, &mut answers);
    assert_eq!(answers.items[3].result, Err(ItemError::BadOnce));
    world.verify();
}

// Shows: holds, lapses.
#[test]
fn places_are_held_renewed_let_go_and_lapse() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    let first = caller.update("places", 1, hold("a"));
    assert_eq!((first.held(), figures(&first)), (Some(1), (1, 3, 2)));
    assert_eq!(first.figures.reset_ms, Some(10_000));
    caller.now += 4000;
    assert_eq!(caller.update("places", 2, hold("b")).held(), Some(3));
    let refused = caller.update("places", 1, hold("c"));
    assert_eq!((refused.limited, refused.retry_ms, refused.held()), (true, Some(6000), Some(3)));
    assert!(caller.query("places", 1, NONE).limited);
    assert!(caller.update("places", 2, hold("a")).limited, "it asks for more");
    let renewed = caller.update("places", 1, Extras { ttl_ms: Some(Some(9000)), ..hold("a") });
    assert_eq!((renewed.repeated(), renewed.figures.reset_ms), (true, Some(10_000)));
    assert_eq!(caller.update("places", 1, hold("b")).held(), Some(2));
    assert_eq!(caller.update("places", 0, hold("b")).held(), Some(1));
    assert!(!caller.update("places", 0, hold("b")).repeated());
    caller.now += 8999;
    assert_eq!(caller.query("places", 1, NONE).held(), Some(1));
    caller.now += 1;
    assert_eq!(caller.query("places", 1, NONE).held(), Some(0));
    for extras in [NONE, hold(""), settle("a"), Extras { ttl_ms: Some(Some(10_001)), ..hold("a") }]
    {
        assert_eq!(caller.error("places", 1, extras), ItemError::BadHold);
    }
    assert_eq!(caller.error("places", -1, hold("a")), ItemError::BadCount);
    world.verify();
}

// Shows: holds, lapses.
#[test]
fn a_reservation_is_settled_once() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    let first = caller.update("tokens", 80, hold("a"));
    assert_eq!((first.held(), figures(&first)), (Some(80), (80, 100, 20)));
    assert!(caller.update("tokens", 80, hold("a")).repeated());
    assert!(caller.update("tokens", 101, hold("a")).limited);
    assert_eq!(caller.update("tokens", 90, hold("a")).figures.used, 90);
    let settled = caller.update("tokens", 50, settle("a"));
    assert_eq!((settled.held(), settled.figures.used, settled.repeated()), (Some(0), 50, false));
    for extras in [settle("a"), hold("a")] {
        let again = caller.update("tokens", 70, extras);
        assert_eq!((again.repeated(), again.figures.used), (true, 50));
    }
    let unknown = caller.update("tokens", 60, settle("b"));
    assert_eq!((unknown.unknown_hold(), unknown.limited, unknown.figures.used), (true, false, 110));
    let known = caller.update("tokens", 60, settle("b"));
    assert_eq!((known.unknown_hold(), known.repeated()), (false, true));
    caller.now += 60_000;
    caller.update("tokens", 10, hold("c"));
    caller.update("tokens", 10, hold("d"));
    assert!(caller.update("tokens", 90, hold("e")).limited);
    assert_eq!(caller.error("tokens", 10, hold("e")), ItemError::FullHolds);
    assert_eq!(caller.ask(Command::Query, "tokens", 10, hold("e")), Err(ItemError::FullHolds));
    assert_eq!(caller.update("tokens", 0, settle("c")).figures.used, 10);
    assert_eq!(
        caller.update("tokens", 10, hold("e")).held(),
        Some(20),
        "in place of a settled one"
    );
    // Lapsed, it stays charged.
    caller.now += 10_000;
    let later = caller.query("tokens", 1, NONE);
    assert_eq!((later.held(), later.figures.used), (Some(0), 20));
    assert_eq!(caller.update("tokens", 5, settle("d")).figures.used, 15);
    world.verify();
}

// Shows: lapses.
#[test]
fn what_lapses_is_given_back_as_far_as_its_window_runs() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    caller.update("loan", 30, NONE);
    caller.now += 5000;
    caller.update("loan", 20, hold("a"));
    caller.now += 10_000;
    let free = caller.query("loan", 1, NONE);
    assert_eq!((free.held(), free.figures.used), (Some(0), 30));
    assert!(caller.update("loan", 20, settle("a")).unknown_hold());
    // A window that has turned gives nothing back.
    caller.now += 40_000;
    caller.update("loan", 40, hold("b"));
    caller.now += 6000;
    assert_eq!(caller.update("loan", 7, NONE).figures.used, 7);
    assert_eq!(caller.update("loan", 10, settle("b")).figures.used, 7);
    world.verify();
}

#[test]
fn an_atomic_request_of_two_units_keeps_what_it_has_charged() {
    let map = MAP.replace(r#"id="3" name="month""#, r#"id="3" name="month" once="4""#);
    let world = World::new(&map);
    let mut caller = caller(&world);
    let mut request = Request::default();
    request.begin(Command::Update);
    request.atomic = true;
    request.push("month", "k", ItemOptions::of(2));
    request.push("month", "k", ItemOptions::of(3));
    request.bring(rate("50/month"));
    let mut answers = Answers::default();
    caller.service.run(&request, NOW, &mut answers);
    assert!(!answers.refused && answers.items.iter().all(|answer| answer.result.is_ok()));
    assert_eq!(figures(&caller.query("month", 1, rate("50/month"))), (3, 50, 47));
    request.set_once("a");
    for used in [6, 6] {
        caller.service.run(&request, NOW, &mut answers);
        assert!(!answers.refused);
        assert_eq!(caller.query("month", 1, rate("50/month")).figures.used, used - 3);
    }
    world.verify();
}

#[test]
fn an_uncharged_item_of_an_atomic_request_leaves_other_units_alone() {
    let map = MAP.replace(r#"name="month""#, r#"name="month" mode="shadow""#);
    let world = World::new(&map);
    let mut caller = caller(&world);
    caller.update("month", 9, rate("50/month"));
    let mut request = Request::default();
    request.begin(Command::Update);
    request.atomic = true;
    request.push("month", "k", ItemOptions::of(8));
    request.bring(rate("7/day"));
    request.push("month", "k", ItemOptions::of(1));
    request.bring(rate("50/month"));
    let mut answers = Answers::default();
    caller.service.run(&request, NOW, &mut answers);
    let shadow = answers.items[0].result.unwrap();
    assert!(shadow.shadow && !answers.refused);
    assert_eq!(figures(&caller.query("month", 1, rate("50/month"))), (10, 50, 40));
    world.verify();
}

#[test]
fn a_refused_request_makes_no_hold() {
    let world = World::new(MAP);
    let mut caller = caller(&world);
    let mut request = Request::default();
    request.begin(Command::Update);
    request.atomic = true;
    request.push("places", "k", ItemOptions::ONE);
    request.bring(hold("a"));
    request.push("once", "k", ItemOptions::of(6));
    request.set_once("x");
    let mut answers = Answers::default();
    caller.service.run(&request, NOW, &mut answers);
    assert!(answers.refused, "bad-once of the first item");
    let first = answers.items[0].result;
    assert_eq!(first, Err(ItemError::BadOnce));
    let mut request = Request::default();
    request.begin(Command::Update);
    request.atomic = true;
    request.push("places", "k", ItemOptions::ONE);
    request.bring(hold("a"));
    request.push("once", "k", ItemOptions::of(6));
    caller.service.run(&request, NOW, &mut answers);
    let first = answers.items[0].result.unwrap();
    assert!(answers.refused && !first.noted.has(crate::Mark::Made));
    assert_eq!(caller.query("places", 1, NONE).held(), Some(0));
    // No business is known: nothing is looked up.
    let mut unknown = Request::default();
    unknown.begin(Command::Update);
    unknown.atomic = true;
    unknown.push("nobody", "k", ItemOptions::ONE);
    unknown.set_once("x");
    caller.service.run(&unknown, NOW, &mut answers);
    assert_eq!(answers.items[0].result, Err(ItemError::UnknownBiz));
    world.verify();
}
