//! Shared limits in their difficult cases: changes of the configuration, deadlines, atomic
//! requests, modes, the admin plane, the keeper and attached programs.

use std::time::Duration;

use frs_base::clock;
use frs_engine::testing::{Ask, request};
use frs_engine::{
    Command, Exchange, ItemError, ItemMoment, ItemOptions, NeedEnd, NeedKind, RecordName, Request,
    Stage,
};
use frs_store::Sweep;

use crate::nodes::{self, LeasePass};
use crate::shared::LeasedLimit;
use crate::testing::host::{Host, TakenNeed, limited, update};

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="64" chain="8" node-size="640"/>
  <biz id="1" name="wait" key="string" share="cluster" hosts="2" wait="1000ms">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="2" name="short" key="string" share="cluster" hosts="2" wait="1ms">
    <limit policy="interval" interval="1m" max="10" ban="1m"/></biz>
  <biz id="3" name="admit" key="string" share="cluster" hosts="2" wait="1ms" on-miss="admit">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="4" name="local" key="string"><limit policy="interval" interval="1m" max="2"/></biz>
  <biz id="5" name="exact" key="string" share="exact" wait="1000ms">
    <limit policy="total" max="10"/></biz>
  <biz id="6" name="down" key="string" share="cluster" hosts="2" wait="1000ms" on-down="local">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="7" name="log" key="string" share="cluster" hosts="2" wait="1ms">
    <limit policy="sliding" interval="1m" max="10"/></biz>
  <biz id="8" name="shadow" key="string" share="cluster" hosts="2" wait="1ms" mode="shadow">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="9" name="advice" key="string" share="cluster" hosts="2" wait="1000ms">
    <limit policy="interval" interval="1m" max="3" on-exceed="captcha"/>
    <limit policy="interval" interval="1h" max="100"/></biz>
  <biz id="10" name="tally" key="string" share="exact" wait="1000ms">
    <limit policy="count"/>
    <limit policy="total" max="3" on-exceed="captcha"/></biz>
</map>"#;

const UNSHARED: &str = r#"<map>
  <group name="g" files="1" key-nodes="64" chain="8" node-size="640"/>
  <biz id="1" name="wait" key="string"><limit policy="interval" interval="1m" max="10"/></biz>
</map>"#;

/// The same bizs, with an unshared one first.
fn reordered() -> String {
    let from = MAP.find("  <biz id=\"4\"").unwrap();
    let length = MAP[from..].find('\n').unwrap() + 1;
    let moved = &MAP[from..from + length];
    let rest = MAP.replace(moved, "");
    rest.replace("  <biz id=\"1\"", &format!("{moved}  <biz id=\"1\""))
}

fn atomic(command: Command, items: &[Ask<'_>]) -> Request {
    request(command, true, items)
}

/// The courier changes what the host holds of an item.
fn change(host: &mut Host, need: &TakenNeed, work: impl FnMut(&mut [LeasedLimit])) {
    let key = need.need.stored_key();
    let boot_ms = clock::boot_ms();
    let moment = ItemMoment { boot_ms, wall_ms: clock::now() };
    nodes::with_leases(&mut host.courier, &key, moment, clock::now(), work).unwrap();
}

/// The ledger answers that it has nothing left.
fn exhaust(host: &mut Host, need: &TakenNeed) {
    host.grant(need, 0);
    let again_ms = clock::boot_ms() + 50_000;
    change(host, need, |limits| {
        for limit in limits {
            (limit.holding.lease.is_exhausted, limit.holding.lease.again_ms) = (true, again_ms);
        }
    });
}

fn let_pass() {
    std::thread::sleep(Duration::from_millis(3));
}

#[test]
fn kept_answers_name_the_bizs_of_the_configuration_in_force() {
    let mut host = Host::of(MAP);
    let mut exchange = host.begin(update(&[Ask("local", "k", 1), Ask("wait", "k", 1)]));
    assert_eq!(exchange.stage, Stage::Waiting);
    host.world.publish_shared(&reordered(), 2);
    // The tick of another item takes the new configuration.
    host.begin(update(&[Ask("local", "x", 1)]));
    assert_eq!((host.service.generation(), host.serve(1)), (2, 1));
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Ok(false), Ok(false)]);
    let named: Vec<_> = exchange.answers.items.iter().map(|answer| answer.biz).collect();
    assert_eq!(named, [Some(0), Some(1)]);
}

