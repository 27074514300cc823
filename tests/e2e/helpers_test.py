#!/usr/bin/env python3
"""The helpers and scripts themselves, against a stand-in for the binary: each can fail."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import server

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FAKE = HERE / "fake_kvgate.py"


class HelpersTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kvgate-helpers-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        patch = mock.patch.dict(os.environ, {"KVGATE_BIN": str(FAKE)})
        patch.start()
        self.addCleanup(patch.stop)

    def serve(self):
        running = server.Server(self.folder / "model.gguf", self.folder / "data")
        self.addCleanup(running.__exit__)
        return running.start()

    def test_a_stream_and_a_whole_reply_read_the_same(self):
        running = self.serve()
        whole = running.complete("x")
        streamed = running.complete("x", stream=True)
        self.assertEqual(whole.answer, streamed.answer)
        self.assertEqual(streamed.text, "ab")
        self.assertTrue(streamed.done)
        self.assertEqual(streamed.usage["prompt_tokens"], 70)
        self.assertGreater(streamed.ttft_ms, 40)
        self.assertEqual((whole.cached_tokens, streamed.tier("device")), (0, 64))

    def test_an_error_reply_is_read_and_not_raised(self):
        reply = self.serve().complete("bad")
        self.assertEqual((reply.status, reply.error["param"]), (400, "prompt"))

    def test_kill_and_restart_keep_the_data_directory(self):
        running = self.serve()
        cold = running.complete("x")
        running.wait_on_disk()
        running.kill()
        running.restart()
        disk = running.complete("x")
        self.assertEqual(disk.tier("disk"), 64)
        self.assertEqual(disk.answer, cold.answer)

    def test_waiting_for_what_never_comes_says_what_it_waited_for(self):
        with self.assertRaisesRegex(server.ServerError, "all KV on disk"):
            self.serve().wait_on_disk(timeout=0.1)  # nothing was computed, so nothing is stored

    def test_a_binary_that_does_not_start_is_an_error_with_its_log(self):
        with mock.patch.dict(os.environ, {"KVGATE_BIN": "/bin/false"}):
            with self.assertRaisesRegex(server.ServerError, "did not listen"):
                self.serve()

    def test_a_model_is_made_once_for_each_shape(self):
        path = server.make_model(self.folder / "m.gguf", arch="llama", layers=2)
        path.write_text("kept")
        self.assertEqual(server.make_model(path, arch="llama", layers=2).read_text(), "kept")
        self.assertEqual(server.make_model(path, arch="llama", layers=3).read_text(), "GGUF")

    def run_script(self, fault=""):
        environment = {**os.environ, "KVGATE_FAKE_FAULT": fault}
        return subprocess.run([ROOT / "scripts/run", "--port", "0", "--data-dir", self.folder],
                              env=environment, capture_output=True, text=True, timeout=60)

    def stop_left_running(self):
        pid_file = self.folder / "kvgate.pid"
        if pid_file.exists():
            os.kill(int(pid_file.read_text()), 9)

    def test_scripts_run_shows_the_tiers_leaves_a_server_and_replaces_it_next_time(self):
        self.addCleanup(self.stop_left_running)
        first = self.run_script()
        self.assertEqual(first.returncode, 0, first.stderr + first.stdout)
        pid = (self.folder / "kvgate.pid").read_text()
        os.kill(int(pid), 0)
        self.assertIn("curl -s http://127.0.0.1:", first.stdout)
        self.assertIn(f"kill {pid}", first.stdout)
        second = self.run_script()
        self.assertEqual(second.returncode, 0, second.stderr + second.stdout)
        self.assertIn(f"process {pid}", second.stdout)
        self.assertNotEqual((self.folder / "kvgate.pid").read_text(), pid)

    def test_scripts_run_fails_when_answers_differ_or_nothing_was_cached(self):
        self.addCleanup(self.stop_left_running)
        differ = self.run_script("answers")
        self.assertEqual(differ.returncode, 1)
        self.assertIn("the answer from disk differs", differ.stderr)
        missed = self.run_script("no-cache")
        self.assertEqual(missed.returncode, 1)
        self.assertIn("found nothing in memory", missed.stderr)
        self.assertIn("nothing came from disk", missed.stderr)


class SetupTest(unittest.TestCase):
    """scripts/lib/setup.sh with apt and dpkg replaced by recorders."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kvgate-setup-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for tool in ("bash", "grep", "cat", "env"):
            os.symlink(shutil.which(tool), self.folder / tool)

    def tool(self, name, body):
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def setup(self):
        return subprocess.run(
            [self.folder / "bash", "-c", "set -euo pipefail; source scripts/lib/setup.sh; "
             "kvgate_setup; echo done"],
            cwd=ROOT, env={"PATH": str(self.folder), "CALLS": str(self.folder / "calls")},
            capture_output=True, text=True)

    def calls(self):
        path = self.folder / "calls"
        return path.read_text() if path.exists() else ""

    def test_nothing_is_called_when_all_is_installed(self):
        self.tool("apt-get", 'echo "$@" >>"$CALLS"')
        self.tool("dpkg-query", "echo 'ii '")
        made = self.setup()
        self.assertEqual((made.returncode, made.stdout), (0, "done\n"), made.stderr)
        self.assertEqual(self.calls(), "")

    def test_only_what_is_missing_is_installed_and_named(self):
        self.tool("apt-get", 'echo "$@" >>"$CALLS"')
        self.tool("dpkg-query", 'case "$*" in *libhwy-dev|*ccache) exit 1;; *) echo "ii ";; esac')
        self.tool("id", "echo 0")
        made = self.setup()
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("installing with apt: ccache libhwy-dev", made.stderr)
        self.assertEqual(self.calls().splitlines(), [
            "update -q", "install -y -q --no-install-recommends ccache libhwy-dev"])

    def test_a_user_without_sudo_is_told_what_is_missing(self):
        self.tool("apt-get", 'echo "$@" >>"$CALLS"')
        self.tool("dpkg-query", "exit 1")
        self.tool("id", "echo 1000")
        made = self.setup()
        self.assertEqual(made.returncode, 1)
        self.assertIn("missing packages: g++ cmake", made.stderr)
        self.assertEqual(self.calls(), "")

    def test_another_system_gets_the_list_and_the_two_commands(self):
        made = self.setup()
        self.assertEqual(made.returncode, 1)
        self.assertIn("librocksdb-dev", made.stderr)
        self.assertIn("cmake --preset release", made.stderr)


