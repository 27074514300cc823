"""The base of the end-to-end tests: where the binary, the models and the shared data are.

Without a binary a test skips by name; with KVGATE_E2E_REQUIRED=1 (scripts/test) it fails instead.
"""

import os
import random
import secrets
import shutil
import statistics
import tempfile
import time
import unittest
from pathlib import Path

import server

ROOT = Path(__file__).resolve().parent.parent.parent
TEST_DATA = Path(os.environ.get("KVGATE_TEST_DATA", ROOT.parent / "shared"))
FULL = os.environ.get("KVGATE_TEST_FULL") == "1"

# Small enough to prefill thousands of tokens in a second, with grouped heads (GQA) and 2 layers of
# KV: 2 x 2 x 2 heads x 32 x 2 bytes = 512 bytes a token.
TINY = dict(arch="llama", layers=2, hidden=128, heads=4, kv_heads=2, ffn=256, vocab=512,
            context=8192, type="f32", seed=7)
# Slow enough that a long generation is still running when a test interferes with it.
SLOW = dict(arch="qwen2", layers=8, hidden=512, heads=8, kv_heads=4, ffn=1536, vocab=4096,
            context=8192, type="f16", seed=7)

HEALTH_SECONDS_USUAL = 0.01

WORDS = ("agent tool file search replace path line read write test build plan step result error "
         "value table index query cache block token model prompt answer user system note").split()


def text_of(seed, words):
    """Plausible text, the same for the same seed."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(words))


def wait_until(condition, what, seconds=60):
    """Polls until condition() is true, and returns that; a failure says what was awaited.

    The limit only keeps a test that fails from hanging, so it is far above what a busy machine
    needs. `what` may be a function, which is asked when the wait is over.
    """
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.02)
    return found


def slowness(running):
    """How many times longer things take now than on an idle machine, and at least 1.

    A bound on a time is multiplied by it. It is measured beside what is bounded: /health, which
    waits for nothing, takes 1 to 5 ms with its connection where a core is free.
    """
    times = []
    for _ in range(5):
        begin = time.monotonic()
        running.get("/health")
        times.append(time.monotonic() - begin)
    return max(1.0, statistics.median(times) / HEALTH_SECONDS_USUAL)


class Case(unittest.TestCase):
    longMessage = True

    @classmethod
    def setUpClass(cls):
        binary = server.binary_path()
        if not binary.exists():
            if os.environ.get("KVGATE_E2E_REQUIRED") == "1":
                raise AssertionError(f"{binary} is not built")
            raise unittest.SkipTest(f"{binary} is not built")
        cls.models = Path(os.environ.get("KVGATE_MODELS", binary.parent.parent / "test-models"))

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kvgate-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def model(self, shape, name):
        return server.make_model(self.models / f"{name}.gguf", **shape)

    def tiny(self):
        return self.model(TINY, "tiny")

    def slow(self):
        return self.model(SLOW, "slow")

    def share_a_secret(self):
        """Arguments of servers that open what another one has sealed."""
        os.environ["KVGATE_TEST_SECRET"] = secrets.token_hex(32)
        self.addCleanup(os.environ.pop, "KVGATE_TEST_SECRET")
        return ["--secret-env", "KVGATE_TEST_SECRET"]

    def upstreams(self, url, rows):
        """The arguments of a server in front of a provider at `url`: each row is a dialect, the
        models and further settings, whose upstream is named as the row and never rests."""
        config = self.folder / "kvgate.toml"
        config.write_text("".join(f"""
[[upstream]]
name = "{name}"
dialect = "{dialect}"
base_url = "{url}{'/v1' if dialect == 'openai' else ''}"
models = ["{models}"]
breaker_failures = 0
{settings}
""" for name, (dialect, models, settings) in rows.items()))
        return ["--config", str(config)]

    def serve(self, model=None, data_dir=None, arguments=()):
        """A running server that is killed at the end of the test."""
        # A small KV pool: its memory is touched at the start, which is slow on a busy machine.
        arguments = ["--set", "engine.kv_memory=192MiB", *arguments]
        made = server.Server(model or self.tiny(), data_dir or self.folder / "data", arguments)
        self.addCleanup(made.__exit__)
        return made.start()

    def shared_model(self, name):
        path = TEST_DATA / "models" / name
        if not path.exists():
            self.skipTest(f"{path} is not there (KVGATE_TEST_DATA)")
        return path

    def record_of(self, running, request_id, headers=None):
        """The record of a request, which is written a moment after the answer has ended."""
        path = "/kvgate/v1/requests/" + request_id

        def find():
            found = running.get(path, headers)
            return found.json if found.status == 200 else None

        return wait_until(find, f"the record of {request_id}")

    def assert_ok(self, reply):
        self.assertEqual(reply.status, 200, reply.body[:1000])
        return reply


def tenant(name):
    """A credential of its own: nothing is shared between tenants, so its first request is cold."""
    return {"Authorization": f"Bearer {name}"}
