//! gRPC over HTTP/2: reads one message, writes one message and its status.
//!
//! Invariant: a message is read up to [`MESSAGE_BYTES_MAX`] and within `READ_TIMEOUT`. Whatever a
//! client sends, its stream is answered or reset, and the others go on.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;

use crate::status::{Status, StatusCode, escaped};

/// The most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Time limit for the message of a call, from its head.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The head of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// Reads the only message of a call.
///
/// # Errors
/// It is not one, too long, too late, or the client has gone.
pub async fn read<M: Message + Default>(body: &mut RecvStream) -> Result<M, Status> {
    let late = |_| Status::new(StatusCode::DeadlineExceeded, "the message has not come in 10 s");
    let bytes = tokio::time::timeout(READ_TIMEOUT, read_all(body)).await.map_err(late)??;
    let message = unframed(&bytes)?;
    M::decode(message).map_err(|error| Status::invalid(format!("found no message: {error}")))
}

async fn read_all(body: &mut RecvStream) -> Result<Bytes, Status> {
    let mut whole = Bytes::new();
    while let Some(part) = body.data().await {
        let gone = |error| Status::invalid(format!("found half a message: {error}"));
        let part = part.map_err(gone)?;
        let _ = body.flow_control().release_capacity(part.len());
        if whole.len() + part.len() > MESSAGE_BYTES_MAX + PREFIX_BYTES {
            return Err(too_long(whole.len() + part.len() - PREFIX_BYTES));
        }
        if whole.is_empty() {
            // As a rule, a message comes in one piece.
            whole = part;
        } else {
            let mut grown = BytesMut::with_capacity(whole.len() + part.len());
            grown.put(whole);
            grown.put(part);
            whole = grown.freeze();
        }
    }
    Ok(whole)
}

fn too_long(found: usize) -> Status {
    let found = format!("found {found} bytes or more, expected at most {MESSAGE_BYTES_MAX}");
    Status::new(StatusCode::ResourceExhausted, found)
}

/// The message of a body.
fn unframed(body: &[u8]) -> Result<&[u8], Status> {
    let Some((prefix, message)) = body.split_first_chunk::<PREFIX_BYTES>() else {
        let found = format!("found {} bytes, expected a message", body.len());
        return Err(Status::invalid(found));
    };
    let [is_compressed, length @ ..] = *prefix;
    let length = u32::from_be_bytes(length) as usize;
    match is_compressed {
        _ if length > MESSAGE_BYTES_MAX => Err(too_long(length)),
        0 if message.len() == length => Ok(message),
        0 => {
            let found = message.len();
            Err(Status::invalid(format!("found {found} bytes, expected one message of {length}")))
        }
        1 => Err(Status::new(StatusCode::Unimplemented, "found compression, expected none")),
        flag => Err(Status::invalid(format!("found the flag {flag}, expected 0"))),
    }
}

/// A message as a body has it.
pub fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(length as u32);
    // It has room for the whole message.
    let _ = message.encode(&mut bytes);
    bytes.freeze()
}

fn head() -> Response<()> {
    let mut head = Response::new(());
    head.headers_mut().insert(http::header::CONTENT_TYPE, CONTENT_TYPE);
    head
}

/// Answers a call with a message.
///
/// # Errors
/// The client has gone.
pub fn answer(respond: &mut SendResponse<Bytes>, message: &impl Message) -> Result<(), h2::Error> {
    let mut stream = respond.send_response(head(), false)?;
    stream.send_data(framed(message), false)?;
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}

/// Answers a call with many messages: the stream to send them on.
///
/// # Errors
/// The client has gone.
pub fn answer_many(respond: &mut SendResponse<Bytes>) -> Result<h2::SendStream<Bytes>, h2::Error> {
    respond.send_response(head(), false)
}

/// Answers a call that failed.
///
/// # Errors
/// The client has gone.
pub fn refuse(respond: &mut SendResponse<Bytes>, status: &Status) -> Result<(), h2::Error> {
    let mut head = head();
    let fields = head.headers_mut();
    fields.insert("grpc-status", HeaderValue::from(status.code as u16));
    if let Ok(message) = HeaderValue::from_str(&escaped(&status.message)) {
        fields.insert("grpc-message", message);
    }
    respond.send_response(head, true).map(drop)
}

/// Answers what is not gRPC.
///
/// # Errors
/// The client has gone.
pub fn refuse_http(
    respond: &mut SendResponse<Bytes>,
    status: http::StatusCode,
) -> Result<(), h2::Error> {
    let mut head = Response::new(());
    *head.status_mut() = status;
    respond.send_response(head, true).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_whole_plain_message_is_expected() {
        assert_eq!(unframed(b"\0\0\0\0\x02ab"), Ok(&b"ab"[..]));
        assert_eq!(unframed(b"\0\0\0\0\0"), Ok(&b""[..]));
        let code = |body: &[u8]| unframed(body).expect_err("wrong").code;
        let wrong: [&[u8]; 5] =
            [b"", b"\0\0\0\0", b"\0\0\0\0\x02a", b"\0\0\0\0\x01ab", b"\x02\0\0\0\0"];
        for body in wrong {
            assert_eq!(code(body), StatusCode::InvalidArgument, "{body:?}");
        }
        assert_eq!(code(b"\x01\0\0\0\x01a"), StatusCode::Unimplemented);
        assert_eq!(code(b"\0\x00\x01\0\x01a"), StatusCode::ResourceExhausted);
    }
}
