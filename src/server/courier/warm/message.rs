//! What is sent to the record of a key, and what is answered.
//!
//! Invariant: what an answer means follows from the call alone.

use frs_limit::lease::Incarnation;

use crate::courier::ledger;

/// What is asked of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarmCall {
    /// Keeps these bytes.
    Put {
        /// For so long. None: forever.
        life_ms: Option<u64>,
        /// The record. Empty, where it takes over: none is kept.
        bytes: Vec<u8>,
        /// Even if another host has a record of the key there.
        takes_over: bool,
    },
    /// Takes the record over.
    Fetch,
    /// Deletes what was fetched before.
    Drop,
}

/// A message to a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarmMessage {
    /// Its name. The courier chooses it.
    pub id: u64,
    /// The key of the record.
    pub key: String,
    /// This host.
    pub host: Incarnation,
    /// The host's count.
    pub version: u64,
    /// What is asked.
    pub call: WarmCall,
}

/// What a master has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarmAnswer {
    /// The bytes are kept.
    Kept,
    /// Another host has taken the record over.
    Moved,
    /// A later version of this host is known.
    Old,
    /// The record, which is this host's now.
    Record(Vec<u8>),
    /// There is none, or none any more.
    Nothing,
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
        let host = ledger::host_name(self.host).into_bytes();
        let mut arguments = vec![host, format!("{:016x}", self.version).into_bytes()];
        if let WarmCall::Put { life_ms, bytes, takes_over } = &self.call {
            // Redis takes times up to 2^63 ms less the present one.
            let life_ms = life_ms.filter(|&ms| ms <= ledger::MAX_AMOUNT).unwrap_or(0);
            let over = if *takes_over { "1" } else { "0" };
            let life = life_ms.to_string().into_bytes();
            arguments.extend([life, bytes.clone(), over.as_bytes().to_vec()]);
        }
        arguments
    }

    /// What a number means that answers a put. None: nothing.
    pub fn kept(number: i64) -> Option<WarmAnswer> {
        match number {
            0 => Some(WarmAnswer::Kept),
            1 => Some(WarmAnswer::Moved),
            2 => Some(WarmAnswer::Old),
            _ => None,
        }
    }
}
