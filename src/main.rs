//! The frs command.
fn main() {}
