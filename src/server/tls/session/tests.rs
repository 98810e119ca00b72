//! Sessions against clients of rustls, in memory: handshakes, resumption, bounds and refusals.

use std::io::{Read, Write};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore};

use super::*;
use crate::tls::identity::Identity;
use crate::tls::testing::{Authority, Leaf, Signed};
use crate::tls::tickets::{ROTATE_MS, TicketBoard, Tickets};
use frs_base::clock;
use frs_conf::{ClientCertificates, Tls, TlsFiles, TlsVersion};

/// A server's side: its authority, and what it resumes by.
struct Side {
    authority: Authority,
    clients: Authority,
    board: Arc<TicketBoard>,
    required: Option<bool>,
    min: TlsVersion,
}

impl Side {
    fn new(required: Option<bool>) -> Side {
        Side {
            authority: Authority::new("servers"),
            clients: Authority::new("clients"),
            board: Arc::new(TicketBoard::new(clock::now()).expect("made")),
            required,
            min: TlsVersion::V12,
        }
    }

    /// The configuration of a process of this server.
    fn config(&self) -> Arc<ServerConfig> {
        let signed = self.authority.sign(&Leaf::default());
        let path = || "somewhere".into();
        let block = Tls {
            name: "edge".into(),
            cert: path(),
            key: path(),
            clients: self.required.map(|required| ClientCertificates { ca: path(), required }),
            min: self.min,
        };
        let files = TlsFiles {
            cert: signed.cert.into_bytes(),
            key: signed.key.into_bytes(),
            client_ca: self.required.map(|_| self.clients.pem().as_bytes().to_vec()),
        };
        let identity = Identity::of(&block, &files).expect("sound");
        let mut config = identity.config(b"http/1.1");
        config.ticketer = Arc::new(Tickets::new(Arc::clone(&self.board), identity.digest));
        Arc::new(config)
    }

    fn client(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> Arc<ClientConfig> {
        self.client_with(versions, None)
    }

    /// The configuration of a client that shows this certificate.
    fn client_with(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        own: Option<&Signed>,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.authority.der())).expect("sound");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("known")
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.key_der()));
                let chain = vec![CertificateDer::from(own.der())];
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

const BOTH: &[&rustls::SupportedProtocolVersion] =
    &[&rustls::version::TLS13, &rustls::version::TLS12];
const OLDER: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];

/// A client and a session, and the plain text that the session has given out.
struct Pair {
    client: ClientConnection,
    session: Session,
    plain: Vec<u8>,
    /// What the client has received.
    received: Vec<u8>,
    is_end: bool,
    now_s: i64,
    /// The most bytes of a read of the session.
    step: usize,
}

impl Pair {
    fn new(client: &Arc<ClientConfig>, server: Arc<ServerConfig>) -> Pair {
        let name = "localhost".try_into().expect("a name");
        Pair {
            client: ClientConnection::new(Arc::clone(client), name).expect("sound"),
            session: Session::new(server).expect("sound"),
            plain: Vec::new(),
            received: Vec::new(),
            is_end: false,
            now_s: (clock::now() / 1000) as i64,
            step: RECORD_BYTES,
        }
    }

    /// Gives the session bytes of the wire.
    fn give(&mut self, mut bytes: &[u8]) -> Result<(), SessionError> {
        while !bytes.is_empty() {
            let (mut wire, mut plain) = ([0; RECORD_BYTES], [0; RECORD_BYTES]);
            let kept = self.session.resume(&mut wire);
            let read = bytes.len().min(self.step).min(RECORD_BYTES - kept);
            wire[kept..kept + read].copy_from_slice(&bytes[..read]);
            bytes = &bytes[read..];
            let taken = self.session.take(&mut wire[..kept + read], &mut plain, self.now_s)?;
            self.plain.extend_from_slice(&plain[..taken.plain]);
            self.is_end |= taken.is_end;
        }
        Ok(())
    }

    /// Takes what the session sends to the client.
    fn deliver(&mut self) -> Result<(), rustls::Error> {
        while !self.session.outgoing().is_empty() {
            let mut bytes = self.session.outgoing();
            let read = self.client.read_tls(&mut bytes).expect("memory");
            self.session.note_sent(read);
            self.client.process_new_packets()?;
            let mut plain = [0; 32 << 10];
            if let Ok(read) = self.client.reader().read(&mut plain) {
                self.received.extend_from_slice(&plain[..read]);
            }
        }
        Ok(())
    }

