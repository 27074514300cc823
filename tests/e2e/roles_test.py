#!/usr/bin/env python3
"""An adversarial tenant: every route by every role. Bob has a key of his own, all ids of Alice's
things, and tries everything; he must see nothing, change nothing and learn nothing."""

import hashlib
import json
import os
import re
import subprocess
import sys
import unittest
from collections import namedtuple
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import server  # noqa: E402
from case import ROOT, Case, text_of, wait_until  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

CHAT = {"model": "local", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
CONTENT = {"contents": [{"parts": [{"text": "hi"}]}], "generationConfig": {"maxOutputTokens": 2}}


def nobodys(ids):
    """Ids of the same make that nobody has."""
    return {name: found if name == "model" else found[:-12] + "0123456789ab"
            for name, found in ids.items()}


# What each route asks of its caller, and how it is asked. `id` names what of Alice's stands in its
# path; `body` is what is sent. A route of the router without a row here fails the test.
# `others` is what a tenant gets that asks for another's: of a memory its own, which is empty.
Row = namedtuple("Row", "access body id status others", defaults=(None, None, 200, 404))
FACTS = {"facts": {"planted": "by another"}}
ROWS = {
    ("GET", "/"): Row("kOpen"),
    ("GET", "/health"): Row("kOpen"),
    ("GET", "/ready"): Row("kOpen"),
    ("GET", "/dashboard"): Row("kOpen", status=308),
    ("GET", "/dashboard/"): Row("kOpen"),
    ("GET", "/dashboard/assets/{id}"): Row("kOpen", None, "asset"),
    ("GET", "/metrics"): Row("kMetrics"),
    ("POST", "/v1/chat/completions"): Row("kUser", CHAT),
    ("POST", "/v1/completions"): Row("kUser", {"model": "local", "prompt": "a", "max_tokens": 1}),
    ("POST", "/v1/messages"): Row("kUser", CHAT),
    ("POST", "/v1/messages/count_tokens"): Row("kUser", CHAT),
    ("POST", "/v1beta/models/{id}:generateContent"): Row("kUser", CONTENT, "model"),
    ("POST", "/v1beta/models/{id}:streamGenerateContent"): Row("kUser", CONTENT, "model"),
    ("POST", "/v1beta/models/{id}:countTokens"): Row("kUser", CONTENT, "model"),
    ("POST", "/v1/models/{id}:generateContent"): Row("kUser", CONTENT, "model"),
    ("POST", "/v1/models/{id}:streamGenerateContent"): Row("kUser", CONTENT, "model"),
    ("POST", "/v1/models/{id}:countTokens"): Row("kUser", CONTENT, "model"),
    ("GET", "/v1beta/models"): Row("kUser"),
    ("GET", "/v1beta/models/{id}"): Row("kUser", None, "model"),
    ("POST", "/v1/embeddings"): Row("kUser", {"model": "emb-1", "input": "a"}),
    ("GET", "/v1/models"): Row("kUser"),
    ("GET", "/v1/models/{id}"): Row("kUser", None, "model"),
    ("POST", "/kvgate/v1/explain"): Row("kUser", {**CHAT, "model": "gpt-1"}),
    ("POST", "/kvgate/v1/prefixes/warm"): Row("kUser", {"model": "local", "prompt": "w" * 400}),
    ("POST", "/v1/responses"): Row("kOwn", {"model": "local", "input": "a",
                                            "max_output_tokens": 2}),
    ("POST", "/v1/responses/input_tokens"): Row("kOwn", {"model": "local", "input": "a"}),
    ("POST", "/v1/responses/compact"): Row("kOwn", {"model": "local", "input": "a"}),
    ("GET", "/v1/responses/{id}"): Row("kOwn", None, "response"),
    ("GET", "/v1/responses/{id}/input_items"): Row("kOwn", None, "response"),
    ("POST", "/v1/responses/{id}/cancel"): Row("kOwn", {}, "response"),
    ("DELETE", "/v1/responses/{id}"): Row("kOwn", None, "response"),
    ("POST", "/v1/conversations"): Row("kOwn", {}),
    ("GET", "/v1/conversations/{id}"): Row("kOwn", None, "conversation"),
    ("POST", "/v1/conversations/{id}"): Row("kOwn", {"metadata": {"by": "x"}}, "conversation"),
    ("GET", "/v1/conversations/{id}/items"): Row("kOwn", None, "conversation"),
    ("POST", "/v1/conversations/{id}/items"): Row(
        "kOwn", {"items": [{"type": "message", "role": "user", "content": "planted"}]},
        "conversation"),
    ("GET", "/v1/conversations/{id}/items/{item}"): Row("kOwn", None, "conversation"),
    ("DELETE", "/v1/conversations/{id}/items/{item}"): Row("kOwn", None, "conversation"),
    ("DELETE", "/v1/conversations/{id}"): Row("kOwn", None, "conversation"),
    ("GET", "/kvgate/v1/stats"): Row("kOwn"),
    ("GET", "/kvgate/v1/requests"): Row("kOwn"),
    ("GET", "/kvgate/v1/requests/{id}"): Row("kOwn", None, "request"),
    ("GET", "/kvgate/v1/events"): Row("kOwn"),
    ("GET", "/kvgate/v1/advice"): Row("kOwn"),
    ("GET", "/kvgate/v1/budgets"): Row("kOwn"),
    ("GET", "/kvgate/v1/templates"): Row("kOwn"),
    ("GET", "/kvgate/v1/prefixes"): Row("kOwn"),
    ("GET", "/kvgate/v1/prefixes/{id}/export"): Row("kOwn", None, "prefix"),
    ("POST", "/kvgate/v1/prefixes/{id}/pin"): Row("kOwn", {"name": "stolen", "ttl_seconds": 600},
                                                  "prefix"),
    ("DELETE", "/kvgate/v1/prefixes/{id}/pin"): Row("kOwn", None, "prefix"),
    ("DELETE", "/kvgate/v1/prefixes/{id}"): Row("kOwn", None, "prefix"),
    ("GET", "/kvgate/v1/sessions"): Row("kOwn"),
    ("POST", "/kvgate/v1/sessions"): Row("kOwn", {"kvgate_session": 1, "key": "planted",
                                                  "dialect": "chat", "turns": 0}),
    ("GET", "/kvgate/v1/sessions/{id}"): Row("kOwn", None, "session"),
    ("GET", "/kvgate/v1/sessions/{id}/export"): Row("kOwn", None, "session"),
    ("POST", "/kvgate/v1/sessions/{id}/fork"): Row("kOwn", {"key": "stolen"}, "session"),
    ("POST", "/kvgate/v1/sessions/{id}/compact"): Row("kOwn", None, "session"),
    ("POST", "/kvgate/v1/sessions/{id}/undo"): Row("kOwn", None, "session"),
    ("DELETE", "/kvgate/v1/sessions/{id}"): Row("kOwn", None, "session"),
    ("DELETE", "/kvgate/v1/sessions"): Row("kOwn"),
    ("GET", "/kvgate/v1/sessions/{id}/memory"): Row("kOwn", None, "memory", others=200),
    ("PUT", "/kvgate/v1/sessions/{id}/memory"): Row("kOwn", FACTS, "memory", others=200),
    ("PATCH", "/kvgate/v1/sessions/{id}/memory"): Row("kOwn", FACTS, "memory", others=200),
    ("DELETE", "/kvgate/v1/sessions/{id}/memory"): Row("kOwn", None, "memory", others=200),
    ("DELETE", "/kvgate/v1/sessions/{id}/memory/{item}"): Row("kOwn", None, "memory"),
    ("POST", "/kvgate/v1/sessions/{id}/memory/extract"): Row(
        "kOwn", {"schema": {"type": "object", "properties": {"fruit": {"type": "string"}}}},
        "session"),
    ("GET", "/kvgate/v1/memory"): Row("kOwn"),
    ("PUT", "/kvgate/v1/memory"): Row("kOwn", FACTS),
    ("PATCH", "/kvgate/v1/memory"): Row("kOwn", FACTS),
    ("DELETE", "/kvgate/v1/memory"): Row("kOwn"),
    ("DELETE", "/kvgate/v1/memory/{item}"): Row("kOwn", None, None, 404),
    ("GET", "/kvgate/v1/prompts"): Row("kUser"),
    ("GET", "/kvgate/v1/prompts/{id}"): Row("kUser", None, "prompt"),
    ("GET", "/kvgate/v1/prompts/{id}/{item}"): Row("kUser", None, "prompt"),
    ("PUT", "/kvgate/v1/prompts/{id}/{item}"): Row("kAdmin", {"text": "planted"}),
    ("DELETE", "/kvgate/v1/prompts/{id}/{item}"): Row("kAdmin"),
    ("DELETE", "/kvgate/v1/prompts/{id}"): Row("kAdmin"),
    ("DELETE", "/kvgate/v1/prefixes"): Row("kAdmin"),
    ("POST", "/kvgate/v1/prefixes/verify"): Row("kAdmin", {}),
    ("POST", "/kvgate/v1/prefixes/import"): Row("kAdmin", b"no prefix"),
}
# Of whom a stored response, conversation or session is, no admin is asked: it is that tenant's
# alone.
NOT_AN_ADMINS = ("response", "conversation", "session")


def routes_of_the_router():
    """(method, path) -> access, as gateway/proxy/handler/router.cc has them."""
    source = (ROOT / "gateway/proxy/handler/router.cc").read_text()
    table = source[source.index("kEntries[] = {"):]
    table = table[:table.index("\n};")]
    found = re.findall(r'\{"(\w+)",\s*"([^"]+)",\s*Route::\w+,\s*Access::(\w+),', table)
    assert len(found) == table.count("Route::"), "a row is not read"
    return {(method, path): access for method, path, access in found}


PROMPT = '[[prompt]]\nname = "support"\nversion = "seventh"\nfile = "support.txt"\n'


def config_of(provider_port, more=""):
    keys = "".join(f'[[key]]\nname = "{name}"\nsha256 = "{hashlib.sha256(key).hexdigest()}"\n{role}'
                   for name, key, role in (("alice", b"key-alice", ""), ("bob", b"key-bob", ""),
                                           ("root", b"key-root", 'role = "admin"\n')))
    scraper = hashlib.sha256(b"key-scraper").hexdigest()
    return (f'[metrics]\nsha256 = "{scraper}"\n{keys}{PROMPT}[[upstream]]\nname = "sim"\n'
            f'base_url = "http://127.0.0.1:{provider_port}/v1"\nmodels = ["gpt-*", "emb-*"]\n'
            f'api_key_env = "KVGATE_TEST_PROVIDER_KEY"\n{more}')


CREDENTIALS = {"nobody": None, "wrong": b"key-of-nobody", "scraper": b"key-scraper",
               "alice": b"key-alice", "bob": b"key-bob", "admin": b"key-root"}
PROVIDER_KEY = "provider-key-0123456789"


class RolesCase(Case):
    def setUp(self):
        super().setUp()
        os.environ["KVGATE_TEST_PROVIDER_KEY"] = PROVIDER_KEY
        self.addCleanup(os.environ.pop, "KVGATE_TEST_PROVIDER_KEY")

    def gateway(self, text, more=()):
        path = self.folder / "kvgate.toml"
        path.write_text(text)
        (self.folder / "support.txt").write_text("Be kind.")
        return self.serve(arguments=["--config", str(path), "--log-level", "debug", *more])

    def ask(self, running, method, path, who, body=None, headers=None):
        """(status, body, headers) of a request with somebody's key."""
        fields = dict(headers or {})
        if CREDENTIALS.get(who):
            fields["Authorization"] = "Bearer " + CREDENTIALS[who].decode()
        raw = body
        if body is not None and not isinstance(body, bytes):
            raw = json.dumps(body).encode()
        if method in ("POST", "PUT", "PATCH"):
            fields.setdefault("Content-Type", "application/octet-stream"
                              if isinstance(body, bytes) else "application/json")
        connection = running.connect(60)
        try:
            connection.request(method, path, raw, fields)
            response = connection.getresponse()
            if response.getheader("content-type", "").startswith("text/event-stream"):
                # It goes on for as long as somebody reads: one event says enough.
                event = b"".join(iter(response.readline, b"\n"))
                return response.status, event, dict(response.getheaders())
            return response.status, response.read(), dict(response.getheaders())
        finally:
            connection.close()

    def json(self, running, method, path, who, body=None):
        status, data, _ = self.ask(running, method, path, who, body)
        self.assertEqual(status, 200, f"{method} {path} as {who}: {data[:400]!r}")
        return json.loads(data)

    def wait_on_disk(self, running):
        wait_until(lambda: server.kv_is_on_disk(
            self.json(running, "GET", "/kvgate/v1/stats", "admin")), "all KV is on disk")


class AdversarialTenantTest(RolesCase):
    PROMPT = text_of("alice", 300)

    def alice_works(self, running):
        """What there is of Alice's; the ids by what they are of."""
        made = {"model": "local", "prompt": "support", "version": "seventh"}
        made["response"] = self.json(running, "POST", "/v1/responses", "alice",
                                     {"model": "local", "input": "my secret is plum-4711",
                                      "max_output_tokens": 8})["id"]
        made["conversation"] = self.json(
            running, "POST", "/v1/conversations", "alice",
            {"items": [{"type": "message", "role": "user", "content": "secret plum-4712"}]})["id"]
        items = self.json(running, "GET", f"/v1/conversations/{made['conversation']}/items",
                          "alice")
        made["item"] = items["data"][0]["id"]
        _, _, headers = self.ask(running, "POST", "/v1/chat/completions", "alice", CHAT)
        made["request"] = headers["x-kvgate-request-id"]
        made["asset"] = "dashboard.js"
        made["session"] = "alices-session-of-plums"
        status, data, _ = self.ask(
            running, "POST", "/v1/chat/completions", "alice",
            {**CHAT, "messages": [{"role": "user", "content": "secret plum-4713"}]},
            {"x-kvgate-session": made["session"]})
        self.assertEqual(status, 200, data)
        made["memory"] = made["session"]
        for path in (f"/kvgate/v1/sessions/{made['memory']}/memory", "/kvgate/v1/memory"):
            self.json(running, "PUT", path, "alice", {"facts": {"fruit": "plum-4714"}})
        self.json(running, "POST", "/kvgate/v1/prefixes/warm", "alice",
                  {"model": "local", "prompt": self.PROMPT, "kvgate": {"name": "secret-name"}})
        self.wait_on_disk(running)
        rows = self.json(running, "GET", "/kvgate/v1/prefixes", "alice")["data"]
        made["prefix"] = next(row["id"] for row in rows if row.get("name") == "secret-name")
        return made

    def what_alice_has(self, running, made):
        """All of it, as she sees it; what changes by itself is left out."""
        seen = [self.json(running, "GET", path, "alice") for path in (
            f"/v1/responses/{made['response']}", f"/v1/responses/{made['response']}/input_items",
            f"/v1/conversations/{made['conversation']}",
            f"/v1/conversations/{made['conversation']}/items",
            f"/kvgate/v1/sessions/{made['session']}", "/kvgate/v1/sessions",
            f"/kvgate/v1/sessions/{made['memory']}/memory", "/kvgate/v1/memory",
            f"/kvgate/v1/requests/{made['request']}")]
        rows = self.json(running, "GET", "/kvgate/v1/prefixes", "alice")["data"]
        pin = next(row for row in rows if row["id"] == made["prefix"])
        for name in ("last_used", "hits", "saved_tokens", "saved_ms", "tier", "tiers"):
            pin.pop(name, None)
        return json.dumps([*seen, pin], sort_keys=True)

    def answer(self, running):
        reply = running.complete(self.PROMPT, max_tokens=8,
                                 headers={"Authorization": "Bearer key-alice"})
        self.assert_ok(reply)
        self.assertGreater(reply.cached_tokens, 100)
        return reply.answer

    def path_of(self, row, path, ids):
        item = ids["version" if row.id == "prompt" else "item"]
        query = "?alt=sse" if path.endswith(":streamGenerateContent") else ""
        return path.replace("{item}", item).replace("{id}", ids.get(row.id, "")) + query

    def expected(self, row, who, allowed):
        if row.access == "kOpen":
            return (allowed,)
        if who in ("nobody", "wrong"):
            return (401,)
        if who == "scraper":
            return (200,) if row.access == "kMetrics" else (403,)
        if row.access in ("kAdmin", "kMetrics") and who != "admin":
            return (403,)
        return (allowed,)

    def test_every_route_has_a_row_with_what_it_asks(self):
        routes = routes_of_the_router()
        self.assertGreater(len(routes), 30)
        self.assertEqual(routes, {route: row.access for route, row in ROWS.items()},
                         "a route without a row here, or with another access")

    def test_bob_and_everybody_else_try_every_route(self):
        with Simulator() as provider:
            running = self.gateway(config_of(provider.port))
            made = self.alice_works(running)
            before, answer = self.what_alice_has(running, made), self.answer(running)
            for (method, path), row in ROWS.items():
                if row.access == "kAdmin":
                    continue  # an admin's own turn comes last: it removes things
                for who in ("nobody", "wrong", "scraper", "bob"):
                    with self.subTest(f"{method} {path}", who=who):
                        self.one(running, (method, path), row, who, made)
            for (method, path), row in ROWS.items():
                if row.access == "kAdmin":
                    for who in ("nobody", "wrong", "scraper", "bob", "alice"):
                        status, data, _ = self.ask(running, method, path, who, row.body)
                        self.assertIn(status, self.expected(row, who, 200), data)
            self.bob_looks_for_alice(running, made)
            self.assertEqual(self.what_alice_has(running, made), before)
            self.assertEqual(self.answer(running), answer)
            self.admin_and_alice_may(running, made)

    def one(self, running, route, row, who, made):
        method, path = route
        status, data, _ = self.ask(running, method, self.path_of(row, path, made), who, row.body)
        others = row.access == "kOwn" and row.id is not None
        allowed = row.others if others else row.status
        self.assertIn(status, self.expected(row, who, allowed), data[:300])
        for secret in (b"plum-4711", b"plum-4712", b"plum-4713", b"plum-4714", b"secret-name"):
            self.assertNotIn(secret, data)
        if not others or who != "bob":
            return
        # The same as of an id that nobody has: but for the id itself nothing tells them apart.
        unknown = nobodys(made)
        absent = self.ask(running, method, self.path_of(row, path, unknown), who, row.body)
        plain = data.decode()
        for name, found in made.items():
            plain = plain.replace(found, unknown[name])
        times = re.compile(r'"updated_at":\d+')
        self.assertEqual((status, times.sub("", plain)),
                         (absent[0], times.sub("", absent[1].decode())))

    def bob_looks_for_alice(self, running, made):
        for path in ("/kvgate/v1/requests?limit=1000", "/kvgate/v1/prefixes", "/kvgate/v1/stats",
                     "/kvgate/v1/sessions", "/kvgate/v1/requests?before=" + made["request"],
                     "/kvgate/v1/stats?step=all&by=tenant", "/kvgate/v1/stats?step=day&by=key"):
            data = self.ask(running, "GET", path, "bob")[1].decode()
            for found in ("alice", "secret", *(made[k] for k in made if k != "model")):
                self.assertNotIn(found, data, path)
        tenants = {row["tenant"] for row in
                   self.json(running, "GET", "/kvgate/v1/requests?limit=1000", "bob")["data"]}
        self.assertEqual(tenants, {"bob"})
        # By what his own requests name.
        for body in ({"model": "local", "input": "x", "previous_response_id": made["response"]},
                     {"model": "local", "input": "x", "conversation": made["conversation"]}):
            status, data, _ = self.ask(running, "POST", "/v1/responses", "bob", body)
            self.assertIn(status, (400, 404), data)
            self.assertNotIn(b"plum-471", data)
        cold = running.complete(self.PROMPT, max_tokens=1,
                                headers={"Authorization": "Bearer key-bob"})
        # A token or two are where all of his prompts begin alike.
        self.assertLess(cold.cached_tokens, 8, "Alice's prefix is not Bob's")

    def admin_and_alice_may(self, running, made):
        tenants = {row["tenant"] for row in
                   self.json(running, "GET", "/kvgate/v1/requests?limit=1000", "admin")["data"]}
        self.assertTrue({"alice", "bob"} <= tenants, tenants)
        names = [row.get("name") for row in
                 self.json(running, "GET", "/kvgate/v1/prefixes", "admin")["data"]]
        self.assertIn("secret-name", names)
        self.assertIn("engine", self.json(running, "GET", "/kvgate/v1/stats", "admin"))
        for (method, path), row in ROWS.items():
            if method == "DELETE" or row.access == "kAdmin":
                continue
            wanted = 404 if row.id in NOT_AN_ADMINS else row.status
            status, data, _ = self.ask(running, method, self.path_of(row, path, made), "admin",
                                       row.body)
            if "cancel" in path:
                wanted = status  # of one that is complete it is refused, whoever asks
            self.assertEqual(status, wanted, f"{method} {path}: {data[:300]!r}")
        for method, path in (("DELETE", "/kvgate/v1/prefixes/{id}/pin"),
                             ("DELETE", "/kvgate/v1/prefixes/{id}"),
                             ("DELETE", "/v1/conversations/{id}/items/{item}"),
                             ("DELETE", "/v1/conversations/{id}"),
                             ("DELETE", "/kvgate/v1/sessions/{id}"),
                             ("DELETE", "/v1/responses/{id}")):
            row = ROWS[(method, path)]
            self.json(running, method, self.path_of(row, path, made), "alice")
        self.json(running, "POST", "/kvgate/v1/prefixes/verify", "admin", {})
        self.json(running, "PUT", "/kvgate/v1/prompts/more/1", "admin", {"text": "planted"})
        self.json(running, "PUT", "/kvgate/v1/prompts/more/2", "admin", {"text": "planted"})
        self.json(running, "DELETE", "/kvgate/v1/prompts/more/2", "admin")
        self.json(running, "DELETE", "/kvgate/v1/prompts/more", "admin")
        self.json(running, "DELETE", "/kvgate/v1/prefixes?force=1", "admin")
        status, data, _ = self.ask(running, "POST", "/kvgate/v1/prefixes/import", "admin", b"no")
        self.assertEqual(status, 400, data)


class UnknownPathsTest(RolesCase):
    PATHS = (("GET", "/v1/files"), ("POST", "/v1/audio/speech"), ("DELETE", "/v1/models/gpt-1"),
             ("GET", "/v1/chat/completions"), ("GET", "/v1/responses/a/b"),
             ("GET", "/v1/responses/a%2F..b"), ("POST", "/v1/fine_tuning/jobs"))

    def test_they_reach_an_upstream_only_by_the_configuration_and_an_admin(self):
        with Simulator() as provider:
            for unknown, reached in (("", False), ("forward_unknown = true\n", True)):
                running = self.gateway(config_of(provider.port, unknown))
                for method, path in self.PATHS:
                    body = {"model": "gpt-1"} if method == "POST" else None
                    for who, gets in (("bob", False), ("admin", reached)):
                        provider.requests.clear()
                        status, data, _ = self.ask(running, method, path, who, body)
                        what = f"{method} {path} as {who}: {status} {data[:200]!r}"
                        self.assertEqual(bool(provider.requests), gets, what)
                        if not gets:
                            self.assertIn(status, (404, 405), what)
                            self.assertEqual(json.loads(data)["error"]["type"],
                                             "invalid_request_error", what)
                status, data, _ = self.ask(running, "GET", "/v1/messages/batches", "bob",
                                           headers={"anthropic-version": "2023-06-01"})
                self.assertEqual((status, json.loads(data)["error"]["type"]),
                                 (404, "not_found_error"), "in the dialect's form")
                running.kill()

    def test_a_caller_with_a_credential_of_its_own_may(self):
        with Simulator() as provider:
            text = config_of(provider.port, "forward_unknown = true\n")
            text = text.replace('api_key_env = "KVGATE_TEST_PROVIDER_KEY"\n', "")
            running = self.gateway(text)
            status, _, _ = self.ask(running, "GET", "/v1/files", "bob")
            self.assertEqual(status, 404, "his gateway key is no credential there")
            self.assertEqual(provider.requests, [])
            connection = running.connect(20)
            connection.request("GET", "/v1/files", headers={
                "x-kvgate-key": "key-bob", "Authorization": "Bearer bobs-own"})
            connection.getresponse().read()
            connection.close()
            self.assertEqual(provider.requests[-1].header("authorization"), "Bearer bobs-own")


class KeyLimitsTest(RolesCase):
    def key(self, more):
        digest = hashlib.sha256(b"key-alice").hexdigest()
        return f'[[key]]\nname = "alice"\nsha256 = "{digest}"\n{more}'

    def warm(self, running, prompt):
        return self.ask(running, "POST", "/kvgate/v1/prefixes/warm", "alice",
                        {"model": "local", "prompt": prompt})[0]

    def test_warming_is_bound_by_models_rate_tokens_and_length(self):
        running = self.gateway(self.key('models = ["gpt-*"]\n'))
        self.assertEqual(self.warm(running, text_of(1, 100)), 403)
        running = self.gateway(self.key("requests_per_minute = 2\n"))
        self.assertEqual([self.warm(running, text_of(i, 100)) for i in range(4)],
                         [200, 200, 429, 429])
        running = self.gateway(self.key("tokens_per_minute = 100\n"))
        self.assertEqual([self.warm(running, text_of(i, 100)) for i in range(2)], [200, 429])

    def test_a_local_prompt_may_not_be_longer_than_the_key_says(self):
        running = self.gateway(self.key("prompt_tokens_max = 100\n"))
        self.assertEqual(self.warm(running, text_of(1, 500)), 400)
        headers = {"Authorization": "Bearer key-alice"}
        self.assertEqual(running.complete([20] * 101, max_tokens=1, headers=headers).status, 400)
        self.assert_ok(running.complete([20] * 100, max_tokens=1, headers=headers))

    def test_a_restricted_key_names_a_model_and_sees_those_it_may_use(self):
        with Simulator() as provider:
            text = self.key('models = ["gpt-1", "local"]\n')
            text += config_of(provider.port)[config_of(provider.port).index("[[upstream]]"):]
            running = self.gateway(text)
            for path, body in (("/v1/chat/completions", {"messages": CHAT["messages"]}),
                               ("/v1/embeddings", {"input": "x"}),
                               ("/v1/embeddings", {"input": "x", "model": "emb-1"}),
                               ("/kvgate/v1/explain", {**CHAT, "model": "gpt-2"}),
                               ("/kvgate/v1/prefixes/warm", {"prompt": "x" * 400})):
                status, data, _ = self.ask(running, "POST", path, "alice", body)
                self.assertEqual(status, 403, f"{path}: {data[:200]!r}")
            self.assertEqual(provider.requests, [])
            ids = [m["id"] for m in self.json(running, "GET", "/v1/models", "alice")["data"]]
            self.assertEqual([found for found in ids if found not in ("gpt-1", "local")], [])
            self.assertIn("local", ids)
            self.assertEqual(self.ask(running, "GET", "/v1/models/gpt-2", "alice")[0], 403)


class CommandLineTest(RolesCase):
    def run_command(self, *arguments, **more):
        return subprocess.run([str(server.binary_path()), *arguments], capture_output=True,
                              text=True, timeout=60, **more)

    def test_the_machines_own_commands_are_admins_by_a_token_that_nobody_else_gets(self):
        with Simulator() as provider:
            running = self.gateway(config_of(provider.port, "forward_unknown = true\n"))
            data = self.folder / "data"
            info = json.loads((data / "server.json").read_text())
            token = info["admin_token"]
            self.assertEqual((data / "server.json").stat().st_mode & 0o777, 0o600)
            self.assertEqual(len(token), 64)
            running.complete(text_of("x", 200), headers={"Authorization": "Bearer key-bob"})
            self.wait_on_disk(running)
            for command in (["cache", "ls"], ["cache", "stats"], ["cache", "verify"], ["stats"]):
                done = self.run_command(*command, "--data-dir", str(data))
                self.assertEqual(done.returncode, 0, done.stderr)
            done = self.run_command("chat", "--data-dir", str(data), "--max-tokens", "2",
                                    input="hi")
            self.assertEqual(done.returncode, 0, done.stderr)
            admin = {"x-kvgate-admin": token}
            self.assertEqual(self.ask(running, "GET", "/metrics", None, headers=admin)[0], 200)
            # It goes nowhere, with whatever it was sent.
            self.ask(running, "POST", "/v1/chat/completions", None, {**CHAT, "model": "gpt-1"},
                     admin)
            self.ask(running, "GET", "/v1/files", None, headers=admin)
            self.assertGreaterEqual(len(provider.requests), 2)
            for request in provider.requests:
                self.assertNotIn(token.encode(), request.head + request.body)
            self.assertNotIn(token, running.log())
            for path in ("/kvgate/v1/requests?limit=100", "/kvgate/v1/stats", "/metrics"):
                self.assertNotIn(token.encode(), self.ask(running, "GET", path, "admin")[1])
            # Neither a part of it nor the last start's opens anything.
            for wrong in (token[:-1], token + "0", "0" * 64):
                self.assertEqual(self.ask(running, "GET", "/kvgate/v1/stats", "admin",
                                          headers={"x-kvgate-admin": wrong})[0], 401)
            running.terminate()
            running.restart()
            self.assertEqual(self.ask(running, "GET", "/kvgate/v1/stats", None, headers=admin)[0],
                             401)
            self.assertEqual(self.run_command("cache", "ls", "--data-dir", str(data)).returncode, 0)

    def test_every_command_that_talks_to_a_server_takes_its_url_and_a_key(self):
        with Simulator() as provider:
            running = self.gateway(config_of(provider.port))
            url = "http://" + running.address
            environment = {**os.environ, "ADMIN": "key-root", "USER": "key-bob"}
            for command in (["cache", "ls"], ["cache", "verify"], ["stats"], ["cache", "stats"]):
                for key, works in (("ADMIN", True), ("USER", command[-1] in ("ls", "stats")
                                                     and command != ["cache", "stats"])):
                    done = self.run_command(*command, "--url", url, "--key-env", key,
                                            env=environment)
                    self.assertEqual(done.returncode == 0, works,
                                     f"{command} {key}: {done.stdout}{done.stderr}")
            done = self.run_command("chat", "--url", url, "--key-env", "USER", input="hi",
                                    env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = self.run_command("stats", "--url", url, "--key-env", "UNSET", env=environment)
            self.assertIn("the environment has no UNSET", done.stderr)
        for command in (["cache", "ls"], ["cache", "stats"], ["cache", "verify"], ["cache", "rm"],
                        ["cache", "pin"], ["cache", "unpin"], ["cache", "export"],
                        ["cache", "import"], ["stats"], ["warm"], ["chat"], ["explain"],
                        ["doctor"], ["bench", "serve"]):
            shown = self.run_command(*command, "--help").stdout
            for flag in ("--url", "--key-env"):
                self.assertIn(flag, shown, command)

    def test_keys_without_an_admin_among_them_are_told_of(self):
        text = config_of(1).replace('role = "admin"\n', "")
        running = self.gateway(text)
        self.assertIn('none of the 3 keys has role = "admin"', running.log())
        done = self.run_command("doctor", "--config", str(self.folder / "kvgate.toml"),
                                "--data-dir", str(self.folder / "data"), "--model",
                                str(self.tiny()), "--listen", running.address)
        found = [line for line in done.stdout.splitlines() if " keys " in f" {line} "]
        self.assertTrue(any(line.startswith("warning") and "admin" in line for line in found),
                        done.stdout)
        self.assertRegex(done.stdout, r"ok +store")

    def test_a_pipe_in_place_of_a_file_holds_up_no_command(self):
        data = self.folder / "data"
        for name in ("server.json", "lock"):
            data.mkdir(mode=0o700)
            os.mkfifo(data / name, 0o600)
            for command in (["cache", "stats"], ["stats"], ["doctor"]):
                self.run_command(*command, "--data-dir", str(data))  # ends, with or without error
            for path in data.iterdir():
                path.unlink()
            data.rmdir()


class WithoutKeysTest(RolesCase):
    def test_loopback_is_admin_unless_the_request_was_forwarded(self):
        running = self.serve()
        running.complete(text_of("x", 200), headers={"Authorization": "Bearer other"})
        running.wait_on_disk()
        self.assertEqual(len(self.json(running, "GET", "/kvgate/v1/prefixes", None)["data"]), 1)
        for name in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "CF-Connecting-IP",
                     "True-Client-IP", "x-forwarded-proto"):
            forwarded = {name: "1.2.3.4"}
            for method, path in (("DELETE", "/kvgate/v1/prefixes"),
                                 ("POST", "/kvgate/v1/prefixes/verify"),
                                 ("POST", "/kvgate/v1/prefixes/import")):
                body = b"x" if path.endswith("import") else {} if method == "POST" else None
                status, data, _ = self.ask(running, method, path, None, body, forwarded)
                self.assertEqual(status, 403, f"{name} {path} {data}")
            seen = json.loads(self.ask(running, "GET", "/kvgate/v1/prefixes", None,
                                       headers=forwarded)[1])
            self.assertEqual(seen["data"], [], "whose credential is another's sees nothing")
            own = {**forwarded, "Authorization": "Bearer other"}
            seen = json.loads(self.ask(running, "GET", "/kvgate/v1/prefixes", None,
                                       headers=own)[1])
            self.assertEqual(len(seen["data"]), 1, "its own credential sees its own")
        self.assertEqual(self.ask(running, "GET", "/metrics", None,
                                  headers={"Via": "1.1 x"})[0], 200)


if __name__ == "__main__":
    unittest.main()
