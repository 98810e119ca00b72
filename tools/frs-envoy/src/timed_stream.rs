//! The wire of a connection: its socket, for a client that may be slow, hostile or gone.
//!
//! Invariant: while the client does not take the written bytes, nothing more is read from it, and
//! after a time limit that is an error. In one turn at most `TURN_BYTES` are read, and then other
//! connections have their turns.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// The most bytes that are read in one turn, and so the most whose frames h2 has not handed on yet.
const TURN_BYTES: usize = 16 << 10;

/// A socket with time limits.
#[derive(Debug)]
pub struct TimedStream<S> {
    stream: S,
    within: Duration,
    /// The time limit of a stall. `None` while the client takes bytes.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Whether a read waits for the writes.
    is_held_back: bool,
    /// The bytes read in this turn.
    turn: usize,
    activity: Arc<AtomicBool>,
}

/// Tells whether anything was heard from a client.
#[derive(Debug)]
pub struct ActivityFlag(Arc<AtomicBool>);

impl ActivityFlag {
    /// Whether anything was heard since the last call of this function.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl<S> TimedStream<S> {
    /// A wire whose client must take written bytes within this time.
    pub fn new(stream: S, within: Duration) -> TimedStream<S> {
        let activity = Arc::new(AtomicBool::new(false));
        TimedStream { stream, within, stalled: None, is_held_back: false, turn: 0, activity }
    }

    /// The flag that tells whether anything was heard.
    pub fn activity(&self) -> ActivityFlag {
        ActivityFlag(Arc::clone(&self.activity))
    }

    fn written(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if result.is_ready() {
            self.stalled = None;
            if std::mem::take(&mut self.is_held_back) {
                context.waker().wake_by_ref();
            }
            return result;
        }
        let within = self.within;
        let end = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        match end.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.stalled.is_some() {
            // The write that ends the stall wakes this read.
            wire.is_held_back = true;
            return Poll::Pending;
        }
        let room = TURN_BYTES.saturating_sub(wire.turn);
        if room == 0 {
            wire.turn = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let result = if into.remaining() <= room {
            Pin::new(&mut wire.stream).poll_read(context, into)
        } else {
            let mut part = ReadBuf::new(into.initialize_unfilled_to(room));
            let result = Pin::new(&mut wire.stream).poll_read(context, &mut part);
            let bytes = part.filled().len();
            into.advance(bytes);
            result
        };
        let bytes = into.filled().len() - before;
        match result.is_ready() {
            true => wire.turn += bytes,
            false => wire.turn = 0,
        }
        if bytes > 0 {
            wire.activity.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        let result = Pin::new(&mut wire.stream).poll_write(context, bytes);
        wire.written(context, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        let result = Pin::new(&mut wire.stream).poll_write_vectored(context, bytes);
        wire.written(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const WITHIN: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_read_no_more_and_then_given_up() {
        let (mut client, stream) = duplex(64);
        let mut wire = TimedStream::new(stream, WITHIN);
        client.write_all(b"more").await.expect("written");
        let (mut reader, mut writer) = tokio::io::split(&mut wire);
        let mut read = [0; 4];
        tokio::select! {
            // The write is polled first, so the client's buffer is full before anything is read.
            biased;
            written = writer.write_all(&[0; 65]) => {
                assert_eq!(written.expect_err("late").kind(), io::ErrorKind::TimedOut);
            }
            _ = reader.read_exact(&mut read) => panic!("read"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_byte_now_and_then_is_waited_for_and_read_again() {
        let (mut client, stream) = duplex(64);
        let mut wire = TimedStream::new(stream, WITHIN);
        let activity = wire.activity();
        assert!(!activity.take());
        let slow = tokio::spawn(async move {
            client.write_all(b"more").await.expect("written");
            for _ in 0..6 {
                tokio::time::sleep(WITHIN / 2).await;
                client.read_u8().await.expect("read");
            }
            client
        });
        let (mut reader, mut writer) = tokio::io::split(&mut wire);
        let write = async { writer.write_all(&[0; 70]).await.expect("taken") };
        let mut read = [0; 4];
        let read = async { reader.read_exact(&mut read).await.expect("read") };
        tokio::join!(write, read);
        assert!(activity.take() && !activity.take());
        slow.await.expect("no panic");
    }

    #[tokio::test]
    async fn the_others_have_their_turns() {
        let (mut client, stream) = duplex(4 * TURN_BYTES);
        client.write_all(&vec![0; 4 * TURN_BYTES]).await.expect("written");
        let mut wire = TimedStream::new(stream, WITHIN);
        let (mut turns, mut read) = (0, 0);
        let mut into = vec![0; 1 << 10];
        std::future::poll_fn(|context| {
            turns += 1;
            while read < 4 * TURN_BYTES {
                let mut into = ReadBuf::new(&mut into);
                let result = Pin::new(&mut wire).poll_read(context, &mut into);
                std::task::ready!(result).expect("read");
                read += into.filled().len();
            }
            Poll::Ready(())
        })
        .await;
        assert!(turns >= 4, "{turns} turns");
    }
}
