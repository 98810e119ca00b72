//! `migrate` rewrites groups to the geometry of a changed map.xml while no server runs.

use std::io::Write;
use std::path::{Component, Path, PathBuf};

use frs_base::figures::grouped;
use frs_cluster::PLUG;
use frs_conf::{Biz, Conf, Faults, Geometry, LiveGeometry, LoadedConf, Map, active};
use frs_engine::inspect::{Counts, GroupPlan, Migration, Reader, Step};
use frs_server::process::data_lock::DataLock;
use frs_store as store;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{Completed, Failure, Output, finish, out};
use crate::owner;

/// What a migration may do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MigrateMode {
    /// It only reports what would happen.
    DryRun,
    /// It does nothing if a live node would be lost.
    Lossless,
    /// It leaves out the nodes whose loss matters least.
    Lossy,
}

pub fn run(data_dir: &Path, conf_dir: &Path, mode: MigrateMode) -> Result<Completed, Failure> {
    let ChangedConf { conf, moves } = conf_for(data_dir, conf_dir)?;
    let lock = DataLock::take(data_dir).map_err(Failure::of)?;
    let _live_lock = owner::take_live_files(&conf)?;
    let bar = bar();
    let mut progress = |step: Step<'_>| {
        show_step(&bar, step);
        true
    };
    let migration = Migration::begin(&conf, frs_base::clock::now(), PLUG, &mut progress)?;
    let mut out = out();
    for name in &migration.completed {
        writeln!(out, "group {name}: completed an interrupted migration")?;
    }
    for line in &moves {
        writeln!(out, "{line}")?;
    }
    let plans = migration.plan(&mut progress)?;
    bar.finish_and_clear();
    plans.iter().try_for_each(|plan| write_plan(&mut out, plan))?;
    if plans.is_empty() {
        writeln!(out, "nothing to do: the files have the geometry of map.xml")?;
    }
    let is_lossless = plans.iter().all(|plan| plan.counts.is_lossless());
    out.flush()?;
    let goes_on = match mode {
        MigrateMode::DryRun => false,
        MigrateMode::Lossless => is_lossless,
        MigrateMode::Lossy => true,
    };
    if goes_on && !plans.is_empty() {
        let done = migration.run(&plans, &mut progress)?;
        bar.finish_and_clear();
        for (plan, counts) in plans.iter().zip(&done) {
            writeln!(out, "group {}: migrated, {} nodes", plan.name, grouped(counts.carried))?;
        }
    } else if !is_lossless {
        writeln!(out, "nothing was changed; --lossy continues and loses them")?;
    }
    lock.give_back().map_err(Failure::of)?;
    finish(out, Completed::with_problems(!is_lossless && !goes_on))
}

/// The changed configuration.
struct ChangedConf {
    conf: Conf,
    /// A line for each business that is in another group of this configuration.
    moves: Vec<String>,
}

/// Reads the changed configuration for the files in their present places: the named directory, and
/// the directory of live files that the last server used. What replaced settings of srv.xml there
/// replaces them here.
fn conf_for(data_dir: &Path, conf_dir: &Path) -> Result<ChangedConf, Failure> {
    // Read first: a directory that is not a data directory gets no lock file.
    let old = Reader::open(data_dir, PLUG)?;
    let last = active::read_texts(data_dir, old.generation()).map_err(Failure::of)?;
    let loaded = Conf::load_texts(conf_dir, &last.settings).map_err(Failure::of)?;
    let LoadedConf { mut conf, .. } = settled(loaded, &old).map_err(Failure::of)?;
    let live = &old.conf().srv.data.live;
    if !is_same_place(live.as_deref(), conf.srv.data.live.as_deref()) {
        let place = old.live_dir().display();
        let message = format!(
            "the files are in {place}, and <data live> of the new srv.xml says otherwise: migrate \
             moves no files"
        );
        return Err(Failure::Message(message));
    }
    // Not earlier, because perhaps only root can read the configuration.
    owner::become_owner(&old)?;
    conf.srv.data.dir = data_dir.to_owned();
    conf.srv.data.live.clone_from(live);
    let moves = moves(&old.conf().map, &conf.map);
    Ok(ChangedConf { conf, moves })
}