JUNIT = """<testsuite>
<testcase name="A.Passes" time="1" status="run"><system-out>ok</system-out></testcase>
<testcase name="A.Skips" time="0" status="notrun"><skipped message=""/>
<system-out>x_test.cc:7: Skipped
no reference data

[  SKIPPED ] A.Skips</system-out></testcase>
<testcase name="e2e_disk" time="2" status="run"><system-out>
test_full (__main__.DiskTest.test_full)
A doc line ... skipped 'needs root'
test_other (__main__.DiskTest.test_other) ... skipped 'no tmpfs'
</system-out></testcase>
%s</testsuite>"""
FAILURE = '<testcase name="B.Fails" time="1" status="fail"><failure message=""/></testcase>'


BUDGETS = """# A comment that stays.
[reference]
calibration_seconds = 2.0
headroom = 1.5
machine_factor_max = 4.0
[default]
unit = 2
e2e = 8
timing = 4
[runs]
dev = 1.0
tsan = 10.0

[tests]
%s"""
LONG = '"Long.Sweep" = { seconds = 20, full = 90, why = "it \\"sweeps\\"" }\n'


def timed(**seconds):
    """A JUnit file of tests that passed in so many seconds; __ in a name stands for a dot."""
    cases = "".join(f'<testcase name="{name.replace("__", ".")}" time="{time}" status="run"/>'
                    for name, time in seconds.items())
    return f"<testsuite>{cases}</testsuite>"


