//! The frs command: reads arguments and configuration, then becomes the master or calls a running
//! one.
//!
//! Exit status: 0 for success; 1 for faulty configuration or data, or a resource in use; 2 for
//! wrong usage.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use frs_base::clock;
use frs_base::figures::grouped;
use frs_conf::Machine;
use frs_conf::{Conf, LoadedConf, Setting, Settings, report};
use frs_server::buffer_sizes::BUFFER_SIZES;
use frs_server::master::command::RunningMaster;
use frs_server::master::{self, Ended, Forecast, Start};
use frs_server::process::child::{ChildRole, ForkedChild};
use frs_server::process::control::Reloaded;
use frs_server::process::envoy;
use frs_server::process::log;
use frs_server::protocol::visible;
use frs_server::tls::identity::TlsReport;
use frs_server::{cluster, keeper, worker};
use frs_store as store;

/// The text of the manual page after the options.
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
#[command(name = "frs", version, after_long_help = MORE)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArguments,
}

#[derive(Args)]
struct ServeArguments {
    #[command(flatten)]
    conf: WholeConf,
    /// Refuse to start if a group cannot be served, instead of serving the others
    #[arg(long)]
    strict: bool,
    /// Begin with an empty group where its live files are gone and its checkpoints are missing or
    /// damaged; what is lost is named in the log
    #[arg(long)]
    accept_loss: bool,
}

/// The files of the configuration, and what replaces settings of srv.xml.
#[derive(Args)]
struct WholeConf {
    #[command(flatten)]
    place: Place,
    /// Listen here instead of at the <listen> of srv.xml; may be repeated [env: FRS_LISTEN, with
    /// white space between addresses]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Worker processes, or auto, instead of the <workers> of srv.xml [env: FRS_WORKERS]
    #[arg(long, value_name = "N")]
    workers: Option<String>,
    /// Any setting of srv.xml: http.max-items=500, or degrade=true for an element's text; may be
    /// repeated
    #[arg(long, value_name = "ELEMENT.ATTRIBUTE=VALUE")]
    #[arg(value_parser = |text: &str| Setting::parse(text, "--set"))]
    set: Vec<Setting>,
}

/// The directories of a server's configuration and data.
#[derive(Args)]
struct Place {
    /// Directory of srv.xml and map.xml, before or behind the command [default: conf]
    #[arg(long, value_name = "DIR")]
    conf: Option<PathBuf>,
    /// The data directory, instead of <data dir> of srv.xml [env: FRS_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Run in the foreground
    Serve(ServeArguments),
    /// Check srv.xml and map.xml; print geometry and memory
    Check(WholeConf),
    /// Make the running server read its configuration again
    Reload {
        #[command(flatten)]
        place: Place,
        /// Lose what does not fit a changed geometry, instead of refusing it
        #[arg(long)]
        lossy: bool,
    },
    /// Make the running server write a checkpoint of all groups, and wait until it is on disk
    Checkpoint(Place),
    /// Stop the running server; with <peers> it hands its keys over to them
    Stop {
        #[command(flatten)]
        place: Place,
        /// Stop only if a peer is there that has all records
        #[arg(long)]
        handover: bool,
    },
    /// Show the running server's processes, generation and addresses
    Status(Place),
}

impl Command {
    /// Merges the command with the options before it, of which only `--conf` is allowed.
    fn after(mut self, before: ServeArguments) -> Result<Command, &'static str> {
        let ServeArguments {
            conf: WholeConf { place: Place { conf, data }, listen, workers, set },
            strict,
            accept_loss,
        } = before;
        let is_alone = data.is_none() && listen.is_empty() && workers.is_none() && set.is_empty();
        if strict || accept_loss || !is_alone {
            return Err(
                "only --conf may stand before a command: write the other options behind it",
            );
        }
        let (Command::Serve(ServeArguments { conf: WholeConf { place, .. }, .. })
        | Command::Check(WholeConf { place, .. })
        | Command::Reload { place, .. }
        | Command::Checkpoint(place)
        | Command::Stop { place, .. }
        | Command::Status(place)) = &mut self;
        let own = &mut place.conf;
        match (own.is_some(), conf) {
            (true, Some(_)) => {
                return Err("--conf stands before the command and behind it: expected it once");
            }
            (false, Some(conf)) => *own = Some(conf),
            (_, None) => {}
        }
        Ok(self)
    }
}

