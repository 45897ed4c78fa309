//! Compiles the few lines of C++ that call msgpack-cxx, where its headers are installed (Debian:
//! libmsgpack-cxx-dev).
//!
//! Without them the benchmark runs without that contender, and says so.

use std::path::Path;

fn main() {
    println!("cargo:rustc-check-cfg=cfg(msgpack_cxx)");
    println!("cargo:rerun-if-changed=src/contender/cxx.cpp");
    println!("cargo:rerun-if-changed=/usr/include/msgpack.hpp");
    if Path::new("/usr/include/msgpack.hpp").exists() {
        // The library is all headers, so it is compiled as an application would: for any x86-64,
        // with full optimisation.
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").opt_level(3).define("NDEBUG", None).define("MSGPACK_NO_BOOST", None);
        build.warnings(true).file("src/contender/cxx.cpp").compile("msgpack_array_bench_cxx");
        println!("cargo:rustc-cfg=msgpack_cxx");
    }
}
