//! Records that the cluster keeps. The test acts as the courier.

use frs_base::clock;
use frs_conf::key::KeyRef;
use frs_engine::testing::{Ask, request};
use frs_engine::{
    CallRate, Command, ItemError, ItemOptions, NeedEnd, NeedKind, RecordName, Request, Stage,
    StoredKey,
};
use frs_limit::Verdict;

use crate::nodes::{self, Inserted, KeptRecord, Records as _, StepBounds, Whereabouts};
use crate::testing::host::stored;
use crate::testing::host::{Host, limited, update};
use crate::tests::leases::{key_of, named};

const MAP: &str = r#"<map>
  <group name="kept" files="2" key-nodes="4" chain="8" node-size="512" backup="10s"/>
  <group name="here" files="1" key-nodes="8" chain="8" node-size="512"/>
  <biz id="1" name="minute" key="string"><limit policy="interval" interval="1m" max="5"/></biz>
  <biz id="2" name="log" key="string"><limit policy="sliding" interval="1m" max="5"/>
    <limit policy="total" scope="biz" max="100"/></biz>
  <biz id="3" name="total" key="string"><limit policy="total" max="5" ban="1m"/></biz>
  <biz id="4" name="shared" key="string" share="cluster" hosts="2" wait="1000ms">
    <limit policy="interval" interval="1m" max="5"/></biz>
  <biz id="6" name="throttle" key="string">
    <limit policy="gcra" rate="30/m" burst="16" per-call="true" max-period="1d"/></biz>
  <biz id="7" name="bucket" key="string"><limit policy="token" rate="1/m" burst="5"/></biz>
  <biz id="5" name="local" key="string" group="here">
    <limit policy="interval" interval="1m" max="5"/></biz>
</map>"#;

impl Host {
    /// What has changed since the last round.
    pub(super) fn round(&mut self) -> Vec<(StoredKey, Vec<u8>)> {
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let sent = &mut self.sent;
            let bounds = StepBounds { from: at, most: 3, room: 9 };
            let step =
                nodes::changed_records(&mut self.courier, "kept", sent, bounds, clock::now())
                    .unwrap();
            assert!(step.changed.len() <= 9);
            assert_eq!(step.torn, 0);
            found.extend(step.changed.iter().map(|one| (one.key, one.record.encode(&one.key))));
            from = step.next;
        }
        found
    }

    /// Updates until the cluster, which keeps these records, has been asked.
    fn update(&mut self, biz: &str, key: &str, kept: &[(StoredKey, Vec<u8>)]) -> bool {
        !self.verdict(update(&[Ask(biz, key, 1)]), kept).limited
    }

    /// The verdict on a request of one item, once the cluster has been asked.
    pub(super) fn verdict(&mut self, request: Request, kept: &[(StoredKey, Vec<u8>)]) -> Verdict {
        let mut exchange = self.begin(request);
        if exchange.stage == Stage::Waiting {
            let need = self.needs().remove(0);
            assert_eq!(need.need.kind, NeedKind::Fetch);
            let key = need.need.stored_key();
            assert_eq!(
                stored(&mut self.courier, clock::now()).whereabouts(&key),
                Ok(Whereabouts::MaybeInCluster)
            );
            if let Some((_, bytes)) = kept.iter().find(|(kept, _)| *kept == key) {
                let record = KeptRecord::decode(bytes, &key).expect("a whole record");
                let inserted = stored(&mut self.courier, clock::now()).insert(&key, &record);
                assert_eq!(inserted, Ok(Inserted::Yes));
            }
            assert!(self.finish(&need, NeedEnd::Answered));
            assert_eq!(self.run(&mut exchange), Stage::Answered);
        }
        exchange.answers.items[0].result.unwrap()
    }
}

#[test]
fn a_key_without_a_record_asks_the_cluster_once() {
    let mut host = Host::of(MAP);
    for command in [Command::Query, Command::Update] {
        let mut exchange = host.begin(request(command, false, &[Ask("minute", "k", 1)]));
        assert_eq!((exchange.stage, host.service.may_go_on(&exchange)), (Stage::Waiting, false));
        assert_eq!(host.run(&mut exchange), Stage::Waiting, "run before its time");
        let needs = host.needs();
        assert_eq!((needs.len(), needs[0].need.kind), (1, NeedKind::Fetch));
        assert!(host.finish(&needs[0], NeedEnd::Answered));
        assert_eq!(host.run(&mut exchange), Stage::Answered);
        assert_eq!(limited(&exchange), [Ok(false)]);
    }
    let next = host.begin(update(&[Ask("minute", "k", 1)]));
    assert_eq!((next.stage, limited(&next)), (Stage::Answered, vec![Ok(false)]));
    assert_eq!((host.service.used("minute", "k", clock::now()), host.needs().len()), (2, 0));
    host.world.verify();
}

