"""Figures of real clients behind a bottleneck, from what relay and clients print."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench.d"))

import _adapt_real as real  # noqa: E402

SECOND_NS = 1_000_000_000


def relay(rates, wait=5.0, overflowed=0):
    """A report over seconds with these kbit/s."""
    flow = {"packets": 1000, "overflowed": overflowed, "lost": 0, "sent_bits": [], "passed_bits": []}
    carried = [rate * 100 for rate in rates for _ in range(10)]
    return {"seconds": len(rates), "wait_ms_p95": wait, "carried_bits": carried, "bulk_bytes": 0, "flows": [flow]}


def viewer(kbit_of, seconds, layer=2, began_ns=0, gap=()):
    """One that gets so many kbit/s, and a picture each 40 ms but within `gap`."""
    bits = [[ms, kbit_of(ms / 1000) * 100] for ms in range(50, seconds * 1000, 100)]
    pictures = [[ms, layer] for ms in range(0, seconds * 1000, 40) if not (gap and gap[0] < ms < gap[1])]
    seen = {"began_ns": began_ns, "bits": bits, "pictures": pictures, "pli": 0, "missing": 0, "audio_missing": 0}
    return seen


SENT = {"keys": [1], "pli": [0]}


class Figures(unittest.TestCase):
    def figures(self, case, seen, report, source=real.LAYERED):
        return real.figures(case, source, 0, seen, report, SENT)[0]

    def test_the_best_layer_that_fits_is_all_that_could_arrive(self):
        case = real.Case("700", 10)
        found = self.figures(case, [viewer(lambda _: 500, 10, layer=1)], relay([700] * 10))
        self.assertEqual((found["utilisation"], found["settle_s"], found["layer"]), (1.0, 0.0, 500))
        found = self.figures(case, [viewer(lambda _: 150, 10, layer=0)], relay([700] * 10))
        self.assertEqual((found["utilisation"], found["settle_s"], found["layer"]), (0.3, 10.0, 150))

    def test_audio_and_random_losses_leave_less_for_a_layer(self):
        rates = {case_loss: real.best_layer(600, real.Case("600", 1, loss=case_loss), real.LAYERED) for case_loss in (0.0, 0.1)}
        self.assertEqual(rates, {0.0: 500, 0.1: 150})
        self.assertEqual(real.best_layer(100, real.Case("100", 1), real.LAYERED), 150)
        self.assertEqual(real.best_layer(100, real.Case("100", 1), real.SINGLE), 1700)

    def test_the_longest_time_to_settle_is_after_start_or_rise(self):
        case = real.Case("0:2500,10:600,20:2500", 30)
        rate = lambda second: 500 if 10 <= second < 23 else 1700  # noqa: E731
        found = self.figures(case, [viewer(rate, 30)], relay([2500] * 10 + [600] * 10 + [2500] * 10))
        # Half a second has 85 % of the layer a tenth before all of it does.
        self.assertAlmostEqual(found["settle_s"], 2.9)

    def test_a_freeze_is_the_gap_beyond_an_ordinary_one(self):
        case = real.Case("2500", 10)
        found = self.figures(case, [viewer(lambda _: 1700, 10, gap=(1000, 2000))], relay([2500] * 10))
        self.assertEqual(found["freeze_ms"], 960)
        silent = {**viewer(lambda _: 0, 10), "pictures": []}
        found = self.figures(case, [silent], relay([2500] * 10))
        self.assertEqual((found["freeze_ms"], found["layer"]), (10_000, None))

    def test_clocks_of_relay_and_client_are_brought_together(self):
        case = real.Case("0:2500,5:600", 10)
        seen = viewer(lambda second: 1700 if second < 3 else 500, 8, began_ns=2 * SECOND_NS)
        found = self.figures(case, [seen], relay([2500] * 5 + [600] * 5))
        self.assertAlmostEqual(found["utilisation"], (3 * 1700 + 5 * 500) / (5 * 1700 + 5 * 500))

    def test_two_viewers_are_counted_from_when_both_have_settled(self):
        case = real.Case("2500", 20, begins=(0, 5), counts_from=10)
        seen = [viewer(lambda second: 1700 if second < 10 else 500, 20), viewer(lambda _: 500, 20)]
        report = relay([2500] * 20)
        report["flows"] *= 2
        found = self.figures(case, seen, report)
        self.assertEqual((found["utilisation"], found["jain"], found["settle_s"]), (1.0, 1.0, None))

    def test_drops_of_the_queue_are_a_share_of_what_was_sent(self):
        found = self.figures(real.Case("700", 2), [viewer(lambda _: 500, 2)], relay([700] * 2, overflowed=20))
        self.assertEqual(found["loss_percent"], 2.0)

    def test_an_uplink_is_used_by_what_passed_late_enough(self):
        flow = {"packets": 10, "overflowed": 1, "lost": 0, "passed_bits": [0] * 300 + [90_000] * 250 + [10**9]}
        report, sent = {"flows": [flow], "wait_ms_p95": 12.5}, {"event": "done", "pli": 1}
        found, notes = real.pushed([(0, 1000)], report, sent)
        self.assertEqual((found, notes), ({"utilisation": 0.9, "queue_ms_p95": 12.5}, {"pli": 1, "loss_percent": 10.0}))
        found, _ = real.pushed([(0, 1000), (50, 500)], report, sent)
        self.assertAlmostEqual(found["utilisation"], 25 * 900 / (20 * 1000 + 5 * 500))

    def test_figures_are_printed_as_the_virtual_part_prints_them(self):
        for value, expected in [(None, "nan"), (0.94217, "0.942"), (12.345, "12.3"), (1700, "1700")]:
            self.assertEqual(real.figure(value), expected)


if __name__ == "__main__":
    unittest.main()
