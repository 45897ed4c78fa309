//! Rebuilds the server when the console has changed, since its files are embedded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // A path that does not exist would rebuild every time; the folder above it tells when the
    // console appears.
    let built = std::path::Path::new("../../web/dist").is_dir();
    println!("cargo:rerun-if-changed={}", if built { "../../web/dist" } else { "../../web" });
}
