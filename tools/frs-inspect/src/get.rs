//! `get` shows one node: its place, its meaning, and its words.

use std::io::{self, Write};

use frs_base::figures::grouped;
use frs_conf::{Unit, limit_words};
use frs_engine::inspect::{Look, NodeRecord, Reader};
use frs_limit::{Ban, StateWord, WordUnit};
use frs_store::layout::node;
use frs_store::{Runtime, version};

use crate::output::{Completed, Failure, Output, finish, out};
use crate::show;

/// The most holds that are shown.
const SHOWN_HOLDS: usize = 16;

pub fn run(mut reader: Reader, biz: &str, key: Option<&str>) -> Result<Completed, Failure> {
    let now = frs_base::clock::now();
    let look = match key {
        Some(key) => reader.node(biz, key, now)?,
        None => reader.whole(biz, now)?,
    };
    let mut out = out();
    let has_problems = !matches!(look, Look::At(_));
    match look {
        Look::At(record) => write_record(&mut out, &reader, &record, now)?,
        Look::Absent { group, file, key_node } => {
            writeln!(
                out,
                "absent; its place is in group {group}: file {file} key-node {key_node}"
            )?;
        }
        Look::InTransaction { slot } => writeln!(out, "in transaction of slot {slot}")?,
        Look::HalfWritten { slot } => writeln!(out, "{}", show::half_written(slot))?,
        Look::Damaged { place, fault } => {
            writeln!(out, "damaged: {}: {}", show::place(&place), show::fault(fault))?;
        }
    }
    finish(out, Completed::with_problems(has_problems))
}

fn write_record(
    out: &mut Output,
    reader: &Reader,
    record: &NodeRecord,
    now: u64,
) -> io::Result<()> {
    let biz = record.biz.as_deref().unwrap_or("?");
    writeln!(out, "{biz} {} (business {})", show::key(&record.key), record.biz_id)?;
    writeln!(out, "  place     group {}: {}", record.group, show::place(&record.place))?;
    let last = record.last_use_ms;
    writeln!(out, "  last use  {} ({})", show::time(last), show::ago(last, now))?;
    if let Some(version) = record.version() {
        let run = reader.runtime().ok().map(Runtime::run);
        writeln!(out, "  owner     {}", show::version(version, run))?;
    }
    write!(out, "  state     {}", show::rank(record.rank))?;
    match record.banned_until_ms {
        Some(until) => {
            writeln!(out, " until {} ({} left)", show::time(until), show::span(until - now))?
        }
        None if record.outdated => {
            writeln!(out, ": its biz was changed or reset since it was written: it starts fresh")?;
        }
        None => writeln!(out)?,
    }
    write_limits(out, reader, record)?;
    write_tables(out, record, now)?;
    if let Some(register) = &record.register {
        writeln!(out, "  value     {}", show::register(register, now))?;
    }
    write_words(out, reader, record)
}

fn write_limits(out: &mut Output, reader: &Reader, record: &NodeRecord) -> io::Result<()> {
    let biz = reader.conf().map.bizs.iter().find(|biz| biz.id == record.biz_id);
    for figures in &record.limits {
        let index = usize::from(figures.index);
        if let Some(limit) = biz.and_then(|biz| biz.limits.get(index.saturating_sub(1))) {
            writeln!(out, "  limit {index}   {}: {}", figures.policy, limit_words(limit))?;
        }
        writeln!(out, "            {}", show::figures(figures))?;
        if let Some(totals) = record.history(figures) {
            writeln!(out, "            {}", show::history(totals))?;
        }
        if let Some(lease) = record.shared(figures.index) {
            let [held, heard] = show::lease(lease);
            writeln!(out, "  lease {index}   {held}\n            {heard}")?;
        }
    }
    Ok(())
}

/// Writes the first holds, and how many ids are remembered.
fn write_tables(out: &mut Output, record: &NodeRecord, now: u64) -> io::Result<()> {
    if let Some(holds) = &record.holds {
        writeln!(out, "  holds     {}", show::holds(holds))?;
        for hold in holds.iter().take(SHOWN_HOLDS) {
            writeln!(out, "            {}", show::hold(hold, now))?;
        }
        let others = holds.len().saturating_sub(SHOWN_HOLDS) as u64;
        if others > 0 {
            writeln!(out, "            and {} others, which dump shows", grouped(others))?;
        }
    }
    if let Some(ids) = record.once_ids {
        writeln!(out, "  once      {} remembered", grouped(ids as u64))?;
    }
    Ok(())
}

