//! Handshakes of clients that are good, slow, plain, foreign or many, over streams in memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use frs_conf::{ClientCertificates, Tls, TlsFiles, TlsVersion};
use frs_server::tls::identity::Identity;
use frs_server::tls::testing::{Authority, Leaf, Signed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::duplex;
use tokio_rustls::TlsConnector;

use super::*;

/// A listener with a certificate, and the authority that has signed it.
struct World {
    ca: Authority,
    secure: Arc<Secure>,
    settings: Arc<ServerConfig>,
}

impl World {
    fn new(asks_for_certificates: bool) -> World {
        let ca = Authority::new("ca");
        let clients = || ClientCertificates { ca: "ca".into(), required: true };
        let block = Tls {
            name: "edge".to_owned(),
            cert: "cert".into(),
            key: "key".into(),
            clients: asks_for_certificates.then(clients),
            min: TlsVersion::V12,
        };
        let own = ca.sign(&Leaf::default());
        let files = TlsFiles {
            cert: own.cert.into_bytes(),
            key: own.key.into_bytes(),
            client_ca: asks_for_certificates.then(|| ca.pem().as_bytes().to_vec()),
        };
        let settings = Arc::new(Identity::of(&block, &files).expect("sound").config(HTTP2));
        let secure = Arc::new(Secure::new(Spoken::Tls(Arc::clone(&settings))));
        World { ca, secure, settings }
    }

    /// The settings of a client, which shows this certificate if there is one.
    fn client(&self, shown: Option<&Signed>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.der().into()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        match shown {
            None => builder.with_no_client_auth(),
            Some(shown) => {
                let certs = vec![CertificateDer::from(shown.der())];
                let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(certs, key).expect("a pair")
            }
        }
    }
}

/// What both sides have of a handshake.
async fn shake(
    secure: &Secure,
    client: ClientConfig,
) -> (io::Result<TlsStream<tokio::io::DuplexStream>>, io::Result<Vec<u8>>) {
    let (near, far) = duplex(64 << 10);
    let connector = TlsConnector::from(Arc::new(client));
    let name = ServerName::try_from("localhost").expect("a name");
    let connect = async {
        let mut stream = connector.connect(name, near).await?;
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await?;
        Ok(read)
    };
    let accept = async {
        let Spoken::Tls(settings) = secure.spoken() else { panic!("it speaks TLS") };
        let mut accepted = secure.accept(settings, far).await;
        if let Ok(stream) = &mut accepted {
            stream.write_all(b"welcome").await.expect("written");
            stream.shutdown().await.expect("closed");
        }
        accepted
    };
    tokio::join!(accept, connect)
}

// Shows: tls-rls.
#[tokio::test]
async fn a_client_is_welcomed_and_http2_is_agreed() {
    let world = World::new(false);
    let mut client = world.client(None);
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (accepted, read) = shake(&world.secure, client).await;
    let accepted = accepted.expect("accepted");
    assert_eq!(accepted.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(read.expect("read"), b"welcome");
    let mut other = world.client(None);
    other.alpn_protocols = vec![b"http/1.1".to_vec()];
    let (accepted, read) = shake(&world.secure, other).await;
    assert!(accepted.is_err() && read.is_err(), "no protocol in common");
}

// Shows: tls-rls.
#[tokio::test]
async fn a_certificate_is_asked_for_and_its_names_are_told() {
    let world = World::new(true);
    let (accepted, _) = shake(&world.secure, world.client(None)).await;
    assert!(accepted.is_err(), "no certificate");
    let foreign = World::new(true).ca.sign(&Leaf::default());
    let (accepted, _) = shake(&world.secure, world.client(Some(&foreign))).await;
    assert!(accepted.is_err(), "another authority");
    let leaf = Leaf { common_name: "billing", names: &["URI:spiffe://x/y"], ..Leaf::default() };
    let (accepted, _) = shake(&world.secure, world.client(Some(&world.ca.sign(&leaf)))).await;
    let names = certificate_names(&accepted.expect("accepted"));
    assert_eq!(names, ["CN=billing", "URI:spiffe://x/y"]);
}

// Shows: tls-rls.
#[tokio::test]
async fn a_client_without_tls_is_told_in_its_own_words() {
    let world = World::new(false);
    for (sent, begins) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], &b"HTTP/1.1 400 "[..]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\x04\0\0\0\0\0\0\0"),
        (b"\0", b"HTTP/1.1 400 "),
    ] {
        let (mut near, far) = duplex(64 << 10);
        near.write_all(sent).await.expect("written");
        let error =
            world.secure.accept(Arc::clone(&world.settings), far).await.expect_err("refused");
        assert!(error.to_string().contains("speaks TLS"), "{error}");
        let mut said = Vec::new();
        near.read_to_end(&mut said).await.expect("read");
        assert!(said.starts_with(begins), "{said:?}");
        assert!(said.windows(SPEAKS_TLS.len()).any(|part| part == SPEAKS_TLS.as_bytes()));
    }
}

// Shows: tls-hostile-clients.
#[tokio::test]
async fn garbage_is_answered_by_an_alert() {
    let world = World::new(false);
    for sent in [&b"\x16\x03\x01\0\x05hello"[..], b"\x16\xff\xff\xff\xff\xff", b"\x16\x03\x01\0\0"]
    {
        let (mut near, far) = duplex(64 << 10);
        near.write_all(sent).await.expect("written");
        near.shutdown().await.expect("closed");
        world.secure.accept(Arc::clone(&world.settings), far).await.expect_err("refused");
        let mut said = Vec::new();
        near.read_to_end(&mut said).await.expect("read");
        assert!(said.is_empty() || said[0] == 21, "{said:?}");
    }
}

/// A client that has sent half of its first message holds up nobody, and each handshake lets the
/// others have a turn.
// Shows: tls-hostile-clients.
#[tokio::test]
async fn a_flood_leaves_turns_to_others_and_the_silent_hold_nothing() {
    const FLOOD: usize = 50;
    let world = World::new(false);
    let (mut silent, far) = duplex(64 << 10);
    silent.write_all(b"\x16\x03\x01\x02\0\x01").await.expect("written");
    let (secure, settings) = (Arc::clone(&world.secure), Arc::clone(&world.settings));
    let waiting = tokio::spawn(async move { secure.accept(settings, far).await });
    let shaken = Arc::new(AtomicUsize::new(0));
    let flood: Vec<_> = (0..FLOOD)
        .map(|_| {
            let (secure, client) = (Arc::clone(&world.secure), world.client(None));
            let shaken = Arc::clone(&shaken);
            tokio::spawn(async move {
                let (accepted, _) = shake(&secure, client).await;
                accepted.expect("accepted");
                shaken.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    let (mut turns, mut most, mut before) = (0, 0, 0);
    while shaken.load(Ordering::Relaxed) < FLOOD {
        tokio::task::yield_now().await;
        let now = shaken.load(Ordering::Relaxed);
        (turns, most, before) = (turns + 1, most.max(now - before), now);
    }
    assert!(turns >= FLOOD, "{turns} turns beside {FLOOD} handshakes");
    assert!(most <= 2, "{most} handshakes in one turn");
    for handshake in flood {
        handshake.await.expect("no panic");
    }
    assert!(!waiting.is_finished());
    drop(silent);
    let end = tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("in time");
    assert!(end.expect("no panic").is_err());
}
