//! The history as a part of the document of figures: `history`, with a row for each step.

use super::history_file::{Row, RowBiz, Step};
use crate::protocol::element::Element;
use crate::protocol::xml;

/// Rows of the past, the oldest one first.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// The length of each.
    pub step: Step,
    /// Those that are there.
    pub rows: Vec<Row>,
}

/// Their element. `name_of` knows the names of businesses.
pub fn history(past: &Past, name_of: impl Fn(u32) -> Option<String>) -> Element {
    Element::new("history")
        .with("step-s", past.step.ms() / 1000)
        .listing("rows", past.rows.iter().map(|of| row(of, &name_of)))
}

fn row(row: &Row, name_of: &impl Fn(u32) -> Option<String>) -> Element {
    let biz = |biz: &RowBiz| {
        let name = biz.id.map_or_else(
            || "others".to_owned(),
            |id| name_of(id).unwrap_or_else(|| id.to_string()),
        );
        let element = Element::new("biz")
            .with("allowed", biz.allowed)
            .with("limited", biz.limited)
            .with_some("p99-us", biz.p99_us);
        (xml::replace_forbidden(&name).into_owned(), element)
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
