//! A way between two nodes that can be cut, and that can be slow.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Bytes are taken and given in pieces of this, so that little waits in it.
const PIECE: usize = 4 * 1024;

pub(crate) struct Wire {
    /// Where a node is announced to be.
    pub(crate) address: SocketAddr,
    /// Where it is.
    target: Arc<Mutex<Option<SocketAddr>>>,
    is_open: watch::Sender<bool>,
    /// Bytes a second towards who connects.
    rate: Arc<AtomicU64>,
    /// Bytes that went towards who connects.
    carried: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Wire {
    pub(crate) async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // What the system keeps is what the node cannot leave out any more.
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.set_send_buffer_size(16 * 1024).unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = socket.listen(64).unwrap();
        let address = listener.local_addr().unwrap();
        let (is_open, open) = watch::channel(true);
        let target = Arc::new(Mutex::new(None));
        let (rate, carried) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(AtomicU64::new(0)));
        let parts = Parts { target: Arc::clone(&target), open, rate: rate.clone(), carried: carried.clone() };
        let task = tokio::spawn(run(listener, parts));
        Self { address, target, is_open, rate, carried, task }
    }

    pub(crate) fn set_target(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = Some(target);
    }

    /// Bytes stop, and new connections get none.
    pub(crate) fn set_open(&self, open: bool) {
        self.is_open.send_replace(open);
    }

    pub(crate) fn set_rate(&self, bytes_per_second: u64) {
        self.rate.store(bytes_per_second, Ordering::Relaxed);
    }

    pub(crate) fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Parts {
    target: Arc<Mutex<Option<SocketAddr>>>,
    open: watch::Receiver<bool>,
    rate: Arc<AtomicU64>,
    carried: Arc<AtomicU64>,
}

async fn run(listener: TcpListener, parts: Parts) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let parts = parts.clone();
        tokio::spawn(async move {
            let mut open = parts.open.clone();
            if open.wait_for(|open| *open).await.is_err() {
                return;
            }
            let target = *parts.target.lock().unwrap();
            let Some(target) = target else { return };
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(16 * 1024).unwrap();
            let Ok(server) = socket.connect(target).await else { return };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let fast =
                Parts { rate: Arc::new(AtomicU64::new(u64::MAX)), carried: Arc::default(), ..parts.clone() };
            tokio::select! {
                () = copy(from_client, to_server, fast) => {}
                () = copy(from_server, to_client, parts) => {}
            }
        });
    }
}

async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    parts: Parts,
) {
    let mut open = parts.open.clone();
    let mut piece = [0; PIECE];
    loop {
        let Ok(len @ 1..) = from.read(&mut piece).await else { return };
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&piece[..len]).await.is_err() {
            return;
        }
        parts.carried.fetch_add(len as u64, Ordering::Relaxed);
        let rate = parts.rate.load(Ordering::Relaxed);
        if rate != u64::MAX {
            // This is what makes the way slow.
            sleep(Duration::from_secs_f64(len as f64 / rate as f64)).await;
        }
    }
}

/// A connection of a stranger.
pub(crate) async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}
