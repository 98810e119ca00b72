//! What shows a token, in HTTP, at /authz and in RESP: any bytes. Only the right token lets an item
//! run, and the answers do not depend on how the input is cut. The first byte chooses the face, the
//! next two the cut.

use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

use frs_conf::{ClientIndex, Conf};
use frs_engine::access::{Access, TokenDigests};
use frs_engine::{Answer, Answers, Request, Verdict};
use frs_server::worker::connection::{
    Connection, ConnectionBuffers, ConnectionRules, Gate, RespRules, Serve,
};
use frs_server::worker::resp_connection::RespConnection;

use super::talk::talk;

const TOKEN: &str = "the-right-token-0123";

struct World {
    conf: Conf,
    access: Access,
}

/// A server with one client, and a `<resp>` with a token.
static WORLD: LazyLock<World> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("token");
    std::fs::write(&path, TOKEN).expect("written");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("set");
    let file = path.display();
    let srv = format!(
        "<srv><resp listen='127.0.0.1:1'/><clients><client name='a' token-file='{file}' \
         may='query update' biz='*'/></clients></srv>"
    );
    let map = "<map><group name='g' keys='1'/></map>";
    let conf = Conf::parse("srv.xml", &srv, "map.xml", map).expect("sound");
    let digests = TokenDigests::read(&conf.srv).expect("read");
    World { access: Access::of(&conf, Some(digests)), conf }
});

/// Admits every item, and counts those that ran for a client.
#[derive(Default)]
struct Counting {
    ran: usize,
}

impl Serve for Counting {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        let is_client = request.client != ClientIndex::ANONYMOUS;
        self.ran += usize::from(is_client);
        answers.items.extend(request.items().iter().map(|_| Answer {
            biz: None,
            result: Ok(Verdict::UNJUDGED),
            details: 0..0,
            action: 0,
        }));
        assert!(is_client, "an anonymous caller has no right");
    }

    fn biz_name(&self, _: usize) -> Option<&str> {
        None
    }

    fn draining(&self) -> bool {
        false
    }
}

fn gate() -> Option<Gate<'static>> {
    let World { conf, access } = &*WORLD;
    Some(Gate { access, map: &conf.map, generation: 1 })
}

/// The answers, whether the connection is closed, and how many items ran.
fn answers(is_resp: bool, pieces: &[&[u8]]) -> (Vec<u8>, bool, usize) {
    let srv = &WORLD.conf.srv;
    let mut scratch = ConnectionBuffers::default();
    let mut serve = Counting::default();
    let (out, closed) = if is_resp {
        let own = RespRules::of(srv, 0).with(gate());
        let mut connection = RespConnection::default();
        talk(pieces, |unread, out| connection.advance(unread, own, &mut serve, &mut scratch, out))
    } else {
        let rules = ConnectionRules::of(srv, gate());
        let mut connection = Connection::new(None);
        talk(pieces, |unread, out| connection.advance(unread, rules, &mut serve, &mut scratch, out))
    };
    (out, closed, serve.ran)
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&[face, low, high], shown)) = data.split_first_chunk::<3>() else { return };
    let input = match face % 4 {
        0 => [b"GET /query?biz=b&key=k HTTP/1.1\r\nHost: a\r\nAuthorization: ", shown, b"\r\n\r\n"]
            .concat(),
        1 => {
            let head =
                b"GET /authz/b HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nFRS-Token: ";
            [&head[..], shown, b"\r\n\r\n"].concat()
        }
        2 => [b"AUTH ", shown, b"\r\nFRS.QUERY b k\r\n"].concat(),
        _ => {
            let length = format!("*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n${}\r\n", shown.len());
            [length.as_bytes(), shown, b"\r\nFRS.QUERY b k\r\n"].concat()
        }
    };
    let is_resp = face % 4 >= 2;
    let cut = usize::from(u16::from_le_bytes([low, high])) % (input.len() + 1);
    let (head, tail) = input.split_at(cut);
    let whole = answers(is_resp, &[&input]);
    assert_eq!(answers(is_resp, &[head, tail]), whole);
    let has_token = shown.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes());
    assert!(whole.2 == 0 || has_token, "an item ran without the token");
}
