//! Tests that compare the recorded counts with the real ones, over a day of simulated time with
//! many restarts.

use super::*;
use crate::stats::history_file::{BYTES, NAME};
use frs_store::counter::OUTCOMES;

const T: Millis = 1_700_000_040_000;

/// The counters of a server.
#[derive(Default)]
struct Counted(Sums);

impl Counted {
    fn items(&mut self, id: u32, allowed: u64, limited: u64, us: u64) {
        let biz = self.0.bizs.entry(BizKey::Id(id)).or_default();
        biz.items[1][Outcome::Allowed as usize] += allowed;
        biz.items[0][Outcome::Limited as usize] += limited;
        biz.times.add(us, allowed + limited);
        self.0.request_times.add(us, allowed + limited);
        self.0.requests[1][0] += allowed + limited;
    }
}

fn open(dir: &Path) -> Recorder {
    Recorder::open(dir).unwrap().expect("nobody else records")
}

fn sum(rows: &[HistoryRow]) -> [u64; 3] {
    let add = |[requests, allowed, limited]: [u64; 3], row: &HistoryRow| {
        [requests + row.requests, allowed + row.allowed, limited + row.limited]
    };
    rows.iter().fold([0; 3], add)
}

// Shows: history-of-the-server.
#[test]
fn a_day_with_restarts_is_recorded_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut counted = Counted::default();
    let mut recorder = open(dir.path());
    let seconds = 86_400 + 630;
    recorder.note(T, &counted.0).unwrap();
    for second in 1..=seconds {
        counted.items(1, 3, second % 2, 100);
        counted.items(2, 0, 1, 3000);
        // Some seconds are not recorded, and each hour another process continues.
        if second % 3600 == 0 {
            drop(recorder);
            recorder = open(dir.path());
        }
        if second % 977 != 0 || second == seconds {
            recorder.note(T + second * 1000, &counted.0).unwrap();
        }
    }
    let now = T + seconds * 1000;
    let (step, rows) = recorder.rows(Resolution::Minute.span_ms(), now).unwrap();
    assert_eq!((step, rows.len()), (Resolution::Minute, 1440));
    // The oldest minutes are gone.
    let first_s = (rows[0].time_ms - T) / 1000 + 1;
    let recorded = seconds - first_s + 1;
    let [requests, allowed, limited] = sum(&rows);
    assert_eq!(allowed, 3 * recorded);
    assert!(limited.abs_diff(recorded * 3 / 2) <= 1 && requests == allowed + limited);
    for row in &rows[1..1439] {
        assert!(row.allowed.abs_diff(180) <= 3, "{row:?}");
        assert_eq!((row.bizs[0].id, row.bizs[1].id), (Some(1), Some(2)));
        assert!(row.bizs[1].limited.abs_diff(60) <= 1, "{row:?}");
        assert!(row.bizs[1].p99_us >= Some(3000) && row.bizs[0].p99_us <= Some(125), "{row:?}");
        assert!(row.p50_us <= Some(125) && row.p99_us >= Some(3000), "{row:?}");
    }
    let (step, rows) = recorder.rows(60_000, now).unwrap();
    assert_eq!(step, Resolution::Second);
    let last: Vec<u64> = rows.iter().rev().take(3).map(|row| row.allowed).collect();
    assert_eq!(last, [3, 3, 3]);
    assert_eq!(std::fs::metadata(dir.path().join(NAME)).unwrap().len(), BYTES);
}

// Shows: history-of-the-server.
#[test]
fn what_is_counted_while_nobody_records_is_in_the_next_row() {
    let dir = tempfile::tempdir().unwrap();
    let mut counted = Counted::default();
    let mut recorder = open(dir.path());
    recorder.note(T, &counted.0).unwrap();
    counted.items(1, 5, 0, 10);
    recorder.note(T + 1000, &counted.0).unwrap();
    drop(recorder);
    counted.items(1, 7, 0, 10);
    let mut recorder = open(dir.path());
    recorder.note(T + 1500, &counted.0).unwrap();
    recorder.note(T + 9000, &counted.0).unwrap();
    let (_, rows) = recorder.rows(60_000, T + 9000).unwrap();
    assert_eq!(rows.iter().map(|row| row.allowed).collect::<Vec<_>>(), [5, 7]);
    let (_, rows) = recorder.rows(600_000, T + 9000).unwrap();
    assert_eq!(sum(&rows), [12, 12, 0]);
    // The counters begin anew.
    let mut anew = Counted::default();
    anew.items(1, 2, 0, 10);
    recorder.note(T + 10_000, &anew.0).unwrap();
    let (_, rows) = recorder.rows(60_000, T + 10_000).unwrap();
    assert_eq!(rows.last().map(|row| row.allowed), Some(2));
}

// Shows: history-of-the-server.
#[test]
fn a_second_that_was_not_committed_is_in_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let mut counted = Counted::default();
    let mut recorder = open(dir.path());
    for second in 1..=90 {
        counted.items(1, 2, 0, 10);
        recorder.note(T + second * 1000, &counted.0).unwrap();
        // Another process continues, as if this one had died before its commit.
        let last = recorder.last.clone().unwrap();
        counted.items(1, 1, 0, 10);
        if recorder.note(T + second * 1000 + 1000, &counted.0).is_ok() {
            recorder.file.commit(&last).unwrap();
        }
        drop(recorder);
        recorder = open(dir.path());
    }
    counted.items(1, 2, 0, 10);
    recorder.note(T + 92_000, &counted.0).unwrap();
    // Counts of the first record are in no row, because they are the base.
    for back_ms in [200_000, 600_000] {
        let (_, rows) = recorder.rows(back_ms, T + 92_000).unwrap();
        assert_eq!(sum(&rows)[1], 90 * 3, "{back_ms}");
    }
}

// Shows: history-of-the-server.
#[test]
fn a_clock_that_steps_back_a_minute_loses_none_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut counted = Counted::default();
    let mut recorder = open(dir.path());
    for second in (0..90).chain(30..120) {
        counted.items(1, 1, 0, 10);
        recorder.note(T + second * 1000, &counted.0).unwrap();
    }
    let (_, rows) = recorder.rows(600_000, T + 120_000).unwrap();
    assert_eq!(sum(&rows)[1], 179, "all but the first look's");
}

#[test]
fn the_busiest_have_names_and_the_rest_is_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut counted = Counted::default();
    let mut recorder = open(dir.path());
    recorder.note(T, &counted.0).unwrap();
    (1..=300).for_each(|id| counted.items(id, u64::from(id), 1, 10));
    counted.0.bizs.entry(BizKey::Unknown).or_default().items = [[0; OUTCOMES], [1; OUTCOMES]];
    recorder.note(T + 1000, &counted.0).unwrap();
    for back_ms in [60_000, 600_000] {
        let (_, rows) = recorder.rows(back_ms, T + 1000).unwrap();
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!(row.bizs.len(), ROW_BIZS + 1);
        assert_eq!((row.bizs[0].id, row.bizs[255].id), (Some(300), Some(45)));
        // The businesses 1 to 44, and the three outcomes of passed items of no known business.
        let others =
            HistoryBiz { id: None, allowed: 44 * 45 / 2 + 3, limited: 44 + 2, p99_us: None };
        assert_eq!(row.bizs[256], others);
        let allowed: u64 = row.bizs.iter().map(|biz| biz.allowed).sum();
        assert_eq!((row.allowed, row.errors), (allowed, 1));
    }
}
