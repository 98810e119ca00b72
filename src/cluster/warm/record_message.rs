//! Messages to the record of a key, and their answers.
//!
//! Invariant: the meaning of an answer follows from the call alone.

use crate::lease::Incarnation;
use crate::ledger;

/// A question to a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarmCall {
    /// Stores these bytes.
    Put {
        /// The lifetime. None: forever.
        life_ms: Option<u64>,
        /// The record. If empty and `takes_over`, the stored record is deleted.
        bytes: Vec<u8>,
        /// Replaces the record of another host, too.
        takes_over: bool,
    },
    /// Fetches the record, and makes this host its owner.
    Fetch,
    /// Deletes the record that was fetched before.
    Drop,
}

/// A message to a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarmMessage {
    /// Its id, which the courier chooses.
    pub id: u64,
    /// The key of the record.
    pub key: String,
    /// This host.
    pub host: Incarnation,
    /// The version, from the host's own count.
    pub version: u64,
    /// The question.
    pub call: WarmCall,
}

/// The answer of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarmAnswer {
    /// The bytes are kept.
    Kept,
    /// Another host has taken the record over.
    Moved,
    /// A later version of this host is known.
    Old,
    /// The record. This host owns it now.
    Record(Vec<u8>),
    /// There is no record, or it is deleted now.
    Nothing,
}

impl WarmAnswer {
    /// The answer to a put, by its number. None: there is no such answer.
    pub fn of_put(number: i64) -> Option<WarmAnswer> {
        match number {
            0 => Some(WarmAnswer::Kept),
            1 => Some(WarmAnswer::Moved),
            2 => Some(WarmAnswer::Old),
            _ => None,
        }
    }
}

impl WarmMessage {
    /// The function.
    pub fn function(&self) -> &'static str {
        match self.call {
            WarmCall::Put { .. } => "frs_1_put",
            WarmCall::Fetch => "frs_1_fetch",
            WarmCall::Drop => "frs_1_drop",
        }
    }

    /// Its arguments, after the key.
    pub fn arguments(&self) -> Vec<Vec<u8>> {
        let host = ledger::hex(self.host).into_bytes();
        let mut arguments = vec![host, ledger::hex(self.version).into_bytes()];
        if let WarmCall::Put { life_ms, bytes, takes_over } = &self.call {
            // Redis takes times up to 2^63 ms less the present one.
            let life_ms = life_ms.filter(|&ms| ms <= ledger::MAX_AMOUNT).unwrap_or(0);
            let over = if *takes_over { "1" } else { "0" };
            let life = life_ms.to_string().into_bytes();
            arguments.extend([life, bytes.clone(), over.as_bytes().to_vec()]);
        }
        arguments
    }
}
