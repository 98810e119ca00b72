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
        COMMANDS.iter().chain(self.of_registers())
    }

    /// How many there are.
    pub fn count(self) -> usize {
        COMMANDS.len() + self.of_registers().len()
    }

    /// The command of this name, in any letter case.
    #[inline]
    pub fn find(self, word: &[u8]) -> Option<&'static Command> {
        let is_it = |command: &&Command| command.word.as_bytes().eq_ignore_ascii_case(word);
        // The frequent commands of the other table have a dot in their names.
        let (first, second) = match word.contains(&b'.') {
            true => (&COMMANDS[..], self.of_registers()),
            false => (self.of_registers(), &COMMANDS[..]),
        };
        first.iter().find(is_it).or_else(|| second.iter().find(is_it))
    }

    #[inline]
    fn of_registers(self) -> &'static [Command] {
        if self.has_registers { &REGISTER_COMMANDS } else { &[] }
    }
}
