//! `frs-inspect watch` on terminals of several sizes, beside servers with traffic.

use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};

use crate::common::plane::{Plane, ask};
use crate::common::terminal::{Size, Terminal};
use crate::common::{Setup, text, tools};

const SMALL: Size = Size { columns: 60, rows: 20 };
const USUAL: Size = Size { columns: 80, rows: 24 };

/// Load at a constant rate, until this is dropped.
struct Load(Child);

impl Load {
    fn start(setup: &Setup, words: &str) -> Load {
        let url = format!("http://{}", setup.address);
        let mut command = Command::new(tools::tool("frs-load"));
        command.arg(url).args(words.split_whitespace()).stdout(Stdio::null());
        Load(command.spawn().expect("frs-load runs"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn watch(setup: &Setup, size: Size) -> Terminal {
    Terminal::start(&setup.inspector(&["watch", "data"]), size)
}

/// The words of the line that begins with `name`.
fn row<'l>(lines: &'l [String], name: &str) -> Option<Vec<&'l str>> {
    let words = |line: &'l String| line.split_whitespace().collect::<Vec<_>>();
    lines.iter().map(words).find(|words| words.first() == Some(&name))
}

fn number(word: &str) -> Option<f64> {
    word.replace(',', "").parse().ok()
}

/// Whether two rates of different seconds belong to the same load.
fn are_alike(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.25 * one.max(other)
}

/// A business's rate in the last second, by `/stats`.
fn rate_by_stats(plane: &Plane, biz: &str, outcome: &str) -> Option<f64> {
    let fields = "Accept: application/json\r\n";
    let stats = ask(&mut plane.client(), "GET", "/stats", fields, "").expect("an answer").body;
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    let biz = stats["bizs"].as_array()?.iter().find(|one| one["name"] == biz)?;
    let rate = biz["rates"].as_array()?.iter().find(|rate| rate["over"] == 1000)?;
    rate[outcome].as_f64()
}

/// A figure of a group, by `frs-inspect stat`.
fn by_stat(setup: &Setup, name: &str) -> String {
    let said = text(&setup.inspect(&["stat", "data"]).stdout);
    let line = said.lines().find(|line| line.trim_start().starts_with(name)).expect(&said);
    line.split_whitespace().nth(1).expect("a figure").to_owned()
}

// Shows: watch.
#[test]
fn watch_shows_what_the_server_counts_on_small_screens() {
    let plane = Plane::new(2);
    let server = plane.start(2);
    let setup = &plane.setup;
    let loads = [
        Load::start(setup, "--biz plenty --keys 10 --rate 200 --connections 4 --duration 1h"),
        Load::start(setup, "--biz three --keys 4 --rate 100 --connections 4 --duration 1h"),
    ];
    for size in [SMALL, USUAL] {
        let mut terminal = watch(setup, size);
        terminal.wait_for("the rates of /stats", |lines| {
            assert!(lines.iter().all(|line| line.chars().count() <= size.columns.into()));
            let plenty = row(lines, "plenty")?;
            let allowed = rate_by_stats(&plane, "plenty", "allowed")?;
            are_alike(number(plenty[1])?, allowed).then_some(())
        });
        terminal.wait_for("the rates of a business that refuses", |lines| {
            let three = row(lines, "three")?;
            let limited = rate_by_stats(&plane, "three", "limited")?;
            let is_so = are_alike(number(three[2])?, limited)
                && three[3..5] == ["100.00", "%"]
                && lines[0].starts_with("healthy  generation 1  2 of 2 workers");
            is_so.then_some(())
        });
        terminal.wait_for("the requests of both", |lines| {
            let all = row(lines, "requests")?[1].strip_suffix("/s")?;
            are_alike(number(all)?, 300.0).then_some(())
        });
        terminal.wait_for("the group as stat shows it", |lines| {
            let group = row(lines, "default")?;
            let is_so = group[1..6] == ["1.36", "%", "0", "0.0", &by_stat(setup, "live")]
                && group[6] == by_stat(setup, "limiting");
            is_so.then_some(())
        });
        terminal.press("q");
        let left = terminal.left();
        assert!(left.status.success() && left.is_restored, "{}", left.said);
    }
    drop(loads);
    let mut terminal = watch(setup, SMALL);
    let used = server.client().get("/query?biz=plenty&key=k0");
    let used = used.attribute("used").expect("used").to_owned();
    terminal.wait_for("no traffic, who was refused, and the uses of a key", |lines| {
        let begins = |heading: &str| lines.iter().position(|line| line.starts_with(heading));
        let refused = row(&lines[begins("refused in 1 m")?..], "\"k0\"")?;
        let key = row(&lines[begins("hot keys of plenty")?..], "\"k0\"")?;
        let is_so = key[1].replace(',', "") == used
            && refused[1] == "three"
            && lines[1].starts_with("requests 0.0/s  limited –");
        is_so.then_some(())
    });
}

// Shows: watch.
#[test]
fn watch_says_who_is_missing_and_that_limits_are_off() {
    let plane = Plane::new(2);
    let server = plane.start(2);
    let mut terminal = watch(&plane.setup, SMALL);
    terminal.wait_for("healthy", |lines| lines[0].starts_with("healthy  ").then_some(()));
    let worker = server.workers()[0];
    // A stopped master does not replace the worker.
    server.signal(Signal::SIGSTOP);
    kill(worker, Signal::SIGKILL).expect("killed");
    terminal.wait_for("the dead worker", |lines| {
        let is_missed = lines[2] == "workers: 1 of 2 are there";
        (is_missed && lines[0].starts_with("1 problem  ")).then_some(())
    });
    server.signal(Signal::SIGCONT);
    terminal.wait_for("its replacement", |lines| {
        let is_replaced = lines[0].contains("2 of 2 workers  restarts 1");
        (is_replaced && lines[0].starts_with("healthy  ")).then_some(())
    });
    plane.ask("POST", "/degrade?on=true", "");
    terminal.wait_for("degraded", |lines| {
        let is_said = lines.iter().any(|line| line == "degraded: nothing is limited");
        (is_said && lines[0].starts_with("healthy, degraded  ")).then_some(())
    });
}

// Shows: watch.
#[test]
fn watch_follows_keys_and_the_size_of_the_terminal() {
    let bizs: String = (1..=200)
        .map(|id| {
            let limit = "<limit policy='interval' interval='1h' max='9'/>";
            format!("<biz id='{id}' name='business-{id}' key='string'>{limit}</biz>")
        })
        .collect();
    let group = "<group name='default' files='1' key-nodes='64' chain='8' node-size='128'/>";
    let setup = Setup::of_map(&format!("<map>{group}{bizs}</map>"));
    let server = setup.start();
    server.client().charge("business-77", "alice", 2);
    let mut terminal = watch(&setup, SMALL);
    let has = |lines: &[String], start: &str| lines.iter().any(|line| line.starts_with(start));
    terminal.wait_for("the first page", |lines| {
        let first = lines[3].starts_with("business-1 ");
        (first && has(lines, "+ 189 more (1 to 11 of 200)")).then_some(())
    });
    // Page down.
    terminal.press("\x1b[6~");
    terminal.wait_for("the next page", |lines| lines[3].starts_with("business-12 ").then_some(()));
    for size in [USUAL, Size { columns: 120, rows: 40 }, Size { columns: 30, rows: 9 }, SMALL] {
        let Some(()) = terminal.resize(size) else { return };
        terminal.wait_for("all of the new size", |lines| {
            let help = lines[usize::from(size.rows) - 1].starts_with("q quit");
            let state = lines[0].starts_with("healthy") && lines[2].starts_with("business");
            (help && state).then_some(())
        });
    }
    terminal.press("/-77");
    terminal.wait_for("the one that is asked for", |lines| {
        let is_typing = lines[19].starts_with("name has: -77_");
        let is_shown = lines[3].starts_with("business-77 ") && row(lines, "\"alice\"").is_some();
        (is_typing && is_shown && has(lines, "hot keys of business-77")).then_some(())
    });
    // Ctrl-C ends `watch`, even while a filter is typed.
    terminal.press("\x03");
    let left = terminal.left();
    assert!(left.status.success() && left.is_restored, "{}", left.said);
}
