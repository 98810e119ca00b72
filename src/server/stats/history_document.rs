//! The history as a part of the document of figures: `history`, with a row for each step.

use std::collections::BTreeMap;

use super::history_file::{HistoryBiz, HistoryRow, Resolution};
use crate::protocol::element_tree::Element;

/// The most bytes of a business in a row: its name, and three figures with their names.
pub const BIZ_BYTES: usize = 64 + 3 * 20 + 40;

/// Rows of the past, the oldest one first.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryRange {
    /// The step between rows.
    pub step: Resolution,
    /// The rows that exist.
    pub rows: Vec<HistoryRow>,
}

impl HistoryRange {
    /// The number of businesses in all rows, which bounds the time to write them.
    pub fn cells(&self) -> usize {
        self.rows.iter().map(|row| row.bizs.len()).sum()
    }
}

/// The rows as an element. `names` are the names of businesses, in a form fit for a document.
pub fn history(past: &HistoryRange, names: &BTreeMap<u32, String>) -> Element {
    Element::new("history")
        .with("step-s", past.step.ms() / 1000)
        .listing("rows", past.rows.iter().map(|of| row(of, names)))
}

fn row(row: &HistoryRow, names: &BTreeMap<u32, String>) -> Element {
    let biz = |biz: &HistoryBiz| {
        let name = match biz.id {
            Some(id) => names.get(&id).cloned().unwrap_or_else(|| id.to_string()),
            None => "others".to_owned(),
        };
        let element = Element::new("biz")
            .with("allowed", biz.allowed)
            .with("limited", biz.limited)
            .with_some("p99-us", biz.p99_us);
        (name, element)
    };
    Element::new("row")
        .with("time", row.time_ms)
        .with("requests", row.requests)
        .with("allowed", row.allowed)
        .with("limited", row.limited)
        .with("errors", row.errors)
        .with_some("p50-us", row.p50_us)
        .with_some("p99-us", row.p99_us)
        .by_name("biz", row.bizs.iter().map(biz))
}
