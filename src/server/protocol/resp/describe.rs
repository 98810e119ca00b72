//! What HELLO, INFO and COMMAND say of the server.
//!
//! Invariant: what is said is true of frs; only `redis_version` names another one, the version
//! whose handshake this is, because clients ask for it.

use std::fmt::Write as _;

use super::command::Command;
use super::command_set::CommandSet;
use super::{Args, CommandError, Version, Writer};
use crate::protocol::call::Call;

/// The version of Redis whose handshake is spoken.
const REDIS_VERSION: &str = "7.0.0";
const FRS_VERSION: &str = env!("CARGO_PKG_VERSION");

/// What HELLO says besides what never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The version that is spoken from now on.
    pub version: Version,
    /// The number of the connection.
    pub id: i64,
}

/// Appends the answer of HELLO.
pub fn hello(out: &mut Vec<u8>, Hello { version, id }: Hello) {
    let mut writer = Writer::new(out, version);
    writer.map(7);
    write_pairs(&mut writer, [("server", "frs"), ("version", FRS_VERSION)]);
    for (name, value) in [("proto", version.number()), ("id", id)] {
        writer.bulk(name.as_bytes());
        writer.integer(value);
    }
    write_pairs(&mut writer, [("mode", "standalone"), ("role", "master")]);
    writer.bulk(b"modules");
    writer.array(0);
}

/// The figures of the server that INFO shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerFigures {
    /// Connections, since the counters began.
    pub connections: u64,
    /// Those that were refused.
    pub connections_refused: u64,
    /// Clients that were late.
    pub timeouts: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Requests, by their [`Call`].
    pub requests: [u64; Call::ALL.len()],
}

/// Appends the sections of INFO that `wanted` names; all of them if it names none.
pub fn info(out: &mut Vec<u8>, version: Version, wanted: Args<'_>, figures: &ServerFigures) {
    let ServerFigures { connections, connections_refused, timeouts, .. } = figures;
    let ServerFigures { bytes_in, bytes_out, requests, .. } = figures;
    let is_wanted = |section: &str| {
        let all = ["all", "default", "everything"];
        let names = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let mut words = wanted;
        wanted.len() == 0
            || words.any(|word| names(word, section) || all.iter().any(|all| names(word, all)))
    };
    let mut text = String::new();
    let mut section = |name: &str, lines: &[(&str, &dyn std::fmt::Display)]| {
        if !is_wanted(name) {
            return;
        }
        let gap = if text.is_empty() { "" } else { "\r\n" };
        // Writing to a String never fails.
        let _ = write!(text, "{gap}# {name}\r\n");
        for (name, value) in lines {
            let _ = write!(text, "{name}:{value}\r\n");
        }
    };
    section(
        "Server",
        &[
            ("redis_version", &REDIS_VERSION),
            ("redis_mode", &"standalone"),
            ("frs_version", &FRS_VERSION),
            ("process_id", &std::process::id()),
        ],
    );
    section("Persistence", &[("loading", &0)]);
    section(
        "Stats",
        &[
            ("total_connections_received", connections),
            ("total_commands_processed", &requests.iter().sum::<u64>()),
            ("total_net_input_bytes", bytes_in),
            ("total_net_output_bytes", bytes_out),
            ("rejected_connections", connections_refused),
        ],
    );
    section("Replication", &[("role", &"master"), ("connected_slaves", &0)]);
    section("Cluster", &[("cluster_enabled", &0)]);
    let [queries, updates, authz, health, other] = requests;
    section(
        "Frs",
        &[
            ("frs_queries", queries),
            ("frs_updates", updates),
            ("frs_authz", authz),
            ("frs_health", health),
            ("frs_other_requests", other),
            ("frs_timeouts", timeouts),
        ],
    );
    Writer::new(out, version).bulk(text.as_bytes());
}

/// Appends the number of commands.
pub fn command_count(out: &mut Vec<u8>, version: Version, set: CommandSet) {
    Writer::new(out, version).integer(set.count() as i64);
}

/// Appends the names of all commands.
pub fn command_list(out: &mut Vec<u8>, version: Version, set: CommandSet) {
    let mut writer = Writer::new(out, version);
    writer.array(set.count());
    set.all().for_each(|command| writer.bulk(lower(command).as_bytes()));
}

/// Appends the descriptions of all commands.
pub fn command_table(out: &mut Vec<u8>, version: Version, set: CommandSet) {
    let mut writer = Writer::new(out, version);
    writer.array(set.count());
    set.all().for_each(|command| describe(&mut writer, command));
}

/// Appends the descriptions of the named commands, of all if none is named.
pub fn command_info(out: &mut Vec<u8>, version: Version, set: CommandSet, names: Args<'_>) {
    if names.len() == 0 {
        return command_table(out, version, set);
    }
    let mut writer = Writer::new(out, version);
    writer.array(names.len());
    for name in names {
        match set.find(name) {
            Some(command) => describe(&mut writer, command),
            None => writer.null_array(),
        }
    }
}

/// Appends what the named commands are for, of all if none is named.
pub fn command_docs(out: &mut Vec<u8>, version: Version, set: CommandSet, names: Args<'_>) {
    let mut writer = Writer::new(out, version);
    if names.len() == 0 {
        writer.map(set.count());
        return set.all().for_each(|command| document(&mut writer, command));
    }
    writer.map(names.filter(|name| set.find(name).is_some()).count());
    names.filter_map(|name| set.find(name)).for_each(|command| document(&mut writer, command));
}

/// Appends the keys of a command that COMMAND GETKEYS names.
///
/// # Errors
/// There is no such command, it has no keys, or other arguments.
pub fn command_keys(
    out: &mut Vec<u8>,
    version: Version,
    set: CommandSet,
    mut whole: Args<'_>,
) -> Result<(), CommandError<'static>> {
    let arguments = whole.len();
    let named = whole.next().and_then(|word| set.find(word));
    let command = named.ok_or(CommandError::NoSuchCommand)?;
    if command.key == 0 {
        return Err(CommandError::NoKeys);
    }
    if !command.takes(arguments) {
        return Err(CommandError::ArgumentsOfOther);
    }
    let before = command.key as usize - 1;
    let last = usize::try_from(command.last_key).unwrap_or(arguments - 1);
    let mut writer = Writer::new(out, version);
    writer.array(last - before);
    whole.skip(before).take(last - before).for_each(|key| writer.bulk(key));
    Ok(())
}

fn lower(command: &Command) -> String {
    command.word.to_ascii_lowercase()
}

fn describe(writer: &mut Writer<'_>, command: &Command) {
    writer.array(10);
    writer.bulk(lower(command).as_bytes());
    writer.integer(command.redis_arity());
    writer.set(command.flags.len());
    command.flags.iter().for_each(|flag| writer.simple(flag));
    for position in [command.key, command.last_key, i64::from(command.key > 0)] {
        writer.integer(position);
    }
    // Categories, tips, specifications of keys, subcommands.
    writer.set(0);
    writer.array(0);
    writer.array(0);
    writer.array(0);
}

fn document(writer: &mut Writer<'_>, command: &Command) {
    writer.bulk(lower(command).as_bytes());
    let pairs = [("summary", command.summary), ("since", FRS_VERSION), ("group", command.group)];
    writer.map(pairs.len());
    write_pairs(writer, pairs);
}

fn write_pairs<const N: usize>(writer: &mut Writer<'_>, pairs: [(&str, &str); N]) {
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        writer.bulk(text.as_bytes());
    }
}
