//! A RESP connection that is fed any bytes, whole and in two pieces: the replies are the same, and
//! each is complete. The first two bytes choose the cut.

use frs_conf::{AuthzKey, Http};
use frs_engine::{Answer, Answers, ItemError, Registers, Request, Verdict};
use frs_server::protocol::resp::Keyspace;
use frs_server::worker::connection::{
    ConnectionBuffers, ConnectionRules, Databases, RegistersAt, RespRules, Serve,
};
use frs_server::worker::resp_connection::RespConnection;

use super::talk::{bounds, talk};

/// The beginning of the HTTP answer that refuses an HTTP request.
const HTTP_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n";

/// Admits keys of an even length, and answers busy for the others. Holds registers.
#[derive(Default)]
struct Even {
    keyspace: Keyspace,
}

impl Serve for Even {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        answers.items.extend(request.items().iter().map(|item| {
            let is_even = request.key(item).len().is_multiple_of(2);
            let result = if is_even { Ok(Verdict::UNJUDGED) } else { Err(ItemError::Busy) };
            Answer { biz: None, result, details: 0..0, action: 0 }
        }));
    }

    fn biz_name(&self, _: usize) -> Option<&str> {
        None
    }

    fn draining(&self) -> bool {
        false
    }

    fn on_registers(
        &mut self,
        at: RegistersAt<'_>,
        keys: &[&[u8]],
        work: &mut dyn FnMut(&mut dyn Registers),
    ) -> Result<(), ItemError> {
        if !keys.iter().all(|key| self.is_register_key(at, key)) {
            return Err(ItemError::BadKey);
        }
        self.keyspace.transact(at.database, keys, work);
        Ok(())
    }

    fn is_register_key(&mut self, _: RegistersAt<'_>, key: &[u8]) -> bool {
        !key.is_empty() && std::str::from_utf8(key).is_ok()
    }

    fn scan_registers(
        &mut self,
        at: RegistersAt<'_>,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, ItemError> {
        Ok(self.keyspace.scan(at.database, cursor, count, each))
    }

    fn count_registers(&mut self, at: RegistersAt<'_>) -> Result<u64, ItemError> {
        Ok(self.keyspace.count(at.database))
    }
}

fn answers(http: &Http, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let rules =
        ConnectionRules { http, authz: &AuthzKey::Peer, trusted: &[], admin: None, gate: None };
    let registers = Some(Databases { biz: "registers", count: 4 });
    let own = RespRules { rules, nth: 0, has_token: false, throttle: Some("throttle"), registers };
    let (mut connection, mut scratch) = (RespConnection::default(), ConnectionBuffers::default());
    let mut serve = Even::default();
    talk(pieces, |unread, out| connection.advance(unread, own, &mut serve, &mut scratch, out))
}

/// The bytes after the first reply. `None` if the reply is incomplete or invalid.
fn after_reply(reply: &[u8]) -> Option<&[u8]> {
    let end = reply.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, mut rest) = (&reply[..end], &reply[end + 2..]);
    let (kind, text) = line.split_first()?;
    let number = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    let parts = match kind {
        b'+' | b'-' | b'_' => 0,
        b':' => number().map(|_| 0)?,
        b'$' | b'=' => {
            let length = number()?;
            if length >= 0 {
                let (_, behind) = rest.split_at_checked(length as usize)?;
                rest = behind.strip_prefix(b"\r\n")?;
            }
            0
        }
        b'*' | b'~' => number()?,
        b'%' => 2 * number()?,
        _ => return None,
    };
    for _ in 0..parts {
        rest = after_reply(rest)?;
    }
    Some(rest)
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((cut, input)) = data.split_first_chunk::<2>() else { return };
    let cut = usize::from(u16::from_le_bytes(*cut)) % (input.len() + 1);
    let (head, tail) = input.split_at(cut);
    let http = bounds();
    let whole = answers(&http, &[input]);
    assert_eq!(answers(&http, &[head, tail]), whole);
    let mut rest = &whole.0[..];
    while !rest.is_empty() && !rest.starts_with(HTTP_ANSWER) {
        rest = after_reply(rest).expect("a whole reply");
    }
    assert!(rest.is_empty() || whole.1, "who speaks HTTP is not heard any more");
}
