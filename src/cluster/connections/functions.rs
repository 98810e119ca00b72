//! Loads the ledger's library into a node, and reads the INFO of the node.
//!
//! Invariant: an installed library is never replaced, because the masters that have it would learn
//! anew. Another version has another name.

use std::time::Duration;

use redis::{Value, cmd};

use super::fault::ClusterFault;
use super::info::Info;
use super::wire::{Broken, Wire, words};
use crate::figures::{ClusterFunction, ClusterResult};
use crate::ledger::LIBRARY;

/// Timeouts allowed for a load: the source is long, and a node takes time to compile it.
const LOAD_TIMEOUTS: u32 = 4;

/// Loads the library. Succeeds if another host has already loaded it.
pub(super) fn load(wire: &mut Wire, timeout: Duration) -> Result<(), Broken> {
    let mut command = cmd("FUNCTION");
    command.arg("LOAD").arg(LIBRARY);
    let answer = wire.one(command, LOAD_TIMEOUTS * timeout);
    let is_there = |error: &redis::ServerError| words(error).contains("already exists");
    wire.counts.count(
        ClusterFunction::Load,
        match &answer {
            Err(_) => ClusterResult::Timeout,
            Ok(Value::ServerError(error)) if !is_there(error) => ClusterResult::Error,
            Ok(_) => ClusterResult::Ok,
        },
    );
    let Value::ServerError(error) = answer? else { return Ok(()) };
    if is_there(&error) {
        return Ok(());
    }
    let error = words(&error);
    if error.starts_with("OOM ") {
        return Err(Broken::Lost(format!(
            "it has no memory for the functions of frs: give it more maxmemory ({error})"
        )));
    }
    if error.contains("unknown command") {
        let (node, version) = (wire.node.to_string(), "not known".to_owned());
        return Err(Broken::Unfit(ClusterFault::NoFunctions { node, version }));
    }
    Err(wire.refusal(&error))
}

/// Asks a node for its INFO.
pub(super) fn info(wire: &mut Wire, timeout: Duration) -> Result<Info, Broken> {
    let answers = wire.exchange_counted(ClusterFunction::Info, &[cmd("INFO")], timeout)?;
    match &answers[0] {
        Value::BulkString(text) => Ok(Info::read(&String::from_utf8_lossy(text))),
        Value::ServerError(error) => Err(wire.refusal(&words(error))),
        other => Err(Broken::Lost(format!("expected the text of INFO, found {other:?}"))),
    }
}
