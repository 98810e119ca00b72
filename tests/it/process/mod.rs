//! The server's processes and the programs beside them: starts, ends, deaths, reloads.

mod commands;
mod courier;
mod keeper;
mod no_business;
mod orphans;
mod programs;
mod reloads;
mod server;
mod stopped_keeper;
mod torture;
mod watch;
