"""The bill of materials: what is not built is left out, with what refers to it; the console is in it."""

import importlib.machinery
import importlib.util
import pathlib
import unittest

PATH = pathlib.Path(__file__).resolve().parents[1] / "make-sbom"
LOADER = importlib.machinery.SourceFileLoader("make_sbom", str(PATH))
make_sbom = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_sbom", LOADER))
LOADER.exec_module(make_sbom)

TREE = """millstream v0.1.0 (/src/crates/millstream)
rustls v0.23.1
aws-lc-rs v1.19.0
rustls v0.23.1 (*)
serde_derive v1.0.2 (proc-macro)
"""


def part(name, version):
    return {"bom-ref": f"{name}@{version}", "name": name, "version": version}


BOM = {
    "metadata": {"component": {"bom-ref": "millstream"}},
    "components": [
        part("rustls", "0.23.1"),
        part("ring", "0.17.0"),
        part("aws-lc-rs", "1.19.0"),
        part("rustls", "0.21.0"),
    ],
    "dependencies": [
        {"ref": "millstream", "dependsOn": ["rustls@0.23.1"]},
        {"ref": "rustls@0.23.1", "dependsOn": ["ring@0.17.0", "aws-lc-rs@1.19.0"]},
        {"ref": "ring@0.17.0"},
        {"ref": "aws-lc-rs@1.19.0"},
    ],
}


class Bill(unittest.TestCase):
    def test_the_tree_is_read(self):
        built = make_sbom.built(TREE)
        self.assertIn(("serde_derive", "1.0.2"), built)
        self.assertEqual(4, len(built))

    def test_what_is_not_built_is_left_out(self):
        bom = make_sbom.only(BOM, make_sbom.built(TREE))
        refs = [part["bom-ref"] for part in bom["components"]]
        self.assertEqual(["rustls@0.23.1", "aws-lc-rs@1.19.0"], refs)
        self.assertEqual(["aws-lc-rs@1.19.0"], bom["dependencies"][1]["dependsOn"])
        self.assertNotIn("ring", str(bom))

    def test_the_console_belongs_to_the_binary(self):
        preact = part("preact", "11.2.0")
        console = {"components": [preact], "dependencies": [{"ref": "preact@11.2.0"}, {"ref": "console"}]}
        bom = make_sbom.with_console(BOM, console)
        self.assertEqual(["rustls@0.23.1", "preact@11.2.0"], bom["dependencies"][0]["dependsOn"])
        self.assertEqual(["preact@11.2.0"], [edge["ref"] for edge in bom["dependencies"]][-1:])
        self.assertEqual(1, len(BOM["dependencies"][0]["dependsOn"]), "the bill that came in stays as it was")


if __name__ == "__main__":
    unittest.main()