impl Place {
    fn conf_dir(&self) -> &Path {
        self.conf.as_deref().unwrap_or(Path::new("conf"))
    }

    fn settings(&self) -> impl Iterator<Item = Setting> {
        self.data.iter().map(|dir| Setting::named("data.dir", dir, "--data"))
    }

    /// The running server of this place.
    fn master(&self) -> Result<RunningMaster, Failed> {
        let settings = Settings::new(self.settings().collect(), environment()?);
        report_result(RunningMaster::find(self.conf_dir(), &settings))
    }
}

impl WholeConf {
    fn settings(&self) -> Result<Settings, Failed> {
        let listen = self.listen.iter().map(|text| Setting::named("listen", text, "--listen"));
        let workers = self.workers.iter().map(|text| Setting::named("workers", text, "--workers"));
        let arguments = self.place.settings().chain(listen).chain(workers);
        Ok(Settings::new(arguments.chain(self.set.iter().cloned()).collect(), environment()?))
    }
}

/// The settings of the environment. An empty variable counts as unset, because compose files pass
/// empty ones.
fn environment() -> Result<Vec<Setting>, Failed> {
    let mut settings = Vec::new();
    for (variable, name) in
        [("FRS_DATA", "data.dir"), ("FRS_LISTEN", "listen"), ("FRS_WORKERS", "workers")]
    {
        let Some(value) = std::env::var_os(variable) else { continue };
        let Some(value) = value.to_str() else {
            eprintln!("{variable}: found {}, expected UTF-8", value.display());
            return Err(Failed);
        };
        let values =
            if name == "listen" { value.split_whitespace().collect() } else { vec![value] };
        let values = values.into_iter().filter(|value| !value.is_empty());
        settings.extend(values.map(|value| Setting::named(name, value, variable)));
    }
    Ok(settings)
}

/// A command failed, and the reason has been printed.
struct Failed;

fn main() -> ExitCode {
    if let Some(status) = frs_pages::write_if_asked(Arguments::command) {
        return status;
    }
    let Arguments { command, serve: before } = Arguments::parse();
    let command = match command {
        None => Ok(Command::Serve(before)),
        Some(command) => command.after(before),
    };
    let command = command.unwrap_or_else(|words| {
        Arguments::command().error(ErrorKind::ArgumentConflict, words).exit()
    });
    let result = match command {
        Command::Serve(how) => serve(&how),
        Command::Check(conf) => check(&conf),
        Command::Reload { place, lossy } => reload(&place, lossy),
        Command::Checkpoint(place) => checkpoint(&place),
        Command::Stop { place, handover } => stop(&place, handover),
        Command::Status(place) => status(&place),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed) => ExitCode::FAILURE,
    }
}

fn serve(how: &ServeArguments) -> Result<(), Failed> {
    let settings = how.conf.settings()?;
    let how = Start {
        conf_dir: how.conf.place.conf_dir(),
        settings: &settings,
        strict: how.strict,
        accepts_loss: how.accept_loss,
    };
    match report_result(master::serve(how))? {
        Ended::Stopped => Ok(()),
        Ended::Child(child) => become_child(*child),
    }
}

fn become_child(child: ForkedChild) -> Result<(), Failed> {
    let role = child.role;
    let _name = log::name_process(&role.to_string());
    match child.init() {
        Ok(None) => Ok(()),
        Ok(Some(child)) => match role {
            ChildRole::Worker(_) => log_failure(worker::run(child)),
            ChildRole::Keeper => log_failure(keeper::run(child)),
            ChildRole::Cluster => log_failure(cluster::run(child)),
            ChildRole::Envoy => {
                log_failure(envoy::become_program(child).map(|never| match never {}))
            }
        },
        Err(error) => log_failure(Err(error)),
    }
}

