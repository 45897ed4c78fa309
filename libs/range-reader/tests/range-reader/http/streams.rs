//! An HTTP/2 server on loopback, without TLS, that responses each stream as a test says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What is done for one stream, in this order.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    /// Sends so many informational responses (103), of about 6 KB each.
    Hints(usize),
    /// Sends a head with this status and these fields.
    Head(u16, Vec<(&'static str, String)>),
    /// Sends bytes as the windows allow.
    Send(Vec<u8>),
    /// Ends the stream.
    End,
    /// Resets the stream.
    Reset(Reason),
    /// Announces that no more streams are accepted, and finishes those that are open.
    GoAway,
    /// Closes the connection.
    Close,
    /// Waits until the client has reset the stream.
    AwaitReset,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) address: SocketAddr,
    /// Connections that have been accepted.
    pub(crate) connections: Arc<AtomicUsize>,
    /// Gets the reason of each reset that was waited for.
    pub(crate) resets: mpsc::UnboundedReceiver<Reason>,
    /// Gets a word for each connection that has ended.
    pub(crate) ends: mpsc::UnboundedReceiver<()>,
    _tasks: JoinSet<()>,
}

type Script = dyn Fn(&Request<RecvStream>, usize) -> Vec<Turn> + Send + Sync;

impl Streams {
    /// A server whose responses come from `script`, which gets the number of the connection, from
    /// 0, too.
    pub(crate) async fn start(
        script: impl Fn(&Request<RecvStream>, usize) -> Vec<Turn> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (script, connections): (Arc<Script>, _) = (Arc::new(script), Arc::new(AtomicUsize::new(0)));
        let (resets_sender, resets) = mpsc::unbounded_channel();
        let (ends_sender, ends) = mpsc::unbounded_channel();
        let count = Arc::clone(&connections);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut running = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (script, resets, ends) =
                    (Arc::clone(&script), resets_sender.clone(), ends_sender.clone());
                running.spawn(async move {
                    serve(stream, number, &script, &resets).await;
                    let _ = ends.send(());
                });
            }
        });
        Self { address, connections, resets, ends, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> url::Url {
        format!("http://{}/file", self.address).parse().unwrap()
    }
}

/// Serves a connection until it ends.
async fn serve(
    stream: TcpStream,
    number: usize,
    script: &Arc<Script>,
    resets: &mpsc::UnboundedSender<Reason>,
) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let (orders_sender, mut orders) = mpsc::unbounded_channel();
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                let turns = script(&request, number);
                streams.spawn(perform(turns, respond, orders_sender.clone(), resets.clone()));
            }
            order = orders.recv() => match order {
                Some(Turn::GoAway) => connection.graceful_shutdown(),
                _ => return,
            }
        }
    }
}

async fn perform(
    turns: Vec<Turn>,
    mut respond: SendResponse<Bytes>,
    orders: mpsc::UnboundedSender<Turn>,
    resets: mpsc::UnboundedSender<Reason>,
) {
    let mut body: Option<SendStream<Bytes>> = None;
    for turn in turns {
        match turn {
            Turn::Hints(count) => {
                // Longer than what HPACK remembers, so that each is sent in full.
                let field = "</a>".repeat(2_000);
                let hint = || Response::builder().status(103).header("link", &field).body(()).unwrap();
                for index in 0..count {
                    if respond.send_informational(hint()).is_err() {
                        return;
                    }
                    // What is sent waits in memory: the connection's task gets its turns.
                    if index % 16 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            }
            Turn::Head(status, fields) => {
                let mut response = Response::builder().status(status);
                for (name, value) in fields {
                    response = response.header(name, value);
                }
                body = respond.send_response(response.body(()).unwrap(), false).ok();
            }
            Turn::Send(bytes) => {
                let Some(body) = &mut body else { return };
                if send(body, bytes.into()).await.is_err() {
                    return;
                }
            }
            Turn::End => {
                let _ = body.as_mut().unwrap().send_data(Bytes::new(), true);
            }
            Turn::Reset(reason) => {
                // A reset discards what has not been written yet: the connection's task gets its
                // turns first.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                match &mut body {
                    Some(body) => body.send_reset(reason),
                    None => respond.send_reset(reason),
                }
            }
            Turn::AwaitReset => {
                let body = body.as_mut().unwrap();
                if let Ok(reason) = std::future::poll_fn(|context| body.poll_reset(context)).await {
                    let _ = resets.send(reason);
                }
            }
            order @ (Turn::GoAway | Turn::Close) => {
                let _ = orders.send(order);
            }
        }
    }
}

/// Sends what the windows have room for, until all is sent or the stream is reset.
async fn send(body: &mut SendStream<Bytes>, mut bytes: Bytes) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        body.reserve_capacity(bytes.len());
        let room = std::future::poll_fn(|context| body.poll_capacity(context)).await;
        let room = room.ok_or_else(|| h2::Error::from(Reason::CANCEL))??;
        body.send_data(bytes.split_to(room.min(bytes.len())), false)?;
    }
    Ok(())
}
