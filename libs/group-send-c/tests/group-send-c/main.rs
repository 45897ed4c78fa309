//! C and C++ programs use the header and both libraries, and the example works. All traffic is on
//! the loopback device.

mod fuzz_corpus;

use c_test::{Language, Linkage, Package};

const PACKAGE: Package = Package {
    folder: env!("CARGO_MANIFEST_DIR"),
    programs: env!("CARGO_TARGET_TMPDIR"),
    name: "group_send_c",
    header: "sendgroup.h",
    sources: &["src/lib.rs"],
};

#[test]
fn c_program_works_with_the_static_library() {
    PACKAGE.run("tests/c/sendgroup.c", Language::C, Linkage::Static, &[]);
}

#[test]
fn c_program_works_with_the_shared_library() {
    PACKAGE.run("tests/c/sendgroup.c", Language::C, Linkage::Shared, &[]);
}

#[test]
fn cpp_program_works_with_the_static_library() {
    PACKAGE.run("tests/c/sendgroup.cpp", Language::Cpp, Linkage::Static, &[]);
}

#[test]
fn cpp_program_works_with_the_shared_library() {
    PACKAGE.run("tests/c/sendgroup.cpp", Language::Cpp, Linkage::Shared, &[]);
}

#[test]
fn call_of_2008_works_with_the_static_library() {
    PACKAGE.run("tests/c/published.c", Language::C, Linkage::Static, &[]);
}

#[test]
fn call_of_2008_works_with_the_shared_library() {
    PACKAGE.run("tests/c/published.c", Language::C, Linkage::Shared, &[]);
}

#[test]
fn valgrind_finds_nothing() {
    PACKAGE.run("tests/c/sendgroup.c", Language::C, Linkage::Valgrind, &[]);
    PACKAGE.run("tests/c/published.c", Language::C, Linkage::Valgrind, &[]);
}

#[test]
fn sanitizers_find_nothing() {
    for program in ["tests/c/sendgroup.c", "tests/c/published.c"] {
        PACKAGE.run(program, Language::C, Linkage::Sanitized, &[]);
    }
}

#[test]
fn broadcast_of_2008_reaches_its_clients() {
    let output = PACKAGE.run("examples/broadcast.c", Language::C, Linkage::Static, &["50", "30"]);
    assert!(output.contains("30 packets to 50 clients: 1500 sent, 0 without room"), "{output}");
    assert!(output.contains("first client received 30, last client 30"), "{output}");
}

#[test]
fn example_serves_its_listeners() {
    let output = PACKAGE.run("examples/audio.c", Language::C, Linkage::Static, &["50", "200"]);
    // 200 ms are 10 frames; 2 of the 50 listeners are real ones, which get each of them.
    assert!(output.contains("10 frames to 50 listeners"), "{output}");
    assert!(output.contains("first listener received 10 packets, last listener 10"), "{output}");
}

#[test]
fn installed_library_has_a_soname_and_versions() {
    PACKAGE.run_installed("tests/c/published.c");
}

#[test]
fn header_is_what_cbindgen_makes_of_the_source() {
    PACKAGE.assert_header_is_current();
}

#[test]
#[ignore = "writes include/sendgroup.h"]
fn write_header() {
    PACKAGE.write_header();
}
