//! Calls frs-envoy as fast as it answers, and prints the cost of a call for it: `rls_load ADDRESS
//! PID SECONDS CONNECTIONS CALLS KEYS DESCRIPTORS`.
//!
//! Each connection has CALLS calls in flight. PID is the process of frs-envoy, whose CPU time is
//! read from /proc. A call has DESCRIPTORS descriptors `user=KEY path=/` of the domain `edge`.

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use frs_base::clock;
use frs_envoy::grpc::framed;
use frs_envoy::messages::{Entry, RateLimitDescriptor, RateLimitRequest};
use h2::client::SendRequest;
use http::Request;
use tokio::task::JoinSet;

const PATH: &str = "http://frs/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Ticks of /proc/PID/stat in a second.
const TICKS: f64 = 100.0;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, pid, numbers @ ..] = &arguments[..] else { return Err("see its head".into()) };
    let numbers: Result<Vec<usize>, _> = numbers.iter().map(|number| number.parse()).collect();
    let &[seconds, connections, calls, keys, descriptors] = &numbers?[..] else {
        return Err("see its head".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let before = cpu_ticks(pid)?;
    let begun = clock::instant();
    let until = begun + Duration::from_secs(seconds as u64);
    let done = runtime.block_on(async {
        let mut tasks: JoinSet<Result<usize, Failure>> = JoinSet::new();
        for connection in 0..connections {
            let stream = tokio::net::TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let mut builder = h2::client::Builder::new();
            builder.initial_connection_window_size(1 << 20);
            let (sender, driver) = builder.handshake(stream).await?;
            tokio::spawn(driver);
            for nth in 0..calls {
                let first = (connection * calls + nth) * 7919;
                let bodies = (0..64).map(|call| body(first + call * 31, keys, descriptors));
                tasks.spawn(call(sender.clone(), bodies.collect(), until));
            }
        }
        let mut done = 0;
        while let Some(result) = tasks.join_next().await {
            done += result??;
        }
        Ok::<usize, Failure>(done)
    })?;
    let (took, used) = (clock::since(begun).as_secs_f64(), cpu_ticks(pid)? - before);
    let cpu_us = used / TICKS * 1e6 / done as f64;
    println!(
        "{done} calls in {took:.1} s: {:.0} a second, {cpu_us:.1} us of CPU each",
        done as f64 / took
    );
    Ok(())
}

/// The message of a call. The keys of its descriptors begin with number `first`.
fn body(first: usize, keys: usize, descriptors: usize) -> Bytes {
    let entry = |key: &str, value: String| Entry { key: key.to_owned(), value: value.into_bytes() };
    let descriptors = (0..descriptors).map(|nth| RateLimitDescriptor {
        entries: vec![
            entry("user", format!("user-{}", (first + nth) % keys)),
            entry("path", "/".to_owned()),
        ],
        ..Default::default()
    });
    framed(&RateLimitRequest {
        domain: "edge".to_owned(),
        descriptors: descriptors.collect(),
        hits_addend: 0,
    })
}

/// Makes one call after the other, until the given time.
async fn call(
    sender: SendRequest<Bytes>,
    bodies: Vec<Bytes>,
    until: Instant,
) -> Result<usize, Failure> {
    let mut done = 0;
    while clock::instant() < until {
        let head = Request::post(PATH).header("content-type", "application/grpc").body(())?;
        let mut ready = sender.clone().ready().await?;
        let (response, mut stream) = ready.send_request(head, false)?;
        stream.send_data(bodies[done % bodies.len()].clone(), true)?;
        let mut answer = response.await?.into_body();
        while let Some(part) = answer.data().await {
            let part = part?;
            answer.flow_control().release_capacity(part.len())?;
        }
        let trailers = answer.trailers().await?.ok_or("an answer without a status")?;
        if trailers.get("grpc-status").is_none_or(|status| status != "0") {
            return Err(format!("{trailers:?}").into());
        }
        done += 1;
    }
    Ok(done)
}

/// The user and system time of a process, in ticks.
fn cpu_ticks(pid: &str) -> Result<f64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').ok_or("no stat")?;
    let ticks = rest.split_whitespace().skip(11).take(2);
    Ok(ticks.map(str::parse::<f64>).sum::<Result<f64, _>>()?)
}
