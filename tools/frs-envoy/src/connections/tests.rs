//! Connections of clients that are slow, silent, greedy or hostile, on a clock that jumps.

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{PingPong, SendStream};
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;

use super::*;
use crate::grpc;
use crate::health::{Health, LIMITS};
use crate::messages::{DescriptorStatus, HealthCheckRequest, RateLimitResponse, ServingStatus};

/// Answers by the path: with the status of a service, with much, never, or with the health.
#[derive(Debug)]
struct Desk {
    health: Health,
    secure: Secure,
}

impl CallHandler for Desk {
    fn allows(&self, _peer: IpAddr) -> bool {
        true
    }

    fn secure(&self) -> &Secure {
        &self.secure
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<RecvStream>,
        mut respond: Respond,
        mut place: CallPlace,
        _peer: Peer,
    ) {
        let (head, mut body) = request.into_parts();
        let read: Result<HealthCheckRequest, _> = grpc::read(&mut body, &mut place).await;
        let _ = match (read, head.uri.path()) {
            (Err(status), _) => grpc::refuse(&mut respond, &status),
            (Ok(_), "/never") => std::future::pending().await,
            (Ok(_), "/much") => grpc::answer(&mut respond, &much(), &place).await,
            (Ok(asked), "/watch") => self.health.watch(&asked, &mut respond, &place).await,
            (Ok(asked), _) => match self.health.check(&asked) {
                Ok(answer) => grpc::answer(&mut respond, &answer, &place).await,
                Err(status) => grpc::refuse(&mut respond, &status),
            },
        };
    }
}

fn much() -> RateLimitResponse {
    let status = DescriptorStatus { limit_remaining: u32::MAX, ..Default::default() };
    RateLimitResponse { statuses: vec![status; 20_000], ..Default::default() }
}

/// A service, and places for its connections.
struct Room {
    places: Arc<ConnectionPlaces>,
    desk: Arc<Desk>,
}

/// A client of a connection.
struct Caller {
    sender: SendRequest<Bytes>,
    pings: PingPong,
    driver: JoinHandle<Result<(), h2::Error>>,
    served: JoinHandle<()>,
}

impl Room {
    fn new(bounds: ConnectionBounds) -> Room {
        let desk = Desk { health: Health::default(), secure: Secure::new(Spoken::Plain) };
        Room { places: ConnectionPlaces::new(bounds), desk: Arc::new(desk) }
    }

    /// Serves one end of a connection. Returns the other end.
    async fn serve(&self) -> (DuplexStream, JoinHandle<()>) {
        let (near, far) = tokio::io::duplex(64 << 10);
        let taken = self.places.take().await;
        let ending = self.desk.health.ending();
        let served = tokio::spawn(serve_connection(
            far,
            Peer::default(),
            taken,
            Arc::clone(&self.desk),
            ending,
        ));
        (near, served)
    }

    async fn connect_by(&self, builder: &h2::client::Builder) -> Caller {
        let (near, served) = self.serve().await;
        let (sender, mut connection) = builder.handshake(near).await.expect("shaken");
        let pings = connection.ping_pong().expect("once");
        Caller { sender, pings, driver: tokio::spawn(connection), served }
    }

    async fn connect(&self) -> Caller {
        self.connect_by(&h2::client::Builder::new()).await
    }
}

impl Caller {
    async fn begin(&mut self, path: &str) -> (ResponseFuture, SendStream<Bytes>) {
        let head = Request::post(format!("http://frs{path}")).body(()).expect("a request");
        let sender = self.sender.clone().ready().await.expect("ready");
        let mut sender = sender;
        sender.send_request(head, false).expect("sent")
    }

    /// The gRPC status with which a call ends.
    async fn call(&mut self, path: &str, service: &str) -> Result<u16, h2::Error> {
        let (response, mut stream) = self.begin(path).await;
        stream.send_data(message(service), true)?;
        ended_with(response).await
    }

    /// The reason for which the server closed the connection.
    async fn goaway_reason(self) -> Option<Reason> {
        self.served.await.expect("no panic");
        match self.driver.await.expect("no panic") {
            Ok(()) => Some(Reason::NO_ERROR),
            Err(error) => error.reason(),
        }
    }
}

