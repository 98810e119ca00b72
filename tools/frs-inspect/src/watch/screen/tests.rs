//! Screens of made-up figures, in several sizes.

use frs_store::Rank;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::super::columns::width;
use super::super::figures::CounterGrowth;
use super::super::health::ServerHealth;
use super::*;
use crate::counters::ItemCounts;

/// The lines of a screen without trailing spaces. Checks that no line is wider than the screen, and
/// that their number is that of the screen.
#[track_caller]
fn drawn(
    figures: Option<&WatchFigures>,
    choice: &Choice,
    columns: usize,
    lines: usize,
) -> Vec<String> {
    let size = Size { columns, lines };
    let found = screen("data", figures, choice, size);
    assert_eq!(found.len(), lines, "{columns} x {lines}");
    let text = |line: &Line<'_>| {
        let text = line.to_string();
        assert!(width(&text) <= columns, "{columns} x {lines}: {text:?}");
        assert!(!text.contains(char::is_control), "{text:?}");
        text.trim_end().to_owned()
    };
    found.iter().map(text).collect()
}

/// Draws a busy server. Expects these lines, empty lines, and the last line.
#[track_caller]
fn assert_drawn(figures: &WatchFigures, size: Size, [head, lists, keys]: [&str; 3]) {
    let parts = [head, lists].into_iter().flat_map(|part| part.trim_matches('\n').lines());
    let mut expected: Vec<&str> = parts.collect();
    expected.resize(size.lines - 1, "");
    expected.push(keys);
    let found = drawn(Some(figures), &Choice::default(), size.columns, size.lines);
    assert_eq!(found, expected, "found:\n{}\n", found.join("\n"));
}

/// A healthy server with traffic.
fn busy() -> WatchFigures {
    let hot = |(key, used, rank): (&str, u64, Rank)| HotLine {
        key: key.to_owned(),
        used,
        more: used / 10,
        is_fresh: true,
        rank,
        last_use_ms: 61_000,
    };
    let hottest = [("alice", 1_000, Rank::Limiting), ("bob\n", 120, Rank::Idle)].map(hot).to_vec();
    let biz = |(name, passed, refused): (&str, u64, u64)| BizLine {
        name: name.to_owned(),
        items: ItemCounts { all: passed + refused, passed, refused, errors: 0 },
        keys: 4_000,
        limited: 12,
        uses: passed,
        hottest: hottest.clone(),
    };
    let group = GroupLine {
        name: "default".to_owned(),
        live: 4_000,
        limiting: 12,
        expired: 96,
        places: 8_192,
        evicted_limiting: CounterGrowth { all: 1, more: 0 },
        is_moving: false,
    };
    WatchFigures {
        now_ms: 62_000,
        generation: 3,
        seconds: Some(1.0),
        health: ServerHealth {
            master: MasterState::Runs(4711),
            workers: 2,
            workers_wanted: 2,
            connections: 64,
            ..ServerHealth::default()
        },
        requests: CounterGrowth { all: 1_234_567, more: 12_345 },
        items: ItemCounts { all: 12_400, passed: 11_000, refused: 1_400, errors: 0 },
        groups: vec![group],
        bizs: [("api", 10_000, 0), ("login", 100, 1_400), ("sms", 900, 0)].map(biz).to_vec(),
        counted: vec![
            CounterLine { name: "items", growth: CounterGrowth { all: 1_300_000, more: 12_400 } },
            CounterLine { name: "nodes created", growth: CounterGrowth { all: 4_096, more: 5 } },
        ],
        refused: Vec::new(),
    }
}

/// A busy server with this many businesses. Those with higher numbers have more traffic.
fn crowd(bizs: u64) -> WatchFigures {
    let mut figures = busy();
    let biz = |nth| BizLine {
        name: format!("business-{nth}"),
        items: ItemCounts { all: nth, passed: nth, refused: 0, errors: 0 },
        ..figures.bizs[1].clone()
    };
    figures.bizs = (1..=bizs).map(biz).collect();
    figures
}

/// The lists at 80 columns or more.
const LISTS: &str = r#"
group       full  limiting evicted  per s   live  limiting  expired  places
default  50.00 %                 1    0.0  4,000        12       96   8,192
hot keys of api   used     state  uses/s  last used
"alice"          1,000  limiting   100.0  1.0 s ago
"bob\n"            120      idle    12.0  1.0 s ago
counted         per s     in all
items          12,400  1,300,000
nodes created     5.0      4,096
"#;
const KEYS: &str = "q quit  ↑↓ choose  PgUp PgDn page  s sort  / filter  Home End";