#[test]
fn a_machine_that_takes_a_key_over_goes_on_where_the_other_was_last() {
    for biz in ["minute", "log", "total"] {
        let (mut lost, mut heir) = (Host::of(MAP), Host::of(MAP));
        assert_eq!((0..3).filter(|_| lost.update(biz, "k", &[])).count(), 3);
        let kept = lost.round();
        assert_eq!(kept.len(), 1, "not what counts the whole biz");
        // This use is not carried: it bounds the uses over the maximum.
        assert!(lost.update(biz, "k", &[]));
        drop(lost);
        let admitted = (0..10).filter(|_| heir.update(biz, "k", &kept)).count();
        assert_eq!((admitted, heir.service.used(biz, "k", clock::now())), (2, 5), "{biz}");
        assert!(heir.update(biz, "other", &kept));
        heir.world.verify();
    }
}

/// The times for which the cluster keeps the records changed since the last round.
fn lives(host: &mut Host) -> Vec<Option<u64>> {
    let all = StepBounds { from: 0, most: 100, room: 100 };
    let step = nodes::changed_records(&mut host.courier, "kept", &mut host.sent, all, clock::now())
        .unwrap();
    step.changed.iter().map(|one| one.life_ms).collect()
}

#[test]
fn a_bucket_is_kept_for_as_long_as_it_takes_to_fill_and_a_clock_can_be_set_back() {
    let mut host = Host::of(MAP);
    let minute = 60_000;
    let mut kept = |request: Request, least: u64, most: u64| {
        let mut exchange = host.begin(request);
        if exchange.stage == Stage::Waiting {
            let need = host.needs().remove(0);
            assert!(host.finish(&need, NeedEnd::Answered));
            assert_eq!(host.run(&mut exchange), Stage::Answered);
        }
        let [Some(life_ms)] = lives(&mut host)[..] else { panic!("one with an end") };
        assert!((least - 5_000..=most).contains(&life_ms), "{life_ms}");
    };
    // 2 s until it is full, and 32 s by which the clock may be set back.
    kept(update(&[Ask("throttle", "k", 1)]), 34_000, 34_000);
    kept(update(&[Ask("throttle", "k", 10)]), 54_000, 54_000);
    // A call that brings its own limit: 10 uses of an hour each.
    let mut request = Request::default();
    request.begin(Command::Update);
    request.push("throttle", "own", ItemOptions::of(10));
    request.bring_rate(CallRate::per(1, 3_600_000_000_000), 10);
    kept(request, 1200 * minute, 1200 * minute);
    kept(update(&[Ask("bucket", "k", 2)]), 7 * minute, 7 * minute);
    // With force an item may charge more.
    let mut request = Request::default();
    request.begin(Command::Update);
    request.push("bucket", "k", ItemOptions::of(1000).forced());
    kept(request, 1007 * minute, 1007 * minute);
}

// Shows: backup.
#[test]
fn a_round_carries_what_has_changed_and_nothing_else() {
    let mut host = Host::of(MAP);
    for key in 0..20 {
        host.update("minute", &key.to_string(), &[]);
    }
    assert_eq!(host.round().len(), 20);
    assert_eq!(host.round().len(), 0);
    host.update("minute", "7", &[]);
    let changed = host.round();
    assert_eq!(changed.len(), 1);
    assert_eq!(host.round().len(), 0);
    // The message of this change was lost.
    host.update("minute", "7", &[]);
    let all = StepBounds { from: 0, most: 100, room: 100 };
    let found =
        nodes::changed_records(&mut host.courier, "kept", &mut host.sent, all, clock::now());
    let step = found.unwrap();
    assert_eq!((step.changed.len(), step.next), (1, None));
    assert!(step.changed[0].life_ms.is_some_and(|ms| ms > 0 && ms < 600_000));
    host.sent.forget(step.changed[0].place);
    assert_eq!(host.round().len(), 1);
    host.sent.forget_all();
    assert_eq!(host.round().len(), 20);
    assert_eq!(nodes::changed_records(&mut host.courier, "none", &mut host.sent, all, 0), None);
}

#[test]
fn what_is_not_kept_waits_for_no_record() {
    let mut host = Host::of(MAP);
    let local = host.begin(update(&[Ask("local", "k", 1)]));
    assert_eq!((local.stage, limited(&local)), (Stage::Answered, vec![Ok(false)]));
    let mut shared = host.begin(update(&[Ask("shared", "k", 1)]));
    assert_eq!(host.needs()[0].need.kind, NeedKind::Update);
    host.service.give_up(&mut shared);
    assert_eq!(host.round().len(), 0);
}

