#!/usr/bin/env python3
"""`kvgate run`: an agent that is a small script under a real agent's name, against the simulated
provider and the local model. What it gets is for it alone; what it used is said at its end.
`kvgate setup` and `kvgate init`: the files that they write."""

import json
import os
import pty
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import server
from case import Case, text_of
from provider_simulator import Simulator

# Asks once for each --ask, as the agent under whose name it runs would; --show writes what it was
# started with; --exit and --wait say how it ends.
AGENT = r'''#!%s
import json, os, pathlib, signal, sys, urllib.request
name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
origin = os.environ.get("ANTHROPIC_BASE_URL") or os.environ.get("OPENAI_BASE_URL", "")
for word in words:
    if word.startswith("openai_base_url="):
        origin = json.loads(word.split("=", 1)[1])
if "--show" in words:
    files = {}
    for word in words:
        if word.endswith("/kvgate.ts"):
            files[word] = [pathlib.Path(word).read_text(), oct(os.stat(word).st_mode & 0o777),
                           oct(os.stat(os.path.dirname(word)).st_mode & 0o777)]
    print(json.dumps({"environment": dict(os.environ), "arguments": words, "files": files}))
for i in range(words.count("--ask")):
    is_claude = name == "claude"
    model = os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-4-5") if is_claude else "gpt-5.5"
    key = os.environ.get("ANTHROPIC_AUTH_TOKEN") or os.environ.get("ANTHROPIC_API_KEY", "sk-test")
    text = os.environ.get("TEXT", "say hello")
    body = {"model": model, "max_tokens": 8, "messages": [{"role": "user", "content": [
        {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "turn %%d" %% i}]}]}
    headers = {"content-type": "application/json", "x-api-key": key,
               "anthropic-version": "2023-06-01"}
    path = "/v1/messages"
    if not is_claude:
        path, body = "/responses", {"model": model, "input": text}
        headers = {"content-type": "application/json", "authorization": "Bearer sk-test"}
    request = urllib.request.Request(origin + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as reply:
        print(json.loads(reply.read())["model"])
if "--wait" in words:
    # Blocked and waited for: one that came just before a sleep would not end it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    print("waiting", flush=True)
    sys.exit(9 if signal.sigtimedwait({signal.SIGTERM}, 60) else 1)
for word in words:
    if word.startswith("--exit="):
        sys.exit(int(word[7:]))
    if word == "--die":
        os.kill(os.getpid(), signal.SIGKILL)
''' % sys.executable


class AgentCase(Case):
    def setUp(self):
        super().setUp()
        self.provider = self.enterContext(Simulator())
        self.home = self.folder / "home"
        programs = self.folder / "bin"
        for folder in (self.home, programs):
            folder.mkdir()
        for name in ("claude", "codex", "pi", "other"):
            (programs / name).write_text(AGENT)
            (programs / name).chmod(0o755)
        self.environment = {"HOME": str(self.home), "PATH": f"{programs}:{os.environ['PATH']}",
                            "ANTHROPIC_API_KEY": "sk-ant-mine", "TMPDIR": str(self.folder)}
        self.config = self.folder / "kvgate.toml"
        self.config.write_text(f'''
[store]
data_dir = "{self.folder / 'data'}"
[[upstream]]
name = "anthropic"
dialect = "anthropic"
base_url = "{self.provider.url}"
models = ["claude-*"]
[[upstream]]
name = "openai"
base_url = "{self.provider.url}/v1"
models = ["gpt-*"]
''')

    def enterContext(self, manager):  # of unittest from Python 3.12 on
        entered = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return entered

    def kvgate(self, *arguments, code=0, **environment):
        made = subprocess.run([server.binary_path(), *map(str, arguments)], capture_output=True,
                              text=True, timeout=120, cwd=self.folder,
                              env={**self.environment, **environment})
        self.assertEqual(made.returncode, code, made.stdout + made.stderr)
        return made

    def run_agent(self, *command, options=(), code=0, **environment):
        return self.kvgate("run", "--config", self.config, *options, "--", *command, code=code,
                           **environment)


