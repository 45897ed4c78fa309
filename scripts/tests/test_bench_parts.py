"""Shared parts of the benchmarks that need no server: ratios to the floor, configuration of other servers."""

import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCRIPTS / "bench.d"))

import _contenders  # noqa: E402
import _floor  # noqa: E402

PORTS = {"rtmp": 1935, "http": 8080, "udp": 8000}


class Floors(unittest.TestCase):
    def setUp(self):
        self.floors = _floor.Floors()
        for number, us in [(0, 1.0), (1, 2.0), (2, 4.0)]:
            self.floors.add("lo", "gso", {"sessions": 400, "us_per_packet": us}, number)

    def test_rounds_are_compared_with_themselves(self):
        # All floors against all rows would be 3.0 over 2.0.
        self.assertEqual(self.floors.times("lo", "gso", 400, {0: 1.1, 1: 3.0, 2: 4.4}), 1.1)

    def test_rounds_without_a_floor_do_not_count(self):
        self.assertEqual(self.floors.times("lo", "gso", 400, {1: 3.0, 7: 100.0}), 1.5)
        self.assertIsNone(self.floors.times("lo", "gso", 400, {7: 100.0}))
        self.assertIsNone(self.floors.times("lo", "gso", 800, {0: 1.0}))
        self.assertIsNone(self.floors.times("veth", "gso", 400, {0: 1.0}))

    def test_a_way_of_its_own_is_compared_with_the_default(self):
        self.assertEqual(self.floors.times("lo", "own", 400, {0: 5.0}), 5.0)

    def test_the_floor_itself_is_one(self):
        self.assertEqual(self.floors.times("lo", "gso", 400, {0: 1.0, 1: 2.0, 2: 4.0}), 1.0)


class FirstLine(unittest.TestCase):
    def process(self, text, ended):
        file = tempfile.NamedTemporaryFile("w", delete=False)
        self.addCleanup(os.unlink, file.name)
        file.write(text)
        file.close()
        return types.SimpleNamespace(log_name=file.name, poll=lambda: 1 if ended else None)

    def test_it_names_the_back_end_or_says_why_there_is_none(self):
        started = self.process('{"backend":"gso"}\n', ended=False)
        self.assertEqual(_floor.await_line(started), {"backend": "gso"})
        failed = self.process("millbench: no back end works here\n", ended=True)
        self.assertEqual(_floor.await_line(failed), "no back end works here")
        self.assertEqual(_floor.await_line(self.process("", ended=True)), "the floor did not start")


class Contenders(unittest.TestCase):
    def test_a_variable_has_to_name_a_program(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("SRS_BIN", None)
            self.assertEqual(_contenders.problem("srs"), "SRS_BIN names no binary")
            os.environ["SRS_BIN"] = "/nonexistent/srs"
            self.assertEqual(_contenders.problem("srs"), "SRS_BIN=/nonexistent/srs cannot be executed")
            os.environ["SRS_BIN"] = sys.executable
            self.assertIsNone(_contenders.problem("srs"))

    def test_configuration_of_srs_has_one_protocol_and_balanced_braces(self):
        for rtc, mode in [("10.0.0.1", "lowlat"), (None, "350ms"), (None, "lowlat")]:
            text = _contenders.srs_configuration("/folder", PORTS, rtc, mode)
            self.assertEqual(text.count("{"), text.count("}"))
            self.assertEqual("rtc_server" in text, rtc is not None)
            self.assertEqual("mw_latency 350" in text, mode == "350ms")
            # Every line is a directive or a block.
            self.assertTrue(all(line[-1] in ";}" for line in text.splitlines()), text)

    def test_configuration_of_mediamtx_has_one_protocol(self):
        rtc = _contenders.mediamtx_configuration(PORTS, "10.0.0.1").splitlines()
        self.assertTrue({"webrtc: yes", "rtmp: no", "webrtcAddress: 10.0.0.1:8080"} <= set(rtc))
        rtmp = _contenders.mediamtx_configuration(PORTS, None).splitlines()
        self.assertTrue({"webrtc: no", "rtmp: yes", "rtmpAddress: 127.0.0.1:1935"} <= set(rtmp))

    def test_addresses_of_streams_are_those_servers_know(self):
        cases = {
            "srs": ("http://h/rtc/v1/whep/?app=live&stream=sample", "http://h/rtc/v1/whip/?app=live&stream=sample{}"),
            "mediamtx": ("http://h/live/sample/whep", "http://h/live/sample{}/whip"),
        }
        for name, (play, numbered) in cases.items():
            found, publish = _contenders.rtc_urls(name, "http://h")
            server = types.SimpleNamespace(name=name, publish=publish)
            self.assertEqual((found, _contenders.numbered(server)), (play, numbered))

    def test_janus_has_a_room_for_each_publisher(self):
        lines = _contenders.janus_rooms(3).splitlines()
        self.assertEqual([line.split(":")[0] for line in lines], ["general", "room-1", "room-2", "room-3"])
        self.assertTrue(all(line.count("{") == line.count("}") == 1 for line in lines))


if __name__ == "__main__":
    unittest.main()
