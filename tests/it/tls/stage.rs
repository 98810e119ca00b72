//! A server whose listeners speak TLS, and clients of rustls.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use frs_server::tls::testing::{Authority, Signed};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use crate::common::address::Reserved;
use crate::common::{BOUND, Settings, Setup};

/// A setup with a listener of each kind over TLS, and a plain `<listen>`.
pub struct Stage {
    pub setup: Setup,
    pub http: Reserved,
    pub resp: Reserved,
    pub admin: Reserved,
    pub metrics: Reserved,
    /// Signs the server's certificates.
    pub servers: Authority,
    /// Signs those of clients.
    pub clients: Authority,
}

impl Stage {
    /// `tls` is what `<tls>` has besides its pair.
    pub fn new(workers: u16, tls: &str) -> Stage {
        let [http, resp, admin, metrics] = [(); 4].map(|()| Reserved::new());
        let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
        let setup = Setup::new(&Settings::default());
        let stage = Stage { setup, http, resp, admin, metrics, servers, clients };
        stage.write_srv(workers, "", tls);
        stage.write_pair();
        std::fs::write(stage.setup.path("conf/ca.pem"), stage.clients.pem()).expect("written");
        stage
    }

    /// Writes srv.xml. `http` are the attributes of `<http>`.
    pub fn write_srv(&self, workers: u16, http: &str, tls: &str) {
        let more = format!(
            "<tls name='edge' cert='conf/edge.pem' key='conf/edge.key' {tls}/>\
             <listen tls='edge'>{}</listen><resp listen='{}' tls='edge'/>\
             <admin listen='{}' tls='edge'/><metrics listen='{}' tls='edge'/>",
            self.http.address, self.resp.address, self.admin.address, self.metrics.address
        );
        self.setup.write_srv(&Settings { workers, http: http.to_owned(), more });
    }

    /// Writes another certificate of the server, with its key.
    pub fn write_pair(&self) -> Signed {
        self.servers.write(&self.setup.path("conf"), "edge")
    }

    /// The addresses of HTTP.
    pub fn of_http(&self) -> [SocketAddr; 3] {
        [self.http.address, self.admin.address, self.metrics.address]
    }

    /// A client without a certificate. Its connections resume each other's sessions.
    pub fn client(&self) -> Arc<ClientConfig> {
        self.client_with(None)
    }

    /// A client with this certificate.
    pub fn client_with(&self, own: Option<&Signed>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.servers.der())).expect("sound");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("known")
            .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.key_der()));
                let chain = vec![CertificateDer::from(own.der())];
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        })
    }
}

/// A connection over TLS.
pub struct TlsClient(pub StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    /// Connects, without a handshake yet.
    pub fn connect(config: &Arc<ClientConfig>, address: SocketAddr) -> TlsClient {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(BOUND)).expect("set");
        let name = "localhost".try_into().expect("a name");
        let session = ClientConnection::new(Arc::clone(config), name).expect("sound");
        TlsClient(StreamOwned::new(session, stream))
    }

    /// Asks over HTTP. Returns the head and the body of the answer.
    pub fn get(&mut self, target: &str) -> io::Result<String> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.0.write_all(request.as_bytes())?;
        self.answer()
    }

    /// The next answer of HTTP with a Content-Length.
    pub fn answer(&mut self) -> io::Result<String> {
        let (mut text, mut end) = (Vec::new(), usize::MAX);
        while text.len() < end {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            text.push(byte[0]);
            if end == usize::MAX && text.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&text).to_lowercase();
                let length = head.split("content-length: ").nth(1).expect("a length");
                let length: usize =
                    length.lines().next().and_then(|it| it.parse().ok()).expect("a number");
                end = text.len() + length;
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Sends a command of RESP. Returns the first line of its reply.
    pub fn command(&mut self, line: &str) -> io::Result<String> {
        self.0.write_all(format!("{line}\r\n").as_bytes())?;
        let mut reply = Vec::new();
        while !reply.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            reply.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&reply).into_owned())
    }

    /// How the handshake ended.
    pub fn kind(&self) -> Option<HandshakeKind> {
        self.0.conn.handshake_kind()
    }

    /// The certificate that the server has shown.
    pub fn shown(&self) -> Vec<u8> {
        let shown = self.0.conn.peer_certificates().and_then(<[_]>::first);
        shown.map(|first| first.to_vec()).unwrap_or_default()
    }
}

/// All bytes that come in plain text for these, until the server closes.
pub fn in_plain(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(BOUND)).expect("set");
    stream.write_all(bytes).expect("sent");
    let mut answer = Vec::new();
    let mut part = [0; 1024];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("not closed: {error}"),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads until the peer closes. Panics if it does not within the time limit of tests.
pub fn wait_for_the_end(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(BOUND)).expect("set");
    loop {
        match stream.read(&mut [0; 1 << 10]) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("not closed: {error}"),
        }
    }
}
