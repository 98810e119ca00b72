//! A keeper that is stopped by a signal: no process waits for it forever.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{Server, Settings, Setup, is_alive, text, wait_until};

fn setup(data: &str) -> Setup {
    let more = format!("<data {data}/>");
    Setup::new(&Settings { more, ..Settings::default() })
}

fn stop_keeper(server: &Server<'_>) -> Pid {
    let keeper = wait_until("a keeper is attached", || server.attached("keeper").pop());
    kill(keeper, Signal::SIGSTOP).expect("stopped");
    keeper
}

// Shows: stopped-keeper.
#[test]
fn one_term_ends_a_server_whose_keeper_is_stopped() {
    for (data, is_saved) in [("flush=\"24h\"", true), ("checkpoint=\"24h\"", false)] {
        let setup = setup(data);
        let mut server = setup.start();
        server.client().charge("plenty", "alice", 7);
        let keeper = stop_keeper(&server);
        let stopped = setup.frs(&["stop"]);
        let said = text(&stopped.stderr);
        assert_eq!(stopped.status.success(), is_saved, "{data}: {said}");
        assert_eq!(said.contains("its last checkpoint was not made"), !is_saved, "{said}");
        server.wait();
        assert!(!is_alive(keeper));
    }
}

// Shows: stopped-keeper.
#[test]
fn who_waits_for_a_checkpoint_learns_that_the_keeper_is_stopped() {
    let setup = setup("checkpoint=\"24h\"");
    let server = setup.start();
    let keeper = stop_keeper(&server);
    let refused = setup.frs(&["checkpoint"]);
    let said = text(&refused.stderr);
    let named = format!("the keeper (process {keeper}) is stopped by a signal");
    assert!(!refused.status.success() && said.contains(&named), "{said}");
    kill(keeper, Signal::SIGCONT).expect("continued");
    let made = setup.frs(&["checkpoint"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
}
