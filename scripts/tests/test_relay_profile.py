"""Kinds of samples of scripts/bench relay: what is charged to the cable, to the send path, and to the program."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench.d"))

import _relay_profile  # noqa: E402

SAMPLES = """\
relay-bench 
\tffffffff81000001 native_write_msr
\tffffffff81000002 net_rx_action
\tffffffff81000003 handle_softirqs
\tffffffff81000004 __x64_sys_sendmsg
\t    7f0000000001 __libc_sendmsg

relay-bench 
\tffffffff81000001 _raw_spin_lock
\tffffffff81000002 enqueue_to_backlog
\tffffffff81000003 veth_xmit
\tffffffff81000004 __x64_sys_sendmsg

relay-bench 
\tffffffff81000001 udp_sendmsg
\tffffffff81000004 __x64_sys_sendmsg

relay-bench 
\t    7f0000000001 __libc_sendmsg

relay-bench 
\t    560000000001 srtp::cipher::gcm::avx512::pass

ksoftirqd/0 
\tffffffff81000001 udp_queue_rcv_skb
\tffffffff81000003 run_ksoftirqd

python3 
\tffffffff81000001 udp_sendmsg
"""


class Shares(unittest.TestCase):
    def test_each_sample_of_the_origin_is_of_one_kind(self):
        found = _relay_profile.shares(SAMPLES)
        expected = {"own": 1, "interrupt": 1, "cable": 2, "send": 2, "receives": 1}
        self.assertEqual({name: round(found[name] * 6) for name in expected}, expected)
        self.assertEqual(found["samples"], 6, "of other programs there is none")

    def test_nothing_sampled_is_no_part(self):
        found = _relay_profile.shares("")
        self.assertNotEqual(found["own"], found["own"], "not a number")


if __name__ == "__main__":
    unittest.main()
