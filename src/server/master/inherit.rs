//! Inheritance: what a process gets from its starter: sockets from systemd, or the whole handover
//! from an older master.
//!
//! Invariant: variables for another process are ignored. Inherited things are taken once; no child
//! inherits them or sees their variables.

use std::ffi::OsString;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use super::notify::Notifier;
use crate::net::listeners::InheritedSocket;
use crate::process::bells::Bells;
use crate::tls::tickets::TicketBoard;
use frs_base::clock;
use frs_base::sys::process::{self, Channel, Pid};

/// The variable of an older master's handover. [`Handover::text`] and its reader define the form.
pub(super) const HANDOVER: &str = "FRS_HANDOVER";
/// The socket on which systemd listens.
pub(super) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// The first descriptor of sockets that systemd opens: sd_listen_fds(3).
const LISTEN_FDS_START: RawFd = 3;
/// More than any server has addresses and listener sets.
const SOCKETS_MAX: usize = 16_384;

/// Variables that may be meant for this process.
const VARIABLES: [&str; 7] = [
    HANDOVER,
    NOTIFY_SOCKET,
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Everything that this process inherited.
pub(super) struct Inherited {
    /// Listening sockets that were open before.
    pub sockets: Vec<InheritedSocket>,
    /// The older master that this one takes over from.
    pub predecessor: Option<Predecessor>,
    /// Sends messages to systemd.
    pub notifier: Notifier,
    /// Variables for the next binary.
    pub environment: Vec<(&'static str, OsString)>,
}

/// An older master, which continues if this one fails.
pub(super) struct Predecessor {
    /// The channel to it.
    pub channel: Channel,
    /// The data directory's lock, which it holds.
    pub lock: OwnedFd,
    /// The doorbells of its processes, if it has a cluster.
    pub bells: Option<Bells>,
    /// The keys of session tickets, if its listeners speak TLS.
    pub tickets: Option<TicketBoard>,
}

/// The handover of an older master, as descriptor numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Handover {
    /// The process that it is meant for.
    pub pid: i32,
    /// The channel to the older master.
    pub channel: RawFd,
    /// The data directory's lock.
    pub lock: RawFd,
    /// The keys of session tickets, if listeners speak TLS.
    pub tickets: Option<RawFd>,
    /// The doorbells. Older binaries hand over none.
    pub bells: Vec<RawFd>,
    /// Listening sockets that are frs's own, set by set.
    pub own: Vec<RawFd>,
    /// Listening sockets that systemd opened.
    pub lent: Vec<RawFd>,
}

/// The numbers of descriptors left open for this process, before it takes them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    handover: Option<Handover>,
    lent: Vec<RawFd>,
    dead_after: Option<Duration>,
}

impl Inherited {
    /// Takes everything that is meant for this process. Call it before any descriptor is opened.
    pub fn take() -> io::Result<Inherited> {
        let mut values = Vec::new();
        for name in VARIABLES {
            values.extend(process::take_variable(name)?.map(|value| (name, value)));
        }
        let value = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, v)| v);
        let text = |name: &str| value(name)?.to_str();
        let named = read(Pid::this().as_raw(), text).map_err(io::Error::other)?;
        let mut notifier = match value(NOTIFY_SOCKET) {
            Some(address) => Notifier::to(address).unwrap_or_else(|error| {
                // This kind of address is unknown here. systemd reports its own time-outs.
                eprintln!("{NOTIFY_SOCKET}={}: {error}", address.display());
                Notifier::default()
            }),
            None => Notifier::default(),
        };
        if let Some(dead_after) = named.dead_after {
            notifier = notifier.with_watchdog(dead_after, clock::instant());
        }
        // A watchdog's time for this process is for the next one as well.
        let is_watched = named.dead_after.is_some();
        let (sockets, predecessor) = named.adopt()?;
        let passed = |(name, _): &(&str, OsString)| {
            *name == NOTIFY_SOCKET || *name == "WATCHDOG_USEC" && is_watched
        };
        let environment = values.iter().filter(|pair| passed(pair)).cloned().collect();
        Ok(Inherited { sockets, predecessor, notifier, environment })
    }
}

impl Named {
    /// Takes the named descriptors.
    fn adopt(self) -> io::Result<(Vec<InheritedSocket>, Option<Predecessor>)> {
        let (mut ties, mut own, mut lent) = (Vec::new(), Vec::new(), self.lent);
        let mut has_tickets = false;
        if let Some(handover) = self.handover {
            has_tickets = handover.tickets.is_some();
            let tickets = handover.tickets.as_slice();
            ties = [&[handover.channel, handover.lock][..], tickets, &handover.bells].concat();
            own = handover.own;
            lent = [handover.lent, lent].concat();
        }
        let numbers = [&ties[..], &own, &lent].concat();
        if numbers.is_empty() {
            return Ok((Vec::new(), None));
        }
        let mut adopted = process::adopt(&numbers)?.into_iter();
        let mut ties = adopted.by_ref().take(ties.len());
        let predecessor = match (ties.next(), ties.next()) {
            (Some(channel), Some(lock)) => {
                let channel = Channel::from_inherited(channel);
                let tickets = has_tickets.then(|| ties.next()).flatten().map(TicketBoard::adopt);
                let bells = Bells::adopt(ties.collect())?;
                Some(Predecessor { channel, lock, bells, tickets })
            }
            _ => None,
        };
        let kinds = std::iter::repeat_n(false, own.len()).chain(std::iter::repeat(true));
        let given = adopted.zip(kinds).map(|(socket, lent)| InheritedSocket { socket, lent });
        Ok((given.collect(), predecessor))
    }
}

