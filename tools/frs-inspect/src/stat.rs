//! `stat` shows geometry, occupancy, chains, counters and slots.

use std::io::{self, Write};

use frs_base::figures::{exact_bytes, grouped};
use frs_engine::inspect::{GroupStats, Reader};
use frs_server::process::data_lock::{self, LockError};
use frs_server::stats::snapshot::{self, Stats};
use frs_store::{Runtime, Sums};

use crate::counters::{self, ItemCounts};
use crate::output::{Completed, Failure, Output, finish, out, print_faults};
use crate::show;

/// The width of a histogram's longest bar, in columns.
const BAR: u64 = 40;

pub fn run(mut reader: Reader) -> Result<Completed, Failure> {
    let mut has_problems = print_faults(&reader);
    let mut out = out();
    match data_lock::holder(reader.data_dir()) {
        Ok(pid) => writeln!(out, "server       running (process {pid})")?,
        Err(LockError::Free { .. }) => writeln!(out, "server       not running")?,
        Err(error) => writeln!(out, "server       unknown: {error}")?,
    }
    writeln!(out, "generation   {}", reader.generation())?;
    for stats in &reader.group_stats(frs_base::clock::now()) {
        writeln!(out)?;
        write_group(&mut out, stats)?;
        for skipped in &stats.skipped {
            has_problems |= matches!(skipped, frs_engine::inspect::Skipped::Damaged { .. });
            writeln!(out, "  {}", show::skipped(skipped))?;
        }
    }
    if let Ok(runtime) = reader.runtime() {
        let stats = snapshot::of(runtime, reader.conf(), frs_base::clock::now());
        write_counters(&mut out, &stats.sums)?;
        write_items(&mut out, &stats)?;
        write_slots(&mut out, runtime)?;
    }
    finish(out, Completed::with_problems(has_problems))
}

fn write_group(out: &mut Output, stats: &GroupStats) -> io::Result<()> {
    let geometry = &stats.geometry;
    let hash = format!("{:?}", geometry.hash).to_lowercase();
    writeln!(
        out,
        "group {}{}: files {}, key-nodes {}, chain {}, node-size {}, key-bytes {}, hash {hash}",
        stats.name,
        if stats.is_former { " (its nodes move away)" } else { "" },
        grouped(geometry.files.into()),
        grouped(geometry.key_nodes.into()),
        geometry.chain,
        grouped(geometry.node_bytes.into()),
        geometry.key_bytes
    )?;
    let disk = if stats.in_memory { "in memory" } else { "on disk" };
    let (size, created) = (exact_bytes(stats.bytes()), show::time(stats.created_ms));
    writeln!(out, "  {size} {disk}, created {created}")?;
    if stats.quarantined {
        writeln!(out, "  quarantined: its items answer `store` until a restart has scanned it")?;
    }
    let all = geometry.nodes();
    for (name, count) in [
        ("live", stats.live),
        ("limiting", stats.limiting),
        ("expired", stats.expired),
        ("free", stats.free),
    ] {
        let of = if name == "limiting" { "  of them" } else { "" };
        writeln!(out, "  {name:<9} {:>14}  {}{of}", grouped(count), show::share(count, all))?;
    }
    writeln!(out, "  torn      {:>14}", grouped(stats.skipped.len() as u64))?;
    for (file, nth) in stats.files.iter().zip(0..) {
        let (live, expired) = (grouped(file.live), grouped(file.expired));
        writeln!(out, "  file {nth:<4} {live:>14} live {expired:>14} expired")?;
    }
    write_chains(out, stats)
}

/// Draws a histogram of the chain lengths. Omits lengths that no chain has.
fn write_chains(out: &mut Output, stats: &GroupStats) -> io::Result<()> {
    writeln!(out, "  nodes in a chain, and how many key-nodes have such a chain")?;
    let most = stats.chains.iter().copied().max().unwrap_or(0).max(1);
    for (length, &count) in stats.chains.iter().enumerate().filter(|&(_, &count)| count > 0) {
        let columns = (u128::from(count) * u128::from(BAR)).div_ceil(u128::from(most)) as usize;
        let full = if length == stats.geometry.chain as usize { "  full" } else { "" };
        writeln!(out, "  {length:>4} {:>14} {}{full}", grouped(count), "█".repeat(columns))?;
    }
    Ok(())
}

fn write_counters(out: &mut Output, sums: &Sums) -> io::Result<()> {
    writeln!(out, "\ncounted by all processes since runtime.mmap was created")?;
    for (name, count) in counters::read(sums) {
        writeln!(out, "  {name:<20} {:>16}", grouped(count))?;
    }
    let times = &sums.request_times;
    for (name, thousandths) in [("half of all requests", 500), ("99 % of them", 990)] {
        if let Some(most_us) = times.quantile_us(thousandths) {
            writeln!(out, "  {name:<20} {:>16} µs at most", grouped(most_us))?;
        }
    }
    Ok(())
}

/// Writes the items of each business, and how many of them were refused.
fn write_items(out: &mut Output, stats: &Stats) -> io::Result<()> {
    let counted: Vec<(String, ItemCounts)> = stats
        .bizs
        .iter()
        .map(|biz| (biz.label(), ItemCounts::of(&biz.items)))
        .filter(|(_, items)| items.all > 0)
        .collect();
    if counted.is_empty() {
        return Ok(());
    }
    let width = counted.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(8);
    let (name, items, errors) = ("business", "items", "errors");
    writeln!(out, "\n  {name:<width$} {items:>14} {errors:>14}  limited")?;
    for (name, ItemCounts { all, refused, errors, .. }) in &counted {
        let share = show::share(*refused, *all);
        let [all, refused, errors] = [*all, *refused, *errors].map(grouped);
        writeln!(out, "  {name:<width$} {all:>14} {errors:>14}  {refused} ({share})")?;
    }
    Ok(())
}

fn write_slots(out: &mut Output, runtime: &Runtime) -> io::Result<()> {
    let slots = runtime.slots();
    writeln!(out, "\nslots: {} of 256 in use", slots.len())?;
    for slot in &slots {
        let words = runtime.slot(slot.slot);
        let state = match (slot.alive, words.phase()) {
            (true, _) => "alive".to_owned(),
            (false, 0) => "dead: freed at the next start or by the keeper".to_owned(),
            (false, words) => {
                format!("dead in a transaction: {} words to undo", grouped(words as u64))
            }
        };
        let (number, pid, generation) = (slot.slot, slot.pid, slot.generation);
        let (role, begun) = (snapshot::role_word(slot.role), grouped(words.sequence()));
        writeln!(
            out,
            "  {number:>3}  {role:<8} process {pid:<8} generation {generation:<4} \
             {begun:>16} transactions  {state}"
        )?;
    }
    Ok(())
}