fn check(of: &WholeConf) -> Result<(), Failed> {
    let settings = of.settings()?;
    let conf_dir = of.place.conf_dir();
    report_result(master::conf_trust::look(conf_dir))?;
    let loaded = Conf::load_texts(conf_dir, &settings);
    let loaded = loaded.and_then(|loaded| store::settled(loaded, &[]));
    let LoadedConf { conf, .. } = loaded.map_err(|faults| {
        for fault in faults.iter() {
            eprintln!("{fault}");
            fault.line.iter().for_each(|line| eprintln!("{line}"));
        }
        eprintln!("{}", count_words(faults.count()));
        Failed
    })?;
    let report = report::report(&conf, &Machine::look(&conf), &BUFFER_SIZES);
    let token_warning = conf.token_warning();
    let tls = TlsReport::look(&conf.srv, clock::now());
    for setting in settings.iter() {
        let (name, value) = (setting.name(), setting.value().escape_debug());
        let origin = setting.origin();
        print_lines(format_args!("{name} is \"{value}\" ({origin}), whatever srv.xml says"))?;
    }
    print_lines(report.text.trim_end_matches('\n'))?;
    let Forecast { lines, warnings, refusals } = master::forecast(&conf);
    let restarts = master::restart_needs(&conf.srv.data.dir, conf_dir);
    lines.iter().try_for_each(print_lines)?;
    let mut warnings =
        report.warnings.iter().chain(&token_warning).chain(&tls.warnings).chain(&warnings);
    warnings.try_for_each(|warning| print_lines(format_args!("warning: {warning}")))?;
    let refused = |need| print_lines(format_args!("warning: a reload is refused: {need}"));
    restarts.iter().try_for_each(refused)?;
    let faults = report.faults.len() + tls.faults.len();
    let all = report.faults.iter().chain(&tls.faults).chain(&refusals);
    all.for_each(|fault| eprintln!("{fault}"));
    if faults > 0 {
        eprintln!("{}", count_words(faults));
        return Err(Failed);
    }
    if !refusals.is_empty() {
        eprintln!("refused: a start or a reload would fail");
        return Err(Failed);
    }
    if !restarts.is_empty() {
        print_lines("ok for a start; the running server refuses a reload")?;
        return Err(Failed);
    }
    print_lines("ok")
}

fn count_words(faults: usize) -> String {
    format!("{} fault{}", grouped(faults as u64), if faults == 1 { "" } else { "s" })
}

fn checkpoint(place: &Place) -> Result<(), Failed> {
    let made = report_result(place.master()?.checkpoint())?;
    made.iter().try_for_each(|group| {
        let (name, pages) = (&group.name, grouped(group.written_pages));
        print_lines(format_args!(
            "group {name}: checkpoint {}, {pages} pages written",
            group.number
        ))
    })
}

fn stop(place: &Place, handover: bool) -> Result<(), Failed> {
    let master = place.master()?;
    if handover {
        report_result(master.expect_heir())?;
    }
    let pid = report_result(master.stop())?;
    print_lines(format_args!("stopped (process {pid})"))
}

fn status(place: &Place) -> Result<(), Failed> {
    let text = report_result(place.master()?.status())?;
    print_lines(text.trim_end_matches('\n'))
}

fn reload(place: &Place, lossy: bool) -> Result<(), Failed> {
    match report_result(place.master()?.reload(lossy))? {
        Reloaded::Taken { generation, laggards, fresh } => {
            print_lines(format_args!("taken: generation {generation}"))?;
            fresh.iter().try_for_each(print_lines)?;
            let line = |of| print_lines(format_args!("not yet acknowledged by {of}"));
            laggards.iter().try_for_each(line)
        }
        Reloaded::Refused { faults, .. } => {
            faults.iter().for_each(|fault| eprintln!("{}", visible::in_text(&fault.to_string())));
            eprintln!("refused: the old configuration stays in force");
            Err(Failed)
        }
    }
}

/// Writes lines to standard output. They may quote files of others, so characters that a terminal
/// would act on are shown by number. It is no failure if the reader has closed the pipe, as `head`
/// does.
fn print_lines(lines: impl Display) -> Result<(), Failed> {
    match writeln!(io::stdout(), "{}", visible::in_text(&lines.to_string())) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("cannot write the output: {error}");
            Err(Failed)
        }
        _ => Ok(()),
    }
}

fn report_result<T, E: Display>(result: Result<T, E>) -> Result<T, Failed> {
    result.map_err(|error| {
        eprintln!("{error}");
        Failed
    })
}

fn log_failure<E: Display>(result: Result<(), E>) -> Result<(), Failed> {
    result.map_err(|error| {
        tracing::error!("{error}");
        Failed
    })
}
