//! The TCP connection of a link. Its kernel keeps little unsent: what that has taken cannot be left out any
//! more, however late it is.
//!
//! `TCP_NOTSENT_LOWAT` alone does not do it. The kernel looks at it only when it needs another buffer, and
//! fills the last one up to 64 kB before: 1.7 s at 300 kbit/s. So each write ends its buffer (`MSG_EOR`).

use std::io::{ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use nix::libc::{MSG_EOR, MSG_NOSIGNAL};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// With more unsent the kernel takes nothing: a tenth of a second at 300 kbit/s.
const UNSENT_BYTES_MAX: u32 = 4 * 1024;

#[derive(Debug)]
pub(crate) struct Socket(TcpStream);

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
        Ok(Self(stream))
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, to)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let send = || SockRef::from(&self.0).send_vectored_with_flags(parts, MSG_EOR | MSG_NOSIGNAL);
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    // The paused clock goes on when nothing else can: when the socket takes no more.
    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_waits_here_and_not_in_the_kernel() {
        const WRITE: usize = 2 * 1024;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let reader = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut socket = Socket::new(listener.accept().await.unwrap().0).unwrap();
        let (mut written, mut received) = (0, vec![0; 64 << 20]);
        while let Ok(taken) = timeout(Duration::from_secs(1), socket.write(&[7; WRITE])).await {
            written += taken.unwrap();
        }
        let most = UNSENT_BYTES_MAX as usize + WRITE;
        loop {
            // All that was sent is in the reader's kernel.
            let unsent = written - reader.peek(&mut received).await.unwrap();
            if unsent <= most {
                break;
            }
            assert!(unsent > 0);
        }
    }
}
