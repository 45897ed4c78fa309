//! A client on a UDP socket, in real time.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use rtc::Timeouts;
use rtc::sdp::{OfferConfig, RemoteAnswer};
use rtp::HeaderFields;

use crate::{Client, DATAGRAM_MAX, audio_fields, audio_payload, video_fields, vp8_frame};

/// Room for some seconds of media.
const RECEIVE_BYTES: usize = 4 << 20;

/// A [`Client`] with its socket. [`UdpClient::turn`] never waits,
/// [`UdpClient::wait`] does.
pub struct UdpClient {
    client: Client,
    /// Its socket.
    pub socket: UdpSocket,
}

impl Deref for UdpClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for UdpClient {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl UdpClient {
    /// A socket on the loopback interface, for the address of an offer.
    ///
    /// # Panics
    /// If the system has none.
    pub fn bind() -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a UDP socket");
        // What comes while the machine does something else waits, as much of it as the system allows.
        socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BYTES).expect("a socket option");
        socket
    }

    /// A client whose offer named the address of `socket` and was answered.
    ///
    /// # Panics
    /// As [`Client::new`].
    pub fn new(socket: UdpSocket, offer: OfferConfig, answer: RemoteAnswer) -> Self {
        let local = socket.local_addr().expect("its address");
        let mut client = Client::new(now(), local, offer, answer);
        // It lives through a machine that stands still.
        let long = Duration::from_secs(3_600);
        client.set_timeouts(now(), Timeouts { ice: long, dtls: long, consent: long });
        Self { client, socket }
    }

    /// Waits for a datagram, the next timer or `deadline`, at most 20 ms.
    pub fn wait(&mut self, deadline: Instant) {
        let next = self.next_timeout().map_or(deadline, |timeout| timeout.min(deadline));
        let wait = next.saturating_duration_since(now()).min(Duration::from_millis(20));
        self.socket.set_nonblocking(false).expect("a socket option");
        self.socket.set_read_timeout(Some(wait.max(Duration::from_millis(1)))).expect("a socket option");
        let mut datagram = [0; DATAGRAM_MAX];
        if let Ok((len, from)) = self.socket.recv_from(&mut datagram) {
            self.client.handle_datagram(now(), from, &mut datagram[..len]);
        }
        self.flush();
    }

    /// Takes what has arrived and runs what is due, without waiting.
    pub fn turn(&mut self) {
        self.socket.set_nonblocking(true).expect("a socket option");
        let mut datagram = [0; DATAGRAM_MAX];
        while let Ok((len, from)) = self.socket.recv_from(&mut datagram) {
            self.client.handle_datagram(now(), from, &mut datagram[..len]);
        }
        self.client.handle_timeout(now());
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(transmit) = self.client.poll_transmit() {
            self.send_raw(transmit.path.remote, &transmit.bytes);
        }
    }

    /// Sends bytes as they are. A full socket buffer loses them, as a network would.
    ///
    /// # Panics
    /// On any other error of the socket.
    pub fn send_raw(&self, to: SocketAddr, bytes: &[u8]) {
        match self.socket.send_to(bytes, to) {
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => {}
            Err(error) => panic!("send to {to}: {error}"),
        }
    }

    /// Sends one RTP packet.
    pub fn send_rtp(&mut self, fields: HeaderFields, payload: &[u8]) {
        self.send_rtp_with(fields, &[], payload);
    }

    /// Sends one RTP packet with a block of header extensions.
    pub fn send_rtp_with(&mut self, fields: HeaderFields, extensions: &[u8], payload: &[u8]) {
        let packet = self.client.protect_with(fields, extensions, payload);
        self.send_raw(self.remote(), &packet);
    }

    /// Sends a compound RTCP packet.
    pub fn send_rtcp(&mut self, compound: &[u8]) {
        let packet = self.client.protect_rtcp(compound);
        self.send_raw(self.remote(), &packet);
    }

    /// The SRTP packet `number` of the audio stream.
    pub fn protect_audio(&mut self, number: u32) -> Vec<u8> {
        self.client.protect(audio_fields(number), &audio_payload(number))
    }

    /// Sends it.
    pub fn send_audio(&mut self, number: u32) {
        self.send_rtp(audio_fields(number), &audio_payload(number));
    }

    /// Sends frame `number` of the video stream, `len` bytes in one packet.
    pub fn send_video(&mut self, number: u32, key: bool, len: usize) {
        self.send_rtp(video_fields(number), &vp8_frame(number, key, len));
    }
}

#[expect(clippy::disallowed_methods, reason = "a client in real time reads the clock")]
fn now() -> Instant {
    Instant::now()
}