impl Handover {
    /// The value of [`HANDOVER`].
    pub fn text(&self) -> String {
        let list = |fds: &[RawFd]| fds.iter().map(RawFd::to_string).collect::<Vec<_>>().join(",");
        let Handover { pid, channel, lock, tickets, bells, own, lent } = self;
        let (own, lent) = (list(own), list(lent));
        let mut text = format!("pid={pid} channel={channel} lock={lock} own={own} lent={lent}");
        if let Some(tickets) = tickets {
            text += &format!(" tickets={tickets}");
        }
        if !bells.is_empty() {
            text += &format!(" bells={}", list(bells));
        }
        text
    }

    fn read(text: &str) -> Option<Handover> {
        let mut handover = Handover::default();
        let list = |fds: &str| -> Option<Vec<RawFd>> {
            fds.split(',').filter(|fd| !fd.is_empty()).map(|fd| fd.parse().ok()).collect()
        };
        for word in text.split(' ') {
            match word.split_once('=')? {
                ("pid", pid) => handover.pid = pid.parse().ok()?,
                ("channel", fd) => handover.channel = fd.parse().ok()?,
                ("lock", fd) => handover.lock = fd.parse().ok()?,
                ("tickets", fd) => handover.tickets = Some(fd.parse().ok()?),
                ("own", fds) => handover.own = list(fds)?,
                ("lent", fds) => handover.lent = list(fds)?,
                ("bells", fds) => handover.bells = list(fds)?,
                _ => return None,
            }
        }
        Some(handover)
    }
}

/// Reads the variables. Variables for another process are ignored.
fn read<'v>(pid: i32, value: impl Fn(&str) -> Option<&'v str>) -> Result<Named, String> {
    let wrong = |name: &str| format!("{name}={}: not understood", value(name).unwrap_or_default());
    let mut named = Named::default();
    if let Some(words) = value(HANDOVER) {
        let handover = Handover::read(words).ok_or_else(|| wrong(HANDOVER))?;
        named.handover = (handover.pid == pid).then_some(handover);
    }
    let is_this = |name: &str| value(name).is_some_and(|text| text == pid.to_string());
    if is_this("LISTEN_PID") {
        let count: usize = value("LISTEN_FDS")
            .unwrap_or("0")
            .parse()
            .ok()
            .filter(|&count| count <= SOCKETS_MAX)
            .ok_or_else(|| wrong("LISTEN_FDS"))?;
        named.lent = (LISTEN_FDS_START..).take(count).collect();
    }
    if value("WATCHDOG_PID").is_none() || is_this("WATCHDOG_PID") {
        let time = value("WATCHDOG_USEC").map(|text| text.parse().map(Duration::from_micros));
        named.dead_after = time.transpose().map_err(|_| wrong("WATCHDOG_USEC"))?;
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(values: &[(&str, &'static str)]) -> Result<Named, String> {
        let value = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, v)| *v);
        read(77, value)
    }

    #[test]
    fn what_is_for_this_process_is_taken_and_nothing_else() {
        assert_eq!(named(&[]), Ok(Named::default()));
        let sockets = named(&[("LISTEN_PID", "77"), ("LISTEN_FDS", "2")]).expect("understood");
        assert_eq!(sockets.lent, [3, 4]);
        let others = [("LISTEN_PID", "78"), ("LISTEN_FDS", "2"), ("WATCHDOG_PID", "78")];
        assert_eq!(named(&[&others[..], &[("WATCHDOG_USEC", "5")]].concat()), Ok(Named::default()));
        assert_eq!(named(&[("LISTEN_FDS", "2")]), Ok(Named::default()));
        let alive = named(&[("WATCHDOG_USEC", "5000000")]).expect("understood");
        assert_eq!(alive.dead_after, Some(Duration::from_secs(5)));
    }

    #[test]
    fn what_is_handed_over_is_read_as_it_was_written() {
        for (own, lent) in [(vec![7, 8, 9], vec![]), (vec![], vec![5]), (vec![], vec![])] {
            let bells = own.clone();
            let tickets = lent.first().copied();
            let handover = Handover { pid: 77, channel: 3, lock: 4, tickets, bells, own, lent };
            assert_eq!(Handover::read(&handover.text()), Some(handover));
        }
        let words = "pid=77 channel=5 lock=6 own=8 lent=";
        assert_eq!(named(&[(HANDOVER, words)]).map(|named| named.handover.is_some()), Ok(true));
        let words = "pid=78 channel=5 lock=6 own=8 lent=";
        assert_eq!(named(&[(HANDOVER, words)]), Ok(Named::default()), "another's");
    }

    #[test]
    fn nonsense_is_an_error_that_names_the_variable() {
        for (name, value) in [
            (HANDOVER, ""),
            (HANDOVER, "pid=77 channel=x"),
            (HANDOVER, "pid=77 more=1"),
            ("WATCHDOG_USEC", "-1"),
        ] {
            let error = named(&[(name, value)]).expect_err(value);
            assert!(error.starts_with(name), "{error}");
        }
        for count in ["-1", "many", "99999999"] {
            let error = named(&[("LISTEN_PID", "77"), ("LISTEN_FDS", count)]).expect_err(count);
            assert!(error.starts_with("LISTEN_FDS"), "{error}");
        }
    }
}
