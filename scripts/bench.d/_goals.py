"""Whether the RESULT lines of benchmarks reach the goals of docs/benchmarks/goals.toml.

A goal is about every line with the name of its `result` (by default the same as its `bench`) whose fields match `match`:
the same text, or `<=`, `>=`, `<`, `>` and a number, or alternatives joined by `|`; an empty one is for lines without the
field. `field` of each has to be in the relation `comparison` to `value`; with `any = true`, that of one line. Values that
were not measured (`nan`) do not count. `planned = true`: no benchmark prints such lines yet.
"""

import operator
import pathlib
import re
import tomllib
from dataclasses import dataclass

FILE = pathlib.Path(__file__).resolve().parents[2] / "docs/benchmarks/goals.toml"
COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq}
KEYS = {"bench", "result", "match", "field", "comparison", "value", "any", "planned", "what"}


@dataclass(frozen=True)
class Goal:
    """An entry of the file."""

    bench: str
    result: str
    match: dict
    field: str
    comparison: str
    value: float
    any: bool
    planned: bool
    what: str

    def wanted(self):
        return f"{self.field} {self.comparison} {self.value:g}"

    def is_about(self, result):
        return result.name == self.result and all(matches(result.fields.get(key), text) for key, text in self.match.items())

    def reached(self, value):
        return COMPARISONS[self.comparison](value, self.value)


@dataclass(frozen=True)
class Result:
    """A RESULT line."""

    name: str
    fields: dict

    def number(self, field):
        """The value of a field; None if it is none, or was not measured."""
        value = as_number(self.fields.get(field))
        return None if value is None or value != value else value


@dataclass(frozen=True)
class Verdict:
    """A goal and what was measured; `reached` is None if nothing was."""

    goal: Goal
    values: list
    reached: bool | None

    def text(self):
        word = {True: "reached", False: "MISSED", None: "not measured"}[self.reached]
        return f"{word:12} {self.goal.bench:16} {self.goal.wanted():28} {self.measured():20} {self.goal.what}"

    def measured(self):
        if not self.values:
            return "-"
        least, most = min(self.values), max(self.values)
        return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def read(file=FILE):
    """The goals of a file. Raises ValueError with the number of an entry that makes no sense."""
    entries = tomllib.loads(pathlib.Path(file).read_text()).get("goal", [])
    return [goal(number, entry) for number, entry in enumerate(entries, 1)]


def goal(number, entry):
    missing = {"bench", "field", "comparison", "value", "what"} - set(entry)
    unknown = set(entry) - KEYS
    if missing or unknown:
        raise ValueError(f"goal {number}: " + "; ".join(
            f"{word} {', '.join(sorted(keys))}" for word, keys in (("without", missing), ("unknown", unknown)) if keys))
    if entry["comparison"] not in COMPARISONS:
        raise ValueError(f"goal {number}: no comparison {entry['comparison']}")
    match = {key: str(text) for key, text in entry.get("match", {}).items()}
    return Goal(entry["bench"], entry.get("result", entry["bench"]), match, entry["field"], entry["comparison"],
                float(entry["value"]), entry.get("any", False), entry.get("planned", False), entry["what"])


def results(lines):
    """The RESULT lines among all that a benchmark printed."""
    for line in lines:
        found = re.match(r"RESULT (\S+)((?: \S+=\S*)*)\s*$", line)
        if found:
            yield Result(found[1], dict(field.split("=", 1) for field in found[2].split()))


def check(goals, lines):
    """A verdict for each goal."""
    found = list(results(lines))
    for goal in goals:
        numbers = [result.number(goal.field) for result in found if goal.is_about(result)]
        values = [value for value in numbers if value is not None]
        reached = (any if goal.any else all)(map(goal.reached, values)) if values else None
        yield Verdict(goal, values, reached)


def matches(text, pattern):
    """Whether a field of a line fits a pattern of a goal."""
    if text is None:
        return "" in pattern.split("|")
    for one in pattern.split("|"):
        relation = re.match(r"(<=|>=|<|>)(.*)$", one)
        if relation:
            number, limit = as_number(text), as_number(relation[2])
            if number is not None and limit is not None and COMPARISONS[relation[1]](number, limit):
                return True
        elif text == one:
            return True
    return False


def as_number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None
