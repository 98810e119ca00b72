//! The traffic of the program: requests for keys that are chosen on the way, and answers of which
//! every part is checked.
//!
//! Invariant: a request depends only on its number and the arguments, so an answer is checked
//! against the keys that were asked for, and a wrong one is shown with its request.

use crate::answer::{Asked, Checker, Reply};
use crate::arguments::{Arguments, Format};
use crate::call::Call;
use crate::connection::Sent;
use crate::failure::{Failure, shown};
use crate::keys::Keys;
use crate::load::{Lost, Taken, Traffic};
use crate::request::Requests;
use crate::routing::Routing;
use crate::tally::Tally;

/// Makes requests, checks answers, counts.
pub struct Checked {
    keys: Keys,
    items: u64,
    /// The keys of the request that was chosen last.
    asked: Vec<u32>,
    call: Call,
    routing: Routing,
    requests: Requests,
    format: Format,
    checker: Checker,
    counts_windows: bool,
    /// The tally of each server.
    pub tallies: Vec<Tally>,
}

impl Checked {
    /// The traffic of one thread.
    pub fn new(arguments: &Arguments) -> Checked {
        let (routing, call) = (Routing::new(arguments), Call::new(arguments));
        Checked {
            keys: Keys::new(arguments.seed, arguments.keys, arguments.order()),
            items: arguments.items.into(),
            asked: Vec::new(),
            requests: Requests::new(arguments),
            format: arguments.format(),
            checker: Checker::new(arguments),
            counts_windows: arguments.windows,
            tallies: vec![Tally::new(); routing.servers()],
            call,
            routing,
        }
    }

    /// The place of the first item of a request.
    fn first_place(&self, number: u64) -> u64 {
        number.wrapping_mul(self.items)
    }

    fn choose_keys(&mut self, number: u64) {
        let first = self.first_place(number);
        let places = (0..self.items).map(|item| first.wrapping_add(item));
        self.asked.clear();
        self.asked.extend(places.map(|place| self.keys.at(place)));
    }

    /// Checks an answer and counts it.
    fn count(&mut self, sent: Option<&Sent>, reply: &Reply<'_>, now_ns: u64) -> Result<(), String> {
        let sent = sent.ok_or("an answer that nothing was asked for")?;
        if self.items == 1 {
            self.asked.clear();
            self.asked.push(sent.key);
        } else {
            self.choose_keys(sent.number);
        }
        let first = self.first_place(sent.number);
        let tally = &mut self.tallies[sent.server];
        let counts_windows = self.counts_windows;
        let asked = Asked { keys: &self.asked, first, call: &self.call, again: sent.again };
        self.checker.check(reply, asked, |noted| {
            tally.item(noted.outcome);
            if counts_windows {
                tally.windows.note(noted, now_ns / 1_000_000);
            }
        })?;
        tally.answered(reply.status, now_ns.saturating_sub(sent.from_ns), now_ns);
        Ok(())
    }

    fn shown_request(&mut self, sent: Option<&Sent>) -> String {
        let Some(sent) = sent else { return "nothing".to_owned() };
        let mut bytes = Vec::new();
        let sent = self.choose(sent.number, sent.from_ns);
        self.append(&mut bytes, &sent);
        shown(&bytes)
    }
}

impl Traffic for Checked {
    fn choose(&mut self, number: u64, from_ns: u64) -> Sent {
        self.choose_keys(number);
        let server = self.routing.server(number, &self.asked);
        Sent { number, server, key: self.asked[0], from_ns, again: false }
    }

    fn append(&mut self, out: &mut Vec<u8>, sent: &Sent) {
        let first = self.first_place(sent.number);
        self.requests.append(out, sent.server, &self.asked, first, &self.call);
    }

    fn take(
        &mut self,
        sent: Option<&Sent>,
        bytes: &[u8],
        now_ns: u64,
    ) -> Result<Option<Taken>, Failure> {
        let wrong = |what, asked, bytes| Failure::Wrong { what, asked, answered: shown(bytes) };
        let reply = match Reply::read(self.format, bytes) {
            Ok(Some(reply)) => reply,
            Ok(None) => return Ok(None),
            Err(what) => return Err(wrong(what, self.shown_request(sent), bytes)),
        };
        match self.count(sent, &reply, now_ns) {
            Ok(()) => Ok(Some(Taken { bytes: reply.bytes, closes: reply.closes })),
            Err(what) => Err(wrong(what, self.shown_request(sent), &bytes[..reply.bytes])),
        }
    }

    fn closed(&mut self, server: usize, unanswered: u64) -> Result<Lost, Failure> {
        let tally = &mut self.tallies[server];
        tally.reconnects += 1;
        // A request without an id could be charged twice.
        if self.call.has_ids() {
            tally.sent_again += unanswered;
            return Ok(Lost::SendAgain);
        }
        if unanswered > 0 {
            tally.failed("closed", unanswered * self.items);
        }
        Ok(Lost::GiveUp)
    }
}