/// The configuration over the present files. Where map.xml leaves numbers to frs, files with
/// somewhat more room stay.
fn settled(loaded: LoadedConf, old: &Reader) -> Result<LoadedConf, Faults> {
    let groups = loaded.conf.map.groups.iter().filter_map(|group| {
        let geometry = store::live_geometry(old.live_dir(), &group.name)?;
        Some(LiveGeometry { group: group.name.clone(), geometry })
    });
    let live: Vec<LiveGeometry> = groups.collect();
    loaded.over(&live)
}

/// A line for each business whose group changes. A renamed group counts as another group.
fn moves(old: &Map, new: &Map) -> Vec<String> {
    let group_of = |map: &Map, biz: &Biz| map.groups[biz.group].name.clone();
    let line = |biz: &Biz| {
        let before = group_of(old, old.bizs.iter().find(|other| other.id == biz.id)?);
        let now = group_of(new, biz);
        (before != now).then(|| {
            format!(
                "business {}: group {before} → {now}: its nodes do not move there, it starts fresh",
                biz.name
            )
        })
    };
    new.bizs.iter().filter_map(line).collect()
}

/// Whether two settings of `<data live>` mean the same directory: that of the last server, and that
/// of the next server. The latter may be relative to a working directory that is not known yet.
fn is_same_place(old: Option<&Path>, new: Option<&Path>) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match (old, new) {
        (Some(old), Some(new)) if new.is_relative() => {
            let parts = new.components().filter(|part| *part != Component::CurDir);
            old.ends_with(parts.collect::<PathBuf>()) || real(old) == real(new)
        }
        (Some(old), Some(new)) => real(old) == real(new),
        (None, None) => true,
        _ => false,
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} % {eta}");
    let bar = ProgressBar::new(0);
    style.into_iter().for_each(|style| bar.set_style(style));
    bar
}

fn show_step(bar: &ProgressBar, step: Step<'_>) {
    match step {
        Step::KeyNode { group, done, total } => {
            // Drawing costs more than migrating a key-node.
            if done % 256 == 0 {
                bar.set_message(group.to_owned());
                bar.set_length(total);
                bar.set_position(done);
            }
        }
        Step::Files { group, doing } => bar.set_message(format!("{group}: {doing}")),
    }
}

fn write_plan(out: &mut Output, plan: &GroupPlan) -> std::io::Result<()> {
    let GroupPlan { name, from, to, counts } = plan;
    let Counts { carried, expired, unnamed, moved, damaged, crowded, doubtful, keyless } = counts;
    writeln!(out, "group {name}: {}", changes(from, to).join(", "))?;
    writeln!(out, "  {} nodes go to the new files", grouped(*carried))?;
    for (count, what) in [
        (expired, "expired nodes are dropped"),
        (unnamed, "nodes of businesses that map.xml does not name here are dropped"),
        (damaged, "damaged nodes are dropped"),
        (keyless, "nodes whose business has another type of key now are dropped"),
        (
            moved,
            "live nodes WOULD BE LOST: map.xml has their business in another group, and no node \
             moves between groups",
        ),
        (crowded, "live nodes CANNOT FIT: their chains would be full"),
        (
            doubtful,
            "of them are digests of long keys that MAY BE LOST: where such a key fits into the new \
             key field, it is looked for as it is",
        ),
    ] {
        if *count > 0 {
            writeln!(out, "  {} {what}", grouped(*count))?;
        }
    }
    Ok(())
}

fn changes(from: &Geometry, to: &Geometry) -> Vec<String> {
    let shown = |value: String| value.parse().map_or(value, grouped);
    from.differences(to)
        .map(|it| format!("{} {} → {}", it.field, shown(it.found), shown(it.expected)))
        .collect()
}
