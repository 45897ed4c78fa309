"""What ARCHITECTURE.md and the lists of the walks promise, and what `scripts/house` counts and must stay so."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]

WORDS_MAX = 3500
PAGES = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/reference/extending.md"]


def files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [file for file in listed.splitlines() if (ROOT / file).is_file()]


def quoted(page):
    """What a page has between backticks, but for its blocks of code."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    return {" ".join(term.split()) for term in re.findall(r"`([^`]+)`", text)}


def unknown(terms, files, names):
    """Terms that look like a file, a path of names or a function, and are none of ours."""
    for term in terms:
        if re.fullmatch(r"[\w/.-]+\.(rs|md|ts|tsx|mjs|toml)", term):
            known = any(f"/{file}".endswith(f"/{term}") for file in files)
        elif re.fullmatch(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)+|[a-z]\w*_\w+", term):
            known = all(name in names or any(f"/{name}/" in file for file in files) for name in term.split("::"))
        else:
            continue
        if not known:
            yield term


class Pages(unittest.TestCase):
    def test_the_architecture_fits_into_an_hour(self):
        words = len((ROOT / "ARCHITECTURE.md").read_text().split())
        self.assertLessEqual(words, WORDS_MAX)

    def test_files_and_names_in_the_pages_exist(self):
        known = files()
        names = set()
        for file in known:
            if file.endswith(".rs"):
                names.update(re.findall(r"[A-Za-z_]\w*", (ROOT / file).read_text()))
        for page in PAGES:
            self.assertEqual(sorted(unknown(quoted(page), known, names)), [], page)

    def test_a_name_that_is_gone_is_found(self):
        terms = {"serve.rs", "gone.rs", "Frames::serve", "Frames::gone", "some_function", "a word"}
        found = unknown(terms, ["crates/worker/src/frames/serve.rs"], {"Frames", "serve", "some_function"})
        self.assertEqual(sorted(found), ["Frames::gone", "gone.rs"])


class Counts(unittest.TestCase):
    def test_no_circle_of_imports_and_lists_that_name_what_there_is(self):
        # It fails where a list of a walk names a function that is not in its file.
        counted = subprocess.run([ROOT / "scripts/house", "--json"], capture_output=True, text=True, timeout=120)
        self.assertEqual(counted.returncode, 0, counted.stderr)
        house = json.loads(counted.stdout)["house"]
        self.assertEqual(house["circles"], 0)
        self.assertEqual(set(house["walks"]), {"whip-whep", "rtmp-flv", "rtmp-whep"})


if __name__ == "__main__":
    unittest.main()
