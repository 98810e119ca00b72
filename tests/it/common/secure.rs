//! Clients that speak TLS: settings for rustls, and connections over them.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use frs_server::tls::testing::{Authority, Signed};

use super::{BOUND, Client};

/// A connection over TLS.
pub type SecureStream = StreamOwned<ClientConnection, TcpStream>;

/// A version of TLS, or the best that both sides speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    Tls12,
    Tls13,
    Best,
}

/// Settings of a client that trusts this authority, and shows this pair if there is one.
pub fn settings(ca: &Authority, shown: Option<&Signed>, version: Version) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(ca.pem().as_bytes()).expect("a certificate");
    roots.add(ca).expect("an authority");
    let versions = match version {
        Version::Tls12 => &[&TLS12][..],
        Version::Tls13 => &[&TLS13],
        Version::Best => &[&TLS12, &TLS13],
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("known versions")
        .with_root_certificates(roots);
    match shown {
        None => builder.with_no_client_auth(),
        Some(shown) => {
            let certs = CertificateDer::pem_slice_iter(shown.cert.as_bytes());
            let certs = certs.map(|cert| cert.expect("a certificate")).collect();
            let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).expect("a key");
            builder.with_client_auth_cert(certs, key).expect("a pair")
        }
    }
}

/// Connects and shakes hands. Settings that are used again resume.
pub fn connect(address: SocketAddr, settings: &Arc<ClientConfig>) -> std::io::Result<SecureStream> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::clone(settings), name).expect("settings");
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(BOUND))?;
    stream.set_write_timeout(Some(BOUND))?;
    stream.set_nodelay(true)?;
    let mut stream = StreamOwned::new(connection, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// A client of HTTP over TLS.
pub fn client(address: SocketAddr, settings: &Arc<ClientConfig>) -> Client<SecureStream> {
    Client::of(connect(address, settings).expect("connected over TLS"))
}
