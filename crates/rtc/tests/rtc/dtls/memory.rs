//! What a session costs when media flows: bytes of memory, and time of a handshake.

use std::hint::black_box;

use rtc::dtls::DtlsVersion::{V1_2, V1_3};

use super::link::{End, Pair, configs};

/// Bytes of this process that are in memory and its own. `statm` is off by up to 32 pages for each processor.
fn anonymous_bytes() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Set in the process that is measured.
const MEASURED: &str = "DTLS_MEMORY_MEASURED";

fn print_bytes_per_session() {
    const SESSIONS: usize = 300;
    for version in [V1_2, V1_3] {
        let (client, server) = configs(&[version], &[version]);
        let handshake = || {
            let mut pair = Pair::new((client.clone(), server.clone()));
            pair.run_until_keys().unwrap();
            pair.run();
            pair.server
        };
        let warm: Vec<End> = (0..20).map(|_| handshake()).collect();
        let before = anonymous_bytes();
        let sessions: Vec<_> = (0..SESSIONS).map(|_| handshake().dtls).collect();
        let bytes = anonymous_bytes().saturating_sub(before) / SESSIONS as u64;
        println!("RESULT dtls-memory version={version:?} bytes_per_session={bytes}");
        black_box((warm, sessions));
    }
}

#[test]
fn a_session_with_keys_is_small() {
    // A process of its own, because other tests would be measured too.
    if std::env::var_os(MEASURED).is_some() {
        return print_bytes_per_session();
    }
    let this = std::env::current_exe().unwrap();
    let output = std::process::Command::new(this)
        .args(["--exact", "dtls::memory::a_session_with_keys_is_small", "--nocapture", "--test-threads=1"])
        .env(MEASURED, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let bytes = |version: &str| -> u64 {
        let start = format!("RESULT dtls-memory version={version} bytes_per_session=");
        let line = text.lines().find_map(|line| line.split_once(&start)).expect("a line of each version");
        line.1.parse().unwrap()
    };
    assert!(bytes("V1_2") <= 3_000, "{text}");
    assert!(bytes("V1_3") <= 24_000, "{text}");
}
