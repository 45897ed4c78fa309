//! Tests of a C library: programs in C and C++ use its header and both libraries, and the header is
//! the one that cbindgen generates.
//!
//! The libraries are those that cargo has built with the test: they lie beside its executable. `CC`
//! and `CXX` name the compilers, `cc` and `c++` by default.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A package that builds a C library.
#[derive(Debug)]
pub struct Package {
    /// `env!("CARGO_MANIFEST_DIR")` of the package.
    pub folder: &'static str,
    /// `env!("CARGO_TARGET_TMPDIR")` of the test: where programs are written.
    pub programs: &'static str,
    /// The library's name without `lib`: `ssrc_map_c`.
    pub name: &'static str,
    /// The header's file name in `include`.
    pub header: &'static str,
    /// The Rust sources that the header is generated from.
    pub sources: &'static [&'static str],
}

/// The language of a program, by its standard.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    /// C99.
    C,
    /// C++11.
    Cpp,
}

/// Which of the two libraries a program is linked with.
#[derive(Clone, Copy, Debug)]
pub enum Linkage {
    /// `lib….a`.
    Static,
    /// `lib….so`.
    Shared,
    /// `lib….a`, and the program is compiled for AddressSanitizer, which watches the library's memory
    /// as well (`malloc`, leaks, what the C library is given), and UndefinedBehaviorSanitizer.
    Sanitized,
    /// `lib….a`, and the program runs in valgrind, which also sees what the library's own code reads: no
    /// byte that was freed, belongs to nobody or was never written. Its processor has AVX2, but neither
    /// AVX-512 nor the SHA extensions. Where it is not installed, the program is not run.
    Valgrind,
}

impl Package {
    /// Compiles a program of the package without warnings, runs it with `arguments`, and returns
    /// what it prints.
    ///
    /// # Panics
    /// If it does not compile, or does not exit with status 0.
    pub fn run(&self, source: &str, language: Language, linkage: Linkage, arguments: &[&str]) -> String {
        self.run_beside(&[], source, language, linkage, arguments)
    }

