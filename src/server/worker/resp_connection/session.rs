//! The identity of a client, and all commands that need no item.
//!
//! Invariant: before it authenticates, a client learns only that it must.

use super::{RespConnection, Serving};
use crate::protocol::call::Call;
use crate::protocol::resp::{
    Args, CommandError, Hello, Name, RegisterFault, Version, Writer, command_count, command_docs,
    command_info, command_keys, command_list, command_table, hello, info, number,
};
use crate::worker::connection::{Databases, Gate, RegistersAt, RespRules, Serve};
use frs_conf::{Right, Rights};
use frs_engine::access::{Caller, TokenDigest};
use frs_store::ClientRow;

/// The name of a client that names only a token.
const USER: &[u8] = b"default";
/// The longest name of a client.
const MAX_NAME_BYTES: usize = 256;
/// The subcommands of `CLIENT`, and the number of arguments that each takes. The last two are those
/// of a listener with registers.
const CLIENT: [(&str, usize); 8] = [
    ("CLIENT|ID", 0),
    ("CLIENT|GETNAME", 0),
    ("CLIENT|SETNAME", 1),
    ("CLIENT|SETINFO", 2),
    ("CLIENT|NO-EVICT", 1),
    ("CLIENT|NO-TOUCH", 1),
    ("CLIENT|INFO", 0),
    ("CLIENT|LIST", 0),
];
/// Those of every listener.
const CLIENT_EVERYWHERE: usize = 6;
/// Bits of the process id in the id of a connection. Linux has no larger process ids.
const PID_BITS: u32 = 22;

/// The state of a client.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub version: Version,
    is_unix: bool,
    /// The names of its certificate.
    cert: Vec<String>,
    /// What the client has named, and whose it is.
    shown: Option<ShownToken>,
    /// The configuration of `caller`. 0 before the first one.
    generation: u64,
    /// Who asks. Of a listener without clients: everybody.
    caller: Option<Caller>,
    /// Whether the caller may use the registers of the listener.
    may_use_registers: bool,
    /// The row that counts the caller's commands.
    row: Option<ClientRow>,
    name: Box<[u8]>,
    /// The id of the connection. 0 until it is first needed.
    id: i64,
    /// The database that SELECT chose.
    pub database: u16,
    /// The number of wrong tokens since the last right one.
    pub wrong_tokens: u8,
}

/// A name and the token that a client has named with it.
#[derive(Debug)]
struct ShownToken {
    name: Box<[u8]>,
    token: TokenDigest,
}

impl Session {
    /// The session of a new connection.
    pub fn new(is_unix: bool) -> Session {
        Session { is_unix, ..Session::default() }
    }

    /// Notes the names of the client's certificate.
    pub fn show_cert(&mut self, names: Vec<String>) {
        (self.cert, self.generation) = (names, 0);
    }

    /// The session after RESET.
    fn reset(&mut self) {
        let Session { id, wrong_tokens, is_unix, .. } = *self;
        let cert = std::mem::take(&mut self.cert);
        *self = Session { id, wrong_tokens, is_unix, cert, ..Session::default() };
    }

    /// Whether the wait of an address does not hold up this connection.
    pub fn is_exempt(&self) -> bool {
        self.is_unix || !self.cert.is_empty() || self.shown.is_some() && self.wrong_tokens == 0
    }

    /// Whether commands are served.
    #[inline]
    pub fn is_known(&mut self, own: RespRules<'_>) -> bool {
        self.caller(own).is_some()
    }

    /// Who asks. `None` if the client has to say so first.
    #[inline]
    pub fn caller(&mut self, own: RespRules<'_>) -> Option<Caller> {
        match own.rules.gate {
            Some(gate) if self.generation == gate.generation => self.caller,
            Some(gate) => self.resolve(own, gate),
            None => self.is_default(own).then_some(Caller::EVERYBODY),
        }
    }

    /// Whether everything is served where clients are not told apart.
    fn is_default(&self, own: RespRules<'_>) -> bool {
        !own.has_token || self.shown.as_ref().is_some_and(|shown| &*shown.name == b"default")
    }

