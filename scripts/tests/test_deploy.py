"""What deploy/ names exists: metrics and labels of rules and dashboard; a section and a test per alert."""

import json
import pathlib
import re
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
METRIC = re.compile(r"\b((?:millstream|process)_[a-z0-9_]+)\b(?:\{([^}]*)\})?")
# What Prometheus adds to each series of a scrape.
OF_THE_SCRAPE = {"job", "instance"}


def alerts():
    return re.findall(r"^ +- alert: (\w+)$", (DEPLOY / "prometheus/alerts.yml").read_text(), re.M)


def expressions():
    """The rules' file as a whole, and each query of the dashboard."""
    rules = (DEPLOY / "prometheus/alerts.yml").read_text()
    yield from (line for line in rules.splitlines() if not line.lstrip().startswith("#"))
    dashboard = json.loads((DEPLOY / "grafana/millstream.json").read_text())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", []))
    yield from (entry["expr"] for entry in dashboard["annotations"]["list"] if "expr" in entry)
    yield from (variable.get("definition", "") for variable in dashboard["templating"]["list"])


def in_source(name, source):
    """Whether the server has a metric; in the source, names lack what OpenMetrics appends."""
    names = [name] + [name.removesuffix(suffix) for suffix in ("_total", "_info") if name.endswith(suffix)]
    return any(f'"{each}"' in source for each in names)


def labels_of(page):
    """Labels by metric, of docs/reference/metrics.md, which the server's own test keeps."""
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", page, re.M)
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}


class Deploy(unittest.TestCase):
    def test_metrics_of_rules_and_dashboard_are_in_the_source(self):
        source = "".join(path.read_text() for path in (ROOT / "crates/control/src").rglob("*.rs"))
        used = {name for text in expressions() for name, _ in METRIC.findall(text)}
        self.assertGreater(len(used), 60)
        self.assertEqual([], sorted(name for name in used if not in_source(name, source)))
        self.assertFalse(in_source("millstream_players_total_of_none", source))

    def test_their_labels_are_those_of_the_metric(self):
        known = labels_of((ROOT / "docs/reference/metrics.md").read_text())
        for text in expressions():
            for name, matchers in METRIC.findall(text):
                asked = set(re.findall(r"(\w+) *(?:=~|!~|!=|=)", matchers))
                self.assertLessEqual(asked - OF_THE_SCRAPE, known.get(name, set()), f"{name} in {text}")

    def test_each_alert_has_a_section_and_a_test(self):
        page = (ROOT / "docs/operations.md").read_text()
        sections = re.findall(r"^### (Millstream\w+)$", page, re.M)
        tested = re.findall(r'alertname="(\w+)"', (DEPLOY / "prometheus/alerts_test.yml").read_text())
        self.assertGreater(len(alerts()), 20)
        self.assertEqual(alerts(), sections, "in the order of the rules")
        self.assertEqual(sorted(alerts()), sorted(tested))

    def test_the_package_has_what_its_unit_needs(self):
        manifest = tomllib.loads((ROOT / "crates/millstream/Cargo.toml").read_text())
        deb = manifest["package"]["metadata"]["deb"]
        installed = {}
        for source, target, _ in deb["assets"]:
            name = pathlib.PurePath(source).name
            installed[f"/{target}{name}" if target.endswith("/") else f"/{target}"] = source
            # What the build makes is not there yet.
            if not source.startswith("target/"):
                self.assertTrue(list((ROOT / "crates/millstream").glob(source)), source)
        unit = (DEPLOY / "systemd/millstream.service").read_text()
        program, config = re.search(r"^ExecStart=(\S+) --config (\S+)$", unit, re.M).groups()
        self.assertIn(program, installed)
        self.assertIn(config, installed)
        self.assertEqual([config], deb["conf-files"])
        user = re.search(r"^User=(\S+)$", unit, re.M).group(1)
        users = (DEPLOY / "sysusers.d/millstream.conf").read_text()
        self.assertRegex(users, rf"(?m)^u {user} ")
        # Directories that the configuration suggests are those that the unit may write to.
        configuration = (DEPLOY / "debian/millstream.toml").read_text()
        suggested = re.findall(r'^#directory = "([^"]+)"$', configuration, re.M)
        self.assertEqual(2, len(suggested))
        for path, key in zip(suggested, ("StateDirectory", "CacheDirectory")):
            root = {"StateDirectory": "/var/lib", "CacheDirectory": "/var/cache"}[key]
            name = re.search(rf"^{key}=(\S+)$", unit, re.M).group(1)
            self.assertTrue(path.startswith(f"{root}/{name}/"), path)

    def test_the_chart_sets_keys_that_there_are(self):
        known = set(re.findall(r"`(MILLSTREAM_[A-Z_]+)`", (ROOT / "docs/configuration.md").read_text()))
        template = (DEPLOY / "helm/millstream/templates/deployment.yaml").read_text()
        used = set(re.findall(r"- name: (MILLSTREAM_[A-Z_]+)", template))
        self.assertGreater(len(used), 10)
        self.assertLessEqual(used, known | {"MILLSTREAM_TOP_URL", "MILLSTREAM_TOP_TOKEN"})

    def test_panels_have_numbers_and_places_of_their_own(self):
        panels = json.loads((DEPLOY / "grafana/millstream.json").read_text())["panels"]
        self.assertEqual(len(panels), len({panel["id"] for panel in panels}))
        cells = [
            (x, y)
            for place in (panel["gridPos"] for panel in panels)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        self.assertEqual(len(cells), len(set(cells)), "panels lie on each other")
        self.assertTrue(all(x < 24 for x, _ in cells))


if __name__ == "__main__":
    unittest.main()
