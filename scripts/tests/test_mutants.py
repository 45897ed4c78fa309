"""Planted bugs (crates/sim/mutants) fit the code that they are planted in."""

import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Mutants(unittest.TestCase):
    def test_every_patch_applies(self):
        patches = sorted(ROOT.glob("crates/sim/mutants/*.patch"))
        self.assertGreaterEqual(len(patches), 25)
        for patch in patches:
            with self.subTest(patch=patch.name):
                done = subprocess.run(
                    ["git", "apply", "--check", str(patch)], cwd=ROOT, stderr=subprocess.PIPE, text=True
                )
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
