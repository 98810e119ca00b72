//! Redis' own commands over the registers of the business that `<resp>` names.
//!
//! Invariant: a reply is written after its transaction is committed. A command over more keys than
//! a transaction has room for runs in several, in the order of its keys.

use super::{RespConnection, Serving};
use crate::protocol::call::Call;
use crate::protocol::resp::{
    Args, Command, CommandBounds, CommandError, Name, RegisterCommand, Scan, Scanned, Verb,
    Version, Writer, read_scan,
};
use crate::worker::connection::{RegistersAt, Serve};
use frs_base::clock::Millis;
use frs_engine::{EXPECTED_REGISTERS, ItemError, MAX_REGISTERS, Registers};
use frs_store::layout::CHAIN_MAX;

/// The most keys that one SCAN looks at, whatever its COUNT.
const MAX_SCANNED: usize = 1000;

/// The most keys in a reply to SCAN: it ends behind the chain in which it has looked at so many.
pub const SCANNED_KEYS: usize = MAX_SCANNED + CHAIN_MAX;

/// Where the keys of a command are in its transaction, if it has one of its own.
const PLACES: [usize; MAX_REGISTERS] = {
    let mut places = [0; MAX_REGISTERS];
    let mut nth = 0;
    while nth < MAX_REGISTERS {
        places[nth] = nth;
        nth += 1;
    }
    places
};

impl RespConnection {
    /// Answers a command over registers. `whole` begins with its name.
    pub(super) fn run_verb<S: Serve>(
        &mut self,
        verb: Verb,
        of: &Command,
        whole: Args<'_>,
        serving: &mut Serving<'_, S>,
    ) {
        let version = self.session.version;
        let mut args = whole;
        args.next();
        let command = match RegisterCommand::read(verb, of, args) {
            Ok(command) => command,
            Err(error) => return serving.error(version, CommandError::Register(error)),
        };
        let Some(at) = self.session.registers_at(serving.own) else {
            return serving.error(version, CommandError::DbIndex);
        };
        // What came before it runs before it.
        serving.context.flush();
        if serving.context.is_parked() {
            return self.hold(whole, serving);
        }
        match serving.expected.checked_sub(1) {
            Some(expected) => serving.expected = expected,
            None => serving.expect(at, command.keys),
        }
        let mut reply = std::mem::take(&mut serving.context.scratch.resp.reply);
        let call = if of.is_write() { Call::Update } else { Call::Query };
        match run(serving.context.serve, at, &command, version, &mut reply) {
            Ok(()) => {
                serving.context.write_with(call, 200, |out| out.extend_from_slice(&reply));
            }
            Err(error) => serving.failed(call, version, error),
        }
        serving.context.scratch.resp.reply = reply;
    }

    /// Answers TIME, SCAN or DBSIZE. After a walk other clients are served.
    pub(super) fn look<'i, S: Serve>(
        &mut self,
        name: Name,
        args: Args<'i>,
        serving: &mut Serving<'_, S>,
    ) -> Result<(), CommandError<'i>> {
        let version = self.session.version;
        let at = self.session.registers_at(serving.own).ok_or(CommandError::DbIndex);
        match name {
            Name::DbSize => {
                serving.is_over = true;
                let count = serving.context.serve.count_registers(at?);
                let count = count.map_err(CommandError::Item)?;
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                serving.short(version, |writer| writer.integer(count));
            }
            Name::Scan => {
                let at = at?;
                let scanning = read_scan(args).map_err(CommandError::Register)?;
                serving.is_over = true;
                let mut keys = std::mem::take(&mut serving.context.scratch.resp.reply);
                keys.clear();
                let mut found = 0;
                let mut each = |key: &[u8]| {
                    if scanning.wants(key) {
                        found += 1;
                        Writer::new(&mut keys, version).bulk(key);
                    }
                };
                let count = scanning.count.min(MAX_SCANNED);
                let serve = &mut *serving.context.serve;
                let next = serve.scan_registers(at, scanning.cursor, count, &mut each);
                if let Ok(next) = next {
                    serving.reply(|out| {
                        let mut writer = Writer::new(out, version);
                        writer.array(2);
                        writer.bulk(itoa::Buffer::new().format(next).as_bytes());
                        writer.array(found);
                        out.extend_from_slice(&keys);
                    });
                }
                serving.context.scratch.resp.reply = keys;
                next.map_err(CommandError::Item)?;
            }
            _ => {
                let now_ms = serving.context.serve.now();
                serving.short(version, |writer| {
                    writer.array(2);
                    for number in [now_ms / 1000, now_ms % 1000 * 1000] {
                        writer.bulk(itoa::Buffer::new().format(number).as_bytes());
                    }
                });
            }
        }
        Ok(())
    }
}

