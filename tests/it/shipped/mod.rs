//! The files shipped with the programs are correct.

mod deploy;
mod schema;
