//! Frequency limits in shared memory: how often may this user, this address or this account still
//! do this?
//!
//! A program attaches to the files of a server on the same machine and asks there, without a
//! network. Its charges count together with those of the server's clients and of all other
//! programs.
//!
//! ```no_run
//! use frs::{Client, Item};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::attach("data")?;
//!
//!     let verdict = client.update(Item::new("login", "alice"))?;
//!     if verdict.is_allowed() {
//!         println!("yes; {} left", verdict.remaining().unwrap_or(0));
//!     } else {
//!         println!("no; again in {} ms", verdict.retry_ms().unwrap_or(0));
//!     }
//!     Ok(())
//! }
//! ```
//!
//! `data` is the data directory of a running server. The program runs as the server's user.
//!
//! | to | use |
//! | --- | --- |
//! | charge a use, or ask first | [`Client::update`], [`Client::query`] |
//! | charge several uses, all or none | [`Client::batch`], [`Batch::atomic`] |
//! | set the count, force, ask for detail | [`Item::count`], [`Item::force`], [`Item::detail`] |
//! | bring the limit along | [`Item::rate`], [`Item::max`] |
//! | charge as many uses as there are | [`Item::partial`] |
//! | charge once, however often it is sent | [`Item::once`], [`Batch::once`] |
//! | hold a place, or reserve and settle | [`Item::hold`], [`Item::settle`] |
//! | look into the files without a charge | [`inspect::Reader`] |
//! | check a configuration | [`conf::Conf::load`] |
//! | walk over the fields of a verdict | [`fields::Field`], [`Client::tell`] |
//!
//! ```no_run
//! # use frs::{Client, Item};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let client = Client::attach("data")?;
//! let order = client
//!     .batch()
//!     .item(Item::new("seckill", "alice"))
//!     .item(Item::new("sms", 18829340001).count(2))
//!     .atomic();
//! let answers = order.run()?;
//! println!("{}", if answers.refused { "nothing was charged" } else { "both were charged" });
//! for item in &answers.items {
//!     match item {
//!         Ok(verdict) => println!("limited: {}", verdict.is_limited()),
//!         Err(error) => println!("not judged: {error}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `src/client/examples` holds two programs to start from. `login` asks before each login. `order`
//! runs atomic batches from several threads.
//!
//! # Errors
//! A refused item is not an error: the verdict reports the refusal. [`Error`] is one of these:
//!
//! - [`AttachError`]: the program could not attach.
//! - [`ItemError`]: the item was not judged. The server's clients read the same words.
//!   `unknown-biz` and the words that begin with `bad-` mean that the item is wrong. After `store`,
//!   `busy`, `full` and `full-holds` the program may try the item again.
//! - [`Error::TooMany`]: the batch has more items than srv.xml allows.
//! - [`Error::WouldWait`]: [`Client::try_update`] or [`Batch::try_run`] lacks uses of a limit that
//!   several machines share.
//!
//! After an error nothing is charged. So no call is in doubt, and the library repeats none by
//! itself after a charge. [`Item::once`] is for work that is repeated as a whole, for example by a
//! queue whose worker was killed.
//!
//! # Cost
//! On a current server one item takes about 150 ns if its record is in a cache: 65 ns for the item,
//! 25 for reading the clock, 60 for the client's lock and the verdict. A record in a large group
//! also costs a wait for memory. A batch waits for several records at once. In the steady state a
//! call allocates nothing, reads no file and makes no system call. An item that asks for detail
//! allocates, and so does a batch. A call waits for other processes for at most `lock-timeout` of
//! srv.xml; then the item is `busy`.
//!
//! # Killed programs
//! A program may be killed at any instruction. An Update that was answered stays charged. An Update
//! that was not answered is charged as a whole or not at all. The next process that meets the
//! leftovers of a dead program undoes them. The server's keeper does so within a second.
//!
//! A panic that unwinds through a call undoes the call, and the client stays usable.
//!
//! A group file can fail under a program: it was cut, or its disk cannot read it. The program then
//! names the file on standard error and exits with status 86, as the server's processes do. It
//! cannot answer from memory that is not there.
//!
//! # Log
//! The library logs through the crate `tracing`.
#![deny(missing_docs)]

mod attachment;
mod batch;
mod client;
mod error;
mod item;
mod per_process;
mod pool;
#[cfg(test)]
mod tests;
mod verdict;

pub mod conf;
pub mod fields;
pub mod inspect;

#[doc(inline)]
pub use frs_engine::ItemError;
#[doc(inline)]
pub use frs_engine::{Command, Role};
#[doc(inline)]
pub use frs_limit::{Figures, LimitFigures, List};
pub use {
    batch::Batch,
    client::Client,
    error::{AttachError, Error},
    item::{Biz, Item, Key},
    verdict::{Answers, Tell, TriedAnswers, Verdict},
};
