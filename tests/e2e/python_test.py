#!/usr/bin/env python3
"""sdk/python/kvgate.py: one suite against a gateway in this process and against a server.

The library is loaded once into this process, so a crash of it is a failure of the whole file."""

import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
from pathlib import Path

import sdk_build
import server
from case import Case, text_of, wait_until

os.environ.update(sdk_build.python_environment())
sys.path.insert(0, os.environ["PYTHONPATH"])
try:
    sdk_build.need_library(unittest.TestCase())
    import kvgate
except unittest.SkipTest:
    pass  # each test says why

LINES_MAX = 250
SMALL = '[engine]\nkv_memory = "64MiB"\nthreads = 1\n'
USER = [{"role": "user", "content": "Hello"}]
ENDLESS = {"max_tokens": 8000, "ignore_eos": True}
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
          "additionalProperties": False}
TOOL = {"type": "function", "function": {
    "name": "weather", "parameters": {
        "type": "object", "properties": {"day": {"enum": ["today"]}}, "required": ["day"],
        "additionalProperties": False}}}


def options(case, folder):
    """Of a gateway in this process."""
    return {"model": str(case.tiny()), "data_dir": str(folder / "data"), "config_toml": SMALL}


class PythonCase(Case):
    def setUp(self):
        super().setUp()
        sdk_build.need_library(self)

    def assert_error(self, status, function):
        with self.assertRaises(kvgate.Error) as caught:
            function()
        self.assertEqual(caught.exception.status, status, caught.exception)
        return caught.exception


