//! What a configuration takes from the system that reads it.
//!
//! Invariant: nothing else of the system changes the meaning of a text. So processes that are given
//! the same values read the same configuration from the same text.

/// What a configuration takes from the system that reads it.
pub(crate) struct LocalHost {
    /// The number of workers that `auto` stands for.
    pub processors: u16,
    /// Whether there is a user of this name.
    pub knows_user: fn(&str) -> bool,
    /// Whether there is a group of this name.
    pub knows_group: fn(&str) -> bool,
}

impl LocalHost {
    /// The system that this process runs on.
    pub fn this() -> LocalHost {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        let processors = processors.min(u16::MAX.into()) as u16;
        LocalHost { processors, knows_user, knows_group }
    }
}

fn knows_user(name: &str) -> bool {
    !name.is_empty() && matches!(nix::unistd::User::from_name(name), Ok(Some(_)))
}

fn knows_group(name: &str) -> bool {
    !name.is_empty() && matches!(nix::unistd::Group::from_name(name), Ok(Some(_)))
}
