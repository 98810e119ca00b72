//! The commands of a listener: those of every listener, and those over registers.
//!
//! Invariant: a command that is not in the set is unknown there.

use super::command::{COMMANDS, Command};
use super::registers::REGISTER_COMMANDS;

/// The commands of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandSet {
    /// Whether those over registers are among them.
    pub has_registers: bool,
}

impl CommandSet {
    /// All of them.
    pub fn all(self) -> impl Iterator<Item = &'static Command> {
        let of_registers = if self.has_registers { &REGISTER_COMMANDS[..] } else { &[] };
        COMMANDS.iter().chain(of_registers)
    }

    /// How many there are.
    pub fn count(self) -> usize {
        COMMANDS.len() + if self.has_registers { REGISTER_COMMANDS.len() } else { 0 }
    }

    /// The command of this name, in any letter case.
    #[inline]
    pub fn find(self, word: &[u8]) -> Option<&'static Command> {
        let is_it = |command: &&Command| command.word.as_bytes().eq_ignore_ascii_case(word);
        let of_registers = if self.has_registers { &REGISTER_COMMANDS[..] } else { &[] };
        // The frequent commands of the other table have a dot in their names.
        let (first, second) = match word.contains(&b'.') {
            true => (&COMMANDS[..], of_registers),
            false => (of_registers, &COMMANDS[..]),
        };
        first.iter().find(is_it).or_else(|| second.iter().find(is_it))
    }
}
