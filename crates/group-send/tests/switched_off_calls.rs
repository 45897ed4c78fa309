//! Where the kernel or a sandbox lacks a call, the next back end takes over and every byte still arrives.
//!
//! The test runs itself again behind a system call filter (`seccomp(2)`), which a small Python program installs,
//! because that needs no privilege but pointers.
#![cfg(target_os = "linux")]

mod common;

use common::{Group, Private, Receivers, Sizes, assert_all_sent, loopback, prefer, send_whole};
use group_send::{BackendKind, Sender};
use std::process::Command;

const FILTER: &str = r"
import ctypes, os, struct, sys
number, errno, *arguments = map(int, sys.argv[1:-2])
load, equal, result = 0x20, 0x15, 0x06
tests = [(0, number)] + [(16 + 8 * index, value) for index, value in zip((1, 2), arguments)]
code = b''
for left, (offset, value) in zip(range(len(tests), 0, -1), tests):
    code += struct.pack('HBBI', load, 0, 0, offset)
    code += struct.pack('HBBI', equal, 0, 2 * (left - 1) + 1, value)
code += struct.pack('HBBI', result, 0, 0, 0x00050000 | errno)
code += struct.pack('HBBI', result, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(code)
program = struct.pack('HxxxxxxP', len(code) // 8, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
assert libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[-2], [sys.argv[-2], '--exact', sys.argv[-1], '--ignored'])
";

#[test]
fn without_sendmmsg_datagrams_go_one_by_one() {
    refusing(&[libc::SYS_sendmmsg, libc::ENOSYS.into()], "one_by_one");
}

#[test]
fn without_segmentation_offload_they_go_many_a_call() {
    let (level, option) = (libc::SOL_UDP.into(), libc::UDP_SEGMENT.into());
    refusing(&[libc::SYS_getsockopt, libc::ENOPROTOOPT.into(), level, option], "many_a_call");
}

#[test]
#[cfg(feature = "io-uring")]
fn without_a_ring_they_go_by_segmentation_offload() {
    refusing(&[libc::SYS_io_uring_setup, libc::EPERM.into()], "no_ring");
}

/// Runs an ignored test of this file with a system call that fails.
fn refusing(filter: &[i64], test: &str) {
    let output = Command::new("python3")
        .args(["-c", FILTER])
        .args(filter.iter().map(i64::to_string))
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
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

fn falls_back(wanted: &[BackendKind], to: BackendKind) {
    let socket = loopback::shared_socket();
    let mut sender = Sender::new(&socket, &prefer(wanted)).unwrap();
    assert_eq!(sender.backend(), to, "{:?}", sender.not_chosen());
    let passed_over: Vec<_> = sender.not_chosen().iter().map(|reason| reason.backend).collect();
    assert_eq!(passed_over, wanted[..wanted.len() - 1], "{:?}", sender.not_chosen());
    let mut receivers = Receivers::bind(&loopback::V4, 10);
    let group = Group::new(&receivers.addresses(), 6, Sizes::Equal(400), Private::Mixed);
    assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0);
    receivers.expect_group(&group);
}
