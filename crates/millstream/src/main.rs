//! millstream

fn main() {}
