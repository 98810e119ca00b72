//! Connections: accepts them, hands on their calls, and ends them.
//!
//! Invariant: whatever a client does or omits, it takes one place, its calls are bounded, and it
//! goes when another connection needs its place. The other connections are served meanwhile.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use frs_server::tls::configs::Spoken;
use h2::server::Connection;
use h2::{Reason, RecvStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::callers::Peer;
use crate::connection_places::{
    CallPlace, ConnectionBounds, ConnectionPlaces, HeldBody, LeaveReason, TakenPlace,
};
use crate::grpc::{MESSAGE_BYTES_MAX, PREFIX_BYTES, Respond};
use crate::listener::{AcceptedConnection, Listener};
use crate::secure::{Secure, certificate_names};
use crate::timed_stream::{ActivityFlag, TimedStream};

/// The most bytes of the head of a call.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// The most bytes that a client may send ahead for one call: a whole message.
const CALL_WINDOW: u32 = (MESSAGE_BYTES_MAX + PREFIX_BYTES) as u32;
/// The most bytes of an answer that wait for the connection. The rest waits with its call.
const SEND_BYTES_MAX: usize = 64 << 10;
/// The budget for small frames that are not read yet. h2 counts 256 for each frame. A call reads
/// its frames between the turns of its connection, and a new call reads after three turns.
const FRAME_BUDGET: usize = 2 << 20;
/// The pause after a failed accept, because descriptors may be short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The errors for too many open files, in the system and in the process.
const OUT_OF_DESCRIPTORS: [i32; 2] = [23, 24];

/// A handler that answers calls.
pub trait CallHandler: Send + Sync + 'static {
    /// Whether a peer is served.
    fn allows(&self, peer: IpAddr) -> bool;

    /// How long a new connection waits before it is served.
    fn delay(&self, _peer: &Peer) -> Duration {
        Duration::ZERO
    }

    /// What connections speak.
    fn secure(&self) -> &Secure;

    /// Answers a call.
    fn answer(
        self: Arc<Self>,
        request: Request<RecvStream>,
        respond: Respond,
        place: CallPlace,
        peer: Peer,
    ) -> impl Future<Output = ()> + Send;
}

/// Accepts connections until `ending` is true. Returns when the last one has gone.
pub async fn serve<A: CallHandler>(
    listener: Listener,
    bounds: ConnectionBounds,
    handler: Arc<A>,
    mut ending: watch::Receiver<bool>,
) {
    let places = ConnectionPlaces::new(bounds);
    let connections = ending.clone();
    loop {
        let accept = async {
            let accepted = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    if error.raw_os_error().is_some_and(|code| OUT_OF_DESCRIPTORS.contains(&code)) {
                        places.make_room();
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    return None;
                }
            };
            if let AcceptedConnection::Tcp(_, peer) = accepted
                && !handler.allows(peer)
            {
                tracing::debug!(%peer, "no <allow> names this peer");
                return None;
            }
            Some((places.take().await, accepted))
        };
        tokio::select! {
            () = ended(&mut ending) => break,
            accepted = accept => if let Some((taken, accepted)) = accepted {
                let handler = Arc::clone(&handler);
                let ending = connections.clone();
                match accepted {
                    AcceptedConnection::Tcp(stream, peer) => {
                        let peer = Peer::new(Some(peer));
                        tokio::spawn(serve_connection(stream, peer, taken, handler, ending))
                    }
                    AcceptedConnection::Unix(stream) => {
                        let peer = Peer::new(None);
                        tokio::spawn(serve_connection(stream, peer, taken, handler, ending))
                    }
                };
            },
        }
    }
    drop(listener);
    places.wait_for_all().await;
}

/// Waits until the service is to end.
pub async fn ended(ending: &mut watch::Receiver<bool>) {
    if ending.wait_for(|ending| *ending).await.is_err() {
        // Nobody is left to tell of an end.
        std::future::pending::<()>().await;
    }
}

/// Serves a connection until it ends.
pub async fn serve_connection<A: CallHandler>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    taken: TakenPlace,
    handler: Arc<A>,
    ending: watch::Receiver<bool>,
) {
    let bounds = *taken.bounds();
    let delay = handler.delay(&peer);
    let wire = TimedStream::new(stream, bounds.answer);
    let activity = wire.activity();
    let late = tokio::time::sleep(bounds.handshake).deadline();
    let settings = match handler.secure().spoken() {
        Spoken::Plain => {
            if stays_for(delay, &taken).await {
                let admitted = Admitted { taken, peer, activity };
                serve_wire(wire, admitted, late + delay, handler, ending).await;
            }
            return;
        }
        Spoken::Tls(settings) => settings,
        Spoken::Nothing => return,
    };
    let accept = handler.secure().accept(settings, wire);
    let shaken = tokio::select! {
        shaken = tokio::time::timeout_at(late, accept) => shaken,
        _ = taken.leave() => return,
    };
    match shaken {
        Ok(Ok(wire)) => {
            let names = certificate_names(&wire);
            let delay = if names.is_empty() { delay } else { Duration::ZERO };
            taken.set_certificate_names(names);
            if stays_for(delay, &taken).await {
                // A plain connection does not pay for the size of this one.
                let admitted = Admitted { taken, peer, activity };
                Box::pin(serve_wire(wire, admitted, late + delay, handler, ending)).await;
            }
        }
        Ok(Err(error)) => tracing::debug!(%error, "a handshake of TLS failed"),
        Err(_) => tracing::debug!("a handshake of TLS took too long"),
    }
}