#[test]
fn without_an_answer_a_key_starts_fresh() {
    let mut host = Host::of(MAP);
    let mut down = host.begin(update(&[Ask("minute", "a", 1)]));
    let need = host.needs().remove(0);
    assert!(host.finish(&need, NeedEnd::Unreachable));
    assert_eq!(host.run(&mut down), Stage::Answered);
    assert_eq!(limited(&down), [Ok(false)]);
    let mut late = host.begin(update(&[Ask("minute", "b", 1)]));
    std::thread::sleep(std::time::Duration::from_millis(late.wait_ms + 1));
    assert_eq!(host.run(&mut late), Stage::Answered);
    assert_eq!((limited(&late), host.needs().len()), (vec![Ok(false)], 0));
}

#[test]
fn an_atomic_request_waits_for_all_records_and_is_charged_once() {
    let (mut lost, mut heir) = (Host::of(MAP), Host::of(MAP));
    (0..4).for_each(|_| assert!(lost.update("minute", "a", &[])));
    let kept = lost.round();
    heir.update("minute", "c", &[]);
    let items = [Ask("minute", "a", 1), Ask("local", "k", 1), Ask("minute", "b", 1)];
    for expected in [false, true] {
        let mut exchange = heir.begin(request(Command::Update, true, &items));
        if exchange.stage == Stage::Waiting {
            let needs = heir.needs();
            assert!(
                !expected && needs.len() == 2 && needs.iter().all(|w| w.need.request.is_none())
            );
            let key = needs[0].need.stored_key();
            let record = KeptRecord::decode(&kept[0].1, &key).unwrap();
            stored(&mut heir.courier, clock::now()).insert(&key, &record).unwrap();
            assert!(heir.finish(&needs[0], NeedEnd::Answered));
            assert_eq!(heir.run(&mut exchange), Stage::Waiting, "for the other one");
            assert!(heir.finish(&needs[1], NeedEnd::Answered));
            assert_eq!(heir.run(&mut exchange), Stage::Answered);
        }
        assert_eq!(exchange.answers.refused, expected);
    }
    let used = ["minute a", "local k", "minute b"].map(|name| {
        let (biz, key) = name.split_once(' ').unwrap();
        heir.service.used(biz, key, clock::now())
    });
    assert_eq!(used, [5, 1, 1]);
    heir.world.verify();
}

#[test]
fn a_record_here_is_never_replaced_and_one_of_other_limits_counts_nothing() {
    let mut host = Host::of(MAP);
    host.update("minute", "k", &[]);
    let (key, bytes) = host.round().remove(0);
    (0..2).for_each(|_| assert!(host.update("minute", "k", &[])));
    let record = KeptRecord::decode(&bytes, &key).unwrap();
    let now = clock::now();
    assert_eq!(stored(&mut host.courier, now).insert(&key, &record), Ok(Inserted::Present));
    assert_eq!(host.service.used("minute", "k", clock::now()), 3);
    let other = MAP.replace(r#"policy="interval" interval="1m""#, r#"policy="total""#);
    let mut heir = Host::of(&other);
    assert_eq!(stored(&mut heir.courier, now).insert(&key, &record), Ok(Inserted::Void));
    assert_eq!((heir.service.used("minute", "k", clock::now()), heir.round().len()), (0, 0));
    let earlier = KeptRecord { epoch: record.epoch + 256, ..record.clone() };
    let mut heir = Host::of(MAP);
    assert_eq!(stored(&mut heir.courier, now).insert(&key, &earlier), Ok(Inserted::Void));
    assert_eq!(heir.service.used("minute", "k", clock::now()), 0, "the low bits are the same");
    let shared = StoredKey { key_word: key.key_word & !0xffff_ffff | 4, ..key };
    assert_eq!(stored(&mut host.courier, now).insert(&shared, &record), Err(ItemError::UnknownBiz));
}

#[test]
fn a_key_without_records_in_the_cluster_is_told_from_a_node_that_is_unavailable() {
    let mut host = Host::of(MAP);
    ["kept", "here"].into_iter().for_each(|group| host.world.quarantine(group));
    let (courier, now) = (&mut host.courier, clock::now());
    let sound = key_of(1, "k");
    let record =
        KeptRecord { check: 0, epoch: 0, last_use_ms: now, ban_begun_ms: None, states: Vec::new() };
    // Bits of the key word that a stray write changes: the biz, and the form and length of the key.
    for (key, error) in [
        (key_of(5, "k"), ItemError::UnknownBiz),
        (key_of(9, "k"), ItemError::UnknownBiz),
        (named(2, &KeyRef::BIZ), ItemError::BadKey),
        (StoredKey { key_word: sound.key_word ^ 1 << 32, ..sound }, ItemError::BadKey),
        (sound, ItemError::Store),
    ] {
        assert_eq!(stored(courier, now).whereabouts(&key), Err(error), "{key:?}");
        assert_eq!(stored(courier, now).insert(&key, &record), Err(error), "{key:?}");
        assert_eq!(stored(courier, now).insert_fresh(&key), Err(error), "{key:?}");
        assert_eq!(stored(courier, now).forget(&key), Err(error), "{key:?}");
        assert_eq!(stored(courier, now).chain(&key), Err(error), "{key:?}");
    }
}

#[test]
fn a_record_longer_than_nodes_are_here_counts_in_all_but_the_oldest_windows() {
    let map = |node_bytes: u32, history: u32| {
        format!(
            r#"<map><group name="kept" files="1" key-nodes="4" chain="8" backup="10s"
            node-size="{node_bytes}"/><biz id="1" name="b" key="string">
            <limit policy="count" unit="day" history="{history}"/>
            <limit policy="total" max="5"/></biz></map>"#
        )
    };
    let (mut lost, mut heir) = (Host::of(&map(1664, 366)), Host::of(&map(256, 30)));
    // The total of the day before is at the end of its history.
    let day_before = clock::now() - 86_400_000;
    lost.service.one(Command::Update, "b", "k", 3, day_before).unwrap();
    assert!(lost.update("b", "k", &[]));
    let kept = lost.round();
    assert_eq!((0..10).filter(|_| heir.update("b", "k", &kept)).count(), 1);
    heir.world.verify();
}

// Shows: backup.
#[test]
fn bytes_that_are_not_the_record_of_the_key_are_noticed() {
    let mut host = Host::of(MAP);
    host.update("log", "k", &[]);
    assert_eq!((0..6).filter(|_| host.update("total", "k", &[])).count(), 5, "and a ban");
    for (key, bytes) in host.round() {
        assert!(KeptRecord::decode(&bytes, &key).is_some());
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert_eq!(KeptRecord::decode(&other, &key), None, "{at}");
            }
            assert_eq!(KeptRecord::decode(&bytes[..at], &key), None, "{at}");
        }
        let mut other = key;
        other.field[0] ^= 1;
        assert_eq!(KeptRecord::decode(&bytes, &other), None);
    }
}

