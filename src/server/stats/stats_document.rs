//! The figures as a document, in JSON or XML.
//!
//! Invariant: both formats are written from one tree, so they say the same: an element's attributes
//! are an object's members, and a list's elements an array's.

use super::snapshot::{Counted, Group, Hot, Process, Rates, Stats};
use crate::protocol::{json, visible, xml};
use frs::store::Counter;
use frs::store::counter::{Asked, GroupCounter, ITEM_ERRORS, OUTCOMES, Outcome, status_word};

/// The quantiles of latency that are told: name and thousandths.
const QUANTILES: [(&str, u64); 4] =
    [("p50-us", 500), ("p90-us", 900), ("p99-us", 990), ("p999-us", 999)];

/// The document in JSON.
pub fn stats_json(stats: &Stats) -> String {
    let mut out = Vec::new();
    write_json(&mut out, &root(stats));
    out.push(b'\n');
    visible::in_json(&into_text(out)).into_owned()
}

/// The document in XML: `<stats>`.
pub fn stats_xml(stats: &Stats) -> String {
    let mut out = Vec::new();
    write_xml(&mut out, &root(stats));
    out.push(b'\n');
    visible::in_xml(&into_text(out)).into_owned()
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

/// An element, or an object.
#[derive(Debug)]
struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, Value)>,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Value {
    Text(String),
    /// Digits and what else JSON takes for a number, or true and false.
    Bare(String),
}