class SummaryTest(unittest.TestCase):
    def summary(self, junit, *arguments, run="dev", lines=""):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.budgets = Path(self.folder.name, "budgets.toml")
        self.budgets.write_text(BUDGETS % lines)
        if junit:
            Path(self.folder.name, f"{run}.xml").write_text(junit)
        return subprocess.run([sys.executable, ROOT / "scripts/lib/summary.py", "--budgets",
                               self.budgets, *arguments, self.folder.name],
                              capture_output=True, text=True)

    def judge(self, *arguments, run="dev", lines="", **seconds):
        made = self.summary(timed(**seconds), *arguments, run=run, lines=lines)
        self.assertEqual(made.stderr, "")
        return made

    def test_skips_are_named_with_their_reasons(self):
        made = self.summary(JUNIT % "")
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        for line in ("A.Skips: no reference data", "test_full: needs root", "test_other: no tmpfs"):
            self.assertIn(line, made.stdout)

    def test_a_failure_or_an_empty_run_fails(self):
        made = self.summary(JUNIT % FAILURE)
        self.assertEqual(made.returncode, 1)
        self.assertIn("dev: B.Fails", made.stdout)
        self.assertEqual(self.summary("").returncode, 1)
        self.assertEqual(self.summary(JUNIT % "", "--failed", "1").returncode, 1)

    def test_each_kind_of_test_has_a_budget_and_fails_above_it(self):
        within = {"A__Quick": 2.9, "e2e_disk": 11.9, "SplitTimingTest__A": 5.9,
                  "All__SplitTimingTest__A": 2.9}
        self.assertEqual(self.judge(**within).returncode, 0)
        for name, seconds in (("A__Quick", 3.1), ("e2e_disk", 12.1), ("SplitTimingTest__A", 6.1)):
            made = self.judge(**{**within, name: seconds})
            self.assertEqual(made.returncode, 1, name)
            self.assertIn(f"{name.replace('__', '.')} took {seconds} s, its limit is", made.stdout)

    def test_a_slow_machine_and_a_slow_build_have_longer_budgets_up_to_a_bound(self):
        for allowed, refused, calibration, run in ((8.9, 9.1, 6, "dev"), (2.9, 3.1, 0.5, "dev"),
                                                   (11.9, 12.1, 600, "dev"),
                                                   (29, 31, 2, "tsan"), (999, None, 2, "other")):
            judged = self.judge(run=run, A__Quick=allowed, calibration=calibration)
            self.assertEqual(judged.returncode, 0, (allowed, judged.stdout))
            if refused is not None:
                judged = self.judge(run=run, A__Quick=refused, calibration=calibration)
                self.assertEqual(judged.returncode, 1, (refused, judged.stdout))

    def test_a_line_of_the_table_gives_a_test_more_time_and_more_for_its_long_form(self):
        self.assertEqual(self.judge(lines=LONG, Long__Sweep=29.9).returncode, 0)
        self.assertEqual(self.judge(lines=LONG, Long__Sweep=30.1).returncode, 1)
        self.assertEqual(self.judge("--full", "1", lines=LONG, Long__Sweep=134).returncode, 0)

    def test_a_line_that_is_not_needed_or_has_no_reason_is_a_failure(self):
        for line, what in (('"A.B" = { seconds = 9, why = "" }', "A.B has no reason"),
                           ('"C.D" = { seconds = 9, why = "it is slow" }', "C.D is no test"),
                           ('"A.B" = { seconds = 2, why = "slow" }', "no more than the default")):
            made = self.judge(lines=line, A__B=1)
            self.assertEqual(made.returncode, 1, line)
            self.assertIn(what, made.stdout)

    def test_the_slowest_tests_are_named_with_their_limits(self):
        stdout = self.judge(**{f"A__Test{number}": 0.1 * number for number in range(20)}).stdout
        self.assertIn("1.9 s of 3 s", stdout)
        self.assertIn("dev: A.Test10", stdout)
        self.assertNotIn("dev: A.Test9\n", stdout)

    def test_the_table_is_written_from_what_was_measured_and_reasons_are_kept(self):
        self.judge("--write-budgets", lines=LONG + '"Gone" = { seconds = 9, why = "x" }\n',
                   Long__Sweep=51, A__Slow=7, A__Quick=5, calibration=6)
        self.assertEqual(self.budgets.read_text(), BUDGETS % (
            '"A.Slow" = { seconds = 3, why = "" }\n' + LONG.replace("20", "17")))
        self.judge("--write-budgets", "--full", "1", lines=LONG, Long__Sweep=60, A__Slow=3)
        self.assertEqual(self.budgets.read_text(), BUDGETS % (
            '"A.Slow" = { seconds = 2, full = 3, why = "" }\n' + LONG.replace("90", "60")))

    def test_a_test_over_its_budget_runs_once_more_and_is_judged_by_that(self):
        slow = "On/A.B/c"
        for alone, status, code in ((2.9, "run", 0), (3.1, "run", 1), (1, "fail", 1)):
            self.judge(**{slow + "  # GetParam() = x+y": 9, "A__Quick": 1}, calibration=2)
            listed = subprocess.run(
                [sys.executable, ROOT / "scripts/lib/summary.py", "--over-budget", "--budgets",
                 self.budgets, self.folder.name], capture_output=True, text=True, check=True)
            run, _, tests = listed.stdout.rstrip("\n").partition("\t")
            self.assertEqual(run, "dev")
            self.assertEqual(tests, r"^(calibration|On/A\.B/c)( |$)")
            again = Path(self.folder.name, "again", "dev.xml")
            again.parent.mkdir()
            again.write_text(timed(**{slow: alone}).replace('"run"', f'"{status}"'))
            judged = subprocess.run(
                [sys.executable, ROOT / "scripts/lib/summary.py", "--budgets", self.budgets,
                 self.folder.name], capture_output=True, text=True)
            self.assertEqual(judged.returncode, code, judged.stdout)
            self.assertIn(f"9.0 s, alone {float(alone)} s", judged.stdout)

    def test_many_tests_over_their_budgets_are_no_neighbours_fault(self):
        many = {f"A__Test{number}": 9 for number in range(11)}
        self.assertEqual(self.judge("--over-budget", **many).stdout, "")
        self.assertEqual(self.judge(**many).returncode, 1)

    def test_the_committed_table_has_all_that_is_read_and_a_reason_for_each_line(self):
        made = self.summary(timed(A__Quick=1), "--budgets", ROOT / "tests/budgets.toml", run="asan")
        self.assertEqual((made.returncode, made.stderr), (0, ""), made.stdout)


if __name__ == "__main__":
    unittest.main()
