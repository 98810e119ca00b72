//! `stat`: geometry, occupancy, chains, counters and slots.

use std::io::{self, Write};
use std::path::Path;

use frs::inspect::{GroupStats, Reader};
use frs::master::lock::{self, LockError};
use frs::service::Role;
use frs::store::{Counter, GroupCounter, Runtime, SlotStatus};

use crate::output::{Done, Failed, Out, finish, out, say_faults};
use crate::show;

/// Columns of the longest bar of a histogram.
const BAR: u64 = 40;

const GROUP_COUNTERS: [(GroupCounter, &str); 5] = [
    (GroupCounter::Creates, "nodes created"),
    (GroupCounter::EvictionsExpired, "evicted: expired"),
    (GroupCounter::EvictionsIdle, "evicted: idle"),
    (GroupCounter::EvictionsLimiting, "evicted: limiting"),
    (GroupCounter::DroppedCrc, "dropped: CRC failed"),
];
const COUNTERS: [(Counter, &str); 4] = [
    (Counter::SemaphoreWaits, "semaphore waits"),
    (Counter::SemaphoreBusy, "semaphore busy"),
    (Counter::SemaphoreOrphans, "semaphore orphans"),
    (Counter::Recoveries, "slots recovered"),
];

pub fn run(data_dir: &Path) -> Result<Done, Failed> {
    let mut reader = Reader::open(data_dir)?;
    let mut is_off = say_faults(&reader);
    let mut out = out();
    match lock::holder(data_dir) {
        Ok(pid) => writeln!(out, "server       running (process {pid})")?,
        Err(LockError::Free { .. }) => writeln!(out, "server       not running")?,
        Err(error) => writeln!(out, "server       not to be told: {error}")?,
    }
    writeln!(out, "generation   {}", reader.generation())?;
    for stats in &reader.group_stats(frs::clock::now()) {
        writeln!(out)?;
        write_group(&mut out, stats)?;
        for skipped in &stats.skipped {
            is_off |= matches!(skipped, frs::inspect::Skipped::Damaged { .. });
            writeln!(out, "  {}", show::skipped(skipped))?;
        }
    }
    if let Ok(runtime) = reader.runtime() {
        write_counters(&mut out, runtime)?;
        write_slots(&mut out, runtime)?;
    }
    finish(out, is_off)
}

fn write_group(out: &mut Out, stats: &GroupStats) -> io::Result<()> {
    let geometry = &stats.geometry;
    let hash = format!("{:?}", geometry.hash).to_lowercase();
    writeln!(
        out,
        "group {}: files {}, key-nodes {}, chain {}, node-size {}, key-bytes {}, hash {hash}",
        stats.name,
        geometry.files,
        geometry.key_nodes,
        geometry.chain,
        geometry.node_bytes,
        geometry.key_bytes
    )?;
    let disk = if stats.in_memory { "in memory" } else { "on disk" };
    let (size, created) = (show::bytes(stats.bytes()), show::time(stats.created_ms));
    writeln!(out, "  {size} {disk}, made {created}")?;
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
        writeln!(out, "  {name:<9} {count:>12}  {}{of}", show::share(count, all))?;
    }
    writeln!(out, "  torn      {:>12}", stats.skipped.len())?;
    for (file, nth) in stats.files.iter().zip(0..) {
        writeln!(out, "  file {nth:<4} {:>12} live {:>12} expired", file.live, file.expired)?;
    }
    write_chains(out, stats)
}

/// The lengths of chains, drawn; rows without a chain between others are left out.
fn write_chains(out: &mut Out, stats: &GroupStats) -> io::Result<()> {
    writeln!(out, "  nodes in a chain, and so many key-nodes have that many")?;
    let most = stats.chains.iter().copied().max().unwrap_or(0).max(1);
    for (length, &count) in stats.chains.iter().enumerate().filter(|&(_, &count)| count > 0) {
        let columns = (u128::from(count) * u128::from(BAR)).div_ceil(u128::from(most)) as usize;
        let full = if length == stats.geometry.chain as usize { "  full" } else { "" };
        writeln!(out, "  {length:>4} {count:>10} {}{full}", "█".repeat(columns))?;
    }
    Ok(())
}

fn write_counters(out: &mut Out, runtime: &Runtime) -> io::Result<()> {
    writeln!(out, "\ncounted by all processes since runtime.mmap was made")?;
    let groups = runtime.sums().groups;
    for (counter, name) in GROUP_COUNTERS {
        let count: u64 = groups.values().map(|group| group.count(counter)).sum();
        writeln!(out, "  {name:<20} {count:>12}")?;
    }
    for (counter, name) in COUNTERS {
        writeln!(out, "  {name:<20} {:>12}", runtime.count(counter))?;
    }
    Ok(())
}

fn write_slots(out: &mut Out, runtime: &Runtime) -> io::Result<()> {
    let slots = runtime.slots();
    writeln!(out, "\nslots: {} of 256 in use", slots.len())?;
    for slot in &slots {
        let words = runtime.slot(slot.slot);
        let state = match (slot.alive, words.phase()) {
            (true, _) => "alive".to_owned(),
            (false, 0) => "dead: freed at the next start or by the keeper".to_owned(),
            (false, words) => format!("dead in a transaction: {words} words are to be undone"),
        };
        let (number, pid, generation) = (slot.slot, slot.pid, slot.generation);
        let (role, begun) = (role_of(slot), words.sequence());
        writeln!(
            out,
            "  {number:>3}  {role:<8} process {pid:<8} generation {generation:<4} \
             {begun:>12} transactions  {state}"
        )?;
    }
    Ok(())
}

fn role_of(slot: &SlotStatus) -> &'static str {
    match slot.role {
        0 => "prepare",
        role if role == Role::Worker as u32 => "worker",
        role if role == Role::Keeper as u32 => "keeper",
        role if role == Role::Program as u32 => "program",
        _ => "unknown",
    }
}
