//! A connection fed with anything, whole and in two pieces: the answers are the same, and there is
//! none after the one that closes. The first two bytes say where to cut.
#![no_main]

use frs::conf::{AuthzKey, Http};
use frs::service::{Answer, Answers, ItemError, Request};
use frs::worker::connection::{Connection, Rules, Scratch, Serve};
use libfuzzer_sys::fuzz_target;

const HTTP: Http = Http {
    max_connections: 1,
    max_body_bytes: 1024,
    max_head_bytes: 512,
    max_items: 8,
    max_atomic_items: 4,
    idle_timeout_ms: 1,
    request_timeout_ms: 1,
    lock_timeout_ms: 1,
    hosts: Vec::new(),
    allow_origin: Vec::new(),
};

struct Busy;

impl Serve for Busy {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        let answer = Answer { biz: None, result: Err(ItemError::Busy), details: 0..0, action: 0 };
        answers.items.resize(request.items().len(), answer);
    }

    fn biz_name(&self, _: usize) -> Option<&str> {
        None
    }

    fn draining(&self) -> bool {
        false
    }
}

fn talk(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let rules = Rules { http: &HTTP, authz: &AuthzKey::Forwarded, trusted: &[] };
    let (mut connection, mut scratch) = (Connection::new(None), Scratch::default());
    let (mut unread, mut out, mut closed) = (Vec::new(), Vec::new(), false);
    for piece in pieces {
        unread.extend_from_slice(piece);
        loop {
            let progress = connection.advance(&unread, rules, &mut Busy, &mut scratch, &mut out);
            unread.drain(..progress.consumed);
            closed = progress.close;
            assert!(progress.more || progress.need > unread.len());
            if !progress.more {
                break;
            }
        }
    }
    (out, closed)
}

fuzz_target!(|data: &[u8]| {
    let Some((cut, input)) = data.split_first_chunk::<2>() else { return };
    let cut = usize::from(u16::from_le_bytes(*cut)) % (input.len() + 1);
    let (head, tail) = input.split_at(cut);
    let whole = talk(&[input]);
    assert_eq!(talk(&[head, tail]), whole);
    let closes = whole.0.windows(17).filter(|text| text == b"Connection: close").count();
    assert!(closes <= 1);
});
