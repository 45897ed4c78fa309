//! Opening connections for a client: TCP, a proxy, TLS, and HTTP on top.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use url::Url;

use super::address::AddressPolicy;
use super::client::Inner;
use super::connection::{Connection, OpenCount, Single};
use super::link::{Link, Transport};
use super::pool::Origin;
use super::shared::Shared;
use super::{connect, proxy, redirect, tls};
use crate::error::SourceError;

impl Inner {
    /// A connection to `origin` for a request: an idle one, or a new one within the number that is
    /// allowed; whether it was idle.
    ///
    /// Where all are in use it waits until one is idle or closed, as long as for a connection to be
    /// opened: a reader never fails for its own limit.
    pub(crate) async fn connection(&self, origin: &Origin) -> Result<(Connection, bool), SourceError> {
        let waiting = async {
            loop {
                // Asks for a wake-up before it looks, so that none is missed.
                let mut freed = pin!(self.open.freed.notified());
                freed.as_mut().enable();
                if let Some(connection) = self.pool.take(origin) {
                    return Some(connection);
                }
                // What is open is in use or idle; idle ones make room.
                if self.open.count() < self.config.connections_max.max(1) as u64 {
                    return None;
                }
                if !self.pool.drop_oldest() {
                    freed.await;
                }
            }
        };
        match tokio::time::timeout(self.config.connect_timeout, waiting).await {
            Ok(Some(connection)) => Ok((connection, true)),
            Ok(None) => self.connect(origin).await.map(|connection| (connection, false)),
            Err(_) => Err(SourceError::transient(format!(
                "{}:{}: none of {} connections became free in time",
                origin.host, origin.port, self.config.connections_max
            ))),
        }
    }

    /// A new connection to `origin`, within the time that is allowed.
    async fn connect(&self, origin: &Origin) -> Result<Connection, SourceError> {
        let started = Instant::now();
        let opening = tokio::time::timeout(self.config.connect_timeout, self.open(origin));
        let connection = opening.await.unwrap_or_else(|_| {
            Err(SourceError::transient(format!("{}:{}: no connection in time", origin.host, origin.port)))
        })?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.note(&connection, Some(started.elapsed()));
        Ok(connection)
    }

    /// TCP, a proxy, TLS, and HTTP on top.
    async fn open(&self, origin: &Origin) -> Result<Connection, SourceError> {
        // Counted from the start: several may be opening.
        let open = OpenCount::new(&self.open);
        let (mut transport, link) = self.transport(origin).await?;
        let mut is_http2 = self.config.http2_prior_knowledge && self.proxy_to(origin).is_none();
        if origin.is_tls {
            let stream = self.tls()?.connect(&origin.host, transport).await?;
            is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            transport = Box::new(stream);
        }
        let io = link.metered(transport);
        let connection = if is_http2 {
            Shared::new(io, link, open).await.map(|shared| Connection::Shared(Arc::new(shared)))
        } else {
            Single::new(io, link, open).await.map(|single| Connection::Single(Box::new(single)))
        };
        connection.map_err(|error| SourceError::transient(format!("{}: {error}", origin.host)))
    }

    /// The bytes to `origin`, or for `http` to the proxy.
    async fn transport(&self, origin: &Origin) -> Result<(Box<dyn Transport>, Link), SourceError> {
        let config = &self.config;
        let Some(proxy) = self.proxy_to(origin) else {
            let stream =
                connect::tcp(&origin.host, origin.port, config.addresses, config.connect_timeout).await?;
            let (socket, link) = Link::new(stream);
            return Ok((Box::new(socket), link));
        };
        proxy::check_host(&origin.host, config.addresses)?;
        let to_proxy = Origin::of(proxy)?;
        let stream =
            connect::tcp(&to_proxy.host, to_proxy.port, AddressPolicy::Any, config.connect_timeout).await?;
        let (socket, link) = Link::new(stream);
        let mut transport: Box<dyn Transport> = Box::new(socket);
        if to_proxy.is_tls {
            let connector = tls::Connector::new(&config.extra_roots_pem, &[b"http/1.1"])?;
            transport = Box::new(connector.connect(&to_proxy.host, transport).await?);
        }
        if origin.is_tls {
            proxy::tunnel(&mut transport, redirect::basic(proxy).as_ref(), origin).await?;
        }
        Ok((transport, link))
    }

    /// The proxy for `origin`.
    pub(crate) fn proxy_to(&self, origin: &Origin) -> Option<&Url> {
        self.config.proxy.as_ref()?.on_the_way_to(origin)
    }

    fn tls(&self) -> Result<&tls::Connector, SourceError> {
        if let Some(connector) = self.tls.get() {
            return Ok(connector);
        }
        let protocols: &[&[u8]] = if self.config.http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        let connector = tls::Connector::new(&self.config.extra_roots_pem, protocols)?;
        Ok(self.tls.get_or_init(|| connector))
    }

    /// Remembers what the newest connection is like.
    pub(crate) fn note(&self, connection: &Connection, time_to_connect: Option<Duration>) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.time_to_connect = time_to_connect.or(newest.time_to_connect);
        newest.round_trip = connection.link().round_trip().or(newest.round_trip);
        newest.streams_max = match connection {
            Connection::Shared(shared) => Some(shared.streams_max()),
            Connection::Single(_) => None,
        };
    }
}
