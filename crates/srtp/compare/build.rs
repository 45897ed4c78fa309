//! Compiles the few lines of C that fill libsrtp's policy structures, and links Debian's libsrtp2.

fn main() {
    println!("cargo:rerun-if-changed=src/policy.c");
    cc::Build::new().file("src/policy.c").std("c11").warnings(true).compile("srtp_compare_policy");
    println!("cargo:rustc-link-lib=srtp2");
}
