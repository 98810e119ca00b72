//! frs-inspect looks into the files of a server, live or cold.
//!
//! Invariant: nothing is written and no semaphore is taken, except by `verify --repair` and
//! `migrate`, which require the server to be stopped.
//!
//! Exit status: 0 as asked; 1 something is off, not there or cannot be read; 2 wrong usage.

mod counters;
mod dump;
mod get;
mod migrate;
mod output;
mod owner;
mod show;
mod stat;
mod top;
mod verify;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use frs_cluster::PLUG;
use output::{Completed, Failure};

/// The part of the manual page besides the options.
const MORE: &str = "\
All but `verify --repair` and `migrate` only read, and may run beside a server
under load.

Exit status: 0 as asked; 1 something is off, not there or cannot be read;
2 wrong usage.";

/// Look into the files of frs, live or cold.
#[derive(Parser)]
#[command(name = "frs-inspect", version, after_long_help = MORE)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct DataDir {
    /// The server's data directory
    #[arg(value_name = "DATA")]
    dir: PathBuf,
}

/// What nodes are read from.
#[derive(Args)]
struct RecordSource {
    #[command(flatten)]
    data: DataDir,
    /// Read the newest complete checkpoint of each group instead of the live files
    #[arg(long)]
    checkpoint: bool,
}

impl RecordSource {
    fn open(&self) -> Result<frs_engine::inspect::Reader, frs_engine::inspect::Error> {
        match self.checkpoint {
            true => frs_engine::inspect::Reader::open_checkpoints(&self.data.dir, PLUG),
            false => frs_engine::inspect::Reader::open(&self.data.dir, PLUG),
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Geometry, occupancy, chains, counters and slots
    Stat(RecordSource),
    /// Every live node, one line or record each
    Dump {
        #[command(flatten)]
        source: RecordSource,
        /// Only the nodes of this business, by name or number
        #[arg(long, value_name = "B")]
        biz: Option<String>,
        /// How records are written
        #[arg(long, value_enum, default_value_t = dump::DumpFormat::Text)]
        format: dump::DumpFormat,
        /// Expired nodes too
        #[arg(long)]
        expired: bool,
    },
    /// One node: its place, its words and what they mean
    Get {
        #[command(flatten)]
        source: RecordSource,
        /// The business, by name or number
        #[arg(value_name = "B")]
        biz: String,
        /// The key, as in a request
        #[arg(value_name = "KEY", required_unless_present = "whole")]
        key: Option<String>,
        /// The node of the whole business instead
        #[arg(long, conflicts_with = "key")]
        whole: bool,
    },
    /// The most used keys of a business, or the most refused ones
    Top {
        #[command(flatten)]
        source: RecordSource,
        /// The business, by name or number; with `--by refused`, none stands for all
        #[arg(value_name = "B")]
        biz: Option<String>,
        /// How many keys
        #[arg(short, value_name = "N", default_value_t = 20)]
        n: usize,
        /// What to sort them by
        #[arg(long, value_enum, default_value_t = TopOrder::Used)]
        by: TopOrder,
        /// How far `--by refused` looks back; 1m if left out
        #[arg(long, value_enum)]
        window: Option<TopWindow>,
    },
    /// CRCs, tags, duplicates, misplaced keys; exit status 1 if any is wrong
    Verify {
        #[command(flatten)]
        source: RecordSource,
        /// Repair: drop nodes that are not sound (server stopped)
        #[arg(long, conflicts_with = "checkpoint")]
        repair: bool,
    },
    /// A live view, full screen
    Watch(DataDir),
    /// Rewrite groups to the geometry of a changed map.xml (server stopped)
    Migrate {
        #[command(flatten)]
        data: DataDir,
        /// Directory of the changed srv.xml and map.xml
        #[arg(long, value_name = "DIR")]
        conf: PathBuf,
        /// Only say what would happen to the nodes
        #[arg(long)]
        dry_run: bool,
        /// Continue even if live nodes are lost
        #[arg(long, conflicts_with = "dry_run")]
        lossy: bool,
    },
}

/// What orders the keys of `top`.
#[derive(Clone, Copy, ValueEnum)]
enum TopOrder {
    /// The uses counted now
    Used,
    /// The latest use
    Last,
    /// Refused Updates
    Refused,
}

/// How far `top --by refused` looks back.
#[derive(Clone, Copy, ValueEnum)]
enum TopWindow {
    /// A minute
    #[value(name = "1m")]
    Minute,
    /// An hour
    #[value(name = "1h")]
    Hour,
}

fn main() -> ExitCode {
    if let Some(status) = frs_pages::write_if_asked(Arguments::command) {
        return status;
    }
    // With the signal ignored, a file that cannot grow is an error that gets reported. If the
    // signal cannot be ignored, it ends this process, as by default.
    let _ = frs_base::sys::process::ignore(frs_base::sys::process::Signal::SIGXFSZ);
    match run(Arguments::parse().command) {
        Ok(Completed::Clean) => ExitCode::SUCCESS,
        Ok(Completed::FoundProblems) => ExitCode::FAILURE,
        // The reader of the output needs no more of it.
        Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(Failure::Message(message)) => {
            output::print_error(message);
            ExitCode::FAILURE
        }
    }
}

/// Ends with a usage error.
fn refuse(words: &str) -> ! {
    Arguments::command().error(clap::error::ErrorKind::ArgumentConflict, words).exit()
}

fn run(command: Command) -> Result<Completed, Failure> {
    match command {
        Command::Stat(source) => stat::run(source.open()?),
        Command::Dump { source, biz, format, expired } => {
            dump::run(source.open()?, biz.as_deref(), format, expired)
        }
        Command::Get { source, biz, key, whole: _ } => {
            get::run(source.open()?, &biz, key.as_deref())
        }
        Command::Top { source, biz, n, by, window } => {
            let by = match by {
                TopOrder::Used => frs_engine::inspect::By::Used,
                TopOrder::Last => frs_engine::inspect::By::Last,
                TopOrder::Refused if source.checkpoint => {
                    refuse("--checkpoint does not go with --by refused: it holds no refused keys")
                }
                TopOrder::Refused => {
                    let window = match window {
                        None | Some(TopWindow::Minute) => frs_engine::inspect::Window::Minute,
                        Some(TopWindow::Hour) => frs_engine::inspect::Window::Hour,
                    };
                    return top::run_refused(source.open()?, biz.as_deref(), n, window);
                }
            };
            if window.is_some() {
                refuse("--window goes only with --by refused");
            }
            let Some(biz) = biz else { refuse("top needs a business, except with --by refused") };
            top::run(source.open()?, &biz, n, by)
        }
        Command::Verify { source, repair: false } => verify::run(&source.open()?),
        Command::Verify { source, repair: true } => verify::repair(&source.data.dir),
        Command::Watch(data) => watch::run(&data.dir),
        Command::Migrate { data, conf, dry_run, lossy } => {
            let mode = match (dry_run, lossy) {
                (true, _) => migrate::MigrateMode::DryRun,
                (false, true) => migrate::MigrateMode::Lossy,
                (false, false) => migrate::MigrateMode::Lossless,
            };
            migrate::run(&data.dir, &conf, mode)
        }
    }
}
