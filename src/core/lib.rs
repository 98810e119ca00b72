//! Frequency limits in shared memory: how often may this user, this address, this account still do
//! this?
//!
//! A program on the server's machine attaches to the server's files and asks there, without a
//! network. Its charges count with those of the server's clients and of all other programs.
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
//! `data` is the data directory of a running server; the program runs as the server's user.
//!
//! | to | use |
//! | --- | --- |
//! | charge a use, or ask first | [`Client::update`], [`Client::query`] |
//! | charge several uses, all or none | [`Client::batch`], [`Batch::atomic`] |
//! | say how many, by force, in detail | [`Item::count`], [`Item::force`], [`Item::detail`] |
//! | look into the files without a charge | [`inspect::Reader`] |
//! | check a configuration | [`conf::Conf::load`] |
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
//! `src/core/examples` holds two programs to begin with: `login` asks before each login, `order`
//! runs atomic batches from several threads.
//!
//! # Errors
//! A refused item is no error: the verdict says so. [`AttachError`] says why a program could not
//! attach. [`ItemError`] says why an item was not judged, by the word that the server's clients
//! read: `unknown-biz`, `bad-key`, `bad-count` (the item is wrong), `store`, `busy`, `full` (the
//! item may come again). A call answers [`Error`], which is either of them. After an error nothing
//! is charged.
//!
//! # Cost
//! On a current server one item takes about 130 ns where its record is in a cache: 65 ns for the
//! item, 25 for a look at the clock, 40 for the client's lock and verdict. A record in a large
//! group costs a wait for memory more; a batch waits for several records at once. In the steady
//! state a call allocates nothing, reads no file, and makes no call to the kernel; an item that
//! asks for detail allocates, and so does a batch. A call waits for other processes for at most
//! `lock-timeout` of srv.xml; then the item is `busy`.
//!
//! # What is promised on death
//! A program may be killed at any instruction. An Update that was answered stays charged; one that
//! was not is charged whole or not at all. The next process that meets what a dead program left
//! behind undoes it, the server's keeper within a second.
//!
//! A panic that goes through a call undoes the call, and the client goes on. When a group file
//! fails under a program (it was cut, or its disk cannot read it), the program names the file on
//! standard error and ends with status 86, as the server's processes do: nothing can be answered
//! from memory that is not there.
//!
//! What the library has to tell beyond its answers, it tells by the crate `tracing`.
#![deny(missing_docs)]

// Floors, lowest first: base; values (conf, key); store; limits; service and inspect; client. A
// floor uses only those before it. What is hidden here is for the crates above. Under `--cfg loom`
// only what the model checker looks at is built.

#[doc(hidden)]
pub mod base;
#[cfg(not(loom))]
mod client;
#[cfg(not(loom))]
pub mod conf;
#[cfg(not(loom))]
pub mod inspect;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod key;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod limit;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod service;
#[doc(hidden)]
pub mod store;

#[cfg(not(loom))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(all(any(test, feature = "testing"), not(loom)))]
#[doc(hidden)]
pub mod testing;

#[cfg(not(loom))]
#[doc(inline)]
pub use {
    client::{Answers, AttachError, Batch, Biz, Client, Error, Item, Key, Verdict},
    limit::{Figures, LimitFigures, List},
    service::ItemError,
};
