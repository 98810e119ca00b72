//! What a configuration takes from the system it is read on.
//!
//! Invariant: nothing else of the system changes what a text means, so that a process that is told
//! these reads the same from it as another.

/// What a configuration takes from the system it is read on.
pub(super) struct Host {
    /// What `auto` workers are.
    pub processors: u16,
    /// Is there a user of this name?
    pub knows_user: fn(&str) -> bool,
}

impl Host {
    /// This system.
    pub fn this() -> Host {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        Host { processors: processors.min(u16::MAX.into()) as u16, knows_user }
    }
}

fn knows_user(name: &str) -> bool {
    !name.is_empty() && matches!(nix::unistd::User::from_name(name), Ok(Some(_)))
}