/// Runs a command in as many transactions as its keys need. `reply` is emptied first.
fn run<S: Serve>(
    serve: &mut S,
    at: RegistersAt<'_>,
    command: &RegisterCommand<'_>,
    version: Version,
    reply: &mut Vec<u8>,
) -> Result<(), CommandError<'static>> {
    reply.clear();
    command.begin(&mut Writer::new(reply, version));
    let (mut rest, mut sum) = (command.keys, 0);
    let mut all = command.keys;
    // No part of a command is done if another part must fail.
    if rest.len() > MAX_REGISTERS && !all.all(|key| serve.is_register_key(at, key)) {
        return Err(CommandError::Item(ItemError::BadKey));
    }
    let now_ms = serve.now();
    loop {
        let (mut keys, mut count) = ([&[][..]; MAX_REGISTERS], 0);
        for (place, key) in keys.iter_mut().zip(&mut rest) {
            *place = key;
            count += 1;
        }
        let (written, summed, mut done) = (reply.len(), sum, Ok(()));
        let committed = serve.on_registers(at, &keys[..count], &mut |registers| {
            // The work may begin anew.
            reply.truncate(written);
            sum = summed;
            let writer = &mut Writer::new(reply, version);
            done = command.run(&PLACES[..count], registers, now_ms, &mut sum, writer);
        });
        committed.map_err(CommandError::Item)?;
        done.map_err(CommandError::Register)?;
        if rest.len() == 0 {
            break;
        }
    }
    command.end(sum, &mut Writer::new(reply, version));
    Ok(())
}

/// Commands that run in one transaction.
pub(super) struct Together<'t> {
    /// The first `count` are its keys, each once.
    keys: [&'t [u8]; MAX_REGISTERS],
    count: usize,
}

impl<'t> Together<'t> {
    /// The commands of a MULTI, if all of them are over registers, of at most so many keys as a
    /// transaction has room for. max-body bounds their replies.
    pub fn of<S: Serve>(
        serve: &mut S,
        at: RegistersAt<'_>,
        commands: impl Iterator<Item = (&'static Command, Args<'t>)>,
    ) -> Option<Together<'t>> {
        let mut together = Together { keys: [&[]; MAX_REGISTERS], count: 0 };
        for (of, args) in commands {
            let Name::Register(verb) = of.name else { return None };
            let Ok(command) = RegisterCommand::read(verb, of, args) else { continue };
            let mut all = command.keys;
            // The keys of a command that fails are left out, unless others name them.
            if !all.all(|key| together.place(key).is_some() || serve.is_register_key(at, key)) {
                continue;
            }
            for key in command.keys {
                if together.place(key).is_none() {
                    *together.keys.get_mut(together.count)? = key;
                    together.count += 1;
                }
            }
        }
        (together.count > 0).then_some(together)
    }

    fn keys(&self) -> &[&'t [u8]] {
        &self.keys[..self.count]
    }

    /// Runs them, and writes all replies. `reply` is emptied first.
    pub fn run<S: Serve>(
        &self,
        serve: &mut S,
        at: RegistersAt<'_>,
        commands: impl Iterator<Item = (&'static Command, Args<'t>)> + Clone,
        version: Version,
        reply: &mut Vec<u8>,
    ) -> Result<(), ItemError> {
        let now_ms = serve.now();
        serve.on_registers(at, self.keys(), &mut |registers| {
            reply.clear();
            let mut writer = Writer::new(reply, version);
            for (of, args) in commands.clone() {
                let Name::Register(verb) = of.name else { continue };
                match RegisterCommand::read(verb, of, args) {
                    // Its error is its own, as every error of a command.
                    Ok(command) if !self.has_all(command.keys) => {
                        writer.error(CommandError::Item(ItemError::BadKey));
                    }
                    Ok(command) => self.run_one(&command, registers, now_ms, &mut writer),
                    Err(error) => writer.error(error),
                }
            }
        })
    }

    fn place(&self, key: &[u8]) -> Option<usize> {
        self.keys().iter().position(|known| *known == key)
    }

    fn has_all(&self, mut keys: Args<'_>) -> bool {
        keys.all(|key| self.place(key).is_some())
    }

    fn run_one(
        &self,
        command: &RegisterCommand<'_>,
        registers: &mut dyn Registers,
        now_ms: Millis,
        writer: &mut Writer<'_>,
    ) {
        let mut sum = 0;
        command.begin(writer);
        for key in command.keys {
            let place = self.place(key);
            let done = command.run(place.as_slice(), registers, now_ms, &mut sum, writer);
            if let Err(error) = done {
                writer.error(error);
            }
        }
        command.end(sum, writer);
    }
}

impl<S: Serve> Serving<'_, S> {
    /// Fetches the memory of registers for a command over `keys` and for those behind it, as far as
    /// they have arrived and are over registers.
    fn expect(&mut self, at: RegistersAt<'_>, keys: Args<'_>) {
        let (set, bounds) = (self.own.commands(), CommandBounds::from(self.own.rules.http));
        let (mut behind, mut count) = (self.behind, 0);
        let mut expected = [&[][..]; EXPECTED_REGISTERS];
        let mut keys = Some(keys);
        while let Some(of_command) = keys {
            for (place, key) in expected[count..].iter_mut().zip(of_command) {
                *place = key;
                count += 1;
            }
            keys = None;
            if count < EXPECTED_REGISTERS
                && let Ok(Scanned::Array(end)) = Scan::default().scan(behind, bounds)
            {
                let (command, rest) = behind.split_at(end);
                let mut args = Args::of_array(command);
                keys = args.next().and_then(|word| set.find(word)?.registers(args));
                behind = rest;
                self.expected += usize::from(keys.is_some());
            }
        }
        if self.expected > 0 {
            self.context.serve.expect_registers(at, &expected[..count]);
        }
    }

    /// Answers the failure of a command that was run, or of a transaction.
    #[cold]
    pub(super) fn failed(&mut self, call: Call, version: Version, error: CommandError<'_>) {
        let status = error.status();
        self.context.write_short(call, status, |out| Writer::new(out, version).error(error));
    }
}
