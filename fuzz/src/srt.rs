//! What the fuzz targets of `srt` check: whatever datagrams come and when, no machine panics or holds
//! more than it may, and a packet that is read says what it was written with.
//!
//! `crates/srt/tests/srt/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use srt::{
    Accept, Call, Caller, CipherMode, Connection, CookieSecret, DATAGRAM_BYTES_MAX, Incoming, KeyLength,
    Limits, Packet, Passphrase, SequenceNumber, SocketId, StreamId,
};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] =
    &[("srt_caller", srt_caller), ("srt_connection", srt_connection), ("srt_handshake", srt_handshake)];

const BYTES_MAX: usize = 64 << 10;
const PACKETS_MAX: usize = 512;

fn limits() -> Limits {
    Limits { window_packets: PACKETS_MAX, receive_bytes_max: BYTES_MAX, ..Limits::default() }
}

/// What a caller of the checks asks for.
fn call(cipher: Option<CipherMode>) -> Call {
    let passphrase = cipher.and_then(|_| Passphrase::new("correct horse"));
    Call {
        socket: SocketId(1),
        initial: SequenceNumber::new(0x7fff_fff0),
        stream_id: "publish:live/a".to_owned(),
        receive_latency: Duration::from_millis(20),
        send_latency: Duration::from_millis(20),
        latency_max: Duration::from_secs(1),
        encryption: passphrase.zip(cipher).map(|(text, mode)| (text, KeyLength::Aes128, mode)),
        timeout: Duration::from_secs(3),
        limits: limits(),
    }
}

/// A caller that has a cookie, the listener's end of the connection, and the answer that gives the
/// caller its own.
fn called(now: Instant, cipher: Option<CipherMode>) -> Option<(Caller, Connection, Vec<u8>)> {
    let accept = Accept {
        socket: SocketId(2),
        latency: Duration::from_millis(20),
        latency_max: Duration::from_secs(1),
        passphrase: cipher.and_then(|_| Passphrase::new("correct horse")),
        limits: limits(),
    };
    let (secret, peer) = (CookieSecret::new(&[1; 32]), SocketAddr::from(([192, 0, 2, 1], 1)));
    let mut caller = Caller::new(now, call(cipher));
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let len = caller.poll_transmit(now, &mut out).ok()??;
    let Ok(Incoming::Induction(answer)) = secret.handle(Duration::ZERO, peer, &out[..len]) else {
        return None;
    };
    caller.handle_packet(now, &answer).ok()?;
    let len = caller.poll_transmit(now, &mut out).ok()??;
    let Ok(Incoming::Conclusion(request)) = secret.handle(Duration::ZERO, peer, &out[..len]) else {
        return None;
    };
    let (listening, answer) = request.read().ok()?.accept(now, &accept).ok()?;
    Some((caller, listening, answer))
}

/// Both ends of a connection, which have not been given anything yet.
fn pair(now: Instant, cipher: Option<CipherMode>) -> Option<(Connection, Connection)> {
    let (mut caller, listening, answer) = called(now, cipher)?;
    Some((caller.handle_packet(now, &answer).ok()??, listening))
}

/// `| options (1) | { milliseconds (1) | kind (1) | length (2) | bytes }... |`: what a listener answers
/// to a caller, and says afterwards. By its kind a datagram is the bytes themselves, or an honest answer
/// with the bytes over its end.
pub fn srt_caller(data: &[u8]) {
    let Some((&options, mut rest)) = data.split_first() else { return };
    let start = Instant::now();
    let mode = if options & 4 != 0 { CipherMode::Gcm } else { CipherMode::Ctr };
    let cipher = (options & 1 != 0).then_some(mode);
    let (honest, _, answer) = called(start, cipher).expect("both are ours");
    // With a cookie, or before it.
    let mut caller = if options & 2 != 0 { honest } else { Caller::new(start, call(cipher)) };
    let mut connection: Option<Connection> = None;
    let mut now = start;
    let mut out = [0; DATAGRAM_BYTES_MAX];
    while let Some(([ms, kind, high, low], behind)) = rest.split_first_chunk() {
        now += Duration::from_millis(u64::from(*ms));
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(behind.len()).min(1500);
        let (bytes, behind) = behind.split_at(len);
        rest = behind;
        let mut datagram = if kind & 1 == 0 { Vec::new() } else { answer.clone() };
        // As far from the beginning of the answer as its kind says.
        datagram.truncate(usize::from(*kind) * 2);
        datagram.extend_from_slice(bytes);
        if let Some(place) = datagram.get_mut(12..16) {
            place.copy_from_slice(&caller.socket().0.to_be_bytes());
        }
        let Some(connection) = &mut connection else {
            match caller.poll_transmit(now, &mut out) {
                Ok(sent) => assert!(sent.is_none_or(|len| Packet::read(&out[..len]).is_ok())),
                Err(error) => return assert!(!error.reason().is_empty()),
            }
            assert!(caller.next_timeout() <= now + Duration::from_secs(3));
            match caller.handle_packet(now, &datagram) {
                Ok(opened) => connection = opened,
                Err(error) => return assert!(!error.reason().is_empty()),
            }
            continue;
        };
        connection.send(now, &[0x47; 188]);
        take(connection, now, &datagram);
    }
}

