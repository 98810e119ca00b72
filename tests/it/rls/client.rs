//! A client of frs-envoy: gRPC by hand. It shares no code with frs-envoy, so that neither hides a
//! mistake of the other.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

pub const LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
pub const CHECK: &str = "/grpc.health.v1.Health/Check";
pub const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// The longest wait. A test that waits longer fails.
const BOUND: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Message)]
pub struct Ask {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    pub hits: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Pair>,
    #[prost(message, optional, tag = "2")]
    pub limit: Option<Override>,
    #[prost(message, optional, tag = "3")]
    pub hits: Option<Whole>,
    #[prost(bool, tag = "4")]
    pub negative: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Pair {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Text, or the bytes that a client has sent instead.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// A limit of the caller.
#[derive(Clone, PartialEq, Message)]
pub struct Override {
    #[prost(uint32, tag = "1")]
    pub requests: u32,
    #[prost(int32, tag = "2")]
    pub unit: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Whole {
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Said {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorSaid>,
    #[prost(message, repeated, tag = "3")]
    pub headers: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DescriptorSaid {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(message, optional, tag = "2")]
    pub limit: Option<Limit>,
    #[prost(uint32, tag = "3")]
    pub remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub reset: Option<Whole>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Limit {
    #[prost(uint32, tag = "1")]
    pub requests: u32,
    #[prost(int32, tag = "2")]
    pub unit: i32,
    #[prost(string, tag = "3")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Health {
    #[prost(int32, tag = "1")]
    pub status: i32,
}

pub const OK: i32 = 1;
pub const OVER: i32 = 2;

impl Said {
    /// A header field that the answer adds.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|pair| pair.name == name)?;
        Some(std::str::from_utf8(&found.value).expect("text"))
    }
}

impl Pair {
    /// A pair whose value need not be text.
    pub fn of_bytes(name: &str, value: &[u8]) -> Pair {
        Pair { name: name.to_owned(), value: value.to_owned() }
    }
}

/// A descriptor with hits of its own.
pub fn hits(descriptor: Descriptor, value: u64) -> Descriptor {
    Descriptor { hits: Some(Whole { value }), ..descriptor }
}

/// A descriptor of these entries.
pub fn descriptor(entries: &[(&str, &str)]) -> Descriptor {
    let pair = |(name, value): &(&str, &str)| Pair::of_bytes(name, value.as_bytes());
    Descriptor { entries: entries.iter().map(pair).collect(), ..Descriptor::default() }
}

/// A call of the domain `edge`.
pub fn ask(descriptors: Vec<Descriptor>) -> Ask {
    Ask { domain: "edge".to_owned(), descriptors, hits: 0 }
}

/// An answer, good or bad.
#[derive(Debug, Clone)]
pub struct Reply {
    pub http: u16,
    /// `grpc-status` of the head or the trailers.
    pub grpc: Option<u16>,
    pub message: String,
    pub body: Bytes,
}

impl Reply {
    /// The message of an answer that succeeded.
    #[track_caller]
    pub fn read<M: Message + Default>(&self) -> M {
        assert_eq!((self.http, self.grpc), (200, Some(0)), "{self:?}");
        M::decode(&self.body[5..]).expect("a message")
    }
}

/// A message as the body of a call.
pub fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len() as u32);
    message.encode(&mut bytes).expect("room");
    bytes.freeze()
}

/// A connection.
pub struct Client {
    pub runtime: Runtime,
    pub sender: SendRequest<Bytes>,
    driver: JoinHandle<Result<(), h2::Error>>,
}

impl Client {
    /// `None` if nothing listens, or the peer closes at once.
    pub fn try_connect(address: SocketAddr) -> Option<Client> {
        let stream = tokio::net::TcpStream::connect(address);
        Client::over(async { stream.await.ok() })
    }

    pub fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).expect("connected")
    }

    pub fn connect_unix(path: &Path) -> Client {
        let stream = tokio::net::UnixStream::connect(path.to_owned());
        Client::over(async { stream.await.ok() }).expect("connected")
    }

    /// A connection over TLS. `None` also if the handshake fails.
    pub fn try_connect_secure(address: SocketAddr, settings: ClientConfig) -> Option<Client> {
        let connector = TlsConnector::from(Arc::new(settings));
        let name = ServerName::try_from("localhost").expect("a name");
        Client::over(async {
            let stream = tokio::net::TcpStream::connect(address).await.ok()?;
            connector.connect(name, stream).await.ok()
        })
    }

    fn over<S>(stream: impl Future<Output = Option<S>>) -> Option<Client>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (sender, driver) = runtime.block_on(async {
            // The window holds a thousand answers at once. With small frames h2 would suspect a
            // flood.
            let mut builder = h2::client::Builder::new();
            builder.initial_connection_window_size(1 << 20);
            let (sender, connection) = builder.handshake(stream.await?).await.ok()?;
            Some((sender, tokio::spawn(connection)))
        })?;
        Some(Client { runtime, sender, driver })
    }

    /// Sends a message to a path and waits for the answer.
    pub fn send(&mut self, path: &str, message: &impl Message) -> Reply {
        self.send_bytes(post(path), framed(message)).expect("answered")
    }

    pub fn send_bytes(&mut self, head: Request<()>, body: Bytes) -> Result<Reply, h2::Error> {
        let sender = self.sender.clone();
        self.runtime.block_on(async {
            tokio::time::timeout(BOUND, exchange(sender, head, body)).await.expect("in time")
        })
    }

    /// Asks for the limits of descriptors.
    #[track_caller]
    pub fn limit(&mut self, ask: &Ask) -> Said {
        self.send(LIMIT, ask).read()
    }

    /// As [`Client::limit`]. `None` if the connection breaks off instead.
    pub fn try_limit(&mut self, ask: &Ask) -> Option<Said> {
        Some(self.send_bytes(post(LIMIT), framed(ask)).ok()?.read())
    }

    /// Waits until the server has closed the connection.
    pub fn wait_for_the_end(&mut self) -> Result<(), h2::Error> {
        let driver = &mut self.driver;
        self.runtime.block_on(async {
            tokio::time::timeout(BOUND, driver).await.expect("in time").expect("no panic")
        })
    }
}

/// The head of a call.
pub fn post(path: &str) -> Request<()> {
    Request::post(format!("http://frs{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request")
}

/// Sends a call and receives its answer.
pub async fn exchange(
    sender: SendRequest<Bytes>,
    head: Request<()>,
    body: Bytes,
) -> Result<Reply, h2::Error> {
    let (response, mut stream) = sender.ready().await?.send_request(head, false)?;
    // An answer may come before the whole body is accepted.
    let _ = stream.send_data(body, true);
    let response = response.await?;
    let (head, mut body) = response.into_parts();
    let mut whole = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        whole.put(part);
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    let text = |name: &str| {
        let of = |fields: &HeaderMap| Some(fields.get(name)?.to_str().ok()?.to_owned());
        of(&head.headers).or_else(|| of(&trailers))
    };
    Ok(Reply {
        http: head.status.as_u16(),
        grpc: text("grpc-status").and_then(|status| status.parse().ok()),
        message: text("grpc-message").unwrap_or_default(),
        body: whole.freeze(),
    })
}
