//! DTLS is accepted from validated paths only: without the password no one can begin, disturb or
//! end a handshake.

use crate::common::{
    Random, STRANGER, World, client_config, client_path, genuine_check, millis, path_from, server_config,
};
use rtc::dtls::{Certificate, Config, Dtls};
use rtc::{Refusal, Signal};
use rtc_test::stun::Check;

/// The first flight of another client.
fn hello(now: std::time::Instant) -> Vec<u8> {
    let certificate = std::sync::Arc::new(Certificate::generate().unwrap());
    let fingerprint = certificate.fingerprint();
    let mut dtls = Dtls::client(Config::new(certificate, vec![fingerprint]), now).unwrap();
    dtls.poll_transmit().unwrap()
}

#[test]
fn a_client_hello_from_elsewhere_is_dropped_at_every_stage() {
    let mut world = World::new();
    let hello = hello(world.now);
    for stage in ["before", "checked", "handshake", "connected"] {
        match stage {
            "before" => {}
            "checked" => {
                assert_eq!(world.inject(client_path(), &genuine_check(1).bytes()), Signal::Accepted);
            }
            "handshake" => {
                let begun = |world: &World| world.server_sent.iter().any(|(_, sent)| sent.bytes[0] >= 20);
                assert!(world.run_until(millis(1000), begun) && !world.is_connected());
            }
            _ => assert!(world.run_until(millis(3000), World::is_connected)),
        }
        for path in [path_from(STRANGER), path_from("198.51.100.7:50001")] {
            let sent = world.server_sent.len();
            let signal = world.inject(path, &hello);
            assert_eq!(signal, Signal::Refused(Refusal::UnvalidatedPath), "{stage}");
            assert_eq!(world.server_sent.len(), sent, "{stage}");
        }
    }
}

#[test]
fn a_failed_check_validates_nothing() {
    let mut world = World::new();
    let hello = hello(world.now);
    let forged = Check { password: "guessed+guessed+guessed".to_owned(), ..genuine_check(1) };
    assert_eq!(world.inject(path_from(STRANGER), &forged.bytes()), Signal::Refused(Refusal::WrongIntegrity));
    assert_eq!(world.inject(path_from(STRANGER), &hello), Signal::Refused(Refusal::UnvalidatedPath));
}

/// 200 connections while at each of them strangers throw ClientHellos, whole, cut and changed,
/// between any two datagrams.
#[test]
fn a_race_of_client_hellos_delays_nobody() {
    let mut random = Random::new(5);
    let (mut quiet, mut sprayed) = (Vec::new(), Vec::new());
    for session in 0..200 {
        for spray in [false, true] {
            if !spray && session % 4 != 0 {
                continue;
            }
            let mut world = World::of(client_config(), server_config(), session);
            let began = world.now;
            let hello = hello(world.now);
            while !world.is_connected() && world.now < began + millis(5000) {
                if spray {
                    for port in 1..20 {
                        let mut copy = hello.clone();
                        copy.truncate(1 + random.below(hello.len() as u64) as usize);
                        let at = 1 + random.below(copy.len() as u64) as usize;
                        copy.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << (port % 8));
                        let from = path_from(&format!("198.51.100.7:{port}"));
                        assert_eq!(world.inject(from, &copy), Signal::Refused(Refusal::UnvalidatedPath));
                    }
                }
                world.run(millis(5));
            }
            assert!(world.is_connected(), "session {session}, spray {spray}");
            let times = if spray { &mut sprayed } else { &mut quiet };
            times.push(world.now - began);
        }
    }
    quiet.sort();
    sprayed.sort();
    let p95 = |times: &[std::time::Duration]| times[times.len() * 95 / 100];
    println!("p95 to be connected: {:?} quiet, {:?} sprayed", p95(&quiet), p95(&sprayed));
    assert!(p95(&sprayed) <= p95(&quiet) + millis(10));
}
