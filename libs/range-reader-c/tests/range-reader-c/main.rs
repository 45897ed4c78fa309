//! C and C++ programs use the header and both libraries against a server on loopback, and FFmpeg's
//! libraries decode through it what they decode from a file.

mod fuzz_corpus;
mod origin;

use c_test::{Language, Linkage, Package};
use origin::Origin;
use std::path::PathBuf;
use std::process::Command;

const PACKAGE: Package = Package {
    folder: env!("CARGO_MANIFEST_DIR"),
    programs: env!("CARGO_TARGET_TMPDIR"),
    name: "range_reader_c",
    header: "range_reader.h",
    sources: &["src/lib.rs", "src/error.rs"],
};

/// Debian: libavformat-dev, libavcodec-dev.
const FFMPEG: [&str; 3] = ["libavformat", "libavcodec", "libavutil"];

/// What the programs in C know the file by: byte `n` is `n * 31 + n / 256`, of which the low 8 bits.
fn pattern() -> Vec<u8> {
    (0..3_000_000_u32).map(|at| (at.wrapping_mul(31).wrapping_add(at / 256)) as u8).collect()
}

fn program(source: &str, language: Language, linkage: Linkage) {
    let origin = Origin::start(pattern(), None);
    PACKAGE.run(source, language, linkage, &[&origin.url("")]);
    // Seeks back into memory and short ones forward make no requests.
    let film = origin.heads().iter().filter(|head| head.starts_with("GET /film ")).count();
    assert!(film <= 4, "{film} requests: {:?}", origin.heads());
}

#[test]
fn c_program_works_with_the_static_library() {
    program("tests/c/range_reader.c", Language::C, Linkage::Static);
}

#[test]
fn c_program_works_with_the_shared_library() {
    program("tests/c/range_reader.c", Language::C, Linkage::Shared);
}

#[test]
fn cpp_program_works_with_the_static_library() {
    program("tests/c/range_reader.cpp", Language::Cpp, Linkage::Static);
}

#[test]
fn cpp_program_works_with_the_shared_library() {
    program("tests/c/range_reader.cpp", Language::Cpp, Linkage::Shared);
}

#[test]
fn valgrind_finds_nothing() {
    program("tests/c/range_reader.c", Language::C, Linkage::Valgrind);
}

#[test]
fn sanitizers_find_nothing() {
    program("tests/c/range_reader.c", Language::C, Linkage::Sanitized);
}

#[test]
fn ffmpeg_decodes_the_frames_of_the_local_file() {
    let film = film();
    let origin = Origin::start(std::fs::read(&film).expect("a film"), None);
    let play = |arguments: &[&str], linkage| {
        PACKAGE.run_beside(&FFMPEG, "examples/play.c", Language::C, linkage, arguments)
    };
    let local = film.display().to_string();
    // From start to end; then 40 frames, and on from 8 s.
    for then in [&[][..], &["8"]] {
        let expected = play(&[&[local.as_str()], then].concat(), Linkage::Static);
        let (frames, heads) = (frames(&expected), origin.heads().len());
        assert!(frames.0 > 90 && frames.1 > 100, "video, audio: {frames:?}");
        let url = origin.url("/film.mp4");
        let printed = play(&[&[url.as_str()], then].concat(), Linkage::Static);
        assert!(printed == expected, "frames differ:\n{printed}\n{expected}");
        let requests = origin.heads().len() - heads;
        println!("{} video and {} audio frames in {requests} requests: {then:?}", frames.0, frames.1);
        // The head, the index at the end, and runs of frames that double in length after each seek.
        assert!(requests <= 12, "{:?}", origin.heads());
    }
}

#[test]
fn sanitizers_find_nothing_under_ffmpeg() {
    let film = film();
    let origin = Origin::start(std::fs::read(film).expect("a film"), None);
    let printed = PACKAGE.run_beside(
        &FFMPEG,
        "examples/play.c",
        Language::C,
        Linkage::Sanitized,
        &[&origin.url("/film.mp4"), "8"],
    );
    assert!(frames(&printed).0 > 90, "{printed}");
}

/// How many lines are of video and of audio frames.
fn frames(printed: &str) -> (usize, usize) {
    let count = |kind| printed.lines().filter(|line: &&str| line.starts_with(kind)).count();
    (count("video "), count("audio "))
}

/// Twelve seconds with B-frames and audio, in an MP4 file whose index is at its end. One file for each
/// test: they run at the same time.
fn film() -> PathBuf {
    let name = std::thread::current().name().expect("tests have names").replace(':', "-");
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.mp4"));
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-y"])
        .args(["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=12"])
        .args(["-f", "lavfi", "-i", "sine=frequency=440:duration=12"])
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-bf", "2", "-g", "50", "-pix_fmt", "yuv420p"])
        .args(["-c:a", "aac"])
        .arg(&path)
        .output()
        .expect("ffmpeg: scripts/setup");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    path
}

#[test]
fn installed_library_has_a_soname_and_versions() {
    // Without a server: what is refused.
    PACKAGE.run_installed("tests/c/range_reader.c");
}

#[test]
fn header_is_what_cbindgen_makes_of_the_source() {
    PACKAGE.assert_header_is_current();
}

#[test]
#[ignore = "writes include/range_reader.h"]
fn write_header() {
    PACKAGE.write_header();
}
