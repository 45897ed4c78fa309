//! Compiles the contender that is written in C.

fn main() {
    println!("cargo:rerun-if-changed=src/contender/naive.c");
    cc::Build::new().file("src/contender/naive.c").std("gnu11").warnings(true).compile("naive");
}
