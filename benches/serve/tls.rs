//! What TLS costs the server: its processor time for a request in a pipeline, beside plain text,
//! and for a connection in plain text, with a resumed handshake and with a full one.
//!
//! Plain text and TLS are asked by the same client, in turns.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frs_server::tls::testing::Authority;
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::servers::{Frs, ONE_BIZ, Server, free_address};
use crate::{Options, Result};

/// Connections of a pipeline, and its requests in flight on each.
const CONNECTIONS: usize = 16;
const DEPTH: usize = 16;
/// Connections that are opened in turn for the cost of one.
const OPENED: u32 = 2_000;
const REQUEST: &str = "GET /update?biz=1&key=a HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Runs all rounds, and prints the figures.
pub fn run(options: &Options) -> Result<()> {
    let (directory, authority) = (tempfile::tempdir()?, Authority::new("bench"));
    authority.write(directory.path(), "edge");
    let address = free_address()?;
    let frs = Frs::start_with(ONE_BIZ, &elements(directory.path(), address))?;
    let resuming = client(&authority, Resumption::default())?;
    let fresh = client(&authority, Resumption::disabled())?;
    let ways = [
        ("plain text", None, frs.address()),
        ("resumed", Some(&resuming), address),
        ("full", Some(&fresh), address),
    ];
    println!("TLS 1.3 with a key of ECDSA P-256; processor time of the server");
    for round in 1..=options.rounds {
        let [plain, tls] = [&ways[0], &ways[1]]
            .map(|(_, config, address)| pipeline(&frs, *config, *address, options.seconds));
        let (plain, tls) = (plain?, tls?);
        let ratio = tls.as_secs_f64() / plain.as_secs_f64();
        println!(
            "round {round}: a request of {DEPTH} in a pipeline: {plain:.2?} in plain text, \
             {tls:.2?} over TLS: {ratio:.2} ×"
        );
        let costs = ways.map(|(name, config, address)| {
            open(&frs, config, address).map(|cost| format!("{name} {cost:.1?}"))
        });
        let costs = costs.into_iter().collect::<Result<Vec<_>>>()?;
        println!("round {round}: a connection with one request: {}", costs.join(", "));
    }
    Ok(())
}

fn elements(files: &Path, address: SocketAddr) -> String {
    let files = files.display();
    format!(
        "<tls name='edge' cert='{files}/edge.pem' key='{files}/edge.key'/>\
         <listen tls='edge'>{address}</listen>"
    )
}

fn client(authority: &Authority, resumption: Resumption) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.der()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = resumption;
    Ok(Arc::new(config))
}

trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

fn connect(config: Option<&Arc<ClientConfig>>, address: SocketAddr) -> Result<Box<dyn Connection>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(match config {
        None => Box::new(stream),
        Some(config) => {
            let session = ClientConnection::new(Arc::clone(config), "localhost".try_into()?)?;
            Box::new(StreamOwned::new(session, stream))
        }
    })
}

/// Reads this many answers, each of them a success.
fn read(connection: &mut dyn Connection, mut answers: usize, buffer: &mut Vec<u8>) -> Result<()> {
    buffer.clear();
    let mut at = 0;
    while answers > 0 {
        let rest = &buffer[at..];
        if let Some(head) = memchr::memmem::find(rest, b"\r\n\r\n") {
            let text = std::str::from_utf8(&rest[..head])?;
            if !text.starts_with("HTTP/1.1 200 ") {
                return Err(text.to_owned().into());
            }
            let length = text.split("Content-Length: ").nth(1).and_then(|it| it.lines().next());
            let length: usize = length.unwrap_or("0").parse()?;
            if rest.len() >= head + 4 + length {
                (at, answers) = (at + head + 4 + length, answers - 1);
                continue;
            }
        }
        let mut part = [0; 16 << 10];
        match connection.read(&mut part)? {
            0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            read => buffer.extend_from_slice(&part[..read]),
        }
    }
    Ok(())
}

/// The server's processor time for a request in a pipeline.
fn pipeline(
    frs: &Frs,
    config: Option<&Arc<ClientConfig>>,
    address: SocketAddr,
    time: Duration,
) -> Result<Duration> {
    let connections = (0..CONNECTIONS).map(|_| connect(config, address));
    let mut connections = connections.collect::<Result<Vec<_>>>()?;
    let (mut buffer, requests) = (Vec::new(), REQUEST.repeat(DEPTH));
    let (mut count, begun, mut before) = (0, Instant::now(), None);
    while begun.elapsed() < time {
        for connection in &mut connections {
            connection.write_all(requests.as_bytes())?;
        }
        for connection in &mut connections {
            read(connection, DEPTH, &mut buffer)?;
        }
        // The first answers include the handshakes.
        match before {
            None => before = Some(frs.cpu()?),
            Some(_) => count += CONNECTIONS * DEPTH,
        }
    }
    let spent = frs.cpu()?.saturating_sub(before.unwrap_or_default());
    Ok(spent / u32::try_from(count.max(1))?)
}

/// The server's processor time for a connection with one request.
fn open(frs: &Frs, config: Option<&Arc<ClientConfig>>, address: SocketAddr) -> Result<Duration> {
    let (before, mut buffer) = (frs.cpu()?, Vec::new());
    for _ in 0..OPENED {
        let mut connection = connect(config, address)?;
        connection.write_all(REQUEST.as_bytes())?;
        read(&mut connection, 1, &mut buffer)?;
    }
    Ok(frs.cpu()?.saturating_sub(before) / OPENED)
}