#[test]
fn what_waits_for_a_biz_that_is_shared_no_more_is_answered_in_time() {
    let mut host = Host::of(MAP);
    let mut long = host.begin(update(&[Ask("wait", "k", 1), Ask("exact", "k", 1)]));
    let mut short = host.begin(update(&[Ask("short", "k", 1)]));
    host.world.publish(UNSHARED, 2);
    let_pass();
    assert_eq!(host.run(&mut long), Stage::Waiting);
    assert!(long.wait_ms <= 1000, "{}", long.wait_ms);
    assert_eq!(host.run(&mut short), Stage::Answered, "it is late");
    assert_eq!(limited(&short), [Err(ItemError::UnknownBiz)]);
    for need in host.needs() {
        host.finish(&need, NeedEnd::Unserved);
    }
    assert_eq!(host.run(&mut long), Stage::Answered);
    assert_eq!(limited(&long), [Ok(false), Err(ItemError::UnknownBiz)]);
    assert_eq!(host.used("wait"), 1);
}

#[test]
fn what_asks_again_waits_no_longer_than_it_may() {
    let mut host = Host::of(MAP);
    for is_atomic in [false, true] {
        let items = [Ask("wait", "k", 1), Ask("exact", "k", 1)];
        let mut exchange = host.begin(request(Command::Update, is_atomic, &items));
        let first = host.needs();
        let_pass();
        first.iter().for_each(|need| assert!(host.finish(need, NeedEnd::Unserved)));
        assert_eq!(host.run(&mut exchange), Stage::Waiting);
        let again = host.needs();
        let deadlines = |needs: &[TakenNeed]| -> Vec<u64> {
            needs.iter().map(|need| need.need.deadline_ms).collect()
        };
        assert_eq!(deadlines(&again), deadlines(&first));
        host.service.give_up(&mut exchange);
    }
}

// Shows: full-beside-leases.
#[test]
fn an_item_whose_node_has_no_room_is_full_at_once() {
    let mut host = Host::of(MAP);
    let mut alone = host.begin(update(&[Ask("local", "k", 1), Ask("wait", "k", 1)]));
    host.needs().iter().for_each(|need| assert!(host.finish(need, NeedEnd::Full)));
    assert_eq!(host.run(&mut alone), Stage::Answered);
    assert_eq!(limited(&alone), [Ok(false), Err(ItemError::Full)]);
    assert_eq!(alone.answers.items[1].biz, Some(0), "it is counted");
    let items = [Ask("wait", "k", 1), Ask("exact", "k", 1), Ask("local", "k", 1)];
    let mut together = host.begin(atomic(Command::Update, &items));
    let needs = host.needs();
    for need in &needs {
        let key = need.need.stored_key();
        let is_exact = key.biz_id() == 5;
        if !is_exact {
            host.grant(need, 5);
        }
        assert!(host.finish(need, if is_exact { NeedEnd::Full } else { NeedEnd::Answered }));
    }
    assert_eq!(host.run(&mut together), Stage::Answered);
    assert_eq!(limited(&together)[1], Err(ItemError::Full));
    assert!(together.answers.refused);
    assert_eq!(host.used("local"), 1, "nothing is charged");
    change(&mut host, &needs[0], |limits| assert_eq!(limits[0].holding.used, 0));
}

#[test]
fn no_ban_begins_for_want_of_a_lease() {
    let mut host = Host::of(MAP);
    for is_atomic in [false, true] {
        let items = [Ask("short", "k", 1), Ask("local", "k", 1)];
        let mut exchange = host.begin(request(Command::Update, is_atomic, &items));
        let_pass();
        assert_eq!(host.run(&mut exchange), Stage::Answered);
        assert_eq!(limited(&exchange)[0], Ok(true));
        let verdict = exchange.answers.items[0].result.as_ref().unwrap();
        assert!(!verdict.banned, "atomic: {is_atomic}");
    }
    // A refusal by the ledger itself starts a ban.
    let mut exchange = host.begin(update(&[Ask("short", "k", 1)]));
    let need = host.needs().remove(0);
    exhaust(&mut host, &need);
    host.finish(&need, NeedEnd::Answered);
    host.run(&mut exchange);
    assert!(exchange.answers.items[0].result.as_ref().unwrap().banned);
}

