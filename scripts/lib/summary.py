"""One screen about a test run, from ctest's JUnit files: counts, failures with what they said, what
was skipped, the slowest tests, and those that took longer than tests/budgets.toml allows.

A test that took too long may have had a busy neighbour, so scripts/test runs it once more with
nothing beside it (--over-budget says which), and that time is what counts: RESULTS/again/NAME.xml.

Exits 1 when a test failed, took too long, or a step before did (--failed 1), and when nothing ran.
"""

import argparse
import math
import re
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

BUDGETS = Path(__file__).resolve().parent.parent.parent / "tests/budgets.toml"
LINES_MAX = 30
SLOWEST = 10
SAID_TESTS_MAX = 6  # of these failed tests the output is shown, for a reader who has no logs
SAID_LINES_MAX = 30
CALIBRATION = "calibration"  # a ctest that is the same work on every machine
AGAIN_MAX = 10  # more tests than this over their budgets are no neighbour's fault
# "name (class.name) ... skipped" with the first line of a docstring between, where there is one.
UNITTEST_SKIP = re.compile(
    r"^(\w+) \((\S+)\)(?: \.\.\. |\n[^\n]* \.\.\. )skipped ['\"](.*)['\"]$", re.MULTILINE)
# ctest's names of parameterised tests go on with the parameter, which may be bytes in memory.
PARAMETER = re.compile(r"\s+# GetParam\(\) = .*", re.DOTALL)
# Where a failure begins in what gtest and unittest print.
FAILURE = re.compile(r"^(?:\S+:\d+: Failure$|(?:FAIL|ERROR): )", re.MULTILINE)
GTEST_SKIP = re.compile(r"^\S+:\d+: Skipped\n(.*)$", re.MULTILINE)


class Run:
    """One JUnit file: the names of what passed, failed and was skipped, with reasons and times."""

    def __init__(self, path):
        self.name = path.stem
        self.passed, self.failed, self.skipped = [], [], []
        self.said = {}  # of each failed test, its output
        self.seconds_of = {}
        root = ElementTree.parse(path).getroot()
        for case in root.iter("testcase"):
            self.add(case)
        self.seconds = sum(self.seconds_of.values())
        again = path.parent / "again" / path.name
        self.again = Run(again) if again.exists() else None

    def add(self, case):
        name, status = PARAMETER.sub("", case.get("name")), case.get("status")
        self.seconds_of[name] = float(case.get("time", 0))
        output = case.findtext("system-out") or ""
        if status == "run":
            self.passed.append(name)
        elif status in ("notrun", "disabled") or case.find("skipped") is not None:
            reason = GTEST_SKIP.search(output)
            self.skipped.append((name, reason.group(1) if reason else status))
        else:
            self.failed.append(name)
            self.said[name] = output
        # A Python test program is one ctest; what it skipped inside stands in its output.
        for test, where, reason in UNITTEST_SKIP.findall(output):
            self.skipped.append((f"{name}: {where if test == 'setUpClass' else test}", reason))


class Budgets:
    """tests/budgets.toml, which says what each number means."""

    def __init__(self, path, is_full):
        self.path = path
        table = tomllib.loads(path.read_text())
        self.reference, self.default = table["reference"], table["default"]
        self.factors, self.tests = table["runs"], table["tests"]
        self.is_full = is_full

    def default_of(self, name):
        if name.startswith("e2e_"):
            return self.default["e2e"]
        suite = name.split(".")[0].split("/")
        is_timing = any(part.endswith("TimingTest") for part in suite)
        return self.default["timing" if is_timing else "unit"]

    def factor(self, run):
        """How many times longer than on the reference a test of this run may take."""
        took = run.seconds_of.get(CALIBRATION, 0) / self.reference["calibration_seconds"]
        machine = min(max(took, 1.0), self.reference["machine_factor_max"])
        return machine * self.factors[run.name]

    def limit(self, run, name):
        """The seconds after which a test fails the run; None where the run has no budget."""
        if run.name not in self.factors or name == CALIBRATION:
            return None
        line = self.tests.get(name, {"seconds": self.default_of(name)})
        seconds = line["seconds"]
        if self.is_full and run.name in ("dev", "release-e2e"):  # others run no long forms
            seconds = line.get("full", seconds)
        return seconds * self.reference["headroom"] * self.factor(run)

    def exceeded(self, runs):
        """(run, test, seconds, limit) of what took too long, alone if it ran once more."""
        for run in runs:
            for name in run.seconds_of:
                judged = run.again if run.again and name in run.again.seconds_of else run
                limit = self.limit(judged, name)
                if limit is not None and judged.seconds_of[name] > limit:
                    yield run, name, judged.seconds_of[name], limit

    def unneeded(self, runs):
        """Lines that have no reason, and after a run of all tests those that name none of them."""
        names = {name for run in runs for name in run.seconds_of}
        for name, line in self.tests.items():
            if not line.get("why"):
                yield f"{self.path.name}: {name} has no reason"
            if name not in names and any(run.name == "dev" for run in runs):
                yield f"{self.path.name}: {name} is no test"
            if max(line["seconds"], line.get("full", 0)) <= self.default_of(name):
                yield f"{self.path.name}: {name} needs no more than the default"

    def measured(self, runs):
        """Per test the longest time of all runs, as the reference would have taken."""
        found = {}
        for run in runs:
            if run.name in self.factors:
                for name, seconds in run.seconds_of.items():
                    found[name] = max(found.get(name, 0), seconds / self.factor(run))
        found.pop(CALIBRATION, None)
        return found

    def write(self, runs):
        """Writes [tests] anew: what takes longer than the default, with the reasons there were."""
        lines = []
        for name, seconds in sorted(self.measured(runs).items()):
            old = self.tests.get(name, {})
            full = old.get("full")
            if self.is_full:
                seconds, full = old.get("seconds", self.default_of(name)), math.ceil(seconds)
            if max(seconds, full or 0) <= self.default_of(name):
                continue
            why = old.get("why", "").replace("\\", "\\\\").replace('"', '\\"')
            long_form = f"full = {full}, " if full else ""
            lines.append(f'"{name}" = {{ seconds = {math.ceil(seconds)}, {long_form}'
                         f'why = "{why}" }}\n')
        above, _, _ = self.path.read_text().partition("\n[tests]\n")
        self.path.write_text(f"{above}\n[tests]\n{''.join(lines)}")
        print(f"{self.path}: {len(lines)} lines; give a reason to each that has none")


