//! Reads what people write: the text of srv.xml and of map.xml, settings from outside, and files of
//! secrets.
//!
//! Invariant: each reader returns checked values, or notes what it found, where, and what it
//! expected there. It continues after a fault, so all faults are reported at once. `check` compares
//! elements with each other.
//!
//! | file | what it reads |
//! | --- | --- |
//! | `conf_file` | the bytes of both files |
//! | `faults` | notes of what is wrong, with positions |
//! | `xml`, `walk` | a text as a tree with positions; the tree as known names |
//! | `scalar`, `suggest` | a value of an attribute; the known name nearest to an unknown one |
//! | `outside_settings`, `overrides` | settings from outside; how they replace those of srv.xml |
//! | `local_host` | values of the system |
//! | `srv` | srv.xml, with `listen`, `authority`, `clients`, `cluster`, `peers`, `resp`, `rls` |
//! | `map` | map.xml, with `limit`, `list`, `tables` and `share` |
//! | `limit` | a limit, with `calendar`, `distinct`, `per_call` and `weight` |
//! | `token_file` | the file of a token, for `admin_tokens` and `client_tokens` |
//! | `private_file` | the bytes of a file, of which nobody else can read a secret one |
//! | `tls` | certificates, and the files that they name |
//! | `secret_file` | the files of the secret of a cluster or of peers, and of a password |
//! | [`element_positions`] | positions of elements, for programs that edit a file |

mod admin_tokens;
mod authority;
mod calendar;
pub(super) mod client_tokens;
mod clients;
mod cluster;
pub(super) mod conf_file;
mod distinct;
pub mod element_positions;
mod faults;
mod limit;
mod list;
mod listen;
mod local_host;
pub(super) mod map;
mod outside_settings;
mod overrides;
mod peers;
mod per_call;
mod private_file;
mod register;
pub(super) mod resp;
mod rls;
mod scalar;
mod secret_file;
mod share;
pub(super) mod srv;
mod suggest;
mod tables;
mod tls;
mod token_file;
mod walk;
mod weight;
pub(super) mod xml;

pub use admin_tokens::{AdminTokens, Grant, NamedToken};
pub use client_tokens::ClientTokens;
pub(super) use faults::{Checked, Faulty, Notes, SourceText, shown};
pub use faults::{Fault, Faults, Position, SourceLine};
pub(super) use local_host::LocalHost;
pub(super) use map::{RawBiz, RawGroup, RawMap, WrittenGroup};
pub use outside_settings::{Setting, Settings};
pub use overrides::SettingError;
pub use private_file::{Exposure, SecretReaders};
pub(super) use register::ELEMENT as REGISTER;
pub(super) use resp::{CALLS_BRING_LIMITS, HAS_REGISTERS, REGISTERS, THROTTLE};
pub use scalar::duration;
pub(super) use scalar::lower_case_name;
pub use secret_file::{ClusterKeys, ClusterSecret, ClusterSecrets, Password, SecretError};
pub(super) use share::{HOLDS_STAY, named_share};
pub(super) use suggest::nearest_words;
pub use tls::TlsFiles;
pub use token_file::TokenError;
pub(super) use xml::{Document, Element};
