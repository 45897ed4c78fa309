//! millbench

fn main() {}
