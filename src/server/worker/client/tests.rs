//! Tests of the memory that a client can make a worker hold.

use std::io::{ErrorKind, Read, Write};

use super::*;
use crate::buffer_sizes::BUFFER_SIZES;
use crate::worker::connection::{ConnectionBuffers, RegistersAt};
use frs_conf::{Conf, Http, MAX_KEY_BYTES};
use frs_engine::{
    Answer, Answers, Figures, HistorySpan, ItemError, LimitFigures, Register, RegisterError,
    RegisterValue, Registers, Request, Stage, Verdict,
};
use frs_store::layout::CHAIN_MAX;

const LIMITS: u32 = 3;

fn conf(http: &str) -> Conf {
    let srv = format!("<srv><workers>1</workers><http {http}/></srv>");
    let limit = "<limit policy='interval' interval='1h' max='9'/>".repeat(LIMITS as usize);
    let map = format!(
        "<map><group name='g' files='1' key-nodes='8' node-size='128'/>\
         <biz id='1' name='b' key='string'>{limit}</biz></map>"
    );
    Conf::parse("s", &srv, "m", &map).unwrap_or_else(|faults| panic!("{faults}"))
}

/// Answers every item with the longest figures possible.
struct Longest;

impl Serve for Longest {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        let figures = Figures {
            used: u64::MAX,
            max: u64::MAX,
            remaining: u64::MAX,
            reset_ms: Some(u64::MAX),
        };
        for _ in request.items() {
            let start = answers.details.len();
            let limit = LimitFigures {
                index: 16,
                limited: true,
                policy: "interval",
                figures,
                retry_ms: Some(u64::MAX),
                error_thousandths: Some(16),
                history: HistorySpan::default(),
            };
            answers.details.limits.extend((1..=LIMITS).map(|_| limit));
            let verdict = Verdict {
                limited: true,
                banned: true,
                limit: 16,
                figures,
                retry_ms: Some(u64::MAX),
                window_ms: Some(u64::MAX),
                ..Verdict::UNJUDGED
            };
            let details = start..answers.details.len();
            answers.items.push(Answer { biz: Some(0), result: Ok(verdict), details, action: 0 });
        }
    }

    fn biz_name(&self, _index: usize) -> Option<&str> {
        Some("b")
    }

    fn draining(&self) -> bool {
        false
    }

    fn on_registers(
        &mut self,
        _: RegistersAt<'_>,
        _: &[&[u8]],
        work: &mut dyn FnMut(&mut dyn Registers),
    ) -> Result<(), ItemError> {
        work(&mut LongTexts);
        Ok(())
    }

    fn scan_registers(
        &mut self,
        _: RegistersAt<'_>,
        _: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, ItemError> {
        // The last chain is full.
        (1..count + CHAIN_MAX).for_each(|_| each(&[b'k'; MAX_KEY_BYTES as usize]));
        Ok(u64::MAX)
    }
}