    fn resolve(&mut self, own: RespRules<'_>, gate: Gate<'_>) -> Option<Caller> {
        let Gate { access, map, generation } = gate;
        self.generation = generation;
        self.caller = match (access.is_on(), &self.shown) {
            (false, _) => self.is_default(own).then_some(Caller::EVERYBODY),
            // A reload may have taken the token away.
            (true, Some(ShownToken { name, token })) => access.by_name(own.nth, name, token),
            (true, None) => {
                let bare = access.bare(&self.cert, self.is_unix);
                let is_somebody = !bare.is_anonymous() || bare.rights.has_any(Rights::OF_BIZS);
                is_somebody.then_some(bare)
            }
        };
        self.may_use_registers = match (own.registers, self.caller) {
            (Some(Databases { biz, .. }), Some(caller)) => {
                access.may_name(caller, Rights::of(&[Right::Registers]), map, biz)
            }
            _ => true,
        };
        self.row = self.caller.and_then(|caller| access.row(caller));
        self.caller
    }

    /// The database of the connection. `None`: there is no such one.
    pub fn registers_at<'a>(&self, own: RespRules<'a>) -> Option<RegistersAt<'a>> {
        let at = own.registers_at(self.database)?;
        Some(RegistersAt { client: own.rules.gate.and(self.row), ..at })
    }

    /// The error of a command over registers that the caller may not send.
    #[inline]
    pub fn lacks_registers(&mut self, own: RespRules<'_>) -> Option<CommandError<'static>> {
        own.rules.gate?;
        let Some(caller) = self.caller(own) else { return Some(CommandError::NoAuth) };
        match (self.may_use_registers, caller.is_anonymous()) {
            (true, _) => None,
            (false, true) => Some(CommandError::NoAuth),
            (false, false) => Some(CommandError::NoPerm),
        }
    }

    fn authenticate(
        &mut self,
        user: &[u8],
        token: &[u8],
        own: RespRules<'_>,
    ) -> Result<(), CommandError<'static>> {
        let gate = own.rules.gate.filter(|gate| gate.access.is_on() || own.has_token);
        if gate.is_none() && !own.has_token {
            return Err(CommandError::NoToken);
        }
        let token = TokenDigest::of(token);
        let caller = gate.and_then(|gate| gate.access.by_name(own.nth, user, &token));
        if caller.is_none() {
            self.wrong_tokens = self.wrong_tokens.saturating_add(1);
            return Err(CommandError::WrongPass);
        }
        (self.shown, self.wrong_tokens) = (Some(ShownToken { name: user.into(), token }), 0);
        self.generation = 0;
        Ok(())
    }

    fn set_name(&mut self, name: &[u8]) -> Result<(), CommandError<'static>> {
        if name.len() > MAX_NAME_BYTES {
            return Err(CommandError::ClientNameTooLong(MAX_NAME_BYTES));
        }
        if !name.iter().all(|byte| matches!(byte, b'!'..=b'~')) {
            return Err(CommandError::ClientName);
        }
        self.name = name.into();
        Ok(())
    }
}

impl RespConnection {
    /// Answers a command that needs no item.
    pub(super) fn answer<S: Serve>(
        &mut self,
        name: Name,
        args: Args<'_>,
        serving: &mut Serving<'_, S>,
    ) {
        if let Err(error) = self.try_answer(name, args, serving) {
            // Whoever guesses tokens waits for the other clients.
            if error == CommandError::WrongPass {
                serving.is_over = true;
                serving.context.serve.wrong_token(self.peer);
            }
            serving.error(self.session.version, error);
        }
    }

