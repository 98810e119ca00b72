//! The history file of a server that has run for a day.

use frs_base::clock;
use frs_server::stats::history_file::{
    HistoryBiz, HistoryFile, HistoryRow, HistoryTotals, Resolution,
};

use crate::common::plane::Plane;

/// The allowed items of each second, one of them of `three`.
pub const ALLOWED: u64 = 10;
/// The refused items of each second, at first all of `plenty`. In the last minute of the rows by
/// second, and in the last ten minutes of the rows by minute, all but one are of `three`.
pub const REFUSED: u64 = 5;
/// Microseconds.
pub const P50_US: u32 = 40;
pub const P99_US: u32 = 300;
const SECOND_MS: u64 = 1000;

/// Writes the last 24 hours into the data directory of a stopped server.
pub fn write_day(plane: &Plane) {
    let now_ms = clock::now();
    let dir = plane.setup.path("data");
    std::fs::create_dir_all(&dir).expect("created");
    let mut file = HistoryFile::open(&dir).expect("opened").expect("nobody else writes it");
    for (step, of_three_ms) in
        [(Resolution::Second, 60 * SECOND_MS), (Resolution::Minute, 600 * SECOND_MS)]
    {
        let last = step.begin(now_ms - SECOND_MS);
        let begins = (0..step.span_ms() / step.ms()).map(|nth| last - nth * step.ms());
        for time_ms in begins {
            file.write_row(step, &row(time_ms, step, now_ms - time_ms < of_three_ms))
                .expect("written");
        }
    }
    let second_ms = Resolution::Second.begin(now_ms - SECOND_MS);
    file.commit(&HistoryTotals { second_ms, ..HistoryTotals::default() }).expect("written");
}

fn row(time_ms: u64, step: Resolution, three_is_refused: bool) -> HistoryRow {
    let seconds = step.ms() / SECOND_MS;
    let (three, plenty) = if three_is_refused { (REFUSED - 1, 1) } else { (0, REFUSED) };
    let biz = |id, allowed: u64, limited: u64| HistoryBiz {
        id: Some(id),
        allowed: allowed * seconds,
        limited: limited * seconds,
        p99_us: Some(P99_US),
    };
    HistoryRow {
        time_ms,
        requests: (ALLOWED + REFUSED) * seconds,
        allowed: ALLOWED * seconds,
        limited: REFUSED * seconds,
        errors: 0,
        p50_us: Some(P50_US),
        p99_us: Some(P99_US),
        bizs: vec![biz(1, ALLOWED - 1, plenty), biz(2, 1, three)],
    }
}
