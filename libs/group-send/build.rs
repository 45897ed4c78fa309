//! Compiles the program of the `tc-clone` back end; without that feature it does nothing.
//!
//! Needs `clang` with the `bpf` target, as Debian's package has it, and neither kernel headers nor
//! nightly Rust: `bpfel-unknown-none` has no prebuilt `core`, so a program in Rust would need both
//! `build-std` and a linker of its own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |key: &str, value: &str| env::var(key).is_ok_and(|found| found == value);
    if env::var_os("CARGO_FEATURE_TC_CLONE").is_none() || !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let target = if is("CARGO_CFG_TARGET_ENDIAN", "big") { "bpfeb" } else { "bpfel" };
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("clone.o");
    if let Err(why) = compile(target, &object) {
        println!("cargo::error=the feature `tc-clone` compiles {SOURCE} for the kernel: {why}");
        std::process::exit(1);
    }
}

fn compile(target: &str, object: &Path) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    // With type information (-g), which the kernel demands for functions that it is to call; without the
    // folder that this is built in, which would be in it and then in the binary.
    let options = ["-target", target, "-O2", "-g", "-ffile-compilation-dir=.", "-Wall", "-Wextra", "-Werror"];
    command.args(options).args(["-c", SOURCE, "-o"]).arg(object);
    let output = command.output().map_err(|error| {
        format!("cannot run `{clang}` ({error}); install clang, or set CLANG to its path")
    })?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).replace('\n', " | ");
            Err(format!("`{clang}` failed, has it the target {target}? {said}"))
        }
    }
}

const SOURCE: &str = "bpf/clone.c";
