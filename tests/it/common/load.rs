//! Load that continues while a test acts on a server.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::{Client, wait_until};

pub const CLIENTS: usize = 6;

/// Runs clients while `act` runs. Each client charges its own key of `plenty` (`load0`, …) without
/// a pause. Half of the clients reconnect for each request. A failed request fails the test.
/// Returns the number of answers that each client received.
pub fn under_load(address: SocketAddr, act: impl FnOnce(&AtomicU64)) -> Vec<u64> {
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let ends = UntilDropped(&stop);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|nth| {
                let (stop, answered) = (&stop, &answered);
                scope.spawn(move || {
                    let (mut client, mut own) = (Client::connect(address), 0);
                    while !stop.load(Ordering::Relaxed) {
                        let answer = client.get(&format!("/update?biz=plenty&key=load{nth}"));
                        assert_eq!(answer.status, 200, "{answer:?}");
                        own += 1;
                        answered.fetch_add(1, Ordering::Relaxed);
                        if answer.closes() || nth % 2 == 0 {
                            client = Client::connect(address);
                        }
                    }
                    own
                })
            })
            .collect();
        wait_for_more(&answered, 100);
        act(&answered);
        wait_for_more(&answered, 100);
        drop(ends);
        clients.into_iter().map(|client| client.join().expect("no request failed")).collect()
    })
}

/// Tells threads to end when it is dropped, including by a panic.
pub struct UntilDropped<'a>(pub &'a AtomicBool);

impl Drop for UntilDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub fn wait_for_more(answered: &AtomicU64, more: u64) {
    let begun = answered.load(Ordering::Relaxed);
    wait_until("more is answered", || {
        (answered.load(Ordering::Relaxed) >= begun + more).then_some(())
    });
}
