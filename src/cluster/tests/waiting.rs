//! Items that wait for leases. The test acts as the courier.

use frs_base::clock;
use frs_engine::testing::{Ask, request};
use frs_engine::{
    Command, Exchange, ItemError, ItemMoment, ItemOptions, NeedEnd, NeedKind, SPARE_BYTES, Stage,
    WAITING_ITEM_BYTES, WAITING_LIMIT_BYTES,
};

use crate::nodes::{self, LeasePass};
use crate::shared::LeasedLimit;
use crate::testing::host::{Host, limited, update};

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="64" chain="8" node-size="512"/>
  <biz id="1" name="refuse" key="string" share="cluster" hosts="2" wait="1000ms">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="2" name="admit" key="string" share="cluster" hosts="2" wait="1ms" on-miss="admit">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="3" name="busy" key="string" share="cluster" hosts="2" wait="1ms" on-miss="busy">
    <limit policy="total" max="10"/></biz>
  <biz id="4" name="local" key="string"><limit policy="interval" interval="1m" max="2"/></biz>
  <biz id="5" name="exact" key="string" share="exact" wait="1000ms">
    <limit policy="total" max="10"/></biz>
  <biz id="6" name="down" key="string" share="cluster" hosts="5" wait="1000ms" on-down="share">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="7" name="log" key="string" share="cluster" hosts="2" wait="1ms">
    <limit policy="sliding" interval="1m" max="10"/></biz>
  <biz id="8" name="both" key="string" share="cluster" hosts="2" wait="1000ms">
    <limit policy="interval" interval="1m" max="10"/>
    <limit policy="total" scope="biz" max="5"/></biz>
</map>"#;

#[test]
fn an_item_waits_for_its_lease_and_is_charged_once() {
    let mut host = Host::of(MAP);
    let mut exchange = host.begin(update(&[Ask("refuse", "k", 2)]));
    assert_eq!(exchange.stage, Stage::Waiting);
    assert!(exchange.wait_ms > 0 && !host.service.may_go_on(&exchange));
    assert_eq!(host.run(&mut exchange), Stage::Waiting, "run before its time");
    let needs = host.needs();
    assert_eq!(needs.len(), 1);
    assert_eq!((needs[0].need.uses, needs[0].need.kind), (2, NeedKind::Update));
    host.grant(&needs[0], 5);
    assert!(host.finish(&needs[0], NeedEnd::Answered));
    assert!(host.service.may_go_on(&exchange));
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Ok(false)]);
    // 5 are granted to this host, none to others, and the pool is empty.
    assert_eq!(exchange.answers.items[0].result.as_ref().unwrap().figures.remaining, 3);
    // Uses in hand are spent at once.
    let next = host.begin(update(&[Ask("refuse", "k", 3)]));
    assert_eq!((next.stage, limited(&next)), (Stage::Answered, vec![Ok(false)]));
    let mut more = host.begin(update(&[Ask("refuse", "k", 1)]));
    assert_eq!(more.stage, Stage::Waiting);
    host.service.give_up(&mut more);
    host.world.verify();
}

#[test]
fn what_is_held_for_those_that_wait_is_not_spent_by_others() {
    let mut host = Host::of(MAP);
    let mut first = host.begin(update(&[Ask("refuse", "k", 3)]));
    assert_eq!(host.serve(4), 1);
    let mut second = host.begin(update(&[Ask("refuse", "k", 2)]));
    assert_eq!(second.stage, Stage::Waiting, "3 of 4 are reserved");
    assert_eq!(host.run(&mut first), Stage::Answered);
    assert_eq!(limited(&first), [Ok(false)]);
    host.service.give_up(&mut second);
    let third = host.begin(update(&[Ask("refuse", "k", 1)]));
    assert_eq!(limited(&third), [Ok(false)], "nothing is reserved any more");
}

#[test]
fn answered_items_keep_their_answers_while_others_wait() {
    let mut host = Host::of(MAP);
    let items = [Ask("local", "k", 1), Ask("refuse", "k", 1), Ask("nobody", "k", 1)];
    let mut exchange = host.begin(update(&items));
    assert_eq!(exchange.stage, Stage::Waiting);
    assert_eq!(host.serve(1), 1);
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Ok(false), Ok(false), Err(ItemError::UnknownBiz)]);
    assert_eq!((host.used("local"), exchange.answers.items.len()), (1, 3), "charged once");
}

#[test]
fn a_deadline_is_answered_as_the_biz_says() {
    let mut host = Host::of(MAP);
    let items = [Ask("admit", "k", 1), Ask("busy", "k", 1)];
    let mut exchange = host.begin(update(&items));
    while clock::boot_ms() < clock::boot_ms() + 1 && host.run(&mut exchange) == Stage::Waiting {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(limited(&exchange), [Ok(false), Err(ItemError::Busy)]);
    // Nobody can answer any more: the needs are taken back. Uses admitted without a lease are
    // reported to the ledger.
    let needs = host.needs();
    let [need] = needs[..] else { panic!("{needs:?}") };
    assert_eq!(need.need.uses, 0);
    let key = need.need.stored_key();
    let now = ItemMoment::at(1);
    let extra =
        nodes::with_leases(&mut host.courier, &key, now, 1, |limits| limits[0].holding.lease.extra);
    assert_eq!(extra, Ok(1));
}

#[test]
fn a_late_item_is_refused_and_nothing_is_charged() {
    let mut host = Host::of(MAP);
    let mut exchange = host.begin(update(&[Ask("log", "k", 1)]));
    assert_eq!(exchange.stage, Stage::Waiting);
    std::thread::sleep(std::time::Duration::from_millis(3));
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Ok(true)]);
    assert!(exchange.answers.items[0].result.as_ref().unwrap().retry_ms.is_some());
    assert_eq!((host.used("log"), host.world.group("g").verify().nodes), (0, 0));
}

