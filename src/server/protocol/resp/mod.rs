//! RESP, the protocol of Redis, both directions: bytes of a connection to a command, a command to a
//! [`Request`](frs_engine::Request), answers to bytes of RESP2 or RESP3.
//!
//! Invariant: a command is a sequence of byte strings within bounds, whether it came as an array,
//! as a line, or from a transaction. An error begins with ERR, because clients retry on other
//! words, unless it is one that clients look for (NOAUTH, WRONGPASS, NOPROTO, EXECABORT).
//!
//! | file | duty |
//! | --- | --- |
//! | `scan` | where a command ends, however it is cut |
//! | `args` | its arguments |
//! | `inline` | a command that is a line |
//! | `command`, `command_set` | the commands that there are, and those of a listener |
//! | `request` | `FRS.UPDATE` and its kin to a request |
//! | `throttle` | `CL.THROTTLE` to a request, and the figures of its answer |
//! | `answer` | answers of items |
//! | `reply` | every other reply |
//! | `describe` | what COMMAND, HELLO and INFO say |
//! | `registers` | Redis' own commands over registers |
//! | `unknown` | the names of Redis' commands that frs does not have |
//! | `fault` | what ends a connection, and what only fails a command |
//! | `shown` | text of a client within an error |

mod answer;
mod args;
mod command;
mod command_set;
mod describe;
mod fault;
mod inline;
mod registers;
mod reply;
mod request;
mod scan;
mod shown;
mod throttle;
mod unknown;

pub use answer::{AnswerForm, Shape, write_answers};
pub use args::{Args, command_bytes, push_command};
pub use command::{COMMANDS, Command, Name};
pub use command_set::CommandSet;
pub use describe::{
    Hello, ServerFigures, command_count, command_docs, command_info, command_keys, command_list,
    command_table, hello, info,
};
pub use fault::{CommandError, Fault, looks_like_resp};
pub use inline::read_line;
#[cfg(any(test, feature = "testing"))]
pub use registers::mock::{Keyspace, Memory};
pub use registers::{
    KEY_BYTES, NUMBER_BYTES, REGISTER_COMMANDS, RegisterCommand, RegisterFault, VALUE_BYTES, Verb,
    number, read_scan,
};
pub use reply::{Version, Writer, write_fault};
pub use request::{read_many, read_one};
pub use scan::{CommandBounds, Scan, Scanned};
pub use throttle::read_throttle;
pub use unknown::{OTHER, UNKNOWN_COMMANDS, unknown_index};

#[cfg(test)]
mod tests;
