//! What a configuration takes from the system on which it is read.
//!
//! Invariant: nothing else of the system changes the meaning of a text. So every process that is
//! given the same values reads the same configuration from it.

/// What a configuration takes from the system on which it is read.
pub(crate) struct Host {
    /// The number of workers for `auto`.
    pub processors: u16,
    /// Whether there is a user of this name.
    pub knows_user: fn(&str) -> bool,
    /// Whether there is a group of this name.
    pub knows_group: fn(&str) -> bool,
}

impl Host {
    /// This system.
    pub fn this() -> Host {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        let processors = processors.min(u16::MAX.into()) as u16;
        Host { processors, knows_user, knows_group }
    }
}

fn knows_user(name: &str) -> bool {
    !name.is_empty() && matches!(nix::unistd::User::from_name(name), Ok(Some(_)))
}

fn knows_group(name: &str) -> bool {
    !name.is_empty() && matches!(nix::unistd::Group::from_name(name), Ok(Some(_)))
}
