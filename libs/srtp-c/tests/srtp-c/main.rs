//! C programs use the header and both libraries, and what is exchanged is what libsrtp makes of it.

mod fuzz_corpus;

use c_test::{Language, Linkage, Package};
use std::mem::{offset_of, size_of};
use std::path::Path;

const PACKAGE: Package = Package {
    folder: env!("CARGO_MANIFEST_DIR"),
    programs: env!("CARGO_TARGET_TMPDIR"),
    name: "srtp_c",
    header: "srtp2/srtp.h",
    sources: &["src/lib.rs"],
};

#[test]
fn c_program_works_with_the_static_library() {
    PACKAGE.run("tests/c/srtp.c", Language::C, Linkage::Static, &[]);
}

#[test]
fn c_program_works_with_the_shared_library() {
    PACKAGE.run("tests/c/srtp.c", Language::C, Linkage::Shared, &[]);
}

#[test]
fn valgrind_finds_nothing() {
    PACKAGE.run("tests/c/srtp.c", Language::C, Linkage::Valgrind, &[]);
    PACKAGE.run("tests/c/beside_libsrtp.c", Language::C, Linkage::Valgrind, &["150"]);
}

#[test]
fn sanitizers_find_nothing() {
    PACKAGE.run("tests/c/srtp.c", Language::C, Linkage::Sanitized, &[]);
    PACKAGE.run("tests/c/beside_libsrtp.c", Language::C, Linkage::Sanitized, &[]);
}

#[test]
fn installed_library_has_a_soname_and_versions() {
    PACKAGE.run_installed("tests/c/srtp.c");
}

#[test]
fn libsrtp_makes_the_same_packets_and_refuses_the_same() {
    let output = PACKAGE.run("tests/c/beside_libsrtp.c", Language::C, Linkage::Static, &[]);
    println!("{output}");
    assert!(output.contains("packets alike") || output.starts_with("SKIPPED"), "{output}");
}

/// Three descriptions of one layout: our header, the structures in Rust, and libsrtp's header.
#[test]
fn layout_is_that_of_libsrtp() {
    let ours = PACKAGE.run("tests/c/layout.c", Language::C, Linkage::Static, &[]);
    for (line, value) in [
        ("sizeof srtp_crypto_policy_t", size_of::<srtp_c::CryptoPolicy>()),
        ("sizeof srtp_master_key_t", size_of::<srtp_c::RawMasterKey>()),
        ("sizeof srtp_policy_t", size_of::<srtp_c::Policy>()),
        ("sizeof srtp_event_data_t", size_of::<srtp_c::EventData>()),
        ("offsetof srtp_policy_t rtcp", offset_of!(srtp_c::Policy, rtcp)),
        ("offsetof srtp_policy_t keys", offset_of!(srtp_c::Policy, keys)),
        ("offsetof srtp_policy_t window_size", offset_of!(srtp_c::Policy, window_size)),
        ("offsetof srtp_policy_t enc_xtn_hdr_count", offset_of!(srtp_c::Policy, enc_xtn_hdr_count)),
        ("offsetof srtp_policy_t next", offset_of!(srtp_c::Policy, next)),
        ("offsetof srtp_crypto_policy_t sec_serv", offset_of!(srtp_c::CryptoPolicy, sec_serv)),
    ] {
        assert!(
            ours.lines().any(|printed| printed == format!("{line} {value}")),
            "{line} {value} in\n{ours}"
        );
    }
    if Path::new("/usr/include/srtp2/srtp.h").exists() {
        assert_eq!(PACKAGE.run_with_headers("tests/c/layout.c", "/usr/include"), ours);
    } else {
        println!("SKIPPED: libsrtp's header is not installed (libsrtp2-dev)");
    }
}
