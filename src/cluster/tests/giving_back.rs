//! Returned uses for which no lease names the window in which they were used: the ledger is asked
//! first.

use frs_engine::testing::{Ask, request};
use frs_engine::{Command, Exchange, ItemError, ItemMoment, NeedEnd, NeedKind, Stage};

use super::leases::key_of;
use crate::nodes;
use crate::testing::host::{Host, limited, update};

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="64" chain="8" node-size="512"/>
  <biz id="1" name="cluster" key="string" share="cluster" hosts="2" wait="1000ms">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="2" name="exact" key="string" share="exact" hosts="2" wait="1000ms">
    <limit policy="total" max="10"/></biz>
  <biz id="3" name="late" key="string" share="cluster" hosts="2" wait="1ms">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="4" name="down" key="string" share="cluster" hosts="5" wait="1000ms" on-down="share">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="5" name="tally" key="string" share="cluster" hosts="2"><limit policy="count"/></biz>
</map>"#;

/// Begins an item that returns uses and waits. The ledger is asked, and its need needs no uses.
fn begin(host: &mut Host, ask: Ask<'_>) -> Exchange {
    let exchange = host.begin(update(&[ask]));
    assert_eq!(exchange.stage, Stage::Waiting);
    exchange
}

/// Ends its wait.
fn end(host: &mut Host, exchange: &mut Exchange, result: NeedEnd) -> Result<bool, ItemError> {
    let need = host.needs().pop().expect("a need");
    assert_eq!((need.need.kind, need.need.uses), (NeedKind::Window, 0));
    assert!(host.finish(&need, result));
    assert_eq!(host.run(exchange), Stage::Answered);
    limited(exchange)[0]
}

// Shows: returns-between-machines.
#[test]
fn what_is_given_back_waits_until_the_window_is_known() {
    for biz in ["cluster", "exact"] {
        let mut host = Host::of(MAP);
        let mut exchange = begin(&mut host, Ask(biz, "k", -2));
        // Nothing is left of the lease, because other hosts have used everything.
        assert_eq!(host.serve(0), 1);
        assert_eq!(host.run(&mut exchange), Stage::Answered);
        assert_eq!(limited(&exchange), [Ok(false)]);
        assert_eq!(host.extra(biz), -2, "{biz}");
        // From now on the window is known.
        let next = host.begin(update(&[Ask(biz, "k", -1)]));
        assert_eq!((next.stage, limited(&next)), (Stage::Answered, vec![Ok(false)]));
        assert_eq!(host.extra(biz), -3, "{biz}");
        host.world.verify();
    }
}

#[test]
fn where_the_ledger_has_no_window_there_is_nothing_to_give_back() {
    let mut host = Host::of(MAP);
    let mut exchange = begin(&mut host, Ask("cluster", "k", -2));
    assert_eq!(end(&mut host, &mut exchange, NeedEnd::Answered), Ok(false));
    assert_eq!(host.extra("cluster"), 0);
}

#[test]
fn a_want_that_is_not_served_is_asked_again() {
    let mut host = Host::of(MAP);
    let mut exchange = begin(&mut host, Ask("cluster", "k", -2));
    let need = host.needs().pop().expect("a need");
    assert!(host.finish(&need, NeedEnd::Unserved));
    assert_eq!(host.run(&mut exchange), Stage::Waiting);
    assert_eq!(end(&mut host, &mut exchange, NeedEnd::Answered), Ok(false));
}

// Shows: returns-between-machines.
#[test]
fn what_no_ledger_has_heard_of_in_time_is_busy() {
    let mut host = Host::of(MAP);
    let mut late = begin(&mut host, Ask("late", "k", -1));
    std::thread::sleep(std::time::Duration::from_millis(3));
    assert_eq!(host.run(&mut late), Stage::Answered);
    assert_eq!(limited(&late), [Err(ItemError::Busy)]);
    let _ = host.needs();
    let mut cut_off = begin(&mut host, Ask("cluster", "k", -1));
    assert_eq!(end(&mut host, &mut cut_off, NeedEnd::Unreachable), Err(ItemError::Busy));
    // A caller that does not wait.
    let alone = host.service.one(Command::Update, "cluster", "other", -1, 1);
    assert_eq!(alone.map(|verdict| verdict.limited), Err(ItemError::Busy));
}

#[test]
fn what_a_host_allowed_itself_while_cut_off_it_takes_back_and_allows_again() {
    let mut host = Host::of(MAP);
    let use_one = |host: &mut Host| {
        let mut exchange = host.begin(update(&[Ask("down", "k", 1)]));
        // Behind the one that reports earlier uses.
        let need = host.needs().pop().expect("a need");
        host.finish(&need, NeedEnd::Unreachable);
        assert_eq!(host.run(&mut exchange), Stage::Answered);
        limited(&exchange) == [Ok(false)]
    };
    assert_eq!([0; 3].map(|_| use_one(&mut host)), [true, true, false], "10 / 5 machines");
    let back = host.begin(update(&[Ask("down", "k", -1)]));
    assert_eq!((back.stage, limited(&back)), (Stage::Answered, vec![Ok(false)]));
    assert_eq!([0; 2].map(|_| use_one(&mut host)), [true, false]);
    assert_eq!(host.extra("down"), 2);
}

#[test]
fn an_atomic_request_gives_back_and_takes_with_all_that_it_waits_for() {
    let items = [Ask("cluster", "k", -2), Ask("exact", "k", 1)];
    let atomic = |host: &mut Host| host.begin(request(Command::Update, true, &items));
    let mut host = Host::of(MAP);
    let mut exchange = atomic(&mut host);
    let needs = host.needs();
    let kinds: Vec<NeedKind> = needs.iter().map(|need| need.need.kind).collect();
    assert_eq!(kinds, [NeedKind::Window, NeedKind::Update]);
    for need in &needs {
        host.grant(need, 1);
        assert!(host.finish(need, NeedEnd::Answered));
    }
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Ok(false), Ok(false)]);
    assert_eq!((host.extra("cluster"), host.used("exact")), (-2, 10));
    // One of the ledgers cannot be reached: nothing is charged.
    let mut host = Host::of(MAP);
    let mut exchange = atomic(&mut host);
    let needs = host.needs();
    host.grant(&needs[1], 1);
    host.finish(&needs[0], NeedEnd::Unreachable);
    host.finish(&needs[1], NeedEnd::Answered);
    assert_eq!(host.run(&mut exchange), Stage::Answered);
    assert_eq!(limited(&exchange), [Err(ItemError::Busy); 2]);
    assert_eq!((host.extra("cluster"), host.used("exact")), (0, 9));
}

#[test]
fn what_refuses_nothing_gives_back_without_a_wait() {
    let mut host = Host::of(MAP);
    let exchange = host.begin(update(&[Ask("tally", "k", -1)]));
    assert_eq!((exchange.stage, limited(&exchange)), (Stage::Answered, vec![Ok(false)]));
}

impl Host {
    /// Unreported uses beyond any lease.
    fn extra(&mut self, biz: &str) -> i64 {
        let names = ["cluster", "exact", "late", "down", "tally"];
        let id = 1 + names.iter().position(|name| *name == biz).expect("a biz");
        let key = key_of(id as u32, "k");
        let now = ItemMoment::at(1);
        nodes::with_leases(&mut self.courier, &key, now, 1, |limits| limits[0].holding.lease.extra)
            .unwrap()
    }
}
