//! The kinds by which requests and answers are counted. They name the numbers in the store's
//! counters.
//!
//! Invariant: the name of a number never changes, because counts survive a new binary.

use super::route::Route;
use frs_base::named;
use frs_engine::Command;
use frs_store::counter::{REQUEST_KINDS, RESPONSE_KINDS};

named! {
    /// The kind of a request.
    Call {
        /// Query, in any form.
        Query = 0 "query",
        /// Update, in any form.
        Update = 1 "update",
        /// Update for a gateway.
        Authz = 2 "authz",
        /// A check whether this worker serves.
        Health = 3 "health",
        /// A request that could not be classified.
        Other = 4 "other",
    }
}

const _: () = assert!(Call::ALL.len() == REQUEST_KINDS);

impl From<Command> for Call {
    fn from(command: Command) -> Call {
        match command {
            Command::Query => Call::Query,
            Command::Update => Call::Update,
        }
    }
}

impl From<&Route<'_>> for Call {
    fn from(route: &Route<'_>) -> Call {
        match route {
            Route::Items(command) | Route::Item(command, _) => Call::from(*command),
            Route::Authz(_) => Call::Authz,
            Route::Health => Call::Health,
        }
    }
}

/// The statuses that have a counter each. Any other status, from a client's own `deny`, is counted
/// by its class.
const STATUSES: [&str; RESPONSE_KINDS] = [
    "200", "400", "401", "403", "404", "405", "408", "413", "415", "429", "431", "501", "503",
    "505", "4xx", "5xx",
];
/// The kind of a status.
#[inline]
pub const fn status_kind(status: u16) -> usize {
    match status {
        200 => 0,
        400 => 1,
        401 => 2,
        403 => 3,
        404 => 4,
        405 => 5,
        408 => 6,
        413 => 7,
        415 => 8,
        429 => 9,
        431 => 10,
        501 => 11,
        503 => 12,
        505 => 13,
        500.. => 15,
        _ => 14,
    }
}

/// The name of a kind of status: three digits, or `4xx` or `5xx` for the rare ones.
pub fn status_word(kind: usize) -> &'static str {
    STATUSES.get(kind).copied().unwrap_or("5xx")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_is_counted_by_its_own_word_or_by_its_class() {
        for status in 100..600 {
            let (word, own) = (status_word(status_kind(status)), status.to_string());
            let class = if status < 500 { "4xx" } else { "5xx" };
            assert_eq!(word, if STATUSES.contains(&&*own) { &own } else { class }, "{status}");
        }
        assert_eq!(status_word(RESPONSE_KINDS), "5xx");
    }
}
