//! The common part of the targets with a connection: small bounds, and input in pieces.

use frs_conf::Http;
use frs_server::worker::connection::InputProgress;

/// Bounds that short inputs reach.
pub fn bounds() -> Http {
    Http {
        max_body_bytes: 1024,
        max_head_bytes: 512,
        max_items: 8,
        max_atomic_items: 4,
        ..Http::default()
    }
}

/// Sends the pieces one after another. `advance` answers the unread input. Returns all answers, and
/// whether the connection closed.
pub fn talk(
    pieces: &[&[u8]],
    mut advance: impl FnMut(&[u8], &mut Vec<u8>) -> InputProgress,
) -> (Vec<u8>, bool) {
    let (mut unread, mut out, mut closed) = (Vec::new(), Vec::new(), false);
    for piece in pieces {
        unread.extend_from_slice(piece);
        loop {
            let progress = advance(&unread, &mut out);
            unread.drain(..progress.consumed);
            closed = progress.close;
            assert!(progress.more || progress.need > unread.len());
            if !progress.more {
                break;
            }
        }
    }
    (out, closed)
}