class Suite:
    """What holds for both kinds of client; `self.client` is one of them, the same for all tests."""

    client = None

    def setUp(self):
        super().setUp()
        if self.client is None:
            folder = Path(tempfile.mkdtemp(prefix="kvgate-python-"))
            self.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
            type(self).client = self.begin(folder)
            self.addClassCleanup(self.client.close)

    def events(self, **fields):
        fields = {"max_tokens": 8, "temperature": 0, **fields}
        return list(self.client.chat(fields.pop("messages", USER), **fields))

    def test_a_chat_streams_text_finish_and_usage(self):
        stream = self.client.chat(USER, max_tokens=8, temperature=0, ignore_eos=True)
        events = list(stream)
        kinds = [event.kind for event in events]
        self.assertEqual([k for k in kinds if k != "text"], ["finish", "usage"])
        self.assertEqual(events[kinds.index("finish")].text, "length")
        usage = events[-1].usage
        self.assertEqual(usage["output_tokens"], 8)
        self.assertGreater(usage["prompt_tokens"], 0)
        self.assertRegex(stream.header("X-KVGATE-Request-Id"), "^[0-9a-f]{24}$")
        self.assertIsNone(stream.header("x-none"))
        self.assertEqual(list(stream), [])  # it has ended
        self.assertEqual(self.client.chat(USER, max_tokens=8, temperature=0,
                                          ignore_eos=True).text(),
                         "".join(event.text for event in events if event.kind == "text"))

    def test_text_of_any_kind_comes_through(self):
        said = "Zürich, 東京, 🦊 \"quoted\" \\ \u0001"
        reply = self.client.call("POST", "/v1/responses/input_tokens",
                                 {"model": "local", "input": said})
        self.assertGreater(reply["input_tokens"], 10)
        self.assertTrue(self.events(messages=[{"role": "user", "content": said}]))

    def test_a_session_is_kept(self):
        key = "python%" + type(self).__name__
        for text in ("My name is Ada.", "What is my name?"):
            self.client.chat([{"role": "user", "content": text}], session=key,
                             max_tokens=4).text()
        kept = self.client.call("GET", "/kvgate/v1/sessions/" + urllib.parse.quote(key))
        self.assertEqual(kept["turns"], 2)
        self.assertIn("Ada", json.dumps(kept["data"]))
        log = self.client.call("GET", f"/kvgate/v1/sessions/{urllib.parse.quote(key)}/export")
        self.assertIsInstance(log, str)  # lines of JSON are no JSON
        self.assertIn("Ada", log)

    def test_fields_go_into_the_body(self):
        calls = [event for event in self.events(tools=[TOOL], tool_choice="required",
                                                max_tokens=100) if event.kind == "tool_call"]
        self.assertEqual(calls[0].tool_name, "weather")
        self.assertEqual(json.loads(calls[0].text), {"day": "today"})
        self.assertTrue(calls[0].tool_id)
        schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
        text = self.client.chat(USER, response_format=schema, max_tokens=100,
                                temperature=0).text()
        self.assertIsInstance(json.loads(text)["ok"], bool)
        explained = self.events(headers={"x-kvgate-explain": "1"})[-1]
        self.assertEqual(explained.kind, "explain")
        self.assertIn("cached_tokens", json.loads(explained.text))

    def test_errors_say_status_and_field(self):
        failed = self.assert_error("INVALID_ARGUMENT", lambda: self.events(max_tokens=-1))
        self.assertEqual((failed.field, failed.http_status), ("max_tokens", 400))
        self.assertIn("max_tokens", str(failed))
        failed = self.assert_error("NOT_FOUND", lambda: self.events(model="none"))
        self.assertEqual((failed.code, failed.http_status), ("model_not_found", 404))
        self.assertTrue(failed.request_id)
        self.assert_error("NOT_FOUND", lambda: self.client.call("GET", "/v1/none"))
        self.assert_error("CONTEXT_EXCEEDED", lambda: self.events(
            messages=[{"role": "user", "content": text_of(1, 9000)}]))
        self.assert_error("INVALID_ARGUMENT", lambda: self.events(headers={"a b": "c"}))

    def test_another_thread_cancels(self):
        cancel = kvgate.Cancel()
        stream = self.client.chat(USER, cancel=cancel, **ENDLESS)
        next(iter(stream))
        threading.Thread(target=cancel.trigger).start()
        self.assert_error("CANCELLED", lambda: list(stream))
        self.assert_error("CANCELLED", lambda: self.events(cancel=cancel))  # it stays triggered
        self.assertTrue(self.events())

    def test_a_deadline_ends_an_answer(self):
        self.assert_error("DEADLINE_EXCEEDED", lambda: self.events(timeout=0.05, **ENDLESS))
        self.assert_error("DEADLINE_EXCEEDED", lambda: self.events(timeout=0.0001, **ENDLESS))
        self.assertTrue(self.events(timeout=100))

    def test_threads_share_a_client(self):
        texts = []
        threads = [threading.Thread(target=lambda: texts.append(
            self.client.chat(USER, max_tokens=16, temperature=0).text())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(texts), 8)
        self.assertEqual(len(set(texts)), 1)

    def test_leaving_a_loop_ends_the_answer(self):
        for event in self.client.chat(USER, **ENDLESS):
            self.assertEqual(event.kind, "text")
            break
        gc.collect()
        wait_until(lambda: self.client.call("GET", "/kvgate/v1/stats")["engine"]["running"] == 0,
                   "the engine is idle again")

    def test_what_was_closed_says_so(self):
        stream = self.client.chat(USER, **ENDLESS)
        next(iter(stream))
        stream.close()
        stream.close()
        self.assertEqual(list(stream), [])
        self.assertIsNone(stream.header("x-kvgate-request-id"))


class EmbeddedTest(Suite, PythonCase):
    def begin(self, folder):
        return kvgate.open(**options(self, folder))

    def test_it_serves_too(self):
        url = self.client.listen("127.0.0.1:0")
        self.assertRegex(url, r"^http://127\.0\.0\.1:\d+$")
        with kvgate.connect(url) as remote:
            self.assertEqual(remote.chat(USER, max_tokens=4, temperature=0).text(),
                             self.client.chat(USER, max_tokens=4, temperature=0).text())
        self.assert_error("INVALID_ARGUMENT", lambda: self.client.listen("127.0.0.1:0"))


class ClosingTest(PythonCase):
    def setUp(self):
        super().setUp()
        self.client = kvgate.open(**options(self, self.folder))
        self.addCleanup(self.client.close)

    def test_what_is_under_way_ends(self):
        stream = self.client.chat(USER, **ENDLESS)
        iterator = iter(stream)
        next(iterator)
        self.client.listen("127.0.0.1:0")
        self.client.close()
        self.assert_error("CANCELLED", lambda: list(iterator))
        stream.close()
        self.client.close()
        self.assert_error("INVALID_ARGUMENT", lambda: self.client.chat(USER))
        self.assert_error("INVALID_ARGUMENT", lambda: self.client.call("GET", "/health"))
        self.assert_error("INVALID_ARGUMENT", lambda: self.client.listen())

    def test_what_another_thread_reads_ends_with_cancelled(self):
        remote = kvgate.connect(self.client.listen("127.0.0.1:0"))
        for client in (remote, self.client):
            stream, begun, caught = client.chat(USER, **ENDLESS), threading.Event(), []

            def read(stream=stream, begun=begun, caught=caught):
                try:
                    for _ in stream:
                        begun.set()
                    caught.append("END")
                except kvgate.Error as error:
                    caught.append(error.status)

            reader = threading.Thread(target=read)
            reader.start()
            self.assertTrue(begun.wait(100))
            client.close()
            reader.join(100)
            self.assertEqual(caught, ["CANCELLED"])

    def test_prefixes_outlive_the_client(self):
        messages = [{"role": "system", "content": text_of(3, 400)}]
        body = {"model": "local", "messages": messages, "kvgate": {"name": "mine"}}
        first = self.client.call("POST", "/kvgate/v1/prefixes/warm", body)
        self.assertTrue(first["pinned"])
        self.client.close()
        self.client = kvgate.open(**options(self, self.folder))
        self.addCleanup(self.client.close)
        again = self.client.call("POST", "/kvgate/v1/prefixes/warm", body)
        self.assertGreater(again["cached_tokens"], first["tokens"] - 64)


class RemoteTest(Suite, PythonCase):
    def begin(self, folder):
        running = server.Server(self.tiny(), folder / "data",
                                ["--set", "engine.kv_memory=64MiB"]).start()
        self.addClassCleanup(running.__exit__)
        return kvgate.connect(f"http://{running.address}")

    def test_only_what_it_embeds_can_be_served(self):
        self.assert_error("INVALID_ARGUMENT", lambda: self.client.listen("127.0.0.1:0"))

    def test_a_server_that_dies_is_unavailable(self):
        running = self.serve()
        client = kvgate.connect(f"http://{running.address}")
        iterator = iter(client.chat(USER, **ENDLESS))
        next(iterator)
        running.kill()
        self.assert_error("UNAVAILABLE", lambda: list(iterator))
        self.assert_error("UNAVAILABLE", lambda: client.chat(USER).text())


class ModuleTest(PythonCase):
    def test_what_cannot_be_opened_says_why(self):
        failed = self.assert_error("NOT_FOUND", lambda: kvgate.open(
            model=str(self.folder / "none.gguf"), data_dir=str(self.folder)))
        self.assertIn("none.gguf", failed.message)
        self.assert_error("INVALID_ARGUMENT", lambda: kvgate.open(config_toml="[engine]\nx = 1"))
        self.assertEqual(self.assert_error("INVALID_ARGUMENT",
                                           lambda: kvgate.connect("ftp://x")).http_status, 0)
        self.assert_error("INVALID_ARGUMENT", lambda: kvgate.connect(""))
        with self.assertRaises(TypeError):
            kvgate.connect("http://127.0.0.1:1", no_such_option=1)

    def test_a_program_that_closes_nothing_ends_well(self):
        """Streams and clients that are alive at the end are no crash and no hang."""
        program = ("import kvgate, sys\n"
                   "client = kvgate.open(**eval(sys.argv[1]))\n"
                   "stream = client.chat([{'role': 'user', 'content': 'Hi'}], max_tokens=8000,"
                   " ignore_eos=True)\n"
                   "print(next(iter(stream)).kind)\n")
        given = repr(options(self, self.folder))
        made = subprocess.run([sys.executable, "-c", program, given], text=True,
                              capture_output=True, timeout=120)
        self.assertEqual((made.returncode, made.stdout, made.stderr), (0, "text\n", ""))

    def test_it_is_one_short_typed_file(self):
        path = sdk_build.ROOT / "sdk/python/kvgate.py"
        self.assertLessEqual(len(path.read_text().splitlines()), LINES_MAX)
        untyped = [line for line in path.read_text().splitlines()
                   if re.match(r" *def ", line) and line.rstrip().endswith("):")]
        self.assertEqual(untyped, [])
        self.assertRegex(kvgate.version(), r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