/// The most bytes held for a client that writes `request` repeatedly and reads nothing, until
/// neither the worker nor the kernel takes more.
fn held_at_most(
    conf: &Conf,
    buffers: &mut Buffers,
    face: Face,
    request: &[u8],
    piece: usize,
) -> usize {
    // One read takes several requests.
    let request = request.repeat((64_usize << 10).div_ceil(request.len()));
    let (mut peer, ours) = mio::net::UnixStream::pair().unwrap();
    // The kernel takes almost none of the answers.
    socket2::SockRef::from(&ours).set_send_buffer_size(1).unwrap();
    let mut client = Client::new(Stream::Unix(ours), None, face);
    let (mut written, mut most, mut idle) = (0, 0, 0);
    // Several rounds without progress mean that all buffers are full, including those of the
    // kernel.
    while idle < 4 {
        idle += 1;
        let at = written % request.len();
        match peer.write(&request[at..request.len().min(at.saturating_add(piece))]) {
            Ok(bytes) => (written, idle) = (written + bytes, 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        client.readable = true;
        buffers.arena.clear();
        buffers.out.clear();
        match client.read(&mut buffers.arena) {
            Reading::Run => {
                idle = 0;
                buffers.scratch.begin_batch();
                buffers.scratch.begin_connection();
                client.run(&conf.srv, None, &mut Longest, buffers);
                buffers.scratch.flush((&conf.srv).into(), &mut Longest, &mut buffers.out);
                assert!(!client.is_closing(), "{}", String::from_utf8_lossy(&buffers.out));
                if !buffers.out.is_empty() {
                    client.write(&buffers.out, &mut buffers.scratch.pool);
                }
            }
            Reading::Wait => {}
            other => panic!("{other:?}"),
        }
        let Client { kept, unsent, protocol, .. } = &client;
        let held = match protocol {
            ClientProtocol::Http(connection) => connection.held_bytes(),
            ClientProtocol::Resp(_, connection) => connection.held_bytes(),
        };
        most = most.max(kept.capacity() + unsent.capacity() + held);
    }
    assert!(written > request.len() && client.is_blocked());
    // The requests are answered once the client reads.
    let mut answered = 0;
    while client.is_blocked() {
        let mut room = [0; 4096];
        while let Ok(bytes) = peer.read(&mut room) {
            answered += bytes;
        }
        client.write_unsent(&mut buffers.scratch.pool);
    }
    assert!(answered > 0);
    client.release(&mut buffers.scratch.pool);
    most
}

const JSON: &str = "Content-Type: application/json\r\n";
const JSON_TO_XML: &str = "Content-Type: application/json\r\nAccept: text/xml\r\n";

/// The most items possible, and one item whose key grows when the answer echoes it.
fn json_items(http: &Http) -> [(&'static str, String); 2] {
    let (max_body, item) = (http.max_body_bytes as usize, "{\"biz\":1,\"key\":1}");
    let room = max_body - "{\"items\":[]}".len();
    let many = vec![item; ((room + 1) / (item.len() + 1)).min(http.max_items as usize)].join(",");
    let wide = format!("{{\"biz\":1,\"key\":\"{}\"}}", "&".repeat(max_body / 2));
    [(JSON, many), (JSON_TO_XML, wide)]
}

fn requests(http: &Http) -> Vec<Vec<u8>> {
    let item = "<item biz='1' key='' detail='1'/>".replace("'1'/", "'true'/");
    let wide = format!("<item biz='1' key='{}'/>", "\"".repeat(http.max_body_bytes as usize / 2));
    let room = http.max_body_bytes as usize - "<request></request>".len();
    let many = item.repeat((room / item.len()).min(http.max_items as usize));
    let head = |fields: &str| format!("POST /update HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n");
    let mut requests = vec![
        "GET /query?biz=1&key=k&detail=true HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "GET /health HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
    ];
    let xml = [many, wide].map(|items| ("", format!("<request>{items}</request>")));
    let json = json_items(http).map(|(kind, items)| (kind, format!("{{\"items\":[{items}]}}")));
    for (kind, body) in xml.into_iter().chain(json) {
        requests.push(head(&format!("{kind}Content-Length: {}", body.len())) + &body);
        let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        requests.push(head(&format!("{kind}Transfer-Encoding: chunked")) + &chunked);
    }
    requests.into_iter().map(String::into_bytes).collect()
}

// Shows: memory-bound.
#[test]
fn a_client_who_never_reads_is_held_in_what_was_counted() {
    for http in [
        "max-body='256' max-head='256'",
        "max-body='8KiB' max-head='1MiB' max-items='10'",
        "max-body='256KiB' max-head='256'",
    ] {
        let conf = conf(http);
        let bound = BUFFER_SIZES.connection_bytes(&conf.srv, &conf.map) as usize;
        // All cases share the buffers, so a buffer may come back from a client that needed a larger
        // one.
        let mut buffers = Buffers::default();
        for request in requests(&conf.srv.http) {
            for piece in [usize::MAX, 1000] {
                let held = held_at_most(&conf, &mut buffers, Face::Http, &request, piece);
                let shown = String::from_utf8_lossy(&request[..60.min(request.len())]);
                assert!(held <= bound, "{http}: {held} of {bound} bytes held of {shown}");
            }
        }
    }
}

/// Commands of RESP: many items, one long key, and a transaction of small commands.
fn commands(http: &Http) -> Vec<Vec<u8>> {
    let array = |words: &[&str]| {
        let bulks: String =
            words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{bulks}", words.len())
    };
    let max_body = http.max_body_bytes as usize;
    let many = |items: usize| {
        let count = items.to_string();
        let head = ["FRS.MUPDATE", "DETAIL", "ITEMS", &count];
        array(&[&head[..], &["1", "k", "1"].repeat(items)].concat())
    };
    let most = (1..=http.max_items as usize).take_while(|&items| many(items).len() <= max_body);
    let one = array(&["FRS.UPDATE", "1", "k", "DETAIL"]);
    let queued = one.repeat((max_body - one.len()) / (one.len() + 100));
    [
        most.last().map_or_else(|| one.clone(), many),
        array(&["FRS.UPDATE", "1", &"k".repeat(4096.min(max_body - 60))]),
        array(&["PING", &"m".repeat(4096.min(max_body - 40))]),
        array(&["COMMAND"]),
        [array(&["MULTI"]), queued, array(&["EXEC"])].concat(),
        one,
    ]
    .map(String::into_bytes)
    .to_vec()
}

#[test]
fn nor_is_a_client_of_redis_held_in_more() {
    for http in [
        "max-body='256' max-head='256'",
        "max-body='8KiB' max-head='1MiB' max-items='10'",
        "max-body='64KiB' max-head='8KiB'",
        "max-body='256KiB' max-head='256'",
    ] {
        let conf = conf(http);
        let bound = BUFFER_SIZES.connection_bytes(&conf.srv, &conf.map) as usize;
        let mut buffers = Buffers::default();
        for commands in commands(&conf.srv.http) {
            for piece in [usize::MAX, 1000] {
                let face = Face::Resp(0);
                let held = held_at_most(&conf, &mut buffers, face, &commands, piece);
                let shown = String::from_utf8_lossy(&commands[..60.min(commands.len())]);
                assert!(held <= bound, "{http}: {held} of {bound} bytes held of {shown}");
            }
        }
    }
}

#[test]
fn who_is_refused_is_told_so_in_the_words_of_the_listener() {
    for (face, error, words) in [
        (Face::Resp(0), Error::Overloaded, "-ERR max number of clients reached\r\n"),
        (Face::Resp(0), Error::PeerForbidden, "-ERR this peer is in no <allow> network\r\n"),
        (Face::Http, Error::Overloaded, "HTTP/1.1 503 Service Unavailable\r\n"),
    ] {
        let (_peer, ours) = mio::net::UnixStream::pair().unwrap();
        let mut client = Client::new(Stream::Unix(ours), None, face);
        let mut buffers = Buffers::default();
        client.refuse(&error, &mut buffers);
        assert!(client.refused && client.is_closing());
        let told = String::from_utf8(buffers.out).unwrap();
        assert!(told.starts_with(words), "{told}");
    }
}

// Shows: memory-bound.
#[test]
fn the_longest_reply_is_no_longer_than_was_counted() {
    for http in ["max-body='1KiB'", "max-body='64KiB'", "max-body='64KiB' max-items='3'"] {
        let conf = conf(http);
        let bound = BUFFER_SIZES.reply_bytes(&conf.srv.http, &conf.map) as usize;
        let mut longest = 0;
        for request in requests(&conf.srv.http) {
            let (mut scratch, mut out) = (Default::default(), Vec::new());
            let mut connection = Connection::new(None);
            let rules = (&conf.srv).into();
            connection.advance(&request, rules, &mut Longest, &mut scratch, &mut out);
            longest = longest.max(out.len());
        }
        for command in commands(&conf.srv.http) {
            let (mut scratch, mut out) = (Default::default(), Vec::new());
            let own = RespRules::of(&conf.srv, 0);
            RespConnection::default().advance(&command, own, &mut Longest, &mut scratch, &mut out);
            let replies =
                if command.starts_with(b"*1\r\n$5\r\nMULTI") { usize::MAX } else { bound };
            assert!(out.len() <= replies, "{http}: {} of {bound} in RESP", out.len());
        }
        assert!(longest <= bound, "{http}: {longest} of {bound}");
        assert!(longest > bound / 4, "it is not far from it: {longest} of {bound}");
    }
}

/// Each register has the longest text.
struct LongTexts;

const TEXT: [u8; 512] = [b'x'; 512];

impl Registers for LongTexts {
    fn get(&self, _: usize) -> Option<Register<'_>> {
        Some(Register { value: RegisterValue::Text(&TEXT), expires_ms: 0 })
    }

    fn set(&mut self, _: usize, _: RegisterValue<'_>, _: u64) -> Result<(), RegisterError> {
        Ok(())
    }

    fn set_expiry(&mut self, _: usize, _: u64) {}

    fn remove(&mut self, _: usize) {}

    fn touch(&mut self, _: usize) {}
}

/// Commands over registers, which fill max-body or have as many keys as one may have, and SCAN.
fn register_commands(http: &Http) -> [Vec<u8>; 3] {
    let most = 3 * http.max_items as usize;
    let keys = |bytes: usize| (bytes.saturating_sub(24) / 6).min(most);
    let mget =
        |keys: usize| format!("*{}\r\n$4\r\nMGET\r\n{}", keys + 1, "$0\r\n\r\n".repeat(keys));
    let (mut queued, mut left) = (String::new(), http.max_body_bytes as usize);
    while keys(left) > 0 {
        let next = mget(keys(left));
        left -= next.len();
        queued += &next;
    }
    let multi = format!("*1\r\n$5\r\nMULTI\r\n{queued}*1\r\n$4\r\nEXEC\r\n");
    let scan = "SCAN 0 COUNT 1000000\r\n".to_owned();
    [mget(keys(http.max_body_bytes as usize)), multi, scan].map(String::into_bytes)
}

// Shows: memory-bound.
#[test]
fn the_longest_reply_of_registers_is_no_longer_than_was_counted() {
    // With the least one, SCAN has the longest reply.
    for http in ["max-body='64KiB'", "max-items='3' max-body='256KiB'", "max-body='1KiB'"] {
        let srv = format!(
            "<srv><workers>1</workers><http {http}/><resp listen='127.0.0.1:1' registers='r'/></srv>"
        );
        let map = "<map><group name='g' files='1' key-nodes='8'/><biz id='1' name='r' \
                   key='string'><register text-bytes='512'/></biz></map>";
        let conf = Conf::parse("s", &srv, "m", map).unwrap_or_else(|faults| panic!("{faults}"));
        let bound = BUFFER_SIZES.reply_bytes(&conf.srv.http, &conf.map) as usize;
        let mut longest = 0;
        for commands in register_commands(&conf.srv.http) {
            let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
            let mut connection = RespConnection::default();
            let mut unread = &commands[..];
            while !unread.is_empty() {
                out.clear();
                let own = RespRules::of(&conf.srv, 0);
                let read = connection.advance(unread, own, &mut Longest, &mut scratch, &mut out);
                unread = &unread[read.consumed..];
                longest = longest.max(out.len());
            }
            let held = scratch.resp.reply.len();
            assert!(held <= bound && longest <= bound, "{http}: {held} and {longest} of {bound}");
        }
        assert!(longest > bound / 2, "it is not far from it: {longest} of {bound}");
    }
}

/// Answers nothing until `has_come` is set, and counts its charges.
#[derive(Default)]
struct Arriving {
    has_come: bool,
    charged: usize,
}

impl Serve for Arriving {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        self.charged += request.items().len();
        Longest.run(request, answers);
    }

    fn run_all(&mut self, exchanges: &mut [Exchange]) {
        for exchange in exchanges {
            exchange.stage = if self.has_come { Stage::Answered } else { Stage::Waiting };
            exchange.wait_ms = 20;
            if self.has_come {
                exchange.answers.clear();
                self.run(&exchange.request, &mut exchange.answers);
            }
        }
    }

    fn biz_name(&self, _index: usize) -> Option<&str> {
        Some("b")
    }

    fn draining(&self) -> bool {
        false
    }
}

/// Runs the client as a batch of its own, and returns the number of answers.
fn run_batch(
    client: &mut Client,
    conf: &Conf,
    serve: &mut Arriving,
    buffers: &mut Buffers,
) -> usize {
    buffers.out.clear();
    buffers.scratch.begin_batch();
    buffers.scratch.begin_connection();
    client.run(&conf.srv, None, serve, buffers);
    buffers.scratch.flush((&conf.srv).into(), serve, &mut buffers.out);
    let parked: Vec<_> = buffers.scratch.take_parked().collect();
    parked.into_iter().for_each(|(_, parked)| client.park(parked));
    buffers.out.windows(9).filter(|window| window == b"HTTP/1.1 ").count()
}

#[test]
fn a_request_that_waited_is_neither_read_nor_charged_again() {
    let conf = conf("max-body='8KiB'");
    let mut buffers = Buffers::default();
    let get = "GET /update?biz=1&key=k HTTP/1.1\r\nHost: x\r\n\r\n";
    // The request arrives whole, or in two pieces of which the first is kept.
    for pieces in [vec![get], vec![&get[..20], &get[20..]]] {
        let (mut peer, ours) = mio::net::UnixStream::pair().unwrap();
        let mut client = Client::new(Stream::Unix(ours), None, Face::Http);
        let mut serve = Arriving::default();
        for piece in pieces {
            peer.write_all(piece.as_bytes()).unwrap();
            client.readable = true;
            buffers.arena.clear();
            assert_eq!(client.read(&mut buffers.arena), Reading::Run);
            assert_eq!(run_batch(&mut client, &conf, &mut serve, &mut buffers), 0);
        }
        assert!(client.is_parked());
        // The reply has not come. The request runs again, without another read.
        assert_eq!(run_batch(&mut client, &conf, &mut serve, &mut buffers), 0);
        serve.has_come = true;
        assert_eq!(run_batch(&mut client, &conf, &mut serve, &mut buffers), 1);
        assert_eq!((client.is_parked(), serve.charged), (false, 1));
        // The client is on two lists of the worker. Its input is not processed twice.
        assert_eq!(run_batch(&mut client, &conf, &mut serve, &mut buffers), 0);
        assert_eq!(serve.charged, 1);
        client.release(&mut buffers.scratch.pool);
    }
}
