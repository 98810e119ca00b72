//! The files shipped with the programs are correct.

mod cluster;
mod deploy;
mod observed;
mod queries;
mod schema;
