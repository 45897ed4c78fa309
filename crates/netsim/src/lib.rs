//! Test only: a virtual clock and links that lose, delay, reorder and duplicate datagrams.
