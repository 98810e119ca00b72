//! What is shipped with the programs is sound.

mod deploy;
mod schema;