#[test]
fn an_atomic_query_asks_for_its_exact_items_and_for_nothing_else() {
    let mut host = Host::of(MAP);
    let items = [Ask("wait", "k", 1), Ask("local", "k", 1)];
    let cluster = host.begin(atomic(Command::Query, &items));
    assert_eq!((cluster.stage, limited(&cluster)), (Stage::Answered, vec![Ok(false); 2]));
    // A host that knows that the pool is empty refuses at once, and pushes no need.
    let mut waits = host.begin(update(&[Ask("wait", "k", 1)]));
    let need = host.needs().remove(0);
    host.grant(&need, 0);
    let known = host.begin(atomic(Command::Query, &items));
    assert_eq!((known.stage, limited(&known)), (Stage::Answered, vec![Ok(true), Ok(false)]));
    host.service.give_up(&mut waits);
    let items = [Ask("wait", "x", 1), Ask("exact", "k", 1)];
    let mut exact = host.begin(atomic(Command::Query, &items));
    assert_eq!(exact.stage, Stage::Waiting);
    let needs = host.needs();
    assert_eq!((needs.len(), needs[0].need.kind), (1, NeedKind::Query));
    assert_eq!(needs[0].need.request.unwrap().needs, 1);
    host.finish(&needs[0], NeedEnd::Answered);
    assert_eq!(host.run(&mut exact), Stage::Answered);
    assert_eq!(limited(&exact), [Ok(false); 2]);
    assert_eq!((host.used("local"), host.used("wait")), (0, 10), "nothing is charged");
}

#[test]
fn a_shadow_item_of_an_atomic_request_waits_and_refuses_nothing() {
    let mut host = Host::of(MAP);
    let items = [Ask("shadow", "k", 1), Ask("local", "k", 1)];
    let mut late = host.begin(atomic(Command::Update, &items));
    assert_eq!(late.stage, Stage::Waiting);
    host.needs();
    let_pass();
    assert_eq!(host.run(&mut late), Stage::Answered);
    assert!(!late.answers.refused && late.answers.items[0].result.as_ref().unwrap().shadow);
    assert_eq!(host.used("local"), 1);
    let mut exchange = host.begin(atomic(Command::Update, &items));
    assert_eq!(host.serve(1), 1);
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert!(!exchange.answers.items[0].result.as_ref().unwrap().shadow);
}

#[test]
fn of_an_atomic_request_only_the_items_that_are_cut_off_go_on_alone() {
    let mut host = Host::of(MAP);
    let mut exchange =
        host.begin(atomic(Command::Update, &[Ask("down", "a", 1), Ask("down", "b", 1)]));
    let needs = host.needs();
    assert!(host.finish(&needs[0], NeedEnd::Unreachable));
    assert_eq!(host.run(&mut exchange), Stage::Waiting, "the other one can be reached");
    exhaust(&mut host, &needs[1]);
    assert!(host.finish(&needs[1], NeedEnd::Answered));
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert!(exchange.answers.refused, "its ledger has nothing left");
    assert_eq!(limited(&exchange), [Ok(false), Ok(true)]);
    // The other item of the request has its uses in hand.
    let mut exchange =
        host.begin(atomic(Command::Update, &[Ask("down", "a", 1), Ask("local", "b", 1)]));
    let needs = host.needs();
    assert!(host.finish(&needs[0], NeedEnd::Unreachable));
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert!(!exchange.answers.refused);
}

#[test]
fn nothing_is_admitted_on_a_miss_that_the_ledger_has_refused() {
    let mut host = Host::of(MAP);
    let mut exchange = host.begin(update(&[Ask("admit", "k", 1)]));
    let need = host.needs().remove(0);
    exhaust(&mut host, &need);
    host.finish(&need, NeedEnd::Answered);
    let_pass();
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Ok(true)]);
    let too_many = host.service.one(Command::Update, "admit", "new", 11, clock::now());
    assert!(too_many.unwrap().limited, "more than max is never admitted");
}

