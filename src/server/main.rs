//! The frs command reads arguments and configuration, then becomes the master or asks a running
//! one.
//!
//! Exit status: 0 as asked; 1 faulty configuration or data, or something is in use; 2 wrong usage.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use frs::base::figures::grouped;
use frs::conf::Machine;
use frs::conf::{Conf, report};
use frs::store::ChildRole;
use frs_server::buffer_sizes::BUFFER_SIZES;
use frs_server::master::{self, Ended, Start, command};
use frs_server::process::child::ForkedChild;
use frs_server::process::log;
use frs_server::process::result_files::Reloaded;
use frs_server::{courier, keeper, worker};

/// What the manual page says beside the options.
const MORE: &str = "\
Signals to the master: HUP reads the configuration again; TERM and INT finish
what has been read, then stop; QUIT waits for connections to close as well; USR1
opens the log file again; USR2 hands the listening sockets to the program that
is now in the place of this one.

Files: srv.xml and map.xml in DIR; the data directory that srv.xml names, whose
file lock holds the process number of the master.

Exit status: 0 as asked; 1 faulty configuration or data, or the data directory
or an address is in use; 2 wrong usage.";

/// A frequency-limit server on shared memory.
#[derive(Parser)]
#[command(name = "frs", version, args_conflicts_with_subcommands = true, after_long_help = MORE)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    dir: ConfDir,
    /// Refuse to start if a group cannot be served, instead of serving the others
    #[arg(long)]
    strict: bool,
}

#[derive(Args)]
struct ConfDir {
    /// Directory of srv.xml and map.xml
    #[arg(long, value_name = "DIR", default_value = "conf")]
    conf: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Run in the foreground
    Serve(Serve),
    /// Check srv.xml and map.xml; print geometry and memory
    Check(ConfDir),
    /// Make the running server read its configuration again
    Reload(ConfDir),
    /// Stop the running server
    Stop(ConfDir),
    /// Show the running server's processes, generation and addresses
    Status(ConfDir),
}

/// A command failed; the reason has been printed.
struct Failed;

fn main() -> ExitCode {
    if let Some(status) = frs_pages::write_if_asked(Arguments::command) {
        return status;
    }
    let arguments = Arguments::parse();
    let result = match arguments.command.unwrap_or(Command::Serve(arguments.serve)) {
        Command::Serve(how) => serve(&how),
        Command::Check(dir) => check(&dir.conf),
        Command::Reload(dir) => reload(&dir.conf),
        Command::Stop(dir) => say(command::stop(&dir.conf), |pid| {
            println!("stopped (process {pid})");
        }),
        Command::Status(dir) => say(command::status(&dir.conf), |text| print!("{text}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed) => ExitCode::FAILURE,
    }
}

fn serve(how: &Serve) -> Result<(), Failed> {
    let how = Start { conf_dir: &how.dir.conf, strict: how.strict };
    match say(master::serve(how), |ended| ended)? {
        Ended::Stopped => Ok(()),
        Ended::Child(child) => become_child(child),
    }
}

fn become_child(child: ForkedChild) -> Result<(), Failed> {
    let role = child.role();
    let _name = log::name_process(&role.to_string());
    match child.init() {
        Ok(None) => Ok(()),
        Ok(Some(child)) => match role {
            ChildRole::Worker(_) => log_failure(worker::run(child)),
            ChildRole::Keeper => log_failure(keeper::run(child)),
            ChildRole::Courier => log_failure(courier::process::run(child)),
        },
        Err(error) => log_failure(Err(error)),
    }
}

fn check(conf_dir: &Path) -> Result<(), Failed> {
    let conf = Conf::load(conf_dir).map_err(|faults| {
        for fault in faults.iter() {
            eprintln!("{fault}");
            fault.line.iter().for_each(|line| eprintln!("{line}"));
        }
        eprintln!("{}", count_words(faults.count()));
        Failed
    })?;
    let report = report::report(&conf, &Machine::look(&conf), &BUFFER_SIZES);
    let token_warnings = conf.token_warnings();
    print!("{}", report.text);
    let warnings = report.warnings.iter().chain(&token_warnings);
    warnings.for_each(|warning| println!("warning: {warning}"));
    report.faults.iter().for_each(|fault| eprintln!("{fault}"));
    if report.faults.is_empty() {
        println!("ok");
        Ok(())
    } else {
        eprintln!("{}", count_words(report.faults.len()));
        Err(Failed)
    }
}

fn count_words(faults: usize) -> String {
    format!("{} fault{}", grouped(faults as u64), if faults == 1 { "" } else { "s" })
}

fn reload(conf_dir: &Path) -> Result<(), Failed> {
    match say(command::reload(conf_dir), |result| result)? {
        Reloaded::Taken { generation, laggards } => {
            println!("taken: generation {generation}");
            laggards.iter().for_each(|laggard| println!("not yet acknowledged by {laggard}"));
            Ok(())
        }
        Reloaded::Refused { faults } => {
            faults.iter().for_each(|fault| eprintln!("{fault}"));
            eprintln!("refused: the old configuration stays in force");
            Err(Failed)
        }
    }
}

fn say<T, U, E: std::fmt::Display>(
    result: Result<T, E>,
    succeed: impl FnOnce(T) -> U,
) -> Result<U, Failed> {
    match result {
        Ok(value) => Ok(succeed(value)),
        Err(error) => {
            eprintln!("{error}");
            Err(Failed)
        }
    }
}

fn log_failure<E: std::fmt::Display>(result: Result<(), E>) -> Result<(), Failed> {
    result.map_err(|error| {
        tracing::error!("{error}");
        Failed
    })
}