    /// As [`Self::run`], for a program that uses other libraries too: names of `pkg-config`.
    ///
    /// # Panics
    /// If one of them is not installed, and as [`Self::run`].
    pub fn run_beside(
        &self,
        libraries: &[&str],
        source: &str,
        language: Language,
        linkage: Linkage,
        arguments: &[&str],
    ) -> String {
        let (variable, compiler, standard) = match language {
            Language::C => ("CC", "cc", "-std=c99"),
            Language::Cpp => ("CXX", "c++", "-std=c++11"),
        };
        let folder = Path::new(self.folder);
        // One file for each run: tests run at the same time, and an example more than once.
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let file = format!("{}-{}-{linkage:?}-{run}", self.name, source.replace(['/', '.'], "-"));
        let program = Path::new(self.programs).join(file);
        let mut compile = Command::new(std::env::var(variable).unwrap_or(compiler.into()));
        compile.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]);
        compile.arg(folder.join("include")).arg("-o").arg(&program).arg(folder.join(source));
        let mut command = Command::new(&program);
        match linkage {
            Linkage::Static => {
                compile.arg(built(&format!("lib{}.a", self.name)));
            }
            Linkage::Valgrind => {
                if Command::new("valgrind").arg("--version").output().is_err() {
                    println!("SKIPPED {source}: valgrind is not installed");
                    return String::new();
                }
                compile.arg("-g").arg(built(&format!("lib{}.a", self.name)));
                command = Command::new("valgrind");
                // Leaks are for the sanitizers: in the child of a program with threads, what those had is
                // lost.
                command.args(["--quiet", "--error-exitcode=9", "--leak-check=no"]).arg(&program);
            }
            Linkage::Sanitized => {
                compile.args(["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
                compile.arg(built(&format!("lib{}.a", self.name)));
            }
            Linkage::Shared => {
                let library = built(&format!("lib{}.so", self.name));
                let libraries = library.parent().expect("a file in a folder");
                compile.arg(format!("-L{}", libraries.display())).arg(format!("-l{}", self.name));
                compile.arg(format!("-Wl,-rpath,{}", libraries.display()));
                // Cargo sets the variable for tests, and it goes before the path in the program:
                // what an earlier `cargo build` left would be taken.
                command.env("LD_LIBRARY_PATH", libraries);
            }
        }
        if !libraries.is_empty() {
            let flags = output(Command::new("pkg-config").args(["--cflags", "--libs"]).args(libraries));
            compile.args(flags.split_whitespace());
        }
        output(compile.args(["-lpthread", "-ldl", "-lm"]));
        output(command.args(arguments))
    }

    /// Compiles a program with headers of another library of the same interface, links nothing, runs it
    /// and returns what it prints.
    ///
    /// # Panics
    /// If it does not compile, or does not exit with status 0.
    pub fn run_with_headers(&self, source: &str, headers: &str) -> String {
        let program = Path::new(self.programs).join(format!("{}-other-headers", self.name));
        let mut compile = Command::new(std::env::var("CC").unwrap_or("cc".into()));
        compile.args(["-std=c99", "-I", headers, "-o"]).arg(&program);
        output(compile.arg(Path::new(self.folder).join(source)));
        output(&mut Command::new(&program))
    }

    /// Installs the library by `scripts/install-c-library`, compiles a program of the package with what
    /// `pkg-config` says, runs it, and checks that it needs the library by its SONAME, and that the
    /// library exports the functions of the header, each with a version, and nothing else.
    ///
    /// # Panics
    /// If any of it is not so.
    pub fn run_installed(&self, source: &str) {
        let package = self.name.replace('_', "-");
        let folder = Path::new(self.folder);
        let prefix = Path::new(self.programs).join(format!("{package}-installed"));
        let _ = std::fs::remove_dir_all(&prefix);
        let mut install = Command::new(folder.join("../../scripts/install-c-library"));
        install.env("STATIC_LIBRARY", built(&format!("lib{}.a", self.name)));
        output(install.arg(&package).arg(&prefix));

        let mut config = Command::new("pkg-config");
        config.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let flags = output(config.args(["--cflags", "--libs", &package]));
        let program = prefix.join("program");
        let mut compile = Command::new(std::env::var("CC").unwrap_or("cc".into()));
        compile.args(["-std=c99", "-o"]).arg(&program).arg(folder.join(source));
        output(compile.args(flags.split_whitespace()).args(["-lpthread", "-lm"]));
        output(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")));

        let version = output(Command::new("readelf").arg("--dynamic").arg(&program));
        let soname = format!("[lib{}.so.", self.name);
        assert!(version.contains(&soname), "the program does not need {soname}...]:\n{version}");
        let library = prefix.join(format!("lib/lib{}.so", self.name));
        let symbols = output(Command::new("nm").args(["--dynamic", "--defined-only"]).arg(library));
        let mut exported = Vec::new();
        for symbol in symbols.lines().filter_map(|line| line.split_once(" T ")) {
            let (function, version) = symbol.1.split_once("@@").expect("a version");
            assert!(version.contains("_0."), "{function} has the version {version}");
            exported.push(function.to_owned());
        }
        exported.sort();
        assert_eq!(exported, self.functions(), "symbols.map has what the header declares");
    }

    /// The functions that the header declares, sorted.
    fn functions(&self) -> Vec<String> {
        let header = std::fs::read_to_string(self.header_path()).expect("a header");
        let declarations = header.split_once("extern \"C\" {").map_or(&*header, |(_, after)| after);
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let mut functions = Vec::new();
        // Declarations begin in the first column, unlike text and arguments.
        let begins = |line: &&str| line.starts_with(|first: char| first.is_ascii_lowercase());
        for line in declarations.lines().filter(begins).filter(|line| !line.starts_with("typedef")) {
            if let Some((before, _)) = line.split_once('(') {
                let start = before.rfind(|character| !is_name(character)).map_or(0, |last| last + 1);
                functions.push(before[start..].to_owned());
            }
        }
        functions.sort();
        functions
    }

    /// The header in the repository is what cbindgen generates from the source.
    ///
    /// # Panics
    /// If it is not.
    pub fn assert_header_is_current(&self) {
        let kept = std::fs::read_to_string(self.header_path()).unwrap_or_default();
        assert!(
            kept == self.generated_header(),
            "include/{} is out of date; regenerate it with \
             `cargo test -p {} write_header -- --ignored` and look at the difference",
            self.header,
            self.name.replace('_', "-"),
        );
    }

    /// Writes the generated header into the repository.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_header(&self) {
        std::fs::write(self.header_path(), self.generated_header()).expect("a header that can be written");
    }

    fn header_path(&self) -> PathBuf {
        Path::new(self.folder).join("include").join(self.header)
    }

    fn generated_header(&self) -> String {
        let folder = Path::new(self.folder);
        let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("cbindgen.toml");
        let sources = self.sources.iter().map(|source| folder.join(source));
        let builder = sources.fold(cbindgen::Builder::new(), |builder, source| builder.with_src(source));
        let mut text = Vec::new();
        builder.with_config(config).generate().expect("sources that cbindgen reads").write(&mut text);
        String::from_utf8(text).expect("a header in UTF-8")
    }
}

/// A library of this build.
fn built(name: &str) -> PathBuf {
    let executable = std::env::current_exe().expect("a path of this test");
    let path = executable.with_file_name(name);
    assert!(path.exists(), "{} was not built", path.display());
    path
}

/// What a command prints, if it ends with status 0.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}
