//! C and C++ programs use the header and both libraries.

mod fuzz_corpus;

use c_test::{Language, Linkage, Package};

const PACKAGE: Package = Package {
    folder: env!("CARGO_MANIFEST_DIR"),
    programs: env!("CARGO_TARGET_TMPDIR"),
    name: "msgpack_array_c",
    header: "msgpack_array.h",
    sources: &["src/lib.rs"],
};

#[test]
fn c_program_works_with_the_static_library() {
    PACKAGE.run("tests/c/array.c", Language::C, Linkage::Static, &[]);
}

#[test]
fn c_program_works_with_the_shared_library() {
    PACKAGE.run("tests/c/array.c", Language::C, Linkage::Shared, &[]);
}

#[test]
fn cpp_program_works_with_the_static_library() {
    PACKAGE.run("tests/c/array.cpp", Language::Cpp, Linkage::Static, &[]);
}

#[test]
fn cpp_program_works_with_the_shared_library() {
    PACKAGE.run("tests/c/array.cpp", Language::Cpp, Linkage::Shared, &[]);
}

#[test]
fn installed_library_has_a_soname_and_versions() {
    PACKAGE.run_installed("tests/c/array.c");
}

#[test]
fn valgrind_finds_nothing() {
    PACKAGE.run("tests/c/array.c", Language::C, Linkage::Valgrind, &[]);
}

#[test]
fn sanitizers_find_nothing() {
    PACKAGE.run("tests/c/array.c", Language::C, Linkage::Sanitized, &[]);
}

#[test]
fn header_is_what_cbindgen_makes_of_the_source() {
    PACKAGE.assert_header_is_current();
}

#[test]
#[ignore = "writes include/msgpack_array.h"]
fn write_header() {
    PACKAGE.write_header();
}