#[test]
fn a_limit_that_advises_looks_at_the_uses_of_all_machines() {
    let mut host = Host::of(MAP);
    let mut exchange = host.begin(update(&[Ask("advice", "k", 1)]));
    let need = host.needs().remove(0);
    host.grant(&need, 50);
    // Nothing is known of the first limit.
    change(&mut host, &need, |limits| limits[0].holding.lease = Default::default());
    host.finish(&need, NeedEnd::Answered);
    host.run(&mut exchange);
    let mut advised = vec![exchange.answers.items[0].action];
    for _ in 0..4 {
        let next = host.begin(update(&[Ask("advice", "k", 1)]));
        assert_eq!(limited(&next), [Ok(false)]);
        advised.push(next.answers.items[0].action);
    }
    assert_eq!(advised, [0, 0, 0, 1, 1]);
}

#[test]
fn a_count_of_0_leaves_nothing_behind() {
    let mut host = Host::of(MAP);
    let exchange = host.begin(update(&[Ask("wait", "k", 0), Ask("log", "k", 0)]));
    assert_eq!(limited(&exchange), [Ok(false); 2]);
    assert_eq!(host.world.group("g").verify().nodes, 0);
}

#[test]
fn the_admin_plane_sets_what_a_shared_limit_has_used() {
    let mut host = Host::of(MAP);
    for biz in ["wait", "log"] {
        for used in [3, 5, 1] {
            // A service that has not run an item yet.
            let mut admin = host.world.attach();
            let record = RecordName::of_key(biz, "k");
            assert_eq!(
                admin.set_used(record, 1, used, clock::now()).map(drop),
                Ok(()),
                "{biz} {used}"
            );
            assert_eq!(host.used(biz), u64::from(used), "{biz}");
        }
    }
}

#[test]
fn the_keeper_reads_leases_by_their_clock() {
    let mut host = Host::of(MAP);
    let mut exchange = host.begin(update(&[Ask("log", "k", 2)]));
    assert_eq!(host.serve(5), 1);
    assert_eq!((host.run(&mut exchange), host.used("log")), (Stage::Answered, 7));
    let (mut keeper, mut sweep, mut seen) = (host.world.attach(), Sweep::default(), Vec::new());
    while !keeper.sweep(&mut sweep, |one| seen.push(one.used), 64, clock::now()) {}
    assert_eq!(seen, [7]);
}

#[test]
fn what_is_used_by_force_is_found_by_a_later_pass() {
    let mut host = Host::of(MAP);
    let mut pass = LeasePass::default();
    let mut go = |host: &mut Host| {
        let mut found = 0;
        while !nodes::lease_pass(&mut host.courier, &mut pass, 1000, |_, _| {
            found += 1;
            true
        }) {}
        found
    };
    assert_eq!(go(&mut host), 0);
    let mut forced = Request::default();
    forced.begin(Command::Update);
    forced.push("wait", "k", ItemOptions::ONE.forced());
    let mut exchange = Exchange::of(forced);
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert!((0..100).any(|_| go(&mut host) == 1));
}