#[derive(Debug)]
enum Part {
    One(Element),
    /// A list of elements, by its own name.
    Many(&'static str, Vec<Element>),
    Numbers(&'static str, Vec<u64>),
}

impl Element {
    fn new(name: &'static str) -> Element {
        Element { name, attributes: Vec::new(), parts: Vec::new() }
    }

    fn text(mut self, name: &'static str, text: impl Into<String>) -> Element {
        self.attributes.push((name, Value::Text(text.into())));
        self
    }

    fn bare(mut self, name: &'static str, value: impl ToString) -> Element {
        self.attributes.push((name, Value::Bare(value.to_string())));
        self
    }

    /// Left out where there is none.
    fn some(self, name: &'static str, value: Option<impl ToString>) -> Element {
        match value {
            Some(value) => self.bare(name, value),
            None => self,
        }
    }

    fn one(mut self, element: Element) -> Element {
        self.parts.push(Part::One(element));
        self
    }

    fn many(mut self, name: &'static str, elements: impl Iterator<Item = Element>) -> Element {
        self.parts.push(Part::Many(name, elements.collect()));
        self
    }

    fn numbers(mut self, name: &'static str, numbers: &[u64]) -> Element {
        self.parts.push(Part::Numbers(name, numbers.to_vec()));
        self
    }
}

fn root(stats: &Stats) -> Element {
    Element::new("stats")
        .one(server(stats))
        .one(counters(stats))
        .one(latency(stats))
        .many("requests", requests(stats))
        .many("errors", errors(stats))
        .many("workers", stats.processes.iter().map(process))
        .many("groups", stats.groups.iter().map(group))
        .many("bizs", stats.bizs.iter().map(biz))
}

fn server(stats: &Stats) -> Element {
    let master = &stats.master;
    let time = |at_ms: u64| Some(at_ms).filter(|&at_ms| at_ms > 0);
    Element::new("server")
        .text("version", stats.version)
        .bare("now", stats.now_ms)
        .bare("start", master.started_ms)
        .bare("generation", stats.generation)
        .bare("degraded", stats.degraded)
        .bare("flush-failed", stats.flush_failed)
        .bare("worker-restarts", master.restarts[0])
        .bare("keeper-restarts", master.restarts[1])
        .bare("reloads-taken", master.reloads[0])
        .bare("reloads-refused", master.reloads[1])
        .some("last-taken", time(master.reloaded_ms[0]))
        .some("last-refused", time(master.reloaded_ms[1]))
}

fn counters(stats: &Stats) -> Element {
    const COUNTERS: [(&str, Counter); 10] = [
        ("connections-accepted", Counter::Connections),
        ("connections-refused", Counter::ConnectionsRefused),
        ("timeouts", Counter::Timeouts),
        ("bytes-in", Counter::BytesIn),
        ("bytes-out", Counter::BytesOut),
        ("semaphore-waits", Counter::SemaphoreWaits),
        ("semaphore-busy", Counter::SemaphoreBusy),
        ("semaphore-orphans", Counter::SemaphoreOrphans),
        ("recoveries", Counter::Recoveries),
        ("flush-errors", Counter::FlushErrors),
    ];
    let element = Element::new("counters").bare("connections", stats.connections());
    COUNTERS
        .into_iter()
        .fold(element, |element, (name, counter)| element.bare(name, stats.sums.count(counter)))
}

fn latency(stats: &Stats) -> Element {
    let times = &stats.sums.request_times;
    let element = Element::new("latency").bare("count", times.count()).bare("sum-us", times.sum_us);
    QUANTILES.into_iter().fold(element, |element, (name, thousandths)| {
        element.some(name, times.quantile_us(thousandths))
    })
}

fn requests(stats: &Stats) -> impl Iterator<Item = Element> {
    let kinds = Asked::ALL.iter().zip(&stats.sums.requests).flat_map(|(asked, counts)| {
        counts.iter().enumerate().map(move |(kind, count)| (asked.word(), kind, *count))
    });
    kinds.filter(|(_, _, count)| *count > 0).map(|(command, kind, count)| {
        let element = Element::new("request").text("command", command);
        element.text("status", status_word(kind)).bare("count", count)
    })
}

fn errors(stats: &Stats) -> impl Iterator<Item = Element> {
    let errors = ITEM_ERRORS.into_iter().zip(stats.sums.item_errors);
    errors
        .filter(|(_, count)| *count > 0)
        .map(|(error, count)| Element::new("item-error").text("error", error).bare("count", count))
}

fn process(process: &Process) -> Element {
    Element::new("worker")
        .bare("pid", process.pid)
        .text("role", process.role)
        .some("restarts", process.restarts)
        .bare("generation", process.generation)
        .some("cpu", process.cpu_ms)
        .some("cpu-share", process.cpu_share.map(decimal))
        .bare("connections", process.connections)
        .bare("requests", process.requests)
        .some("requests-per-second", process.requests_per_s.map(decimal))
}

fn group(group: &Group) -> Element {
    const COUNTERS: [(&str, GroupCounter); 7] = [
        ("creates", GroupCounter::Creates),
        ("evictions-expired", GroupCounter::EvictionsExpired),
        ("evictions-idle", GroupCounter::EvictionsIdle),
        ("evictions-limiting", GroupCounter::EvictionsLimiting),
        ("dropped-crc", GroupCounter::DroppedCrc),
        ("dropped-misplaced", GroupCounter::DroppedMisplaced),
        ("dropped-duplicate", GroupCounter::DroppedDuplicate),
    ];
    let mut element = Element::new("group").text("name", group.name());
    if let Some(geometry) = &group.geometry {
        element = element
            .bare("files", geometry.files)
            .bare("key-nodes", geometry.key_nodes)
            .bare("chain", geometry.chain)
            .bare("node-size", geometry.node_bytes)
            .bare("key-bytes", geometry.key_bytes)
            .bare("bytes", geometry.group_bytes())
            .bare("served", group.served);
    }
    for (name, counter) in COUNTERS {
        element = element.bare(name, group.sums.count(counter));
    }
    element = element.some("checkpoint", group.sums.checkpoint_ms);
    match &group.sums.nodes {
        None => element,
        Some(nodes) => element
            .bare("live", nodes.live)
            .bare("expired", nodes.expired)
            .bare("free", nodes.free)
            .bare("looked", nodes.swept_ms)
            .numbers("chains", &nodes.chains),
    }
}

fn biz(biz: &Counted) -> Element {
    let [queries, updates] = &biz.items;
    let limit = |words: &String| Element::new("limit").text("words", words);
    Element::new("biz")
        .some("id", biz.id())
        .text("name", biz.label())
        .some("removed", biz.is_removed().then_some(true))
        .one(outcomes("queries", queries.iter()))
        .one(outcomes("updates", updates.iter()))
        .many("limits", biz.limits.iter().map(limit))
        .many("rates", rates(&biz.rates))
        .many("hottest", biz.hottest.iter().map(hot))
}

fn outcomes(name: &'static str, counts: impl Iterator<Item = impl ToString>) -> Element {
    let counts = Outcome::ALL.iter().zip(counts);
    counts.fold(Element::new(name), |element, (outcome, count)| element.bare(outcome.word(), count))
}

/// Items a second over the last so many milliseconds.
fn rates(rates: &Rates) -> impl Iterator<Item = Element> {
    let known = [(1000, rates.second), (60_000, rates.minute), (600_000, rates.ten_minutes)];
    let known = known.into_iter().filter_map(|(over_ms, rates)| Some((over_ms, rates?)));
    known.map(|(over_ms, rates): (u32, [f64; OUTCOMES])| {
        let mut element = outcomes("rate", rates.into_iter().map(decimal));
        element.attributes.insert(0, ("over", Value::Bare(over_ms.to_string())));
        element
    })
}

fn hot(hot: &Hot) -> Element {
    Element::new("node").text("key", &hot.key).bare("used", hot.used).bare("last", hot.last_ms)
}

/// With three decimals at most.
fn decimal(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn write_json(out: &mut Vec<u8>, element: &Element) {
    let mut before = b'{';
    for (name, value) in &element.attributes {
        begin_member(out, &mut before, name);
        match value {
            Value::Text(text) => json::write_string(out, text),
            Value::Bare(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
    for part in &element.parts {
        match part {
            Part::One(part) => {
                begin_member(out, &mut before, part.name);
                write_json(out, part);
            }
            Part::Many(name, elements) => {
                begin_member(out, &mut before, name);
                write_array(out, elements, write_json);
            }
            Part::Numbers(name, numbers) => {
                begin_member(out, &mut before, name);
                write_array(out, numbers, |out, number| {
                    out.extend_from_slice(number.to_string().as_bytes());
                });
            }
        }
    }
    if before == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
}

fn begin_member(out: &mut Vec<u8>, before: &mut u8, name: &str) {
    out.push(std::mem::replace(before, b','));
    json::write_string(out, name);
    out.push(b':');
}

fn write_array<T>(out: &mut Vec<u8>, parts: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (nth, part) in parts.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        write(out, part);
    }
    out.push(b']');
}

fn write_xml(out: &mut Vec<u8>, element: &Element) {
    out.push(b'<');
    out.extend_from_slice(element.name.as_bytes());
    for (name, value) in &element.attributes {
        let (Value::Text(text) | Value::Bare(text)) = value;
        out.push(b' ');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"=\"");
        xml::write_escaped(out, text);
        out.push(b'"');
    }
    if element.parts.is_empty() {
        out.extend_from_slice(b"/>");
        return;
    }
    out.push(b'>');
    for part in &element.parts {
        match part {
            Part::One(part) => write_xml(out, part),
            Part::Many(name, elements) => within(out, name, |out| {
                elements.iter().for_each(|element| write_xml(out, element));
            }),
            Part::Numbers(name, numbers) => within(out, name, |out| {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                out.extend_from_slice(numbers.join(" ").as_bytes());
            }),
        }
    }
    end_tag(out, element.name);
}

fn within(out: &mut Vec<u8>, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
    write(out);
    end_tag(out, name);
}

fn end_tag(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

#[cfg(test)]
mod tests;
