"""Goals of benchmarks: which lines they are about, what counts, and what `scripts/bench check` makes of it."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCRIPTS / "bench.d"))

import _goals  # noqa: E402

ENTRY = {"bench": "players", "field": "us", "comparison": "<=", "value": 2, "what": "cost"}


def verdict(lines, **changes):
    return next(_goals.check([_goals.goal(1, {**ENTRY, **changes})], lines))


class Matching(unittest.TestCase):
    def test_fields_fit_texts_numbers_and_alternatives(self):
        cases = [
            ("gso", "gso", True),
            ("gso", "sendmmsg", False),
            ("gso", "sendmmsg|gso", True),
            ("400", ">=400", True),
            ("399", ">=400", False),
            ("400", ">400", False),
            ("5", "<=5", True),
            ("5", "<5", False),
            ("5", "7|<6", True),
            ("0.5", "<1", True),
            ("gso", ">=400", False),
            (None, "gso", False),
            (None, "", True),
            (None, "|gso", True),
            ("gso", "|gso", True),
            ("gso", "", False),
            (None, "<5", False),
        ]
        for text, pattern, expected in cases:
            self.assertEqual(_goals.matches(text, pattern), expected, (text, pattern))

    def test_other_names_and_fields_are_other_goals(self):
        match = {"n": ">=400", "server": "ours"}
        for line, expected in [
            ("RESULT players server=ours n=400 us=1", True),
            ("RESULT players server=ours n=100 us=1", None),
            ("RESULT players server=theirs n=400 us=1", None),
            ("RESULT players n=400 us=1", None),
            ("RESULT players-ratio server=ours n=400 us=1", None),
            ("players server=ours n=400 us=1", None),
        ]:
            self.assertEqual(verdict([line], match=match).reached, expected, line)

    def test_a_goal_can_be_about_further_lines_of_a_benchmark(self):
        self.assertTrue(verdict(["RESULT starts us=1"], result="starts").reached)


class Judging(unittest.TestCase):
    def test_every_line_has_to_hold_it_or_any(self):
        lines = ["RESULT players us=1", "some text", "RESULT players us=3\n"]
        self.assertEqual((verdict(lines).reached, verdict(lines).values), (False, [1, 3]))
        self.assertTrue(verdict(lines, any=True).reached)
        self.assertFalse(verdict(lines, any=True, value=0.5).reached)

    def test_comparisons_are_what_they_say(self):
        cases = [("<=", True, True, False), ("<", True, False, False), (">=", False, True, True), (">", False, False, True),
                 ("==", False, True, False)]
        for comparison, *expected in cases:
            found = [verdict([f"RESULT players us={us}"], comparison=comparison).reached for us in (1, 2, 3)]
            self.assertEqual(found, expected, comparison)

    def test_what_was_not_measured_is_no_miss(self):
        for lines in ([], ["RESULT players us=nan"], ["RESULT players ms=9"], ["SKIPPED players: no core"]):
            self.assertIsNone(verdict(lines).reached, lines)
        self.assertTrue(verdict(["RESULT players us=nan", "RESULT players us=2"]).reached)

    def test_nonsense_in_the_file_is_an_error_that_names_the_entry(self):
        wrong = [
            {key: value for key, value in ENTRY.items() if key != "value"},
            {**ENTRY, "mach": {}},
            {**ENTRY, "comparison": "~"},
        ]
        for entry in wrong:
            with self.assertRaisesRegex(ValueError, "goal 7: "):
                _goals.goal(7, entry)


class File(unittest.TestCase):
    def test_the_goals_name_benchmarks_that_exist_and_no_goal_twice(self):
        goals = _goals.read()
        known = {file.name for file in (SCRIPTS / "bench.d").iterdir()}
        self.assertEqual({goal.bench for goal in goals} - known, set())
        keys = [(goal.result, tuple(goal.match.items()), goal.field) for goal in goals]
        self.assertEqual(len(keys), len(set(keys)))

    def test_their_benchmarks_print_the_lines_and_fields(self):
        for goal in (goal for goal in _goals.read() if not goal.planned):
            text = sources(goal.bench)
            # Some names are put together; their fields are known all the same.
            self.assertTrue(goal.result in text or goal.result.removeprefix(goal.bench) in text, goal)
            for field in (goal.field, *goal.match):
                self.assertRegex(text, rf"\b{field}=|\"{field}\"|'{field}'|^{field}\b", goal)


def sources(bench):
    """Program text of a benchmark: its script, shared parts, and programs that print lines for it."""
    folders = [SCRIPTS / "bench.d", SCRIPTS.parent / f"libs/{bench}/bench/src", SCRIPTS.parent / "crates/srtp/compare/src"]
    files = [folders[0] / bench, *folders[0].glob("_*.py")]
    files += [file for folder in folders[1:] for file in folder.rglob("*.rs")]
    crates = [f"crates/*/{kind}/{bench}{file}.rs" for kind in ("benches", "examples") for file in ("", "/*")]
    files += [file for pattern in crates for file in SCRIPTS.parent.glob(pattern)]
    return "\n".join(file.read_text() for file in files)


class Command(unittest.TestCase):
    def check(self, *words, stdin=""):
        command = [str(SCRIPTS / "bench"), "check", *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)

    def test_lines_come_from_files_or_standard_input(self):
        line = "RESULT rtc-players server=millstream net=lo backend=gso profile=gcm n=400 vs_floor={}\n"
        good = self.check(stdin=line.format("1.10"))
        self.assertEqual(good.returncode, 0, good.stderr)
        self.assertIn("1 reached, 0 missed", good.stdout)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "log")
            file.write_text(line.format("1.30"))
            bad = self.check(str(file))
            both = self.check(str(file), "-", stdin=line.format("1.10"))
        self.assertEqual((bad.returncode, both.returncode), (1, 1))
        self.assertRegex(bad.stdout, r"MISSED +rtc-players +vs_floor <= 1.2 +1.3 ")
        self.assertRegex(both.stdout, r"MISSED +rtc-players +vs_floor <= 1.2 +1.1 to 1.3 ")

    def test_nothing_measured_is_no_success(self):
        for lines in ("", "SKIPPED rtc-players\n", "RESULT rtc-players server=millstream n=400 vs_floor=nan\n"):
            done = self.check(stdin=lines)
            self.assertEqual(done.returncode, 1, lines)
            self.assertIn("no goal was measured", done.stdout)

    def test_options_without_a_benchmark_are_refused(self):
        self.assertNotEqual(self.check("--quick").returncode, 0)


if __name__ == "__main__":
    unittest.main()