    fn try_answer<'i, S: Serve>(
        &mut self,
        name: Name,
        mut args: Args<'i>,
        serving: &mut Serving<'_, S>,
    ) -> Result<(), CommandError<'i>> {
        let version = self.session.version;
        match name {
            Name::Hello => return self.hello(args, serving),
            Name::Auth => {
                let first = args.next().unwrap_or_default();
                let (user, token) = args.next().map_or((USER, first), |token| (first, token));
                self.session.authenticate(user, token, serving.own)?;
                serving.simple(version, "OK");
            }
            Name::Ping => match args.next() {
                Some(message) => serving.bulk(version, message),
                None => serving.simple(version, "PONG"),
            },
            Name::Echo => serving.bulk(version, args.next().unwrap_or_default()),
            Name::Client => return self.client(args, serving),
            Name::Select => {
                let index = number(args.next().unwrap_or_default());
                let index = index.map_err(CommandError::Register)?;
                let index = i32::try_from(index).map_err(|_| CommandError::OutOfRange)?;
                let database = u16::try_from(index).ok();
                let database = database.filter(|&index| index < serving.own.databases());
                self.session.database = database.ok_or(CommandError::DbIndex)?;
                serving.simple(version, "OK");
            }
            Name::Quit => {
                serving.simple(version, "OK");
                serving.drop_transaction(&mut self.transaction);
                self.closed = true;
            }
            Name::Reset => {
                serving.drop_transaction(&mut self.transaction);
                self.session.reset();
                serving.simple(version, "RESET");
            }
            Name::ReadOnly => serving.simple(version, "OK"),
            Name::Info => {
                let figures = serving.context.serve.figures();
                serving.reply(|out| info(out, version, args, &figures));
            }
            Name::Command => return describe_commands(version, args, serving),
            Name::Config => {
                let subcommand = args.next().unwrap_or_default();
                if !subcommand.eq_ignore_ascii_case(b"GET") {
                    let of = "CONFIG";
                    return Err(CommandError::UnknownSubcommand { of, word: subcommand });
                }
                // frs has no parameter of Redis.
                serving.short(version, |writer| writer.map(0));
            }
            Name::Cluster => return Err(CommandError::NoCluster),
            Name::Multi => self.begin(serving),
            Name::Exec => self.execute(serving),
            Name::Discard => self.discard(serving),
            Name::Time | Name::Scan | Name::DbSize => return self.look(name, args, serving),
            // Those with items, or with registers, are answered before.
            Name::Update | Name::Query | Name::ManyUpdate | Name::ManyQuery => {}
            Name::Throttle | Name::Register(_) => {}
        }
        Ok(())
    }

    fn hello<'i, S: Serve>(
        &mut self,
        mut args: Args<'i>,
        serving: &mut Serving<'_, S>,
    ) -> Result<(), CommandError<'i>> {
        let version = match args.next() {
            None => self.session.version,
            Some(b"2") => Version::Two,
            Some(b"3") => Version::Three,
            Some(_) => return Err(CommandError::NoProto),
        };
        let mut name = None;
        while let Some(option) = args.next() {
            let missing = CommandError::Syntax(option);
            if option.eq_ignore_ascii_case(b"AUTH") {
                let user = args.next().ok_or(missing)?;
                let token = args.next().ok_or(missing)?;
                self.session.authenticate(user, token, serving.own)?;
            } else if option.eq_ignore_ascii_case(b"SETNAME") {
                name = Some(args.next().ok_or(missing)?);
            } else {
                return Err(missing);
            }
        }
        if !self.session.is_known(serving.own) {
            return Err(CommandError::HelloNoAuth);
        }
        if let Some(name) = name {
            self.session.set_name(name)?;
        }
        self.session.version = version;
        let id = self.id(serving);
        serving.reply(|out| hello(out, Hello { version, id }));
        Ok(())
    }

    fn client<'i, S: Serve>(
        &mut self,
        mut args: Args<'i>,
        serving: &mut Serving<'_, S>,
    ) -> Result<(), CommandError<'i>> {
        let version = self.session.version;
        let subcommand = args.next().unwrap_or_default();
        let is_it = |(whole, _): &&(&str, usize)| {
            subcommand.eq_ignore_ascii_case(&whole.as_bytes()["CLIENT|".len()..])
        };
        let has_registers = serving.own.registers.is_some();
        let served = if has_registers { CLIENT.len() } else { CLIENT_EVERYWHERE };
        let &(whole, arguments) = CLIENT[..served]
            .iter()
            .find(is_it)
            .ok_or(CommandError::UnknownSubcommand { of: "CLIENT", word: subcommand })?;
        if args.len() != arguments && whole != "CLIENT|LIST" {
            return Err(CommandError::Arguments(whole));
        }
        match whole {
            "CLIENT|ID" => {
                let id = self.id(serving);
                serving.short(version, |writer| writer.integer(id));
            }
            "CLIENT|GETNAME" => match &*self.session.name {
                [] => serving.short(version, |writer| writer.null()),
                name => serving.bulk(version, name),
            },
            "CLIENT|SETNAME" => {
                self.session.set_name(args.next().unwrap_or_default())?;
                serving.simple(version, "OK");
            }
            "CLIENT|INFO" | "CLIENT|LIST" => {
                let id = self.id(serving);
                let Session { name, database, .. } = &self.session;
                let name = String::from_utf8_lossy(name);
                let (command, resp) = (whole.to_ascii_lowercase(), version.number());
                // Of the connection itself: frs keeps no list of all clients.
                let line = match is_listed(args, id)? {
                    true => format!(
                        "id={id} name={name} flags=N db={database} cmd={command} user=default \
                         resp={resp}\n"
                    ),
                    false => String::new(),
                };
                serving.reply(|out| Writer::new(out, version).verbatim(&line));
            }
            // frs stores nothing else about a client.
            _ => serving.simple(version, "OK"),
        }
        Ok(())
    }

    /// The id of the connection. No other open connection of this machine has it.
    fn id<S: Serve>(&mut self, serving: &mut Serving<'_, S>) -> i64 {
        if self.session.id == 0 {
            let numbered = &mut serving.context.scratch.resp.numbered;
            *numbered = numbered.wrapping_add(1);
            let pid = std::process::id() & ((1 << PID_BITS) - 1);
            self.session.id = (i64::from(*numbered) << PID_BITS) | i64::from(pid);
        }
        self.session.id
    }
}