/// Waits this long. False if the connection has to go meanwhile.
async fn stays_for(delay: Duration, taken: &TakenPlace) -> bool {
    if delay.is_zero() {
        return true;
    }
    tokio::select! {
        () = tokio::time::sleep(delay) => true,
        _ = taken.leave() => false,
    }
}

/// A connection that has a place.
struct Admitted {
    taken: TakenPlace,
    peer: Peer,
    /// Whether its client sends and takes bytes.
    activity: ActivityFlag,
}

/// Serves a connection whose bytes are plain here, until it ends. It must begin before `late`.
async fn serve_wire<A: CallHandler>(
    wire: impl AsyncRead + AsyncWrite + Unpin,
    Admitted { taken, peer, activity }: Admitted,
    late: Instant,
    handler: Arc<A>,
    mut ending: watch::Receiver<bool>,
) {
    let bounds = *taken.bounds();
    let shaken = tokio::select! {
        shaken = tokio::time::timeout_at(late, builder(&bounds).handshake(wire)) => shaken,
        _ = taken.leave() => return,
    };
    let Ok(Ok(mut connection)) = shaken else { return };
    let mut asked = false;
    let mut patience = pin!(tokio::time::sleep(bounds.idle));
    loop {
        let is_full = taken.calls() >= bounds.calls as usize;
        tokio::select! {
            accepted = next(&mut connection, is_full) => match accepted {
                Some(Ok((request, respond))) => {
                    let handler = Arc::clone(&handler);
                    let (place, peer) = (taken.begin_call(), peer.clone());
                    tokio::spawn(handler.answer(request, respond, place, peer));
                    // Other connections have their turns.
                    tokio::task::consume_budget().await;
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "a connection of Envoy broke off");
                    return;
                }
                None => return,
            },
            () = taken.freed(), if is_full => {}
            () = ended(&mut ending), if !asked => {
                asked = true;
                connection.graceful_shutdown();
            }
            why = taken.leave() => {
                tracing::debug!(?why, held = taken.calls(), "a connection of Envoy has to go");
                let reason = match why {
                    LeaveReason::Oldest => Reason::NO_ERROR,
                    LeaveReason::Greediest => Reason::ENHANCE_YOUR_CALM,
                };
                connection.abrupt_shutdown(reason);
                let gone = poll_fn(|context| connection.poll_closed(context));
                let _ = tokio::time::timeout(bounds.parting, gone).await;
                return;
            }
            () = &mut patience => {
                let is_silent = !activity.take() && taken.calls() == 0;
                let next = match (asked, is_silent) {
                    // The client was asked to go, and has not gone.
                    (true, true) => return,
                    (false, true) => {
                        asked = true;
                        connection.graceful_shutdown();
                        bounds.parting
                    }
                    (_, false) => bounds.idle,
                };
                patience.set(tokio::time::sleep(next));
            }
        }
    }
}

fn builder(bounds: &ConnectionBounds) -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(bounds.calls)
        // After a pause, all calls of a client may have timed out. That is not an attack.
        .max_pending_accept_reset_streams(bounds.calls as usize)
        .max_local_error_reset_streams(Some(bounds.calls as usize))
        .max_concurrent_reset_streams(bounds.calls as usize)
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_send_buffer_size(SEND_BYTES_MAX)
        .data_frame_budget(FRAME_BUDGET)
        .initial_window_size(CALL_WINDOW)
        // Calls never wait for each other's windows. The bytes that all connections hold are
        // bounded.
        .initial_connection_window_size(CALL_WINDOW.saturating_mul(bounds.calls).min(WINDOW_MAX));
    builder
}

/// The largest window of HTTP/2.
const WINDOW_MAX: u32 = (1 << 31) - 1;

type AcceptedCall = Option<Result<(Request<RecvStream>, Respond), h2::Error>>;

/// The next call. No call is taken while the connection has too many.
async fn next<S>(connection: &mut Connection<S, HeldBody>, is_full: bool) -> AcceptedCall
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    poll_fn(|context| match is_full {
        false => connection.poll_accept(context),
        true => match connection.poll_closed(context) {
            Poll::Ready(Ok(())) => Poll::Ready(None),
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
            Poll::Pending => Poll::Pending,
        },
    })
    .await
}

#[cfg(test)]
mod tests;