#[test]
fn an_exhausted_lease_refuses_at_once() {
    let mut host = Host::of(MAP);
    let mut exchange = host.begin(update(&[Ask("refuse", "k", 1)]));
    let need = host.needs().remove(0);
    host.grant(&need, 0);
    let key = need.need.stored_key();
    let boot_ms = clock::boot_ms();
    let now = ItemMoment { boot_ms, wall_ms: clock::now() };
    let exhaust = |limits: &mut [LeasedLimit]| {
        let lease = &mut limits[0].holding.lease;
        (lease.is_exhausted, lease.again_ms) = (true, boot_ms + 50_000);
    };
    nodes::with_leases(&mut host.courier, &key, now, 1, exhaust).unwrap();
    host.finish(&need, NeedEnd::Answered);
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Ok(true)]);
    let next = host.begin(update(&[Ask("refuse", "k", 1)]));
    assert_eq!((next.stage, limited(&next)), (Stage::Answered, vec![Ok(true)]));
}

#[test]
fn an_atomic_request_wants_all_of_its_shared_items_together() {
    let mut host = Host::of(MAP);
    let items = [Ask("refuse", "a", 1), Ask("local", "k", 1), Ask("exact", "b", 1)];
    let mut exchange = host.begin(request(Command::Update, true, &items));
    assert_eq!(exchange.stage, Stage::Waiting);
    let needs = host.needs();
    let together: Vec<_> = needs.iter().map(|need| need.need.request.unwrap()).collect();
    assert_eq!(together.len(), 2);
    assert!(together[0] == together[1] && together[0].needs == 2);
    host.grant(&needs[0], 1);
    host.finish(&needs[0], NeedEnd::Answered);
    assert!(!host.service.may_go_on(&exchange), "all of them");
    assert_eq!(host.run(&mut exchange), Stage::Waiting);
    host.grant(&needs[1], 1);
    host.finish(&needs[1], NeedEnd::Answered);
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Ok(false); 3]);
    assert!(!exchange.answers.refused);
    assert_eq!(host.used("local"), 1);
    host.world.verify();
}

#[test]
fn an_atomic_request_that_another_item_refuses_does_not_wait() {
    let mut host = Host::of(MAP);
    let spent = host.begin(update(&[Ask("local", "k", 2)]));
    assert_eq!(limited(&spent), [Ok(false)]);
    let items = [Ask("refuse", "a", 1), Ask("local", "k", 1)];
    let exchange = host.begin(request(Command::Update, true, &items));
    assert_eq!(exchange.stage, Stage::Answered);
    assert!(exchange.answers.refused && host.needs().is_empty());
}

#[test]
fn an_exact_query_asks_and_others_do_not() {
    let mut host = Host::of(MAP);
    let mut exchange = host.begin(request(Command::Query, false, &[Ask("exact", "k", 1)]));
    assert_eq!(exchange.stage, Stage::Waiting);
    let need = host.needs().remove(0);
    assert_eq!(need.need.kind, NeedKind::Query);
    host.finish(&need, NeedEnd::Answered);
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Ok(false)]);
    let cluster = host.begin(request(Command::Query, false, &[Ask("refuse", "k", 1)]));
    assert_eq!((cluster.stage, limited(&cluster)), (Stage::Answered, vec![Ok(false)]));
}

#[test]
fn while_the_cluster_is_down_a_host_allows_itself_its_share() {
    let mut host = Host::of(MAP);
    let mut passed = 0;
    for _ in 0..5 {
        let mut exchange = host.begin(update(&[Ask("down", "k", 1)]));
        assert_eq!(exchange.stage, Stage::Waiting);
        // Behind the one that reports earlier uses.
        let need = host.needs().pop().expect("a need");
        host.finish(&need, NeedEnd::Unreachable);
        assert_eq!(host.run(&mut exchange), Stage::Answered);
        passed += usize::from(limited(&exchange) == [Ok(false)]);
    }
    assert_eq!(passed, 2, "10 / 5 machines");
}