#[test]
fn at_60_by_20() {
    let head = r#"
healthy  generation 3  2 of 2 workers  restarts 0
requests 12,345/s  limited 11.29 %  errors 0.0/s
business by traffic  allowed/s  limited/s  limited  errors/s
api                     10,000        0.0      0 %       0.0
login                    100.0      1,400  93.33 %       0.0
sms                      900.0        0.0      0 %       0.0
"#;
    let lists = LISTS.replace("  expired  places", "").replace("       96   8,192", "");
    let keys = KEYS.trim_end_matches("  Home End");
    assert_drawn(&busy(), Size { columns: 60, lines: 20 }, [head, &lists, keys]);
}

#[test]
fn at_80_by_24() {
    let head = r#"
healthy  generation 3  2 of 2 workers  restarts 0  process 4711  00:01:02Z  data
requests 12,345/s  limited 11.29 %  errors 0.0/s  items 12,400/s  connections 64
business by traffic  allowed/s  limited/s  limited  errors/s  keys limited
api                     10,000        0.0      0 %       0.0            12
login                    100.0      1,400  93.33 %       0.0            12
sms                      900.0        0.0      0 %       0.0            12
"#;
    assert_drawn(&busy(), Size { columns: 80, lines: 24 }, [head, LISTS, KEYS]);
}

#[test]
fn at_120_by_40() {
    let head = r#"
healthy  generation 3  2 of 2 workers  restarts 0  process 4711  00:01:02Z  data
requests 12,345/s  limited 11.29 %  errors 0.0/s  items 12,400/s  connections 64  requests in all 1,234,567
business by traffic  allowed/s  limited/s  limited  errors/s  keys limited   keys  uses/s
api                     10,000        0.0      0 %       0.0            12  4,000  10,000
login                    100.0      1,400  93.33 %       0.0            12  4,000   100.0
sms                      900.0        0.0      0 %       0.0            12  4,000   900.0
"#;
    assert_drawn(&busy(), Size { columns: 120, lines: 40 }, [head, LISTS, KEYS]);
}

#[test]
fn who_is_refused_stands_below_the_businesses() {
    let mut figures = busy();
    let node = |(key, refused): (&str, u64)| RefusedNode {
        biz: "login".to_owned(),
        key: key.to_owned(),
        begins: None,
        refused,
        error: 3,
        last_ms: 61_000,
    };
    figures.refused = [("203.0.113.66", 12_000), ("mal\n", 7)].map(node).to_vec();
    let found = drawn(Some(&figures), &Choice::default(), 60, 20);
    let expected = [
        r#"refused in 1 m  business  refused  error       last"#,
        r#""203.0.113.66"     login   12,000      3  1.0 s ago"#,
        r#""mal\n"            login        7      3  1.0 s ago"#,
    ];
    assert_eq!(found[6..9], expected, "found:\n{}", found.join("\n"));
}

#[test]
fn no_data_yet() {
    let found = drawn(None, &Choice::default(), 60, 20);
    assert_eq!(found[0], "looking into data …");
    assert!(found[19].starts_with("q quit"), "{found:?}");
    // The first look has no rates.
    let first = WatchFigures { seconds: None, ..busy() };
    let found = drawn(Some(&first), &Choice::default(), 60, 20);
    assert!(found[1].starts_with("requests –/s"), "{found:?}");
}

#[test]
fn two_hundred_businesses() {
    use ratatui::crossterm::event::KeyCode::{Char, Down, End, PageDown};
    let figures = crowd(200);
    let mut choice = Choice::default();
    let size = Size { columns: 60, lines: 20 };
    let press = |choice: &mut Choice, key: KeyCode| {
        let page = page(&figures, choice, size);
        choice.press(KeyEvent::from(key), &figures.bizs, page);
        drawn(Some(&figures), choice, 60, 20)
    };
    let found = drawn(Some(&figures), &choice, 60, 20);
    assert!(found[3].starts_with("business-200  "), "{found:?}");
    let more = |found: &[String]| found.iter().find(|line| line.starts_with("+ ")).cloned();
    assert_eq!(more(&found).as_deref(), Some("+ 190 more (1 to 10 of 200)"), "{found:?}");
    let found = press(&mut choice, PageDown);
    assert!(found[3].starts_with("business-190  "), "{found:?}");
    assert!(found.iter().any(|line| line.starts_with("hot keys of business-190")));
    let found = press(&mut choice, Down);
    assert!(found[3].starts_with("business-190  "), "the same page: {found:?}");
    assert!(found.iter().any(|line| line.starts_with("hot keys of business-189")), "{found:?}");
    let found = press(&mut choice, End);
    assert_eq!(more(&found).as_deref(), Some("+ 190 more (191 to 200 of 200)"));
    press(&mut choice, Char('/'));
    press(&mut choice, Char('1'));
    press(&mut choice, Char('7'));
    let found = press(&mut choice, Char('7'));
    assert!(found[2].starts_with("business with 177"), "{found:?}");
    assert!(found[3].starts_with("business-177  "), "{found:?}");
    assert_eq!(found[19], "name has: 177_  Enter keeps  Esc ends");
}

