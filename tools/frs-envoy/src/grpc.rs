//! gRPC over HTTP/2: reads one message, writes one message and its status.
//!
//! Invariant: a message is read only up to [`MESSAGE_BYTES_MAX`] and only in time, and an answer
//! must be taken in time. The window of a message is given back when its call is over. Whatever a
//! client sends, its stream is answered or reset, and the other streams continue.

use std::future::poll_fn;
use std::task::Poll;

use bytes::{BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;

use crate::connection_places::{CallPlace, HeldBody};
use crate::status::{Status, StatusCode, escaped};

/// The most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Bytes of the head of a message: whether it is compressed, and its length.
pub const PREFIX_BYTES: usize = 5;
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// The sender of a call's answer.
pub type Respond = SendResponse<HeldBody>;

/// Reads the only message of a call. Its window is given back when `body` is dropped, so the
/// windows bound the bytes that are not handled yet.
///
/// # Errors
/// The body is not one message, it is too long or too late, or the client has gone.
pub async fn read<M>(body: &mut RecvStream, place: &mut CallPlace) -> Result<M, Status>
where
    M: Message + Default,
{
    let within = place.bounds().message;
    let bytes = match tokio::time::timeout(within, read_all(body, place)).await {
        Ok(read) => read?,
        Err(_) => {
            let late = format!("the message has not come in {} s", within.as_secs());
            return Err(Status::new(StatusCode::DeadlineExceeded, late));
        }
    };
    place.note_use();
    let message = unframed(&bytes)?;
    M::decode(message).map_err(|error| Status::invalid(format!("found no message: {error}")))
}

async fn read_all(body: &mut RecvStream, place: &mut CallPlace) -> Result<Bytes, Status> {
    let mut whole = BytesMut::new();
    while let Some(part) = body.data().await {
        let gone = |error| Status::invalid(format!("found half a message: {error}"));
        let part = part.map_err(gone)?;
        place.hold(part.len());
        if whole.is_empty() && body.is_end_stream() {
            // Usually a message arrives in one piece.
            return Ok(part);
        }
        // A part keeps the whole buffer alive that was read with it. A copy does not.
        whole.extend_from_slice(&part);
        if let Some(([_, length @ ..], message)) = whole.split_first_chunk::<PREFIX_BYTES>() {
            // There is no window for the rest of a message that is too long.
            let length = u32::from_be_bytes(*length) as usize;
            if length > MESSAGE_BYTES_MAX || message.len() > length {
                break;
            }
        }
    }
    Ok(whole.freeze())
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
        _ if length > MESSAGE_BYTES_MAX => {
            let found =
                format!("found {length} bytes or more, expected at most {MESSAGE_BYTES_MAX}");
            Err(Status::new(StatusCode::ResourceExhausted, found))
        }
        0 if message.len() == length => Ok(message),
        0 => {
            let found = message.len();
            Err(Status::invalid(format!("found {found} bytes, expected one message of {length}")))
        }
        1 => Err(Status::new(StatusCode::Unimplemented, "found compression, expected none")),
        flag => Err(Status::invalid(format!("found the flag {flag}, expected 0"))),
    }
}

/// The message as a body carries it.
pub fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(length as u32);
    // The buffer has room for the whole message.
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
/// The client has gone, or does not take the answer.
pub async fn answer(
    respond: &mut Respond,
    message: &impl Message,
    place: &CallPlace,
) -> Result<(), h2::Error> {
    let mut stream = answer_many(respond)?;
    send(&mut stream, message, place).await?;
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}

/// Begins to answer a call with any number of messages. Returns the stream for them.
///
/// # Errors
/// The client has gone.
pub fn answer_many(respond: &mut Respond) -> Result<SendStream<HeldBody>, h2::Error> {
    respond.send_response(head(), false)
}

/// Sends a message as the client gives windows for it. If the client gives none for too long, its
/// stream is reset.
///
/// # Errors
/// The client has gone, or does not take the message.
pub async fn send(
    stream: &mut SendStream<HeldBody>,
    message: &impl Message,
    place: &CallPlace,
) -> Result<(), h2::Error> {
    let mut bytes = framed(message);
    stream.reserve_capacity(bytes.len());
    if stream.capacity() >= bytes.len() {
        return stream.send_data(place.body(bytes), false);
    }
    let end = tokio::time::sleep(place.bounds().answer);
    tokio::pin!(end);
    // The bytes that wait for windows are held, too.
    let _held = place.body(bytes.clone());
    while !bytes.is_empty() {
        let room = tokio::select! {
            room = room(stream) => room?,
            () = &mut end => {
                stream.send_reset(Reason::CANCEL);
                return Err(Reason::CANCEL.into());
            }
        };
        let part = bytes.split_to(room.min(bytes.len()));
        stream.send_data(place.body(part), false)?;
        stream.reserve_capacity(bytes.len());
    }
    Ok(())
}

/// Waits until a stream has windows. Returns their size.
async fn room(stream: &mut SendStream<HeldBody>) -> Result<usize, h2::Error> {
    poll_fn(|context| {
        if let Poll::Ready(reason) = stream.poll_reset(context) {
            return Poll::Ready(Err(reason?.into()));
        }
        loop {
            match std::task::ready!(stream.poll_capacity(context)) {
                Some(Ok(0)) => {}
                Some(result) => return Poll::Ready(result),
                None => return Poll::Ready(Err(Reason::CANCEL.into())),
            }
        }
    })
    .await
}

/// Answers a call that failed.
///
/// # Errors
/// The client has gone.
pub fn refuse(respond: &mut Respond, status: &Status) -> Result<(), h2::Error> {
    let mut head = head();
    let fields = head.headers_mut();
    fields.insert("grpc-status", HeaderValue::from(status.code as u16));
    if let Ok(message) = HeaderValue::from_str(&escaped(&status.message)) {
        fields.insert("grpc-message", message);
    }
    respond.send_response(head, true).map(drop)
}

/// Answers a request that is not gRPC.
///
/// # Errors
/// The client has gone.
pub fn refuse_http(respond: &mut Respond, status: http::StatusCode) -> Result<(), h2::Error> {
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