class RunTest(AgentCase):
    def test_its_requests_go_through_and_are_summed_up(self):
        text = text_of("agents", 3000)
        made = self.run_agent("claude", "--ask", "--ask", TEXT=text)
        self.assertEqual(made.stdout, "claude-sonnet-4-5\n" * 2)
        keys = [value for request in self.provider.requests for name, value in request.headers
                if name.lower() == "x-api-key"]
        self.assertEqual(keys, ["sk-ant-mine"] * 2)
        self.assertNotIn("sk-ant-mine", made.stderr + (self.folder / "data/run.log").read_text())
        self.assertRegex(made.stderr,
                         r"kvgate: 2 requests, [\d.]+K tokens in \([34]\d\.\d % cached")
        self.assertRegex(made.stderr, r"kvgate: cost \$0\.\d+, without a cache \$0\.\d+")
        self.assertFalse((self.folder / "data/server.json").exists(), "the server is still there")

    def test_another_clients_requests_at_a_running_server_are_not_counted(self):
        running = server.Server(None, self.folder / "data", ["--config", str(self.config)])
        self.addCleanup(running.__exit__)
        running.start()
        body = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "hi"}]}
        self.assert_ok(running.send("/v1/chat/completions", body, {"Authorization": "Bearer x"}))
        made = self.run_agent("codex", "--ask")
        self.assertIn("kvgate: 1 request, ", made.stderr)
        self.assertIn("options of its own", made.stderr)
        self.assertEqual(len(self.provider.requests), 2)
        self.assertIsNone(running.process.poll(), "a server that was found has to go on")
        self.assertEqual(self.run_agent("codex", "--ask", options=["--quiet"]).stderr, "")

    def test_the_exit_status_is_the_agents(self):
        self.run_agent("claude", "--exit=7", code=7)
        self.run_agent("claude", "--die", code=128 + signal.SIGKILL)
        made = self.run_agent("goose", code=127)
        self.assertIn("there is no command goose", made.stderr)
        self.assertIn("no request came through", self.run_agent("claude").stderr)

    def test_a_signal_goes_on_to_the_agent_and_kvgate_waits_for_it(self):
        running = subprocess.Popen(
            [server.binary_path(), "run", "--config", self.config, "--", "claude", "--wait"],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(running.kill)
        self.assertEqual(running.stdout.readline(), "waiting\n")
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
        self.assertEqual(running.returncode, 9)
        self.assertFalse((self.folder / "data/server.json").exists())

    def test_its_terminal_is_the_agents(self):
        parent, child = pty.openpty()
        self.addCleanup(os.close, parent)
        script = self.folder / "bin/other"
        script.write_text("#!/bin/sh\ntest -t 0 && test -t 1 && test -t 2\n")
        made = subprocess.run([server.binary_path(), "run", "-q", "--config", self.config, "--",
                               "other"], env=self.environment, stdin=child, stdout=child,
                              stderr=child, timeout=60)
        os.close(child)
        self.assertEqual(made.returncode, 0)

    def test_each_agent_gets_what_it_needs_and_nothing_is_left(self):
        shown = json.loads(self.run_agent("pi", "--show").stdout)
        (path, (text, mode, folder_mode)), = shown["files"].items()
        self.assertRegex(text, r"registerProvider\('openai', \{baseUrl: 'http://127.0.0.1:\d+/v1'")
        self.assertEqual((mode, folder_mode), ("0o600", "0o700"))
        self.assertFalse(os.path.exists(os.path.dirname(path)))
        self.assertEqual(list(self.home.iterdir()), [])
        shown = json.loads(self.run_agent("other", "--show").stdout)
        self.assertEqual(shown["arguments"], ["--show"])
        self.assertRegex(shown["environment"]["OPENAI_BASE_URL"], r"^http://127.0.0.1:\d+/v1$")
        self.assertRegex(shown["environment"]["ANTHROPIC_BASE_URL"], r"^http://127.0.0.1:\d+$")

    def test_the_local_model_answers_without_a_credential(self):
        made = self.kvgate("run", "--local", "--model", self.tiny(), "--kv-memory", "64MiB",
                           "--data-dir", self.folder / "data", "--", "claude", "--ask", "--show",
                           ANTHROPIC_API_KEY="sk-ant-mine")
        shown = json.loads(made.stdout.splitlines()[0])["environment"]
        self.assertNotIn("ANTHROPIC_API_KEY", shown)
        self.assertEqual(shown["ANTHROPIC_MODEL"], "local")
        self.assertIn("kvgate: 1 request, ", made.stderr)
        self.assertEqual(self.provider.requests, [])

    def test_settings_may_stand_right_before_the_agents_command(self):
        data = f"store.data_dir={self.folder / 'data'}"
        for settings in (["--set=limits.connections=9"],
                         ["--set", data, "--set", "limits.connections=9"]):
            made = self.run_agent("claude", "--ask", "-p", "x", options=settings)
            self.assertEqual(made.stdout, "claude-sonnet-4-5\n")
            self.assertIn("kvgate: 1 request, ", made.stderr)
        self.assertIn("limits.nothing", self.run_agent(
            "claude", options=["--set", data, "--set", "limits.nothing=9"], code=2).stderr)

    def test_a_server_that_cannot_start_says_why(self):
        self.config.write_text("[store]\nnothing = 1\n")
        self.assertIn("nothing", self.run_agent("claude", code=2).stderr)
        made = self.kvgate("run", "--data-dir", self.folder / "data", "--model", "/nowhere.gguf",
                           "--", "claude", code=1)
        self.assertIn("/nowhere.gguf", made.stderr)


class SetupTest(AgentCase):
    def setUp(self):
        super().setUp()
        self.file = self.home / ".claude/settings.json"
        self.file.parent.mkdir()
        self.text = '{\n    "model": "opus", // mine\n    "env": {"A": "1"}\n}\n'
        self.file.write_text(self.text)
        self.file.chmod(0o640)

    def setup_agent(self, *arguments, code=0):
        return self.kvgate("setup", *arguments, code=code).stdout

    def test_it_shows_what_changes_keeps_a_copy_and_takes_it_back(self):
        made = self.kvgate("setup", "claude", "--url", "http://127.0.0.1:9", code=2)
        self.assertIn("--yes", made.stderr)
        self.assertIn('+    "env": {"A": "1",', made.stdout)
        self.assertEqual(self.file.read_text(), self.text, "nobody has said yes")
        self.setup_agent("claude", "--url", "http://127.0.0.1:9", "--yes")
        written = self.file.read_text()
        self.assertIn('"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"', written)
        self.assertIn('"model": "opus", // mine', written)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o640)
        backup = Path(f"{self.file}.kvgate-backup")
        self.assertEqual(backup.read_text(), self.text)
        self.assertRegex(self.setup_agent("--list"), r"claude +http://127.0.0.1:9 +/\S+/claude\n")
        self.assertIn("--undo", self.kvgate("setup", "claude", "--yes", "--url", "http://h:1",
                                            code=2).stderr)
        self.setup_agent("claude", "--undo")
        self.assertEqual(self.file.read_text(), self.text)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o640)
        self.assertEqual(list(self.file.parent.iterdir()), [self.file])
        self.assertIn("not set up", self.kvgate("setup", "claude", "--undo", code=1).stderr)

    def test_what_was_changed_since_is_not_taken_back(self):
        self.setup_agent("claude", "--yes")
        changed = self.file.read_text().replace("opus", "sonnet")
        self.file.write_text(changed)
        failed = self.kvgate("setup", "claude", "--undo", code=2)
        self.assertIn("changed since", failed.stderr)
        self.assertIn(".kvgate-backup", failed.stderr)
        self.assertEqual(self.file.read_text(), changed)

    def test_a_link_stays_and_a_new_file_goes_again(self):
        target = self.folder / "dotfiles.toml"
        target.write_text("model = 'x'\n[t]\na = 1\n")
        (self.home / ".codex").mkdir()
        link = self.home / ".codex/config.toml"
        link.symlink_to(target)
        self.setup_agent("codex", "--yes", "--url", "http://127.0.0.1:9/")
        self.assertTrue(link.is_symlink())
        self.assertEqual(target.read_text(), 'openai_base_url = "http://127.0.0.1:9/v1"\n'
                         "model = 'x'\n[t]\na = 1\n")
        self.setup_agent("pi", "--yes")
        new = self.home / ".pi/agent/models.json"
        self.assertEqual(json.loads(new.read_text())["providers"]["anthropic"]["baseUrl"],
                         "http://127.0.0.1:8080")
        self.assertEqual(new.stat().st_mode & 0o777, 0o600)
        self.setup_agent("pi", "--undo")
        self.assertFalse(new.exists())

    def test_what_cannot_be_edited_is_said(self):
        self.assertIn("did you mean 'claude'", self.kvgate("setup", "cluade", code=2).stderr)
        self.assertIn("kvgate run", self.kvgate("setup", "cline", "--yes", code=1).stderr)
        self.file.write_text("[1, 2]")
        self.assertIn("no JSON object", self.kvgate("setup", "claude", "--yes", code=2).stderr)
        self.file.unlink()
        self.file.symlink_to("/dev/null")
        self.assertIn("no regular file", self.kvgate("setup", "claude", "--yes", code=1).stderr)


