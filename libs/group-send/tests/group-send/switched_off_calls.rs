//! Where the kernel or a sandbox lacks a call, the next back end takes over and every byte still
//! arrives.
//!
//! The test runs itself again behind a system call filter (`common/filter.rs`).
#![cfg(target_os = "linux")]

use crate::common::filter::refusing;
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, loopback, prefer, send_whole};
use group_send::{BackendKind, Sender};

#[test]
fn without_sendmmsg_datagrams_go_one_by_one() {
    refusing(&[libc::SYS_sendmmsg, libc::ENOSYS.into()], "switched_off_calls::one_by_one");
}

#[test]
fn without_segmentation_offload_they_go_many_a_call() {
    let (level, option) = (libc::SOL_UDP.into(), libc::UDP_SEGMENT.into());
    refusing(
        &[libc::SYS_getsockopt, libc::ENOPROTOOPT.into(), level, option],
        "switched_off_calls::many_a_call",
    );
}

#[test]
#[cfg(feature = "io-uring")]
fn without_a_ring_they_go_by_segmentation_offload() {
    refusing(&[libc::SYS_io_uring_setup, libc::EPERM.into()], "switched_off_calls::no_ring");
}

#[test]
#[ignore = "runs behind a filter that refuses sendmmsg"]
fn one_by_one() {
    falls_back(&[BackendKind::Gso, BackendKind::Sendmmsg, BackendKind::Sendmsg], BackendKind::Sendmsg);
}

#[test]
#[ignore = "runs behind a filter that refuses UDP_SEGMENT"]
fn many_a_call() {
    falls_back(&[BackendKind::Gso, BackendKind::Sendmmsg], BackendKind::Sendmmsg);
}

#[test]
#[ignore = "runs behind a filter that refuses io_uring_setup"]
fn no_ring() {
    falls_back(&[BackendKind::IoUring, BackendKind::Gso], BackendKind::Gso);
}

fn falls_back(preferred: &[BackendKind], to: BackendKind) {
    let socket = loopback::shared_socket();
    let mut sender = Sender::new(&socket, &prefer(preferred)).unwrap();
    assert_eq!(sender.backend(), to, "{:?}", sender.not_chosen());
    let passed_over: Vec<_> = sender.not_chosen().iter().map(|reason| reason.backend).collect();
    assert_eq!(passed_over, preferred[..preferred.len() - 1], "{:?}", sender.not_chosen());
    let mut receivers = Receivers::bind(&loopback::V4, 10);
    let group = Group::new(&receivers.addresses(), 6, Sizes::Equal(400), Private::Mixed);
    assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0);
    receivers.expect_group(&group);
}
