//! The behaviour of `group-send` on loopback, one module each. Apart stand `io_uring` and `namespaces`,
//! whose trials are skipped at run time where rights are missing, and `no_allocation`.

mod budget_per_flush;
mod choice_of_backend;
#[path = "../common/mod.rs"]
mod common;
mod departure_times;
mod fuzz_corpus;
mod lent_sockets;
mod marks;
mod mixed_families;
mod naive_batch;
mod order_per_recipient;
mod peer_table;
mod receivers;
mod recv_batch;
mod refusals;
mod resume_group;
mod socket_options;
mod switched_off_calls;
mod twin;
