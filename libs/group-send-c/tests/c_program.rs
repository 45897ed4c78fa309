//! C and C++ programs use the header and both libraries, and the example does what it says.
//!
//! The libraries are those that cargo has built with this test: they lie beside its executable. `CC` and `CXX` name the
//! compilers, `cc` and `c++` by default. All traffic is on the loopback device.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn c_program_works_with_the_static_library() {
    run(&mut Command::new(compile("c-static", &C, &with_static_library())));
}

#[test]
fn c_program_works_with_the_shared_library() {
    run_with_shared_library(&compile("c-shared", &C, &with_shared_library()));
}

#[test]
fn cpp_program_works_with_the_static_library() {
    run(&mut Command::new(compile("cpp-static", &CPP, &with_static_library())));
}

#[test]
fn cpp_program_works_with_the_shared_library() {
    run_with_shared_library(&compile("cpp-shared", &CPP, &with_shared_library()));
}

#[test]
fn example_serves_its_listeners() {
    let program = compile("example", &EXAMPLE, &with_static_library());
    let output = run(Command::new(program).args(["50", "200"]));
    // 200 ms are 10 frames; 2 of the 50 listeners are real ones, which get each of them.
    assert!(output.contains("10 frames to 50 listeners"), "{output}");
    assert!(output.contains("first listener heard 10 packets, last listener 10"), "{output}");
}

struct Language {
    variable: &'static str,
    compiler: &'static str,
    standard: &'static str,
    source: &'static str,
}

const C: Language =
    Language { variable: "CC", compiler: "cc", standard: "-std=c99", source: "tests/c/sendgroup.c" };
const CPP: Language =
    Language { variable: "CXX", compiler: "c++", standard: "-std=c++11", source: "tests/c/sendgroup.cpp" };
const EXAMPLE: Language =
    Language { variable: "CC", compiler: "cc", standard: "-std=c99", source: "examples/audio.c" };

fn with_static_library() -> Vec<String> {
    vec![library("libgroup_send_c.a").display().to_string()]
}

fn with_shared_library() -> Vec<String> {
    let folder = library("libgroup_send_c.so").parent().unwrap().display().to_string();
    vec![format!("-L{folder}"), "-lgroup_send_c".into(), format!("-Wl,-rpath,{folder}")]
}

/// Runs a program with the library of this build. Cargo sets the variable for tests, and it goes before the path in the program: what an
/// earlier `cargo build` left would be taken.
fn run_with_shared_library(program: &Path) {
    let library = std::env::current_exe().unwrap();
    run(Command::new(program).env("LD_LIBRARY_PATH", library.parent().unwrap()));
}

/// Compiles the language's program and returns where it is.
fn compile(name: &str, language: &Language, libraries: &[String]) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sendgroup-{name}"));
    let mut compiler = Command::new(std::env::var(language.variable).unwrap_or(language.compiler.into()));
    compiler.args([language.standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]);
    compiler.arg(package.join("include")).arg("-o").arg(&program);
    compiler.arg(package.join(language.source));
    run(compiler.args(libraries).args(["-lpthread", "-ldl", "-lm"]));
    program
}

/// What it printed, if it ended with status 0.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// A library of this build.
fn library(name: &str) -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let path = executable.parent().unwrap().join(name);
    assert!(path.exists(), "{} was not built", path.display());
    path
}
