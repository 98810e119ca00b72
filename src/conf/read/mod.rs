//! Reads what people write: the text of srv.xml and of map.xml, settings from outside, and files of
//! secrets.
//!
//! Invariant: each reader returns checked values, or notes what it found, where, and what it
//! expected there. It continues after a fault, so all faults are reported at once. `check` compares
//! elements with each other.
//!
//! | file | what it reads |
//! | --- | --- |
//! | `file` | the bytes of both files |
//! | `fault` | notes of what is wrong, with positions |
//! | `xml`, `walk` | a text as a tree with positions; the tree as known names |
//! | `value`, `suggest` | a value of an attribute; the known name nearest to an unknown one |
//! | `overrides`, `host` | settings of the command line and the environment; values of the system |
//! | `srv` | srv.xml, with `listen`, `authority`, `cluster`, `resp` and `rls` |
//! | `map` | map.xml, with `limit`, `calendar`, `distinct`, `weight`, `list`, `share` and `warm` |
//! | `token_file` | the file of a token, for `admin_tokens` and `resp_tokens` |
//! | `secret_file` | the files of a cluster's secret and of its password |
//! | [`outline`] | positions of elements, for programs that edit a file |

mod admin_tokens;
mod authority;
mod calendar;
pub(super) mod cluster;
mod distinct;
mod fault;
pub(super) mod file;
mod host;
mod limit;
mod list;
mod listen;
pub(super) mod map;
pub mod outline;
mod overrides;
pub(super) mod resp;
mod resp_tokens;
mod rls;
mod secret_file;
mod share;
pub(super) mod srv;
mod suggest;
mod token_file;
mod value;
mod walk;
mod warm;
mod weight;
pub(super) mod xml;

pub use admin_tokens::{AdminTokens, Grant, NamedToken};
pub(super) use fault::{Checked, Faulty, Notes, Source, shown};
pub use fault::{Fault, Faults, Position, SourceLine};
pub(super) use host::Host;
pub(super) use map::{RawBiz, RawGroup, RawMap, WrittenGroup};
pub use overrides::{Setting, SettingError, Settings};
pub(super) use resp::{CALLS_BRING_LIMITS, THROTTLE};
pub use resp_tokens::RespTokens;
pub use secret_file::{ClusterKeys, ClusterSecret, ClusterSecrets, Password, SecretError};
pub(super) use share::named_share;
pub(super) use suggest::nearest;
pub use token_file::TokenError;
pub use value::duration;
pub(super) use xml::{Document, Element};