    /// Exchanges bytes until neither side has any.
    fn exchange(&mut self) -> Result<(), SessionError> {
        loop {
            let mut bytes = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut bytes).expect("memory");
            }
            let was = self.session.outgoing().len();
            let given = self.give(&bytes);
            let delivered = self.deliver();
            given?;
            delivered?;
            if bytes.is_empty() && was == 0 {
                return Ok(());
            }
        }
    }
}

#[test]
fn both_versions_carry_text_both_ways_in_pieces_of_any_size() {
    let side = Side::new(None);
    for (versions, version) in [(BOTH, ProtocolVersion::TLSv1_3), (OLDER, ProtocolVersion::TLSv1_2)]
    {
        for step in [1, 7, RECORD_BYTES] {
            let mut pair = Pair::new(&side.client(versions), side.config());
            pair.step = step;
            assert!(pair.session.is_handshaking() && !pair.session.has_begun());
            pair.exchange().expect("a handshake");
            assert_eq!(pair.client.protocol_version(), Some(version));
            assert_eq!(pair.client.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert_eq!(pair.session.handshake(), Some(Handshake::Full));
            pair.client.writer().write_all(b"question").expect("memory");
            pair.exchange().expect("open");
            assert_eq!(pair.plain, b"question");
            let answer = vec![b'x'; 50_000];
            pair.session.seal(&answer).expect("open");
            pair.deliver().expect("sound");
            assert_eq!(std::mem::take(&mut pair.received), answer);
            assert_eq!(pair.session.incomplete.capacity(), 0, "an idle session holds no buffer");
            assert_eq!(pair.session.outgoing.capacity(), 0);
            pair.client.send_close_notify();
            pair.exchange().expect("open");
            assert!(pair.is_end);
            pair.session.seal(b"last").expect("it may still be answered");
            pair.session.close();
            pair.deliver().expect("sound");
            assert_eq!(pair.received, b"last");
        }
    }
}

#[test]
fn an_older_version_is_refused_where_the_newest_is_the_least() {
    let side = Side { min: TlsVersion::V13, ..Side::new(None) };
    let mut pair = Pair::new(&side.client(OLDER), side.config());
    let error = pair.exchange().expect_err("refused");
    assert!(matches!(error, SessionError::Tls(rustls::Error::PeerIncompatible(_))), "{error}");
    Pair::new(&side.client(BOTH), side.config()).exchange().expect("the newest");
}

// Shows: tls-resumption.
#[test]
fn a_session_is_resumed_by_another_process_until_its_key_is_gone() {
    for versions in [BOTH, OLDER] {
        let side = Side::new(None);
        let client = side.client(versions);
        let kind = || {
            let mut pair = Pair::new(&client, side.config());
            pair.exchange().expect("a handshake");
            pair.session.handshake()
        };
        assert_eq!(kind(), Some(Handshake::Full));
        // Each is a configuration of its own, with another certificate of the server.
        assert_eq!(kind(), Some(Handshake::Resumed));
        side.board.rotate(clock::now() + ROTATE_MS).expect("rotated");
        assert_eq!(kind(), Some(Handshake::Resumed));
        for hours in [2, 3] {
            side.board.rotate(clock::now() + hours * ROTATE_MS).expect("rotated");
        }
        assert_eq!(kind(), Some(Handshake::Full));
    }
}

#[test]
fn a_certificate_is_needed_wanted_or_not_asked_for() {
    let leaf = |side: &Side| {
        side.clients.sign(&Leaf { common_name: "billing", names: &["DNS:b"], ..Leaf::default() })
    };
    for versions in [BOTH, OLDER] {
        for required in [None, Some(false), Some(true)] {
            let side = Side::new(required);
            let own = leaf(&side);
            let stranger = Authority::new("clients").sign(&Leaf::default());
            let result = |own: Option<&Signed>| {
                let mut pair = Pair::new(&side.client_with(versions, own), side.config());
                let result = pair.exchange();
                result.map(|()| pair.session.certificate_names().to_vec())
            };
            let named = if required.is_some() { vec!["CN=billing", "DNS:b"] } else { vec![] };
            assert_eq!(result(Some(&own)).expect("proved"), named);
            assert_eq!(result(None).is_ok(), required != Some(true));
            assert_eq!(result(Some(&stranger)).is_ok(), required.is_none());
        }
    }
}

// Shows: tls-resumption.
#[test]
fn a_ticket_outlives_neither_its_certificate_nor_the_authorities() {
    for versions in [BOTH, OLDER] {
        let mut side = Side::new(Some(true));
        let own = side.clients.sign(&Leaf { days: (-1, 1), ..Leaf::default() });
        let client = side.client_with(versions, Some(&own));
        let kind = |side: &Side, now_s: i64| {
            let mut pair = Pair::new(&client, side.config());
            pair.now_s += now_s;
            pair.exchange()?;
            assert_eq!(pair.session.certificate_names()[0], "CN=frs");
            Ok::<_, SessionError>(pair.session.handshake())
        };
        assert_eq!(kind(&side, 0).expect("a handshake"), Some(Handshake::Full));
        assert_eq!(kind(&side, 0).expect("a handshake"), Some(Handshake::Resumed));
        let error = kind(&side, 2 * 86_400).expect_err("ended");
        assert!(matches!(error, SessionError::CertificateEnded), "{error}");
        kind(&side, 0).expect("a handshake");
        side.required = Some(false);
        assert_eq!(kind(&side, 0).expect("a handshake"), Some(Handshake::Full), "another need");
        side.clients = Authority::new("others");
        kind(&side, 0).expect_err("of other authorities");
    }
}

#[test]
fn long_chains_and_long_messages_are_refused() {
    let side = Side::new(Some(true));
    let long = format!("URI:{}", "x".repeat(crate::tls::bounds::MAX_CHAIN_BYTES));
    let own = side.clients.sign(&Leaf { names: &[&long], ..Leaf::default() });
    let mut pair = Pair::new(&side.client_with(BOTH, Some(&own)), side.config());
    assert!(pair.exchange().expect_err("refused").to_string().contains("bytes of certificates"));
    // A handshake message that never ends, in records that do.
    let mut pair = Pair::new(&side.client(BOTH), side.config());
    let mut message = vec![1, 0, 0xff, 0xff];
    message.resize(32 << 10, 0);
    let records: Vec<u8> =
        message.chunks(1 << 10).flat_map(|part| [&[22, 3, 3, 4, 0], part].concat()).collect();
    let error = pair.give(&records).expect_err("refused");
    assert!(matches!(error, SessionError::TooLong), "{error}");
}

// Shows: tls-words.
#[test]
fn text_is_known_by_its_first_byte_and_noise_fails_with_an_alert() {
    let side = Side::new(None);
    for text in [&b"GET / HTTP/1.1\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"PING\r\n", b"\r\n"] {
        let mut pair = Pair::new(&side.client(BOTH), side.config());
        pair.give(text).expect("known");
        assert!(pair.session.is_plain() && !pair.session.is_handshaking());
        assert_eq!(pair.plain, b"");
    }
    for noise in [&[0; 64][..], &[22, 3, 1, 0, 4, 1, 0, 0, 0], &[21, 3, 3, 0, 2, 2, 40]] {
        let mut pair = Pair::new(&side.client(BOTH), side.config());
        let given = pair.give(noise);
        let outgoing = pair.session.outgoing();
        assert!(given.is_err(), "{noise:?}");
        assert!(noise[0] == 21 || outgoing.first() == Some(&21), "{noise:?}: {outgoing:?}");
    }
}

// Shows: memory-bound.
#[test]
fn a_session_holds_what_frs_check_counts() {
    let side = Side::new(Some(true));
    let own = side.clients.sign(&Leaf::default());
    let mut pair = Pair::new(&side.client_with(BOTH, Some(&own)), side.config());
    pair.exchange().expect("a handshake");
    pair.client.writer().write_all(&[0; 16 << 10]).expect("memory");
    let mut record = Vec::new();
    pair.client.write_tls(&mut record).expect("memory");
    pair.give(&record[..record.len() - 1]).expect("open");
    assert_eq!(pair.plain, b"");
    assert!(pair.session.incomplete.capacity() <= RECORD_BYTES);
    assert!(size_of::<Session>() <= 4 << 10, "{}", size_of::<Session>());
    pair.give(&record[record.len() - 1..]).expect("open");
    assert_eq!(pair.plain.len(), 16 << 10);
}
