//! A TLS session of the server that is fed any bytes, or the messages of a real client with some
//! bytes changed. It refuses them, or the handshake goes on, and it holds no more than its bounds.
//!
//! The first byte chooses: even, and the rest are the bytes of the client, cut into pieces by the
//! second byte. Odd, and each three of the rest change a byte: a place of two bytes in all that the
//! client sends, and what is added there. Without a change the client is understood.

use std::sync::{Arc, OnceLock};

use frs_conf::{ClientCertificates, Tls, TlsFiles, TlsVersion};
use frs_server::tls::bounds::RECORD_BYTES;
use frs_server::tls::identity::Identity;
use frs_server::tls::session::{Session, SessionError};
use frs_server::tls::testing::{Authority, Leaf, Signed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

/// The most bytes that a session answers before its handshake is complete.
const MAX_ANSWER_BYTES: usize = 8 << 10;
/// More messages than a handshake has.
const MAX_TURNS: usize = 8;
/// A time at which no certificate has ended.
const NOW_S: i64 = 0;
const REQUEST: &[u8] = b"GET /health HTTP/1.1\r\n\r\n";

/// Both sides' settings.
struct World {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let ca = Authority::new("ca");
        let (own, shown) = (ca.sign(&Leaf::default()), ca.sign(&Leaf::default()));
        World { server: server(&ca, own), client: client(&ca, &shown) }
    })
}

fn server(ca: &Authority, own: Signed) -> Arc<ServerConfig> {
    let block = Tls {
        name: "edge".to_owned(),
        cert: "cert".into(),
        key: "key".into(),
        clients: Some(ClientCertificates { ca: "ca".into(), required: false }),
        min: TlsVersion::V12,
    };
    let (cert, key) = (own.cert.into_bytes(), own.key.into_bytes());
    let files = TlsFiles { cert, key, client_ca: Some(ca.pem().as_bytes().to_vec()) };
    Arc::new(Identity::of(&block, &files).expect("sound").config(b"http/1.1"))
}

fn client(ca: &Authority, shown: &Signed) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().into()).expect("an authority");
    let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![CertificateDer::from(shown.der())], key);
    Arc::new(client.expect("a pair"))
}

/// A session and its buffers.
struct Server {
    session: Session,
    wire: Box<[u8; RECORD_BYTES]>,
    plain: Box<[u8; RECORD_BYTES]>,
    is_over: bool,
}

impl Server {
    fn new() -> Server {
        let session = Session::new(Arc::clone(&world().server)).expect("sound");
        Server {
            session,
            wire: Box::new([0; RECORD_BYTES]),
            plain: Box::new([0; RECORD_BYTES]),
            is_over: false,
        }
    }

    /// Takes bytes as they come. Returns the plain text.
    fn take(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, SessionError> {
        let mut plain = Vec::new();
        while !bytes.is_empty() && !self.is_over && !self.session.is_plain() {
            let from = self.session.resume(&mut self.wire);
            let read = bytes.len().min(RECORD_BYTES - from);
            assert!(read > 0, "a full buffer and no end");
            self.wire[from..from + read].copy_from_slice(&bytes[..read]);
            bytes = &bytes[read..];
            let wire = &mut self.wire[..from + read];
            let taken = self.session.take(wire, &mut self.plain, NOW_S)?;
            plain.extend(&self.plain[..taken.plain]);
            if self.session.is_handshaking() {
                assert_eq!(taken.plain, 0, "plain text before the handshake is complete");
                assert!(self.session.outgoing().len() <= MAX_ANSWER_BYTES);
            }
            self.is_over = taken.is_end;
        }
        Ok(plain)
    }
}

/// Feeds bytes to a session, or to one whose client is real.
pub fn run(data: &[u8]) {
    match data {
        [] => {}
        [first, rest @ ..] if first % 2 == 0 => any(rest),
        [_, rest @ ..] => changed(rest),
    }
}

/// Any bytes are taken alike, whole and in pieces.
fn any(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else { return };
    let (mut whole, mut parts) = (Server::new(), Server::new());
    let taken = whole.take(bytes).is_ok();
    let pieces = bytes.chunks(usize::from(cut).max(1));
    let taken_in_parts = pieces.map(|piece| parts.take(piece)).all(|taken| taken.is_ok());
    assert_eq!(taken, taken_in_parts, "in pieces of {cut}");
    assert_eq!(whole.session.handshake(), parts.session.handshake());
}

/// A client that is real but for some bytes.
fn changed(changes: &[u8]) {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(&world().client), name).expect("sound");
    let (mut server, mut sent, mut plain) = (Server::new(), 0, Vec::new());
    std::io::Write::write_all(&mut client.writer(), REQUEST).expect("room");
    for _ in 0..MAX_TURNS {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).expect("room");
        }
        for change in changes.chunks_exact(3) {
            let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
            let at = place.checked_sub(sent);
            if let Some(byte) = at.and_then(|at| bytes.get_mut(at)) {
                *byte = byte.wrapping_add(change[2]);
            }
        }
        sent += bytes.len();
        let Ok(taken) = server.take(&bytes) else { break };
        plain.extend(taken);
        let mut answer = server.session.outgoing();
        let length = answer.len();
        while !answer.is_empty() {
            if client.read_tls(&mut answer).is_err() || client.process_new_packets().is_err() {
                return;
            }
        }
        server.session.note_sent(length);
    }
    if changes.len() < 3 {
        assert_eq!(plain, REQUEST, "a client that nothing has changed");
        assert_eq!(server.session.certificate_names().first().map(String::as_str), Some("CN=frs"));
    }
}