// Shows: uses-without-a-lease.
#[test]
fn uses_without_a_lease_are_told_at_once_by_a_want_of_nothing() {
    let mut host = Host::of(MAP);
    let of = |items: &[Ask<'_>], command, atomic| {
        let mut forced = Request::default();
        forced.begin(command);
        forced.atomic = atomic;
        for Ask(biz, key, count) in items {
            forced.push(biz, key, ItemOptions::of(*count).forced());
        }
        Exchange::of(forced)
    };
    let force = |host: &mut Host, items: &[Ask<'_>], command, atomic| -> Vec<TakenNeed> {
        assert_eq!(host.run(&mut of(items, command, atomic)), Stage::Answered);
        host.needs()
    };
    let one = [Ask("wait", "k", 3)];
    assert!(force(&mut host, &one, Command::Query, false).is_empty());
    let needs = force(&mut host, &one, Command::Update, false);
    let [need] = needs[..] else { panic!("{needs:?}") };
    assert_eq!((need.need.kind, need.need.uses), (NeedKind::Update, 0));
    assert!(host.service.take_pushed(), "the courier is called");
    assert!(force(&mut host, &one, Command::Update, false).is_empty(), "that message reports it");
    let key = need.need.stored_key();
    let boot_ms = clock::boot_ms();
    let moment = ItemMoment { boot_ms, wall_ms: clock::now() };
    let reported = nodes::with_leases(&mut host.courier, &key, moment, clock::now(), |limits| {
        limits[0].holding.lease.extra
    });
    assert_eq!(reported, Ok(6));
    // Uses within a lease are not reported.
    host.grant(&need, 20);
    assert!(host.finish(&need, NeedEnd::Answered));
    assert!(force(&mut host, &one, Command::Update, false).is_empty());
    let both = [Ask("local", "a", 1), Ask("exact", "a", 1)];
    assert_eq!(force(&mut host, &both, Command::Update, true).len(), 1);
    // A use that on-miss admits is reported too.
    let mut admitted = host.begin(update(&[Ask("admit", "k", 1)]));
    let asked = host.needs();
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!((host.run(&mut admitted), asked.len()), (Stage::Answered, 1));
    assert_eq!(host.needs().iter().map(|need| need.need.uses).collect::<Vec<_>>(), [0]);
    // Answered ones leave room for others: more are reported than may be under way. In the end
    // there is no place for another key.
    let mut reported = 0;
    for key in 0..3000 {
        let key = key.to_string();
        for need in force(&mut host, &[Ask("wait", &key, 1)], Command::Update, false) {
            assert!(host.finish(&need, NeedEnd::Answered));
            reported += 1;
        }
    }
    assert!(reported > 300, "{reported}");
}

#[test]
fn where_nothing_is_refused_no_item_waits_and_the_courier_is_called_for_the_first_use() {
    let mut host = Host::of(MAP);
    let ask = |host: &mut Host, command, is_atomic| {
        let items = [Ask("tally", "k", 1), Ask("tally", "k", 1)];
        let exchange = host.begin(request(command, is_atomic, &items));
        assert_eq!((exchange.stage, limited(&exchange)), (Stage::Answered, vec![Ok(false); 2]));
        exchange.answers.items[1].action > 0
    };
    assert!(!ask(&mut host, Command::Query, false));
    assert!(host.needs().is_empty(), "none asks the ledger, though every use would");
    assert!(!ask(&mut host, Command::Update, false));
    let needs = host.needs();
    let [need] = needs[..] else { panic!("{needs:?}") };
    assert_eq!((need.need.kind, need.need.uses), (NeedKind::Update, 0));
    assert!(ask(&mut host, Command::Update, true), "the fourth use of three");
    assert!(host.needs().is_empty());
    // All four are reported to the ledger, which knows of 50 others.
    let boot_ms = clock::boot_ms();
    change(&mut host, &need, |limits| {
        for limit in limits {
            assert!(limit.refuses_nothing);
            let holding = &mut limit.holding;
            let reported = holding.lease.extra;
            assert_eq!(reported, 4);
            (holding.used, holding.lease.extra) = (4, 0);
            let lease = &mut holding.lease;
            (lease.window, lease.allowance, lease.answered_ms) = (1, 4, boot_ms);
            (lease.end_ms, lease.gone_ms) = (u64::MAX, u64::MAX);
            lease.obtainable = limit.settings.max - 54;
        }
    });
    host.finish(&need, NeedEnd::Answered);
    assert_eq!(host.used("tally"), 54);
    (0..100).for_each(|_| assert!(ask(&mut host, Command::Update, false)));
    assert_eq!((host.used("tally"), host.needs().len()), (254, 0), "no need for each use");
}

#[test]
fn a_step_of_the_wall_clock_evicts_no_lease() {
    const DAYS: u64 = 10 * 86_400_000;
    let mut host = Host::of(&MAP.replace("key-nodes=\"64\"", "key-nodes=\"1\""));
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for key in keys {
        let mut exchange = host.begin(update(&[Ask("wait", key, 1)]));
        assert_eq!(host.serve(5), 1);
        assert_eq!(host.run(&mut exchange), Stage::Answered);
    }
    let stepped = clock::now() + DAYS;
    let other = host.service.one(Command::Update, "local", "k", 1, stepped);
    assert_eq!(other.unwrap_err(), ItemError::Full);
    for key in keys {
        let own = host.service.one(Command::Update, "wait", key, 1, stepped).unwrap();
        assert!(!own.limited, "{key}");
    }
}
