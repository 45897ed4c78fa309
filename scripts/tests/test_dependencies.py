"""Every dependency that a crate names is used in its sources."""

import pathlib
import re
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDED = re.compile(r'^ *#\[path = "([^"]+\.rs)"\]', re.MULTILINE)


def crates():
    for manifest in sorted([*ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("libs/*/Cargo.toml")]):
        yield manifest.parent, tomllib.loads(manifest.read_text())


def dependencies(manifest):
    """Names of the dependencies as sources have them, for each part of a manifest."""
    parts = [manifest, *manifest.get("target", {}).values()]
    for part in parts:
        for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
            for name in part.get(kind, {}):
                yield kind, name


class Dependencies(unittest.TestCase):
    def test_every_dependency_is_used(self):
        for folder, manifest in crates():
            # One package can have the sources of another.
            library = manifest.get("lib", {}).get("path", "src/lib.rs")
            folders = {folder, (folder / library).resolve().parents[1]}
            files = {file for folder in folders for file in folder.rglob("*.rs")}
            # Checks of the fuzz targets are a module of the tests as well.
            files |= {(file.parent / path).resolve() for file in files for path in INCLUDED.findall(file.read_text())}
            text = "\n".join(file.read_text() for file in files)
            for kind, name in dependencies(manifest):
                with self.subTest(crate=folder.name, dependency=name, kind=kind):
                    self.assertRegex(text, rf"\b{re.escape(name.replace('-', '_'))}\b")


if __name__ == "__main__":
    unittest.main()
