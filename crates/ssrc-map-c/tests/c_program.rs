//! A C program uses the header and both libraries; a C++ compiler takes the header too.
//!
//! The libraries are those that cargo has built with this test: they lie beside its executable. `CC` and `CXX` name the
//! compilers, `cc` and `c++` by default.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn c_program_works_with_the_static_library() {
    let program = compile("static", &[library("libssrc_map_c.a").display().to_string()]);
    run(&mut Command::new(program));
}

#[test]
fn c_program_works_with_the_shared_library() {
    let folder = library("libssrc_map_c.so").parent().unwrap().display().to_string();
    let program =
        compile("shared", &[format!("-L{folder}"), "-lssrc_map_c".into(), format!("-Wl,-rpath,{folder}")]);
    run(&mut Command::new(program));
}

#[test]
fn header_is_valid_cpp() {
    let mut compiler = Command::new(std::env::var("CXX").unwrap_or("c++".into()));
    compiler.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-x", "c++"]);
    run(compiler.arg(package().join("include/ssrc_map.h")));
}

/// Compiles tests/c/map.c and returns the program.
fn compile(name: &str, libraries: &[String]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ssrc-map-{name}"));
    let mut compiler = Command::new(std::env::var("CC").unwrap_or("cc".into()));
    compiler
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(package().join("include"));
    compiler.arg("-o").arg(&program).arg(package().join("tests/c/map.c"));
    run(compiler.args(libraries).args(["-lpthread", "-ldl", "-lm"]));
    program
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
}

/// A library of this build.
fn library(name: &str) -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let path = executable.parent().unwrap().join(name);
    assert!(path.exists(), "{} was not built", path.display());
    path
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
