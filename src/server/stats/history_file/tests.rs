//! Tests of the file on disk: its size, its rounds, and its state after a death at any write.

use super::*;

const T: Millis = 1_700_000_000_000;

fn row(time_ms: Millis, requests: u64) -> HistoryRow {
    let named = HistoryBiz { id: Some(7), allowed: 3, limited: 2, p99_us: Some(90) };
    let others = HistoryBiz { id: None, allowed: 1, limited: 0, p99_us: None };
    HistoryRow {
        time_ms,
        requests,
        allowed: 4,
        limited: 2,
        errors: 1,
        p50_us: Some(5),
        p99_us: None,
        bizs: vec![named, others],
    }
}

fn totals(second_ms: Millis, requests: u64) -> HistoryTotals {
    let biz = BizTotals { allowed: 1, limited: 2, errors: 3 };
    HistoryTotals { second_ms, requests, bizs: BTreeMap::from([(7, biz), (u32::MAX, biz)]) }
}

fn open(dir: &Path) -> HistoryFile {
    HistoryFile::open(dir).unwrap().expect("nobody else has it")
}

// Shows: history-of-the-server.
#[test]
fn rows_and_totals_are_read_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = open(dir.path());
    assert_eq!(file.recover().unwrap(), None);
    for nth in 0..400 {
        file.write_row(Resolution::Second, &row(T + nth * 1000, nth)).unwrap();
        file.commit(&totals(T + nth * 1000, nth)).unwrap();
    }
    assert!(HistoryFile::open(dir.path()).unwrap().is_none(), "one process writes it");
    drop(file);
    let mut file = open(dir.path());
    let now = T + 399_000;
    assert_eq!(file.recover().unwrap(), Some(totals(now, 399)));
    let rows = file.rows(Resolution::Second, 0, now).unwrap();
    let expected: Vec<HistoryRow> = (100..400).map(|nth| row(T + nth * 1000, nth)).collect();
    assert_eq!(rows, expected);
    assert_eq!(file.rows(Resolution::Second, now - 1500, now).unwrap(), expected[297..]);
    // Rows older than a round are gone, whatever the clock says.
    assert_eq!(file.rows(Resolution::Second, 0, now + 300_000).unwrap(), []);
    assert_eq!(file.rows(Resolution::Second, 0, now - 1000).unwrap(), expected[..299]);
    assert_eq!(std::fs::metadata(dir.path().join(NAME)).unwrap().len(), BYTES);
}

// Shows: history-of-the-server.
#[test]
fn seconds_that_were_not_committed_are_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = open(dir.path());
    file.write_row(Resolution::Second, &row(T, 1)).unwrap();
    file.commit(&totals(T, 1)).unwrap();
    file.write_row(Resolution::Second, &row(T + 1000, 2)).unwrap();
    drop(file);
    let mut file = open(dir.path());
    assert_eq!(file.recover().unwrap(), Some(totals(T, 1)));
    assert_eq!(file.rows(Resolution::Second, 0, T + 2000).unwrap(), [row(T, 1)]);
}

// Shows: history-of-the-server.
#[test]
fn a_write_that_was_cut_off_leaves_what_was_there_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = open(dir.path());
    file.write_row(Resolution::Second, &row(T, 1)).unwrap();
    file.commit(&totals(T, 1)).unwrap();
    file.commit(&totals(T + 1000, 2)).unwrap();
    let newest = state_byte(file.sequence % 2);
    // Damages a part of the newest state, and of a row.
    file.write(newest + 24, &[99]).unwrap();
    file.write(Resolution::Second.byte(T) + 16, &[99]).unwrap();
    file.sequence = 0;
    assert_eq!(file.recover().unwrap(), Some(totals(T, 1)));
    assert_eq!(file.rows(Resolution::Second, 0, T).unwrap(), []);
}

// Shows: history-of-the-server.
#[test]
fn another_file_in_its_place_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    for text in ["", "no history", &"x".repeat(BYTES as usize)] {
        std::fs::write(dir.path().join(NAME), text).unwrap();
        let mut file = open(dir.path());
        assert_eq!(file.recover().unwrap(), None);
        assert_eq!(file.rows(Resolution::Minute, 0, T).unwrap(), []);
    }
}