async fn ended_with(response: ResponseFuture) -> Result<u16, h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    while let Some(part) = body.data().await {
        body.flow_control().release_capacity(part?.len())?;
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    let status = head.headers.get("grpc-status").or(trailers.get("grpc-status"));
    Ok(status.expect("a status").to_str().expect("text").parse().expect("a number"))
}

fn message(service: &str) -> Bytes {
    grpc::framed(&HealthCheckRequest { service: service.to_owned() })
}

// Shows: envoy-hostile-clients.
#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_asked_to_go_and_who_pings_stays() {
    let room = Room::new(ConnectionBounds::default());
    let (silent, mut pinging) = (room.connect().await, room.connect().await);
    let (_unshaken, served) = room.serve().await;
    served.await.expect("ended in the time of the handshake");
    let idle = room.places.bounds().idle;
    for _ in 0..4 {
        tokio::time::sleep(idle / 2).await;
        pinging.pings.ping(h2::Ping::opaque()).await.expect("answered");
    }
    assert_eq!(silent.goaway_reason().await, Some(Reason::NO_ERROR));
    assert_eq!(pinging.call("/", "").await.expect("answered"), 0);
    assert_eq!(pinging.goaway_reason().await, Some(Reason::NO_ERROR));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_keeps_its_connection_however_long() {
    let room = Room::new(ConnectionBounds::default());
    let mut waiting = room.connect().await;
    let (response, mut stream) = waiting.begin("/watch").await;
    stream.send_data(message(""), true).expect("sent");
    let mut body = response.await.expect("answered").into_body();
    assert_eq!(&body.data().await.expect("some").expect("some")[..], b"\0\0\0\0\x02\x08\x01");
    tokio::time::sleep(10 * room.places.bounds().idle).await;
    room.desk.health.set_attached(false);
    assert_eq!(&body.data().await.expect("some").expect("some")[..], b"\0\0\0\0\x02\x08\x02");
}

// Shows: envoy-hostile-clients.
#[tokio::test(start_paused = true)]
async fn a_new_connection_takes_the_place_of_the_least_recently_used() {
    let room = Room::new(ConnectionBounds { connections: 3, ..ConnectionBounds::default() });
    let (_unshaken, served) = room.serve().await;
    let (mut first, second) = (room.connect().await, room.connect().await);
    assert_eq!(first.call("/", "").await.expect("answered"), 0);
    let mut fourth = room.connect().await;
    served.await.expect("what has said nothing goes first");
    let mut fifth = room.connect().await;
    assert_eq!(second.goaway_reason().await, Some(Reason::NO_ERROR));
    for caller in [&mut first, &mut fourth, &mut fifth] {
        assert_eq!(caller.call("/", "").await.expect("answered"), 0);
    }
    // Calls that never finish do not keep a place, either.
    let _never = first.begin("/never").await;
    let _more = room.connect().await;
    assert_eq!(first.goaway_reason().await, Some(Reason::NO_ERROR));
}

