//! Commands over registers in memory: worked cases. The differential test asks Redis itself.

mod cases;
mod increx;

use super::mock::Memory;
use super::*;
use crate::protocol::resp::{CommandBounds, CommandSet, Name, Version, read_line};

/// The time of all commands.
const NOW_MS: u64 = 1_700_000_000_000;

/// Runs a line on the registers, and returns its reply with line ends replaced by spaces.
fn ask(memory: &mut Memory, line: &str) -> String {
    let (mut words, mut out) = (Vec::new(), Vec::new());
    let bounds = CommandBounds { arguments: 60, bytes: 4096 };
    let mut args = read_line(line.as_bytes(), bounds, &mut words).expect("words");
    let whole = args.len();
    let word = args.next().expect("a word");
    let command = CommandSet { has_registers: true }.find(word).expect("a command");
    let Name::Register(verb) = command.name else { panic!("{line}: no command over registers") };
    assert!(command.takes(whole), "{line}: arity");
    let writer = &mut Writer::new(&mut out, Version::Two);
    memory.now_ms = NOW_MS;
    match RegisterCommand::read(verb, command, args) {
        Ok(command) => {
            // A key is its place: `k3` is the third register.
            let place = |key: &[u8]| key.iter().fold(0, |sum, &byte| sum * 256 + byte as usize);
            let places: Vec<usize> = command.keys.map(place).collect();
            let mut sum = 0;
            command.begin(writer);
            match command.run(&places, memory, NOW_MS, &mut sum, writer) {
                Ok(()) => command.end(sum, writer),
                Err(error) => writer.error(error),
            }
        }
        Err(error) => writer.error(error),
    }
    String::from_utf8_lossy(&out).replace("\r\n", " ").trim_end().to_owned()
}

/// Asks line by line.
#[track_caller]
fn all(memory: &mut Memory, lines: &[(&str, &str)]) {
    for (line, reply) in lines {
        assert_eq!(ask(memory, line), *reply, "{line}");
    }
}