#[test]
fn an_erased_record_does_not_come_back_and_a_forgotten_one_does() {
    let mut host = Host::of(MAP);
    (0..5).for_each(|_| assert!(host.update("minute", "k", &[])));
    let kept = host.round();
    let name = RecordName::of_key("minute", "k");
    assert!(matches!(host.courier.erase(name, clock::now()), Ok(Some(_))));
    assert!(host.update("minute", "k", &kept), "erased, and still here");
    assert_eq!((host.service.used("minute", "k", clock::now()), host.round().len()), (1, 1));
    // It is erased in the cluster as well if it is not here.
    stored(&mut host.courier, clock::now()).forget(&kept[0].0).unwrap();
    assert_eq!(host.courier.erase(name, clock::now()), Ok(None));
    assert_eq!(host.round().len(), 1);
    stored(&mut host.courier, clock::now()).forget(&kept[0].0).unwrap();
    assert!(!host.update("minute", "k", &kept), "5 of 5");
    host.world.verify();
}

#[test]
fn a_fresh_record_says_that_the_cluster_has_none_and_evicts_nothing() {
    let mut host = Host::of(MAP);
    let exchange = host.begin(update(&[Ask("minute", "k", 1)]));
    let need = host.needs().remove(0);
    let key = need.need.stored_key();
    stored(&mut host.courier, clock::now()).insert_fresh(&key).unwrap();
    assert_eq!(stored(&mut host.courier, clock::now()).whereabouts(&key), Ok(Whereabouts::Here));
    let mut given_up = exchange;
    host.service.give_up(&mut given_up);
    let next = host.begin(update(&[Ask("minute", "k", 5)]));
    assert_eq!((next.stage, limited(&next)), (Stage::Answered, vec![Ok(false)]));
    // A record that counts stays as it is.
    stored(&mut host.courier, clock::now()).insert_fresh(&key).unwrap();
    assert_eq!(host.service.used("minute", "k", clock::now()), 5);
    host.service.set_wait_room(1000);
    for nth in 0..12 {
        host.update("minute", &nth.to_string(), &[]);
    }
    let fresh: Vec<_> = (100..200)
        .map(|nth| {
            let mut exchange = host.begin(update(&[Ask("minute", &nth.to_string(), 1)]));
            let need = host.needs().remove(0);
            host.service.give_up(&mut exchange);
            let key = need.need.stored_key();
            stored(&mut host.courier, clock::now()).insert_fresh(&key)
        })
        .collect();
    assert!(fresh.contains(&Ok(Inserted::Yes)));
    (0..12)
        .for_each(|nth| assert_eq!(host.service.used("minute", &nth.to_string(), clock::now()), 1));
    host.world.verify();
}
