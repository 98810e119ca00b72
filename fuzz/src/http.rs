//! An HTTP connection that is fed any bytes, whole and in two pieces: the answers are the same, and
//! no answer follows one that closes. The first two bytes choose the cut.

use frs_conf::{AuthzKey, Http};
use frs_engine::{Answer, Answers, ItemError, Request};
use frs_server::worker::connection::{Connection, ConnectionBuffers, ConnectionRules, Serve};

use super::talk::{bounds, talk};

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

fn answers(http: &Http, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let rules = ConnectionRules {
        http,
        authz: &AuthzKey::Forwarded,
        trusted: &[],
        admin: None,
        gate: None,
    };
    let (mut connection, mut scratch) = (Connection::new(None), ConnectionBuffers::default());
    talk(pieces, |unread, out| connection.advance(unread, rules, &mut Busy, &mut scratch, out))
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((cut, input)) = data.split_first_chunk::<2>() else { return };
    let cut = usize::from(u16::from_le_bytes(*cut)) % (input.len() + 1);
    let (head, tail) = input.split_at(cut);
    let http = bounds();
    let whole = answers(&http, &[input]);
    assert_eq!(answers(&http, &[head, tail]), whole);
    // Matches only lines of a head, because text echoed in a body has no line ends.
    let closing = b"\r\nConnection: close\r\n";
    let closes = whole.0.windows(closing.len()).filter(|text| text == closing).count();
    assert!(closes <= 1);
}
