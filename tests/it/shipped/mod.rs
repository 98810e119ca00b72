//! The files shipped with the programs are correct.

mod cluster;
mod deploy;
mod kubernetes;
mod mirror;
mod observed;
mod queries;
mod schema;
