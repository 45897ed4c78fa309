//! DTLS 1.2 with OpenSSL's own programs over UDP: ECDSA and RSA certificates, both roles, keys as
//! OpenSSL exports them.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rtc::dtls::DtlsVersion::{V1_2, V1_3};
use rtc::dtls::{Config, Dtls, Fingerprint, FingerprintHash, SrtpKeys};
use srtp::{MasterKey, Profile};

use super::link::{End, certificate, fit};

/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(20);

const KINDS: [(&str, &[&str]); 3] = [
    ("ecdsa", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]),
    ("rsa", &["-newkey", "rsa:2048"]), // GStreamer's default
    ("rsa4096", &["-newkey", "rsa:4096"]),
];

/// A certificate and key made by OpenSSL, as files, and its fingerprint.
struct Identity {
    certificate: PathBuf,
    key: PathBuf,
    fingerprint: Fingerprint,
}

/// A running program, its output line by line. Ended when dropped.
struct Program {
    child: Child,
    lines: Receiver<String>,
}

#[expect(clippy::disallowed_methods, reason = "real sockets need real time")]
fn now() -> Instant {
    Instant::now()
}

fn openssl(args: &[&str]) -> Vec<u8> {
    let output = Command::new("openssl").args(args).output().expect("openssl is installed");
    assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

impl Identity {
    fn new(test: &str, (kind, how): (&str, &[&str])) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let file = |end: &str| folder.join(format!("{test}-{kind}-{}.{end}", std::process::id()));
        let (certificate, key) = (file("crt"), file("key"));
        let (certificate_name, key_name) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        let mut args = vec!["req", "-x509", "-nodes", "-days", "1", "-subj", "/CN=peer"];
        args.extend(["-keyout", key_name, "-out", certificate_name]);
        args.extend(how);
        openssl(&args);
        let der = openssl(&["x509", "-in", certificate_name, "-outform", "der"]);
        let fingerprint = Fingerprint::of(FingerprintHash::Sha256, &der);
        Self { certificate, key, fingerprint }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        for file in [&self.certificate, &self.key] {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Program {
    fn start(command: &str, identity: &Identity, profiles: &str, more: &[&str]) -> Self {
        let mut child = Command::new("openssl")
            .args([command, "-dtls1_2", "-use_srtp", profiles])
            .args(["-keymatexport", "EXTRACTOR-dtls_srtp", "-keymatexportlen", "60"])
            .arg("-cert")
            .arg(&identity.certificate)
            .arg("-key")
            .arg(&identity.key)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// Waits for a line with this in it, and gives what follows.
    fn wait_for(&self, text: &str) -> String {
        let mut seen = Vec::new();
        let end = now() + TIMEOUT;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(now())) {
                Ok(line) => match line.split_once(text) {
                    Some((_, rest)) => return rest.trim().to_owned(),
                    None => seen.push(line),
                },
                Err(error) => panic!("no {text:?} ({error}) in {seen:#?}"),
            }
        }
    }

    fn wait_for_the_end(&self) {
        let end = now() + TIMEOUT;
        let error = loop {
            if let Err(error) = self.lines.recv_timeout(end.saturating_duration_since(now())) {
                break error;
            }
        };
        assert_eq!(error, RecvTimeoutError::Disconnected, "the program goes on");
    }

    fn exported(&self) -> Vec<u8> {
        let digits = self.wait_for("Keying material:");
        (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `end` over `socket` until it is `done`.
fn run(end: &mut End, socket: &UdpSocket, mut peer: Option<SocketAddr>, done: impl Fn(&End) -> bool) {
    let limit = now() + TIMEOUT;
    let mut result = Ok(());
    loop {
        for datagram in end.take(result) {
            socket.send_to(&datagram, peer.expect("the peer has begun")).unwrap();
        }
        if done(end) {
            return;
        }
        assert!(end.error.is_none() && now() < limit, "{:?}", end.error);
        let next = end.dtls.next_timeout().map_or(limit, |next| next.min(limit));
        let wait = next.saturating_duration_since(now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(wait)).unwrap();
        let mut buffer = [0; 2048];
        result = match socket.recv_from(&mut buffer) {
            Ok((len, from)) => {
                peer = Some(from);
                end.dtls.handle_datagram(now(), &buffer[..len])
            }
            Err(_) => end.dtls.handle_timeout(now()),
        };
    }
}

/// What OpenSSL exported, as keys of the end with this role.
fn keys_of(exported: &[u8], profile: Profile, is_client: bool) -> SrtpKeys {
    // RFC 5705: a shorter export of the same label is the beginning of a longer one.
    let len = 2 * (profile.key_len() + profile.salt_len());
    let (client, server) = MasterKey::from_dtls(profile, &exported[..len]).unwrap();
    let (outbound, inbound) = if is_client { (client, server) } else { (server, client) };
    SrtpKeys { profile, inbound, outbound }
}

#[test]
fn s_client_with_ecdsa_and_rsa_certificates_gets_the_best_profile_and_the_same_keys() {
    let cases = [
        ("SRTP_AES128_CM_SHA1_80:SRTP_AEAD_AES_128_GCM", Profile::AeadAes128Gcm),
        ("SRTP_AES128_CM_SHA1_80", Profile::AesCm128HmacSha1_80),
    ];
    for kind in KINDS {
        let identity = Identity::new("s_client", kind);
        for (profiles, expected) in cases {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap().to_string();
            let mut client = Program::start("s_client", &identity, profiles, &["-connect", &address]);
            let mut server = End::new(Dtls::server(Config::new(certificate(), vec![identity.fingerprint])));
            run(&mut server, &socket, None, |end| end.keys.is_some());
            let keys = server.keys.take().unwrap();
            assert_eq!(keys.profile, expected, "{kind:?}");
            assert_eq!(server.dtls.version(), Some(V1_2));
            assert!(fit(&keys, &keys_of(&client.exported(), expected, true)), "{kind:?}");
            // End of input: s_client closes the session.
            drop(client.child.stdin.take());
            run(&mut server, &socket, None, |end| end.closed);
        }
    }
}

#[test]
fn s_server_with_ecdsa_and_rsa_certificates_has_the_same_keys() {
    for kind in KINDS {
        let identity = Identity::new("s_server", kind);
        // `dimpl`, which is the client when 1.3 is allowed, knows no RSA.
        for versions in [vec![V1_2], vec![V1_2, V1_3]].into_iter().take(if kind.0 == "ecdsa" { 2 } else { 1 })
        {
            // Free when it was chosen, and no other test uses this address.
            let address = UdpSocket::bind("127.0.0.77:0").unwrap().local_addr().unwrap();
            let profiles = "SRTP_AEAD_AES_128_GCM:SRTP_AES128_CM_SHA1_80";
            let more = ["-accept", &address.to_string(), "-Verify", "1", "-naccept", "1"];
            let program = Program::start("s_server", &identity, profiles, &more);
            program.wait_for("ACCEPT");
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let config = Config::new(certificate(), vec![identity.fingerprint]);
            let mut client =
                End::new(Dtls::client(Config { versions: versions.clone(), ..config }, now()).unwrap());
            run(&mut client, &socket, Some(address), |end| end.keys.is_some());
            let keys = client.keys.take().unwrap();
            assert_eq!(keys.profile, Profile::AeadAes128Gcm);
            assert!(fit(&keys, &keys_of(&program.exported(), keys.profile, false)), "{kind:?} {versions:?}");
            client.dtls.close(now());
            run(&mut client, &socket, Some(address), |_| true);
            // It hears that, and after one session it ends.
            program.wait_for_the_end();
        }
    }
}

#[test]
fn s_client_with_another_certificate_than_signalled_gets_no_keys() {
    let identity = Identity::new("wrong", KINDS[1]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let client = Program::start("s_client", &identity, "SRTP_AEAD_AES_128_GCM", &["-connect", &address]);
    let mut server = End::new(Dtls::server(Config::new(certificate(), vec![certificate().fingerprint()])));
    let limit = now() + TIMEOUT;
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut buffer = [0; 2048];
    while server.error.is_none() {
        assert!(now() < limit);
        let (len, from) = socket.recv_from(&mut buffer).unwrap();
        let result = server.dtls.handle_datagram(now(), &buffer[..len]);
        for datagram in server.take(result) {
            socket.send_to(&datagram, from).unwrap();
        }
    }
    assert_eq!(server.error, Some(rtc::dtls::DtlsError::WrongFingerprint));
    assert!(server.keys.is_none());
    drop(client);
}
