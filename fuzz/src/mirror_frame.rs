//! Any bytes as the frames of a peer: each is refused, incomplete, or a frame, which is encoded as
//! it came. No frame of a peer without the secret ends a handshake.

use frs_cluster::mirror::codec::{
    FRAME_MAX, HANDSHAKE_FRAME_MAX, RECORDS_MAX, put, record_bytes, take, take_within,
};
use frs_cluster::mirror::frame::Frame;
use frs_cluster::mirror::handshake::{Acceptor, Connector};

const NAME: &str = "prod";
const SECRET: [u8; 32] = [7; 32];
const NONCE: [u8; 16] = [9; 16];

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut rest = data;
    let mut acceptor = Acceptor::begin(NAME, 1, &SECRET, NONCE);
    let mut is_greeted = false;
    while let Ok(Some((frame, size))) = take(rest) {
        let mut again = Vec::new();
        put(&frame, &mut again);
        assert_eq!(again, rest[..size], "{frame:?}");
        assert_eq!(take(&again), Ok(Some((frame.clone(), size))));
        assert_eq!(take_within(rest, HANDSHAKE_FRAME_MAX).is_ok(), size <= HANDSHAKE_FRAME_MAX);
        match &frame {
            Frame::Records { records, .. } => {
                let records = records.iter().map(record_bytes).sum::<usize>();
                assert_eq!(size - records, FRAME_MAX - RECORDS_MAX, "{frame:?}");
            }
            Frame::Welcome(..) => {
                let (mut connector, _) = Connector::begin(NAME, 1, &SECRET, NONCE);
                assert!(connector.welcome(&frame).is_err(), "{frame:?}");
            }
            _ => {}
        }
        if is_greeted {
            assert!(acceptor.proof(&frame).is_err(), "{frame:?}");
        } else {
            is_greeted = acceptor.hello(&frame).is_ok();
        }
        rest = &rest[size..];
    }
}