fn write_words(out: &mut Output, reader: &Reader, record: &NodeRecord) -> io::Result<()> {
    writeln!(out, "  words")?;
    let states = reader.state_words(record);
    let times = reader.ring_times(record);
    let is_shown = |state: &StateWord| {
        use WordUnit::{Entry, Fingerprint, PastUses, Register, RingUses};
        ![RingUses, PastUses, Fingerprint, Entry, Register].contains(&state.unit)
    };
    let shown = states.iter().rposition(is_shown).map_or(0, |last| last + 1);
    let used = record.states_at + shown;
    let last = record.words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    for (at, &word) in record.words.iter().enumerate().take(used.max(last)) {
        let state = at.checked_sub(record.states_at).and_then(|nth| states.get(nth));
        if state.is_some_and(|state| matches!(state.unit, WordUnit::Registers | WordUnit::Entry)) {
            // Nobody reads these hundreds of words. The lines above tell what they hold.
            continue;
        }
        let meaning = match (at, state) {
            (_, Some(state)) => state_meaning(state, word, times.len()),
            (node::CHECK, _) => check_meaning(word),
            (node::KEY, _) => key_meaning(record, word),
            (node::LAST_USE, _) => format!("last use {}", show::time(word)),
            _ if at < record.states_at => "key".to_owned(),
            _ if at >= record.words.len() - version::tail_words(&record.words) => {
                "version".to_owned()
            }
            _ => "a state of other limits".to_owned(),
        };
        writeln!(out, "    {at:>4}  {word:016x}  {meaning}")?;
    }
    let rest = record.words.len() - used.max(last).min(record.words.len());
    if rest > 0 {
        writeln!(out, "          and {} of zeros", grouped(rest as u64))?;
    }
    for field in reader.shared_fields(record).iter().filter(|field| field.value != 0) {
        writeln!(out, "            {}", state_meaning(&field.word, field.value, 0))?;
    }
    if !times.is_empty() {
        let times: Vec<String> = times.iter().map(|&time| show::time(time)).collect();
        writeln!(out, "  uses      {}", times.join("\n            "))?;
    }
    Ok(())
}

fn check_meaning(word: u64) -> String {
    let (shape, flags) = (node::shape(word), node::flags(word));
    format!("CRC-32C {:08x}, shape {shape:04x}, flags {flags:04x}", word as u32)
}

fn key_meaning(record: &NodeRecord, word: u64) -> String {
    let (biz, bytes) = (word as u32, (word >> 32) as u16);
    format!("business {biz}, key of {bytes} bytes: {}", show::form(record.form))
}

fn ban_meaning(Ban { until_ms, limit, lifts }: Ban) -> String {
    let mut meaning = show::time(until_ms);
    if limit > 0 {
        meaning.push_str(&format!(", by limit {limit}"));
    }
    match lifts {
        0 => {}
        1 => meaning.push_str(", begun after bans were lifted once"),
        _ => meaning.push_str(&format!(", begun after bans were lifted {lifts} times")),
    }
    meaning
}

fn unit_meaning(number: u64) -> String {
    let named = Unit::NAMES.iter().find(|&&(_, unit)| unit as u64 == number);
    named.map_or_else(|| "none".to_owned(), |&(name, _)| name.to_owned())
}

fn state_meaning(state: &StateWord, word: u64, uses: usize) -> String {
    let value = match state.unit {
        WordUnit::Time | WordUnit::Ban if word == 0 => "none".to_owned(),
        WordUnit::Time => show::time(word),
        WordUnit::Ban => ban_meaning(Ban::of(word)),
        WordUnit::BootTime if word == u64::MAX => "never".to_owned(),
        WordUnit::BootTime => format!("{} ms after the boot", grouped(word)),
        WordUnit::Number => format!("{word:#x}"),
        WordUnit::Milliseconds => format!("{} ms", grouped(word)),
        WordUnit::CalendarUnit => unit_meaning(word),
        WordUnit::Uses | WordUnit::Members => grouped(word),
        WordUnit::Registers => "of 6 bits".to_owned(),
        WordUnit::Fingerprint if word == 0 => "none".to_owned(),
        WordUnit::Fingerprint => format!("with the hash {word:016x}"),
        WordUnit::SignedUses => (word as i64).to_string(),
        WordUnit::Fields => "of several fields".to_owned(),
        WordUnit::TokenParts => {
            let thousandths = u128::from(word) * 1000 / 86_400_000;
            let whole = word / 86_400_000;
            format!("{}.{:03} tokens taken", grouped(whole), thousandths % 1000)
        }
        WordUnit::Nanoseconds => format!("{} ns", grouped(word)),
        WordUnit::Ring => format!("of {} uses", grouped(uses as u64)),
        WordUnit::RingUses => "two places for uses".to_owned(),
        WordUnit::Past => format!("of {} windows", word as u32 >> 16),
        WordUnit::PastUses => "totals of two windows".to_owned(),
        WordUnit::Entries => format!("of {} entries", word as u32 >> 16),
        WordUnit::Entry => "a part of an entry".to_owned(),
        WordUnit::Expiry if word == 0 => "never".to_owned(),
        WordUnit::Expiry => show::time(word),
        WordUnit::Register => "as it is stored".to_owned(),
    };
    match state.limit {
        0 => format!("{} {value}", state.name),
        limit => format!("limit {limit} {} {value}", state.name),
    }
}