// Shows: envoy-hostile-clients.
#[tokio::test(start_paused = true)]
async fn half_a_message_is_given_up_and_the_other_calls_are_answered() {
    let room = Room::new(ConnectionBounds::default());
    let mut caller = room.connect().await;
    let (response, mut stream) = caller.begin("/").await;
    let slow = tokio::spawn(async move {
        // One byte a second.
        for byte in message("much longer than ten seconds") {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if stream.send_data(Bytes::copy_from_slice(&[byte]), false).is_err() {
                return;
            }
        }
    });
    let ended = tokio::spawn(ended_with(response));
    while !ended.is_finished() {
        assert_eq!(caller.call("/", "").await.expect("answered"), 0);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(ended.await.expect("no panic").expect("answered"), 4);
    slow.await.expect("no panic");
    assert_eq!(room.places.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_may_come_in_any_pieces_and_its_window_comes_back() {
    let room = Room::new(ConnectionBounds { calls: 2, ..ConnectionBounds::default() });
    let mut caller = room.connect().await;
    let whole = message(&"s".repeat(MESSAGE_BYTES_MAX - 100));
    for piece in [1, 17, 1 << 10, MESSAGE_BYTES_MAX] {
        for _ in 0..2 {
            let (response, mut stream) = caller.begin("/").await;
            for part in whole.chunks(piece) {
                stream.send_data(whole.slice_ref(part), false).expect("sent");
            }
            stream.send_data(Bytes::new(), true).expect("sent");
            // The service is unknown, which shows that the message was read.
            assert_eq!(ended_with(response).await.expect("answered"), 5, "pieces of {piece}");
        }
    }
    tokio::task::yield_now().await;
    assert_eq!(room.places.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_long_is_refused_by_its_head() {
    let room = Room::new(ConnectionBounds::default());
    let mut caller = room.connect().await;
    for (begun, code) in [(&b"\0\0\x01\0\x01"[..], 8), (b"\0\0\0\0\0more", 3)] {
        let (response, mut stream) = caller.begin("/").await;
        stream.send_data(Bytes::from_static(begun), false).expect("sent");
        assert_eq!(ended_with(response).await.expect("answered"), code);
    }
}

// Shows: envoy-hostile-clients.
#[tokio::test(start_paused = true)]
async fn no_window_is_given_back_before_its_call_is_over() {
    let room = Room::new(ConnectionBounds { calls: 1, ..ConnectionBounds::default() });
    let mut caller = room.connect().await;
    let (_never, mut stream) = caller.begin("/never").await;
    stream.send_data(message(&"s".repeat(MESSAGE_BYTES_MAX - 100)), false).expect("sent");
    stream.reserve_capacity(CALL_WINDOW as usize);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(stream.capacity() < 100, "{}", stream.capacity());
    drop(stream);
    drop(_never);
    assert_eq!(caller.call("/", "").await.expect("answered"), 0);
}

// Shows: envoy-hostile-clients.
#[tokio::test(start_paused = true)]
async fn an_answer_that_has_no_window_is_given_up() {
    let room = Room::new(ConnectionBounds::default());
    let mut small = h2::client::Builder::new();
    small.initial_window_size(1 << 10);
    let (mut deaf, mut other) = (room.connect_by(&small).await, room.connect().await);
    let mut responses = Vec::new();
    for _ in 0..100 {
        let (response, mut stream) = deaf.begin("/much").await;
        stream.send_data(message(""), true).expect("sent");
        responses.push(response.await.expect("begun"));
    }
    let held = room.places.held();
    assert!(held > 100 * 100_000, "{held} bytes");
    assert_eq!(other.call("/much", "").await.expect("answered"), 0);
    tokio::time::sleep(room.places.bounds().answer).await;
    for response in &mut responses {
        let body = response.body_mut();
        let error = loop {
            match body.data().await.expect("no end") {
                Ok(part) => body.flow_control().release_capacity(part.len()).expect("released"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.reason(), Some(Reason::CANCEL));
    }
    assert_eq!(deaf.call("/", "").await.expect("answered"), 0);
    assert_eq!(room.places.held(), 0);
}

// Shows: envoy-hostile-clients.
#[tokio::test(start_paused = true)]
async fn who_does_not_read_its_socket_loses_its_connection() {
    let room = Room::new(ConnectionBounds::default());
    let (near, served) = room.serve().await;
    let mut wide = h2::client::Builder::new();
    wide.initial_window_size(WINDOW_MAX).initial_connection_window_size(WINDOW_MAX);
    let (sender, connection) = wide.handshake::<_, Bytes>(near).await.expect("shaken");
    let mut connection = Box::pin(connection);
    for _ in 0..20 {
        let sender = sender.clone().ready();
        let mut sender = tokio::select! {
            sender = sender => sender.expect("ready"),
            _ = &mut connection => panic!("closed"),
        };
        let head = Request::post("http://frs/much").body(()).expect("a request");
        let (response, mut stream) = sender.send_request(head, false).expect("sent");
        stream.send_data(message(""), true).expect("sent");
        tokio::spawn(response);
    }
    // The requests are sent, and then nothing more is done for the connection.
    tokio::select! {
        biased;
        _ = &mut connection => panic!("closed"),
        () = tokio::task::yield_now() => {}
    }
    served.await.expect("ended");
    drop(connection);
    assert_eq!(room.places.held(), 0);
}

// Shows: envoy-hostile-clients.
#[tokio::test(start_paused = true)]
async fn who_holds_most_goes_when_memory_lacks() {
    let room = Room::new(ConnectionBounds { held_bytes: 1 << 20, ..ConnectionBounds::default() });
    let (mut greedy, mut other) = (room.connect().await, room.connect().await);
    let (response, mut stream) = other.begin("/").await;
    let mut kept = Vec::new();
    for _ in 0..17 {
        let (response, mut stream) = greedy.begin("/").await;
        let most = message(&"s".repeat(MESSAGE_BYTES_MAX - 100));
        stream.send_data(most.slice(..most.len() - 1), false).expect("sent");
        kept.push((response, stream));
    }
    // The client may still be writing. Then it does not read the reason.
    assert_ne!(greedy.goaway_reason().await, Some(Reason::NO_ERROR));
    stream.send_data(message(""), true).expect("sent");
    assert_eq!(ended_with(response).await.expect("answered"), 0);
    tokio::task::yield_now().await;
    assert_eq!(room.places.held(), 0);
}

// Shows: envoy-hostile-clients.
#[tokio::test(start_paused = true)]
async fn calls_that_are_given_up_at_once_are_bounded_and_the_others_are_answered() {
    let room = Room::new(ConnectionBounds { calls: 100, ..ConnectionBounds::default() });
    let (hasty, mut other) = (room.connect().await, room.connect().await);
    // A call that is reset while it waits keeps its place.
    let reset = tokio::spawn(async move {
        for _ in 0..10_000 {
            let head = Request::post("http://frs/never").body(()).expect("a request");
            let Ok(mut sender) = hasty.sender.clone().ready().await else { break };
            let Ok((_, mut stream)) = sender.send_request(head, false) else { break };
            let _ = stream.send_data(message(""), true);
            tokio::task::yield_now().await;
            stream.send_reset(Reason::CANCEL);
        }
        hasty.goaway_reason().await
    });
    while !reset.is_finished() {
        assert_eq!(other.call("/", "").await.expect("answered"), 0);
        assert!(room.places.held() < 210 * 2 * crate::connection_places::CALL_BYTES);
        tokio::task::yield_now().await;
    }
    assert_eq!(reset.await.expect("no panic"), Some(Reason::ENHANCE_YOUR_CALM));
}

// Shows: envoy-health.
#[tokio::test(start_paused = true)]
async fn a_watcher_is_told_the_status_each_change_and_the_end() {
    let room = Room::new(ConnectionBounds::default());
    let mut caller = room.connect().await;
    let mut watches = Vec::new();
    for service in ["", LIMITS, "other"] {
        let (response, mut stream) = caller.begin("/watch").await;
        stream.send_data(message(service), true).expect("sent");
        watches.push(response.await.expect("answered").into_body());
    }
    let serving = [ServingStatus::Serving, ServingStatus::NotServing];
    for (turn, status) in serving.iter().cycle().take(5).enumerate() {
        room.desk.health.set_attached(*status == ServingStatus::Serving);
        // A status that does not change is not sent.
        room.desk.health.set_attached(*status == ServingStatus::Serving);
        for (nth, watch) in watches.iter_mut().enumerate() {
            let expected = if nth == 2 { ServingStatus::ServiceUnknown } else { *status };
            if nth < 2 || turn == 0 {
                let told = watch.data().await.expect("some").expect("some");
                assert_eq!(&told[..], [0, 0, 0, 0, 2, 8, expected as u8]);
            }
        }
    }
    room.desk.health.end();
    for (nth, watch) in watches.iter_mut().enumerate() {
        if nth < 2 {
            let told = watch.data().await.expect("some").expect("some");
            assert_eq!(&told[..], [0, 0, 0, 0, 2, 8, ServingStatus::NotServing as u8]);
        }
        assert!(watch.data().await.is_none());
        let trailers = watch.trailers().await.expect("told").expect("some");
        assert_eq!(trailers.get("grpc-status").expect("told"), "14");
    }
}