#[test]
fn behind_one_that_waits_nothing_of_its_lane_begins() {
    let mut host = Host::of(MAP);
    let of = |ask: Ask<'_>, lane| Exchange::of(update(&[ask])).in_lane(lane);
    let mut exchanges =
        [of(Ask("refuse", "k", 1), 1), of(Ask("local", "k", 1), 1), of(Ask("local", "k", 1), 2)];
    host.service.begin_tick();
    host.service.run_all(&mut exchanges, clock::now());
    let stages = exchanges.each_ref().map(|exchange| exchange.stage);
    assert_eq!(stages, [Stage::Waiting, Stage::Behind, Stage::Answered]);
    assert_eq!(host.used("local"), 1);
    host.serve(1);
    host.service.run_all(&mut exchanges[..2], clock::now());
    assert!(exchanges.iter().all(|exchange| exchange.stage == Stage::Answered));
    assert_eq!(host.used("local"), 2);
}

#[test]
fn of_any_number_of_requests_those_in_the_lane_of_one_that_waits_stay_behind_it() {
    let mut host = Host::of(MAP);
    let of = |nth: usize| {
        let ask = if nth == 0 { Ask("refuse", "k", 1) } else { Ask("local", "k", 1) };
        Exchange::of(update(&[ask])).in_lane(nth % 2)
    };
    let mut exchanges: Vec<Exchange> = (0..50).map(of).collect();
    host.service.begin_tick();
    host.service.run_all(&mut exchanges, clock::now());
    for (nth, exchange) in exchanges.iter().enumerate() {
        let expected = match nth {
            0 => Stage::Waiting,
            _ if nth % 2 == 0 => Stage::Behind,
            _ => Stage::Answered,
        };
        assert_eq!(exchange.stage, expected, "{nth}");
    }
    assert_eq!(host.used("local"), 2, "as many as its max admits");
}

#[test]
fn a_full_ring_and_too_many_waiting_are_busy() {
    let mut host = Host::of(MAP);
    host.service.set_wait_room(1);
    let mut first = host.begin(update(&[Ask("refuse", "a", 1)]));
    let second = host.begin(update(&[Ask("refuse", "b", 1)]));
    assert_eq!(first.stage, Stage::Waiting);
    assert_eq!((second.stage, limited(&second)), (Stage::Answered, vec![Err(ItemError::Busy)]));
    host.service.give_up(&mut first);
    host.service.set_wait_room(10_000);
    let mut waiting = Vec::new();
    let full = (0..2_000).find_map(|_| {
        let exchange = host.begin(update(&[Ask("refuse", "a", 1)]));
        let is_full = exchange.stage == Stage::Answered;
        waiting.push(exchange);
        is_full.then(|| limited(waiting.last().unwrap()))
    });
    assert_eq!((full, waiting.len()), (Some(vec![Err(ItemError::Busy)]), 1025));
    waiting.iter_mut().for_each(|exchange| host.service.give_up(exchange));
    assert_eq!(host.begin(update(&[Ask("refuse", "a", 1)])).stage, Stage::Waiting);
}

#[test]
fn one_that_is_parked_holds_little_more_than_it_uses() {
    let mut host = Host::of(MAP);
    let keys: Vec<String> = (0..500).map(|nth| format!("{nth:0>60}")).collect();
    let asks: Vec<Ask<'_>> = keys.iter().map(|key| Ask("both", key, 1)).collect();
    let mut exchange = host.begin(update(&asks));
    assert_eq!((exchange.stage, exchange.waiting_items().count()), (Stage::Waiting, 500));
    exchange.trim();
    let bytes = |items: usize, text: usize| {
        2 * (text + items * (WAITING_ITEM_BYTES + 2 * WAITING_LIMIT_BYTES)) + SPARE_BYTES
    };
    let text = asks.iter().map(|Ask(biz, key, _)| biz.len() + key.len()).sum();
    let held = exchange.held_bytes();
    assert!(held > 500 * 200 && held <= bytes(500, text), "{held}");
    // A small request in the buffers of a large one.
    host.service.give_up(&mut exchange);
    exchange.request.begin(Command::Update);
    exchange.request.push("both", "k", ItemOptions::ONE.detailed());
    assert_eq!(host.run(&mut exchange), Stage::Waiting);
    let before = exchange.held_bytes();
    exchange.trim();
    assert!(before > bytes(1, 5) && exchange.held_bytes() <= bytes(1, 5), "{before}");
}

#[test]
fn a_biz_of_two_scopes_waits_for_both() {
    let mut host = Host::of(MAP);
    let mut exchange = host.begin(update(&[Ask("both", "k", 1)]));
    assert_eq!(exchange.stage, Stage::Waiting);
    assert_eq!(host.serve(1), 1);
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Ok(false)]);
}

#[test]
fn a_pass_finds_every_lease_and_skips_what_has_none() {
    let mut host = Host::of(MAP);
    let mut exchange = host.begin(update(&[Ask("refuse", "k", 1), Ask("both", "x", 1)]));
    assert_eq!(host.serve(3), 2);
    host.run(&mut exchange);
    host.begin(update(&[Ask("local", "k", 1)]));
    let mut pass = LeasePass::default();
    for _ in 0..2 {
        let mut found = Vec::new();
        while !nodes::lease_pass(&mut host.courier, &mut pass, 10, |_, key| {
            found.push(key.biz_id());
            true
        }) {}
        found.sort_unstable();
        // Both records of the biz with limits of two scopes.
        assert_eq!(found, [1, 8, 8]);
    }
}
