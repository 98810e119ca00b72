//! `verify` finds faults in the files. With `--repair` it repairs them while no server runs.

use std::io::Write;
use std::path::Path;

use frs_base::figures::grouped;
use frs_cluster::PLUG;
use frs_conf::Overlay;
use frs_conf::key::KeyNodeId;
use frs_engine::inspect::{
    Error, Obstacle, Reader, obstacles, repair as repair_files, restore_overlay,
};
use frs_server::process::data_lock::DataLock;
use frs_store::inspect::NamedKeyNode;
use frs_store::{Fault, Finding, Unproven, live_dir};

use crate::output::{Completed, Failure, finish, out, print_error, print_faults};
use crate::{owner, show};

pub fn run(reader: &Reader) -> Result<Completed, Failure> {
    let mut has_problems = print_faults(reader);
    let mut out = out();
    let pass = reader.pass();
    for (name, group) in reader.groups() {
        let Ok(group) = group else {
            writeln!(out, "group {name}: its files cannot be opened")?;
            continue;
        };
        let live = group.verify(&pass);
        for finding in &live.report.findings {
            writeln!(out, "group {name}: {}", finding_words(finding))?;
        }
        for error in &live.unread_checks {
            writeln!(out, "group {name}: {error}")?;
        }
        for Unproven { at, records } in &live.report.unproven {
            writeln!(
                out,
                "group {name}: {}: its checksum fails: a restore drops its {records} records",
                key_node_words(*at)
            )?;
        }
        if group.lacks_checks() {
            writeln!(out, "group {name}: a checkpoint of an earlier build, without checksums")?;
        }
        let in_transaction: fn(u32) -> String = |slot| format!("in transaction of slot {slot}");
        let orphan: fn(u32) -> String =
            |slot| format!("the semaphore names slot {slot}, which does not hold it");
        for (key_nodes, words) in [
            (&live.in_transaction, in_transaction),
            (&live.half_written, show::half_written),
            (&live.orphans, orphan),
        ] {
            for NamedKeyNode { at, slot } in key_nodes {
                writeln!(out, "group {name}: {}: {}", key_node_words(*at), words(*slot))?;
            }
        }
        if live.held_by_dead > 0 {
            let held = grouped(live.held_by_dead);
            writeln!(
                out,
                "group {name}: processes that died hold {held} semaphores: each is freed at its \
                 next use or a start"
            )?;
        }
        let quarantined = reader.is_quarantined(group);
        if quarantined {
            writeln!(out, "group {name}: quarantined")?;
        }
        let unproven = live.report.unproven.len() + live.unread_checks.len();
        let off = live.report.findings.len() + live.orphans.len() + unproven;
        let (nodes, faults) = (grouped(live.report.nodes), grouped(off as u64));
        writeln!(out, "group {name}: {nodes} nodes are sound, {faults} faults")?;
        has_problems |= off > 0 || quarantined;
    }
    finish(out, Completed::with_problems(has_problems))
}

pub fn repair(data_dir: &Path) -> Result<Completed, Failure> {
    // Read first: a directory that is not a data directory gets no lock file.
    let reader = match Reader::open(data_dir, PLUG) {
        // The unreadable file is among the obstacles.
        Err(Error::Active(error)) if !obstacles(data_dir).is_empty() => {
            print_obstacles(data_dir);
            return Err(Failure::of(Error::Active(error)));
        }
        opened => opened?,
    };
    owner::become_owner(&reader)?;
    let conf = reader.conf().clone();
    drop(reader);
    let lock = DataLock::take(data_dir).map_err(|error| {
        print_obstacles(data_dir);
        Failure::of(error)
    })?;
    let _live_lock = owner::take_live_files(&conf)?;
    let mut out = out();
    if restore_overlay(data_dir)? {
        let path = Overlay::path_in(data_dir);
        writeln!(out, "{}: could not be read; wrote it again as published", path.display())?;
    }
    let repaired = repair_files(&conf).map_err(|error| {
        print_obstacles(data_dir);
        Failure::of(error)
    })?;
    if repaired.recovered_slots > 0 {
        writeln!(
            out,
            "recovered {} slots of dead processes",
            grouped(repaired.recovered_slots as u64)
        )?;
    }
    let mut has_problems = false;
    for (name, result) in &repaired.groups {
        match result {
            Err(error) => {
                has_problems = true;
                print_error(error);
                let files = live_dir(&conf).join(format!("{name}.*.mmap"));
                writeln!(
                    out,
                    "group {name}: cannot be repaired: put back what is damaged or missing, or \
                     remove all of {}: what the group has counted is lost, it begins empty",
                    files.display()
                )?;
            }
            Ok(report) => {
                for finding in &report.findings {
                    let done = match finding.fault {
                        Fault::Tag { .. } | Fault::Moved { .. } => "written again",
                        _ => "dropped",
                    };
                    writeln!(out, "group {name}: {}: {done}", finding_words(finding))?;
                }
                let (nodes, dropped) = (grouped(report.nodes), grouped(report.dropped()));
                let freed = grouped(report.taken);
                write!(out, "group {name}: {nodes} nodes are sound, {dropped} dropped")?;
                writeln!(out, ", {freed} semaphores freed")?;
            }
        }
    }
    has_problems |= print_obstacles(data_dir);
    lock.give_back().map_err(Failure::of)?;
    finish(out, Completed::with_problems(has_problems))
}

/// Reports what no repair can fix, and the cost of removing it. Returns whether there is anything.
fn print_obstacles(data_dir: &Path) -> bool {
    let obstacles = obstacles(data_dir);
    for Obstacle { path, reason, cost } in &obstacles {
        let path = path.display();
        print_error(format_args!("{path}: {reason}: remove {path}; that costs {cost}"));
    }
    !obstacles.is_empty()
}

fn key_node_words(KeyNodeId { file, key_node }: KeyNodeId) -> String {
    format!("file {file} key-node {key_node}")
}

fn finding_words(finding: &Finding) -> String {
    let Finding { file, key_node, place, fault } = *finding;
    let place = frs_engine::inspect::NodePlace { file, key_node, place };
    format!("{}: {}", show::place(&place), show::fault(fault))
}