/// A connection gets a datagram: what it sends can be read, and what it keeps is bounded.
fn take(connection: &mut Connection, now: Instant, datagram: &[u8]) {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let _ = connection.handle_packet(now, datagram);
    connection.handle_timeout(now);
    connection.deliver(now, |payload| assert!(payload.len() <= 1500));
    let mut sent = 0;
    while let Some(len) = connection.poll_transmit(now, &mut out) {
        assert!(Packet::read(&out[..len]).is_ok());
        sent += 1;
    }
    // What one datagram has it send: all that waits, once, and some answers.
    assert!(sent <= PACKETS_MAX + 64, "{sent}");
    if let Some(due) = connection.next_timeout(now) {
        assert!(due <= now + Duration::from_secs(10));
    }
    let status = connection.status(now);
    for (packets, bytes, _) in [status.receive_buffer, status.send_buffer] {
        assert!(packets <= PACKETS_MAX && bytes <= BYTES_MAX.max(PACKETS_MAX * (188 + 16)));
    }
}

/// `| options (1) | { milliseconds (1) | length (2) | datagram }... |`: datagrams for a connection that
/// also sends.
pub fn srt_connection(data: &[u8]) {
    let Some((&options, mut rest)) = data.split_first() else { return };
    let start = Instant::now();
    let mode = if options & 4 != 0 { CipherMode::Gcm } else { CipherMode::Ctr };
    let (sending, receiving) = pair(start, (options & 1 != 0).then_some(mode)).expect("both are ours");
    let mut connection = if options & 2 != 0 { sending } else { receiving };
    let mut now = start;
    while let Some(([ms, high, low], behind)) = rest.split_first_chunk() {
        now += Duration::from_millis(u64::from(*ms));
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(behind.len()).min(1500);
        let (datagram, behind) = behind.split_at(len);
        rest = behind;
        connection.send(now, &[0x47; 188]);
        let mut datagram = datagram.to_vec();
        // For its socket, so that it is looked at.
        if let Some(place) = datagram.get_mut(12..16) {
            place.copy_from_slice(&connection.local().0.to_be_bytes());
        }
        take(&mut connection, now, &datagram);
    }
}

/// A datagram for a listener and a caller, and a stream ID.
pub fn srt_handshake(data: &[u8]) {
    let now = Instant::now();
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = StreamId::parse(text);
    }
    let mut datagram = data.to_vec();
    let peer = SocketAddr::from(([192, 0, 2, 1], 1));
    let secret = CookieSecret::new(&[1; 32]);
    if let Ok(Incoming::Induction(answer)) = secret.handle(Duration::ZERO, peer, &datagram) {
        assert!(answer.len() <= datagram.len());
        // The cookie, so that a conclusion is read as far as it goes.
        datagram[44..48].copy_from_slice(&answer[44..48]);
        datagram[36..40].fill(0xff);
        datagram[16..20].copy_from_slice(&5u32.to_be_bytes());
    }
    if let Ok(Incoming::Conclusion(request)) = secret.handle(Duration::ZERO, peer, &datagram) {
        let passphrase = Passphrase::new("correct horse");
        let accept = Accept {
            socket: SocketId(2),
            latency: Duration::ZERO,
            latency_max: Duration::from_secs(1),
            passphrase: passphrase.filter(|_| data.len().is_multiple_of(2)),
            limits: limits(),
        };
        match request.read() {
            Ok(asked) => {
                let _ = asked.accept(now, &accept);
            }
            Err(reject) => assert_eq!(request.reject(reject).len(), 64),
        }
    }
}