class InitTest(AgentCase):
    def setUp(self):
        super().setUp()
        self.config.unlink()

    def init(self, *arguments, code=0, **environment):
        return self.kvgate("init", *arguments, code=code, **environment)

    def settings(self):
        self.assertRegex(self.kvgate("config", "check", self.config).stdout, r"^ok\n")
        return "\n".join(line for line in self.config.read_text().splitlines()
                         if line and not line.startswith("#"))

    def test_flags_write_a_file_that_passes_the_check_and_say_what_comes_next(self):
        made = self.init("--provider", "openai,anthropic", "--agent", "claude", "--disk", "20GiB",
                         OPENAI_API_KEY="sk-mine")
        self.assertEqual(self.settings(), """[server]
[engine]
[store]
disk_cache = "20GiB"
[[upstream]]
name = "openai"
dialect = "openai"
base_url = "https://api.openai.com/v1"
models = ["gpt-*", "o1*", "o3*", "o4*", "chatgpt-*", "codex-*", "text-embedding-*"]
mode = "pin"
[[upstream]]
name = "anthropic"
dialect = "anthropic"
base_url = "https://api.anthropic.com"
models = ["claude-*"]
mode = "pin\"""")
        self.assertEqual(self.config.stat().st_mode & 0o777, 0o600)
        for line in ("kvgate serve --config kvgate.toml", "kvgate run -- claude",
                     "kvgate setup claude --config kvgate.toml",
                     "ANTHROPIC_API_KEY is not the gateway's"):
            self.assertIn(line, made.stdout)
        for text in (made.stdout, made.stderr, self.config.read_text()):
            self.assertNotRegex(text, "sk-(ant-)?mine")

    def test_a_key_of_the_environment_is_an_upstreams_only_when_it_is_lent(self):
        made = self.init("--yes", "--lend-env-keys")
        self.assertEqual(self.settings().count("api_key_env"), 1, "one of both is not set")
        self.assertIn('\napi_key_env = "ANTHROPIC_API_KEY"', self.settings())
        self.assertIn("ANTHROPIC_API_KEY is lent", made.stdout)
        self.assertIn("in $ANTHROPIC_API_KEY, which whoever reaches the gateway spends",
                      self.kvgate("config", "check", self.config).stdout)
        self.assertNotIn("sk-ant-mine", made.stdout + self.config.read_text())
        self.init("--yes", "--force")
        self.assertNotIn("api_key_env", self.settings())
        failed = self.init("--yes", "--force", "--provider=openai", "--lend-env-keys", code=2)
        self.assertIn("OPENAI_API_KEY", failed.stderr)

    def test_a_file_that_is_there_stays_without_force(self):
        self.config.write_text("mine")
        self.assertIn("--force", self.init("--yes", code=2).stderr)
        self.assertEqual(self.config.read_text(), "mine")
        self.init("--yes", "--force", "--disk=none", "--provider=none", "--agent=none")
        self.assertEqual(self.settings(), "[server]\n[engine]\n[store]\ndisk = false")
        other = self.folder / "it's another.toml"
        quoted = str(other).replace("'", "'\\''")
        self.assertIn(f"--config '{quoted}'\n", self.init("--yes", "--out", other).stdout)
        self.assertEqual(sorted(self.folder.glob("*.toml*")), sorted([self.config, other]))

    def test_where_nobody_can_be_asked_it_says_what_is_missing(self):
        failed = self.init("--disk", "1GiB", code=2).stderr
        self.assertIn("--provider anthropic,openai --agent claude, or --yes", failed)
        for wrong, said in ((("--provider=antropic",), "did you mean 'anthropic'"),
                            (("--agent=cluade",), "did you mean 'claude'"),
                            (("--disk=much",), "much")):
            self.assertIn(said, self.init("--yes", *wrong, code=2).stderr)
        self.assertFalse(self.config.exists())

    def test_on_a_terminal_it_asks_three_questions(self):
        parent, child = pty.openpty()
        self.addCleanup(os.close, parent)
        running = subprocess.Popen([server.binary_path(), "init"], env=self.environment,
                                   cwd=self.folder, stdin=child, stdout=child, stderr=child)
        self.addCleanup(running.kill)
        os.close(child)
        shown = ""
        for question, answer in (("providers", "antropic"), ("providers", "anthropic"),
                                 ("agent", ""), ("disk", "3GiB")):
            asked = ""
            while not asked.endswith("]: "):
                asked += os.read(parent, 4096).decode()
            self.assertRegex(asked, f"{question}\\?.* \\[.+\\]: $|How much {question} ")
            shown += asked
            os.write(parent, f"{answer}\n".encode())
        self.assertEqual(running.wait(timeout=60), 0)
        self.assertIn("did you mean 'anthropic'", shown)
        self.assertEqual(shown.count("]: "), 4, "three questions, one of them twice")
        self.assertIn('disk_cache = "3GiB"', self.settings())
        self.assertEqual(self.settings().count("[[upstream]]"), 1)
        self.assertIn("kvgate run -- claude", self.config.read_text())


if __name__ == "__main__":
    unittest.main()