def screen(lines, title):
    if lines:
        print(f"\n{title}:")
        for line in lines[:LINES_MAX]:
            print(f"  {line}")
        if len(lines) > LINES_MAX:
            print(f"  and {len(lines) - LINES_MAX} more")


def failure(output):
    """The lines of a failed test's output that say why: from its first failure, else the last."""
    found = FAILURE.search(output)
    lines = output[found.start() if found else 0:].strip().splitlines()
    if len(lines) <= SAID_LINES_MAX:
        return lines
    return ["..."] * (not found) + (lines[:SAID_LINES_MAX] if found else lines[-SAID_LINES_MAX:])


def run_again(runs, budgets):
    """Prints a line per run: its name and what ctest -R takes for its tests over their budgets."""
    names = {}
    for run, name, _, _ in budgets.exceeded(runs):
        names.setdefault(run.name, [CALIBRATION]).append(re.sub(r"([^\w /=#:-])", r"\\\1", name))
    for run, slow in names.items():
        if len(slow) - 1 <= AGAIN_MAX:
            print(f"{run}\t^({'|'.join(slow)})( |$)")


def slowest(runs, budgets):
    timed = sorted(((seconds, run.name, name, budgets.limit(run, name)) for run in runs
                    for name, seconds in run.seconds_of.items()), reverse=True,
                   key=lambda row: row[0])
    return [f"{seconds:7.1f} s{f' of {limit:.0f} s' if limit else '':<11} {run}: {name}"
            for seconds, run, name, limit in timed[:SLOWEST]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--failed", type=int, default=0)
    parser.add_argument("--full", type=int, default=0, help="1: the tests ran their long forms")
    parser.add_argument("--budgets", type=Path, default=BUDGETS)
    parser.add_argument("--write-budgets", action="store_true",
                        help="writes the table from these results, and judges nothing")
    parser.add_argument("--over-budget", action="store_true",
                        help="prints which tests to run once more, and judges nothing")
    parser.add_argument("results", type=Path)
    options = parser.parse_args()
    runs = [Run(path) for path in sorted(options.results.glob("*.xml"))]
    again = [run.again for run in runs if run.again]
    budgets = Budgets(options.budgets, bool(options.full))
    if options.write_budgets:
        budgets.write(runs)
        return 0
    if options.over_budget:
        run_again(runs, budgets)
        return 0
    print(f"\n{'run':<16}{'passed':>8}{'failed':>8}{'skipped':>9}{'test time':>12}{'factor':>8}")
    for run in runs:
        factor = f"{budgets.factor(run):.1f}" if run.name in budgets.factors else ""
        print(f"{run.name:<16}{len(run.passed):>8}{len(run.failed):>8}{len(run.skipped):>9}"
              f"{run.seconds:>10.0f} s{factor:>8}")
    screen([f"{run.name}: {name}: {reason}" for run in runs for name, reason in run.skipped],
           "skipped")
    screen(slowest(runs, budgets), "slowest, with the limits of tests/budgets.toml")
    screen([f"{run.name}: {name}: {run.seconds_of[name]:.1f} s, alone {seconds:.1f} s"
            for run in runs if run.again for name, seconds in run.again.seconds_of.items()
            if name != CALIBRATION], "run once more, alone")
    slow = [f"{run.name}: {name} took {seconds:.1f} s, its limit is {limit:.1f} s"
            for run, name, seconds, limit in budgets.exceeded(runs)]
    slow += budgets.unneeded(runs)
    screen(slow, "OVER BUDGET (tests/budgets.toml)")
    all_failed = [(run, name) for run in [*runs, *again] for name in run.failed]
    for run, name in all_failed[:SAID_TESTS_MAX]:
        screen(failure(run.said[name]), f"{run.name}: {name} said")
    screen([f"{run.name}: {name} (see {options.results / run.name}.log)"
            for run in [*runs, *again] for name in run.failed], "FAILED")
    failed = (options.failed or not any(run.passed for run in runs) or slow
              or any(run.failed for run in [*runs, *again]))
    print(f"\n{'FAILED' if failed else 'all tests passed'} in {options.seconds // 60} min "
          f"{options.seconds % 60} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
