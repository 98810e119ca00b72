//! A small application behind the gateway: it records each request and answers it.
//!
//! `?status=S` is answered with that status, any other request with 200. `?usage=N` is answered
//! with the field X-Usage-Tokens.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::BOUND;

/// A received request.
#[derive(Debug, Clone)]
pub struct Arrival {
    pub target: String,
    pub body: String,
}

/// Serves until the test ends.
pub struct Application {
    pub address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
}

impl Application {
    pub fn start() -> Application {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let arrivals = Arc::<Mutex<Vec<Arrival>>>::default();
        let noted = Arc::clone(&arrivals);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let noted = Arc::clone(&noted);
                thread::spawn(move || answer(&stream, &noted));
            }
        });
        Application { address, arrivals }
    }

    /// The received requests, without those that check whether the gateway is up.
    pub fn arrivals(&self) -> Vec<Arrival> {
        let all = self.arrivals.lock().expect("no panic");
        all.iter().filter(|arrival| arrival.target != "/ready").cloned().collect()
    }
}

/// Answers one request and closes the connection. A connection without a request (a check of the
/// port) is not recorded.
fn answer(stream: &TcpStream, noted: &Mutex<Vec<Arrival>>) {
    stream.set_read_timeout(Some(BOUND)).expect("set");
    let Some(arrival) = read(stream) else { return };
    let status = arrival.target.split_once("status=").map_or("200", |(_, status)| status);
    let usage = arrival.target.split_once("usage=").map(|(_, usage)| usage);
    let usage = usage.map_or(String::new(), |usage| format!("X-Usage-Tokens: {usage}\r\n"));
    let answer = format!(
        "HTTP/1.1 {status} Said\r\n{usage}Content-Length: 12\r\nConnection: close\r\n\r\n\
         application\n"
    );
    noted.lock().expect("no panic").push(arrival);
    // A gateway that has disconnected needs no answer.
    let _ = { stream }.write_all(answer.as_bytes());
}

fn read(stream: &TcpStream) -> Option<Arrival> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Arrival { target, body: String::from_utf8(body).expect("UTF-8") })
}