fn describe_commands<'i, S: Serve>(
    version: Version,
    mut args: Args<'i>,
    serving: &mut Serving<'_, S>,
) -> Result<(), CommandError<'i>> {
    let set = serving.own.commands();
    let Some(subcommand) = args.next() else {
        serving.reply(|out| command_table(out, version, set));
        return Ok(());
    };
    let is = |word: &str| subcommand.eq_ignore_ascii_case(word.as_bytes());
    if is("DOCS") {
        serving.reply(|out| command_docs(out, version, set, args));
    } else if is("INFO") {
        serving.reply(|out| command_info(out, version, set, args));
    } else if is("COUNT") {
        serving.reply(|out| command_count(out, version, set));
    } else if is("LIST") {
        serving.reply(|out| command_list(out, version, set));
    } else if is("GETKEYS") && set.has_registers {
        if args.len() < 2 {
            return Err(CommandError::Arguments("COMMAND|GETKEYS"));
        }
        let mut keys = Vec::new();
        command_keys(&mut keys, version, set, args)?;
        serving.reply(|out| out.extend_from_slice(&keys));
    } else {
        return Err(CommandError::UnknownSubcommand { of: "COMMAND", word: subcommand });
    }
    Ok(())
}

/// Whether the arguments of CLIENT LIST are about the client with this id, which is a normal one.
fn is_listed(mut args: Args<'_>, id: i64) -> Result<bool, CommandError<'_>> {
    let syntax = CommandError::Register(RegisterFault::Syntax);
    let Some(option) = args.next() else { return Ok(true) };
    if args.len() == 0 {
        return Err(syntax);
    }
    let mut is_listed = false;
    if option.eq_ignore_ascii_case(b"TYPE") && args.len() == 1 {
        let kind = args.next().unwrap_or_default();
        let kinds = ["normal", "master", "replica", "slave", "pubsub"];
        let known = kinds.iter().position(|word| kind.eq_ignore_ascii_case(word.as_bytes()));
        is_listed = known.ok_or(CommandError::ClientType(kind))? == 0;
    } else if option.eq_ignore_ascii_case(b"ID") {
        for listed in args {
            is_listed |= number(listed).map_err(|_| CommandError::ClientId)? == id;
        }
    } else {
        return Err(syntax);
    }
    Ok(is_listed)
}

impl<S: Serve> Serving<'_, S> {
    /// Answers a command that needs no run.
    pub(super) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.context.write_with(Call::Other, 200, write);
    }

    /// Like [`Serving::reply`], for a short answer.
    pub(super) fn short(&mut self, version: Version, write: impl FnOnce(&mut Writer<'_>)) {
        let write = |out: &mut Vec<u8>| write(&mut Writer::new(out, version));
        self.context.write_short(Call::Other, 200, write);
    }

    pub(super) fn simple(&mut self, version: Version, text: &str) {
        self.short(version, |writer| writer.simple(text));
    }

    fn bulk(&mut self, version: Version, bytes: &[u8]) {
        self.reply(|out| Writer::new(out, version).bulk(bytes));
    }
}
