//! The judge over a store whose cluster never answers.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::lease_queue;
use crate::ready_call::CallVerdicts;
use crate::status::StatusCode;
use frs::Verdict;
use frs_engine::testing::World;

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="4096" chain="8" node-size="640"/>
  <biz id="1" name="local" key="string"><limit policy="interval" interval="1h" max="9"/></biz>
  <biz id="2" name="wait" key="string" share="cluster" hosts="2" wait="1000ms" on-miss="admit">
    <limit policy="interval" interval="1h" max="9"/></biz>
</map>"#;

const WAIT: Duration = Duration::from_secs(1);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn charges(biz: u32, keys: &[&str]) -> Vec<Charge> {
    let charge = |key: &&str| Charge { biz, key: (*key).to_owned(), count: 1, ..Charge::default() };
    keys.iter().map(charge).collect()
}

/// A running judge.
fn started(world: &World) -> Arc<Judge> {
    let judge = Arc::new(Judge::attach(&world.dir).expect("attached"));
    let running = Arc::clone(&judge);
    tokio::spawn(async move { running.run().await });
    judge
}

fn used(judged: &CallVerdicts) -> Vec<Option<u64>> {
    judged.as_ref().expect("judged").iter().map(Verdict::used).collect()
}

/// Begins a call, which must not end yet.
async fn begin(mut call: Pin<&mut impl Future<Output = CallVerdicts>>) {
    std::future::poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

// Shows: envoy-waits.
#[test]
fn calls_that_wait_hold_up_no_other() {
    let world = frs_cluster::testing::shared(MAP);
    runtime().block_on(async {
        let judge = started(&world);
        let mut calls = Vec::new();
        for nth in 0..40 {
            let judge = Arc::clone(&judge);
            calls.push(tokio::spawn(async move {
                let key = format!("k{nth}");
                let both = [charges(2, &[&key]), charges(1, &[&key])].concat();
                judge.judge(both, nth % 2 == 0, None, None).await
            }));
            // One turn for each call, so that all threads wait.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let begun = Instant::now();
        for nth in 1..6 {
            assert_eq!(
                used(&judge.judge(charges(1, &["k"]), false, None, None).await),
                [Some(nth)]
            );
        }
        let took = begun.elapsed();
        assert!(took < WAIT / 2, "{took:?}");
        for call in calls {
            assert_eq!(used(&call.await.expect("no panic")), [Some(1); 2]);
        }
        // Later calls wait for the first ones, and then together, not one by one.
        let took = begun.elapsed();
        assert!(took < 4 * WAIT, "{took:?}");
    });
}

// Shows: envoy-waits.
#[test]
fn a_call_whose_client_has_gone_is_not_charged() {
    let world = frs_cluster::testing::shared(MAP);
    runtime().block_on(async {
        let judge = started(&world);
        for is_atomic in [false, true] {
            {
                let mut gone =
                    pin!(judge.judge(charges(1, &["gone", "too"]), is_atomic, None, None));
                begin(gone.as_mut()).await;
            }
            assert_eq!(used(&judge.judge(charges(1, &["here"]), false, None, None).await).len(), 1);
        }
        // All threads wait for other calls when these calls are given up.
        let mut waiting = Vec::new();
        for nth in 0..lease_queue::THREADS {
            let judge = Arc::clone(&judge);
            waiting.push(tokio::spawn(async move {
                judge.judge(charges(2, &[&format!("k{nth}")]), false, None, None).await
            }));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        {
            let mut gone = pin!(judge.judge(charges(2, &["late", "later"]), true, None, None));
            begin(gone.as_mut()).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for call in waiting {
            assert_eq!(used(&call.await.expect("no panic")), [Some(1)]);
        }
        let now = [charges(1, &["gone", "too"]), charges(2, &["late", "later"])].concat();
        assert_eq!(used(&judge.judge(now, false, None, None).await), [Some(1); 4]);
    });
}

// Shows: envoy-waits.
#[test]
fn no_more_calls_wait_than_there_is_room_for() {
    let world = frs_cluster::testing::shared(MAP);
    runtime().block_on(async {
        let judge = started(&world);
        let calls: Vec<_> = (0..lease_queue::CALLS_MAX + 20)
            .map(|nth| {
                let judge = Arc::clone(&judge);
                let key = format!("k{nth}");
                tokio::spawn(
                    async move { judge.judge(charges(2, &[&key]), false, None, None).await },
                )
            })
            .collect();
        let mut refused = 0;
        for call in calls {
            match call.await.expect("no panic") {
                Ok(verdicts) => assert_eq!(verdicts.len(), 1),
                Err(status) => {
                    assert_eq!(status.code, StatusCode::Unavailable);
                    assert!(status.message.starts_with("busy: 1024 calls"), "{status}");
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 20);
        assert!(
            judge.judge(charges(2, &["k"]), false, None, None).await.is_ok(),
            "there is room again"
        );
    });
}

// Shows: envoy-waits.
#[test]
fn calls_of_a_turn_are_grouped_and_each_has_its_own_answer() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="64" chain="8" node-size="128"/>
        <biz id="1" name="local" key="string"><limit policy="total" max="1000"/></biz></map>"#,
    );
    runtime().block_on(async {
        let judge = started(&world);
        let calls: Vec<_> = (0..600)
            .map(|nth| {
                let judge = Arc::clone(&judge);
                tokio::spawn(async move {
                    let biz = if nth % 5 == 4 { 9 } else { 1 };
                    judge
                        .judge(charges(biz, &["k", "l"][..1 + nth % 2]), nth % 3 == 0, None, None)
                        .await
                })
            })
            .collect();
        for (nth, call) in calls.into_iter().enumerate() {
            match call.await.expect("no panic") {
                Ok(verdicts) => assert_eq!((verdicts.len(), nth % 5 == 4), (1 + nth % 2, false)),
                Err(status) => assert!(nth % 5 == 4, "{nth}: {status}"),
            }
        }
        let charged = (0..600).filter(|nth| nth % 5 != 4);
        let twice = charged.clone().filter(|nth| nth % 2 == 1).count() as u64;
        let charged = charged.count() as u64;
        let last = judge.judge(charges(1, &["k", "l"]), false, None, None).await;
        assert_eq!(used(&last), [Some(charged + 1), Some(twice + 1)]);
    });
}
