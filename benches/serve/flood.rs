//! How long a client waits while others shake hands: requests on one standing connection over TLS,
//! in turns alone, beside a busy loop, and beside a flood of full handshakes.
//!
//! The flood takes a processor for its own half of each handshake, as the busy loop does. So the
//! difference between these two rows is what the server's half costs other clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use frs_server::tls::testing::Authority;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::servers::{self, Frs};
use crate::{Options, Result};

const NAMES: [&str; 3] = ["alone", "beside a busy loop", "beside handshakes"];
const REQUEST: &[u8] = b"GET /update?biz=bench&key=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";

type SecureStream = StreamOwned<ClientConnection, TcpStream>;
/// What runs beside the client until `over` is set: the handshakes that it made.
type Neighbour = fn(SocketAddr, &Arc<ClientConfig>, &AtomicBool) -> usize;

/// Runs all rounds, and prints the table.
pub fn run(options: &Options) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let ca = Authority::new("bench");
    ca.write(directory.path(), "edge");
    let (address, dir) = (servers::free_address()?, directory.path().display());
    let more = format!(
        "<listen tls=\"edge\">{address}</listen>\
         <tls name=\"edge\" cert=\"{dir}/edge.pem\" key=\"{dir}/edge.key\"/>"
    );
    let _frs = Frs::start_with(servers::ONE_BIZ, &more)?;
    let settings = Arc::new(settings(&ca)?);
    let neighbours: [Neighbour; 3] = [|_, _, _| 0, spin, shake_hands];
    let mut waits: [Vec<Duration>; 3] = Default::default();
    let mut handshakes = [0; 3];
    for round in 1..=options.rounds {
        eprintln!("flood: round {round} of {}", options.rounds);
        for (nth, neighbour) in neighbours.into_iter().enumerate() {
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                let beside = scope.spawn(|| neighbour(address, &settings, &over));
                let asked = ask(address, &settings, options.seconds, &mut waits[nth]);
                over.store(true, Ordering::Relaxed);
                handshakes[nth] += beside.join().map_err(|_| "the neighbour has panicked")?;
                asked
            })?;
        }
    }
    println!("\none request at a time over TLS, on one connection, one worker\n");
    println!(
        "{:<20} {:>9} {:>8} {:>8} {:>8} {:>13}",
        "", "requests", "p50 us", "p99 us", "max us", "handshakes/s"
    );
    let seconds = options.seconds.as_secs_f64() * f64::from(options.rounds);
    for ((name, waits), handshakes) in NAMES.iter().zip(&mut waits).zip(handshakes) {
        waits.sort_unstable();
        let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize].as_micros();
        let rate = handshakes as f64 / seconds;
        let (p50, p99, most) = (at(0.5), at(0.99), at(1.0));
        println!("{name:<20} {:>9} {p50:>8} {p99:>8} {most:>8} {rate:>13.0}", waits.len());
    }
    Ok(())
}

/// Settings of a client that resumes nothing.
fn settings(ca: &Authority) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut settings = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    settings.resumption = Resumption::disabled();
    Ok(settings)
}

fn connect(address: SocketAddr, settings: &Arc<ClientConfig>) -> Result<SecureStream> {
    let name = ServerName::try_from("localhost")?;
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::clone(settings), name)?, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// Asks for so long, one request after the other, and notes each wait. Every answer must be 200.
fn ask(
    address: SocketAddr,
    settings: &Arc<ClientConfig>,
    duration: Duration,
    waits: &mut Vec<Duration>,
) -> Result<()> {
    let mut stream = connect(address, settings)?;
    let end = Instant::now() + duration;
    let mut room = [0; 4 << 10];
    while Instant::now() < end {
        let begun = Instant::now();
        stream.write_all(REQUEST)?;
        stream.flush()?;
        let read = stream.read(&mut room)?;
        waits.push(begun.elapsed());
        if !room[..read].starts_with(b"HTTP/1.1 200") {
            let found = String::from_utf8_lossy(&room[..read]).into_owned();
            return Err(format!("expected 200, found {found:?}").into());
        }
    }
    Ok(())
}

fn spin(_: SocketAddr, _: &Arc<ClientConfig>, over: &AtomicBool) -> usize {
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    0
}

/// Full handshakes, 32 begun before the first is finished, so that the server always has some.
fn shake_hands(address: SocketAddr, settings: &Arc<ClientConfig>, over: &AtomicBool) -> usize {
    const AHEAD: usize = 32;
    let mut shaken = 0;
    while !over.load(Ordering::Relaxed) {
        let begun: Vec<_> = (0..AHEAD).filter_map(|_| begin(address, settings).ok()).collect();
        for mut stream in begun {
            shaken += usize::from(stream.conn.complete_io(&mut stream.sock).is_ok());
        }
    }
    shaken
}

/// A connection whose first message is sent.
fn begin(address: SocketAddr, settings: &Arc<ClientConfig>) -> Result<SecureStream> {
    let name = ServerName::try_from("localhost")?;
    let mut connection = ClientConnection::new(Arc::clone(settings), name)?;
    let mut stream = TcpStream::connect(address)?;
    while connection.wants_write() {
        connection.write_tls(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}