// Shows: watch.
#[test]
fn names_and_keys_of_any_characters() {
    let mut figures = busy();
    figures.bizs[0].name = "a-name-that-is-longer-than-its-column-may-be".repeat(3);
    figures.bizs[1].name = "登录登录登录登录登录登录登录登录登录登录".to_owned();
    figures.bizs[2].name = "red \u{1b}[31m\u{202e}".to_owned();
    figures.groups[0].name = "群组".repeat(20);
    let keys = ["\u{1b}[2J\r\n\t\0", "汉字汉字汉字汉字汉字汉字汉字汉字汉字", "\u{9b}1m\u{200f}"];
    for (hot, key) in std::iter::repeat_n(figures.bizs[0].hottest[0].clone(), 3).zip(keys) {
        figures.bizs[0].hottest.push(HotLine { key: key.to_owned(), ..hot });
    }
    let found = drawn(Some(&figures), &Choice::default(), 60, 20).join("\n");
    for line in [
        "a-name-that-is-longer-than-i…     10,000        0.0      0 %",
        "登录登录登录登录登录登录登录…      100.0      1,400  93.33 %",
        r"red \u{1b}[31m\u{202e}             900.0        0.0      0 %",
        "群组群组群组群组群组群组…   50.00 %                 1    0.0",
        "hot keys of a-name-that…   used     state  uses/s  last used",
        r#""\u{1b}[2J\r\n\t\0"       1,000  limiting   100.0  1.0 s ago"#,
        "\"汉字汉字汉字汉字汉字汉…  1,000  limiting   100.0  1.0 s ago",
        r#""\u{9b}1m\u{200f}"        1,000  limiting   100.0  1.0 s ago"#,
    ] {
        assert!(found.contains(line), "{line} in\n{found}");
    }
}

// Shows: watch.
#[test]
fn a_dead_worker_and_all_that_is_wrong_come_first() {
    let mut figures = busy();
    figures.health = ServerHealth {
        workers: 1,
        restarts: 3,
        missing: vec!["keeper"],
        flush_failed: true,
        checkpoints_failing_since_ms: Some(2_000),
        degraded: true,
        faults: vec!["/a/long/path".repeat(9)],
        ..figures.health
    };
    figures.groups[0].evicted_limiting.more = 7;
    let found = drawn(Some(&figures), &Choice::default(), 60, 20);
    let expected = [
        "5 problems  generation 3  1 of 2 workers  restarts 3",
        "requests 12,345/s  limited 11.29 %  errors 0.0/s",
        "workers: 1 of 2 are there",
        "flush failed: files are not written back to the disk",
        "checkpoints fail: none was completed for 60.0 s",
        "keeper: not there",
        "+ 2 more remarks",
        "business by traffic  allowed/s  limited/s  limited  errors/s",
    ];
    assert_eq!(found[..8], expected);
    let found = drawn(Some(&figures), &Choice::default(), 80, 24);
    assert!(found[6].starts_with("/a/long/path/a/long") && found[6].ends_with('…'), "{found:?}");
    assert_eq!(found[7], "degraded: nothing is limited");
    figures.health = ServerHealth { degraded: true, ..busy().health };
    let found = drawn(Some(&figures), &Choice::default(), 60, 20);
    assert!(found[0].starts_with("healthy, degraded  generation 3"), "{found:?}");
    figures.health = ServerHealth::default();
    let found = drawn(Some(&figures), &Choice::default(), 60, 20);
    assert_eq!(
        [&*found[0], &*found[2]],
        ["1 problem  generation 3  00:01:02Z  data", "server: not running"]
    );
}

// Shows: watch.
#[test]
fn large_figures_are_whole_in_every_width() {
    let mut figures = busy();
    let all = u64::MAX / 4;
    figures.items = ItemCounts { all, passed: all, refused: all, errors: all };
    figures.requests.more = all;
    for biz in &mut figures.bizs {
        (biz.keys, biz.limited, biz.uses) = (all, all, all);
        biz.items = figures.items;
    }
    for columns in 0..300 {
        for line in drawn(Some(&figures), &Choice::default(), columns, 30) {
            // Each figure that begins like this one must be whole.
            for figure in line.split_whitespace().filter(|word| word.starts_with("4,611")) {
                let whole = ["4,611,686,018,427,387,903", "4,611,686,018,427,387,904"];
                let figure = figure.trim_end_matches("/s");
                assert!(whole.contains(&figure), "{columns}: {line}");
            }
        }
    }
}

#[test]
fn no_size_of_the_screen_panics() {
    for figures in [None, Some(&WatchFigures::default()), Some(&busy()), Some(&crowd(300))] {
        for columns in (0..130).step_by(3) {
            for lines in (0..45).step_by(2) {
                drawn(figures, &Choice::default(), columns, lines);
            }
        }
    }
}
