//! The header in the repository is the one cbindgen makes of the source.

use std::path::Path;

fn generated() -> String {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml")).unwrap();
    let builder =
        cbindgen::Builder::new().with_src(package.join("src/lib.rs")).with_src(package.join("src/typed.rs"));
    let bindings = builder.with_config(config).generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include/msgpack_array.h");

#[test]
fn header_is_what_cbindgen_makes_of_the_source() {
    let kept = std::fs::read_to_string(HEADER).unwrap_or_default();
    assert!(
        kept == generated(),
        "include/msgpack_array.h is out of date; write it anew with \
         `cargo test -p msgpack-array-c --test header -- --ignored` and look at the difference"
    );
}

#[test]
#[ignore = "writes include/msgpack_array.h"]
fn write_header() {
    std::fs::write(HEADER, generated()).unwrap();
}
