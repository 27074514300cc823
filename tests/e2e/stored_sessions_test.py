#!/usr/bin/env python3
"""Stored responses and conversations as sessions, through the real binary: listed, shown, copied,
exported, removed, and kept in the window of sessions when they are gone on with by their ids."""

import sys
import unittest

from case import text_of
from session_summary_test import SummaryCase
from sessions_test import SessionsCase


class StoredCase(SessionsCase):
    def respond(self, running, text, **more):
        reply = running.send("/v1/responses", {"model": "local", "input": text, "temperature": 0,
                                               "max_output_tokens": 16, **more})
        self.assertEqual(reply.status, 200, reply.body)
        return reply

    def keys(self, running):
        return [row["key"] for row in running.get("/kvgate/v1/sessions").json["data"]]

    def delete(self, running, path):
        connection = running.connect()
        try:
            connection.request("DELETE", path)
            return connection.getresponse().status
        finally:
            connection.close()


class StoredSessionTest(StoredCase):
    def start(self):
        running = self.serve()
        first = self.respond(running, "one", instructions="Be brief.").json
        second = self.respond(running, "two", previous_response_id=first["id"]).json
        branch = self.respond(running, "other two", previous_response_id=first["id"]).json
        talk = self.assert_ok(running.send("/v1/conversations", {
            "metadata": {"topic": "fish"},
            "items": [{"role": "user", "content": "beginning"}]})).json
        within = self.respond(running, "three", conversation=talk["id"]).json
        return running, first, second, branch, talk, within

    def said(self, shown):
        texts = []
        for turn in shown["data"]:
            for item in turn["input"]:
                content = item["content"]
                texts.append(content if isinstance(content, str) else content[0]["text"])
        return texts

    def test_they_are_listed_and_shown_and_outlive_kill_9(self):
        running, first, second, branch, talk, within = self.start()
        for _ in range(2):
            self.assertEqual(self.keys(running), [talk["id"], first["id"]])
            rows = running.get("/kvgate/v1/sessions").json["data"]
            self.assertEqual([(row["dialect"], row["turns"]) for row in rows],
                             [("responses", 2), ("responses", 2)])
            # The id of any response finds its session, with the branch that ends there.
            for response, texts in ((second, ["one", "two"]), (branch, ["one", "other two"])):
                shown = self.shown(running, response["id"])
                self.assertEqual(self.said(shown), texts)
                self.assertEqual(shown["key"], first["id"])
                self.assertEqual(shown["data"][-1]["answer"], response["output"])
            self.assertEqual(self.said(self.shown(running, talk["id"])), ["beginning", "three"])
            self.assertEqual(self.shown(running, within["id"])["key"], talk["id"])
            self.assertIn(first["id"], self.command("sessions", "ls"))
            running.kill()
            running.restart()

    def test_a_response_is_copied_to_a_session_that_goes_on_under_its_key(self):
        running, first, second, _, talk, _ = self.start()
        self.command("sessions", "fork", second["id"], "copy")
        on = running.send("/v1/responses", {
            "model": "local", "input": "three", "temperature": 0, "max_output_tokens": 16,
            "store": False}, {"x-kvgate-session": "copy"})
        whole = self.respond(running, "three", previous_response_id=second["id"])
        self.assertEqual(on.json["usage"]["input_tokens"], whole.json["usage"]["input_tokens"])
        self.assertEqual(on.json["output"][0]["content"], whole.json["output"][0]["content"])
        self.assertEqual(self.said(self.shown(running, "copy")), ["one", "two", "three"])
        # In the middle of a chain, and a conversation.
        self.assert_ok(running.send(f"/kvgate/v1/sessions/{second['id']}/fork",
                                    {"key": "early", "turn": first["id"]}))
        self.assertEqual(self.said(self.shown(running, "early")), ["one"])
        self.assert_ok(running.send(f"/kvgate/v1/sessions/{talk['id']}/fork", {"key": "talk"}))
        self.assertEqual(self.said(self.shown(running, "talk")), ["beginning", "three"])
        # No session of a caller's has such a key.
        for key in (first["id"], talk["id"]):
            refused = self.say(running, key, "hello")
            self.assertEqual(refused.status, 400)
            self.assertIn("previous_response_id", refused.error["message"])

    def test_an_export_is_read_again_as_a_session(self):
        running, first, _, _, talk, _ = self.start()
        item = running.get(f"/v1/conversations/{talk['id']}/items?order=asc").json["data"][0]
        path = f"/v1/conversations/{talk['id']}"
        self.assertEqual(self.delete(running, f"{path}/items/{item['id']}"), 200)
        self.assertEqual(running.send(path, {"metadata": {"topic": "birds"}}).status, 200)
        for key, texts in ((first["id"], ["one", "other two"]), (talk["id"], ["three"])):
            file = self.folder / "lines.jsonl"
            self.command("sessions", "export", key, str(file))
            self.command("sessions", "import", str(file), "--key", f"copy-{key[5:]}")
            self.assertEqual(self.said(self.shown(running, f"copy-{key[5:]}")), texts)

    def test_they_are_removed_as_sessions_and_by_their_ids(self):
        running, first, second, branch, talk, within = self.start()
        # What is left is listed as long as something is.
        self.assertEqual(self.delete(running, f"/v1/responses/{first['id']}"), 200)
        self.assertEqual(self.keys(running), [talk["id"], first["id"]])
        self.assertEqual(self.said(self.shown(running, second["id"])), ["two"])
        self.assertEqual(self.delete(running, f"/v1/responses/{second['id']}"), 200)
        self.assertEqual(self.delete(running, f"/v1/responses/{branch['id']}"), 200)
        self.assertEqual(self.keys(running), [talk["id"]])
        # Responses that were made in a conversation outlive it, as they do for their clients.
        self.assertEqual(self.delete(running, f"/v1/conversations/{talk['id']}"), 200)
        self.assertEqual(running.get(f"/v1/responses/{within['id']}").status, 200)
        self.assertEqual(self.keys(running), [talk["id"]])
        self.assertEqual(self.said(self.shown(running, talk["id"])), ["three"])
        self.remove(running, f"/{talk['id']}")
        self.assertEqual(self.keys(running), [])
        self.assertEqual(running.get(f"/v1/responses/{within['id']}").status, 404)
        # All of a tenant's go together.
        last = self.respond(running, "last").json["id"]
        self.say(running, "k", "hello")
        self.assertEqual(self.remove(running, "")["deleted"], 2)
        self.assertEqual(running.get(f"/v1/responses/{last}").status, 404)
        self.assertEqual(running.get("/kvgate/v1/stats").json["turns"]["turns"], 0)


class StoredWindowTest(StoredCase, SummaryCase):
    TURNS = 36

    def chain(self, running, turns, **first):
        """Turns that go on by their ids; returns the last one, and how often turns were left."""
        names, done, prompt, cached = first, 0, 0, 0
        for turn in range(turns):
            reply = self.respond(running, text_of(f"turn {turn}", 25), **names)
            usage = reply.json["usage"]
            prompt += usage["input_tokens"]
            cached += usage["input_tokens_details"]["cached_tokens"]
            self.assertLessEqual(usage["input_tokens"], 1500)
            done += reply.headers.get("x-kvgate-compaction", "").startswith("done;before=")
            if "conversation" not in names:
                names = {"previous_response_id": reply.json["id"]}
            self.settle(running)
        print(f"{prompt} tokens, {cached / prompt:.3f} cached, {done} times shorter",
              file=sys.stderr)
        self.assertGreater(cached / prompt, 0.7)
        return reply.json, done

    def test_a_window_holds_for_chains_and_conversations(self):
        running = self.serve(arguments=["--set", "sessions.window_hard=1500"])
        talk = self.assert_ok(running.send("/v1/conversations", {})).json["id"]
        for first in ({}, {"conversation": talk}):
            last, done = self.chain(running, self.TURNS, **first)
            self.assertGreaterEqual(done, 1)
            # What is left out of prompts is still there.
            listed = running.get(f"/v1/responses/{last['id']}/input_items?limit=100").json
            self.assertEqual(len(listed["data"]), 2 * self.TURNS - 1)
        running.kill()
        running.restart()
        self.assertLessEqual(self.respond(running, "on", previous_response_id=last["id"])
                             .json["usage"]["input_tokens"], 1500)
        # A caller that says that nothing may be left out is believed, unless it is already.
        reply = self.respond(running, text_of("whole", 600), truncation="disabled",
                             previous_response_id=last["id"])
        self.assertGreater(reply.json["usage"]["input_tokens"], 1500)

    def test_summaries_are_made_of_chains_and_conversations(self):
        running = self.serve(arguments=["--set", "sessions.window_hard=1500",
                                        "--set", "sessions.mode=summary"])
        talk = self.assert_ok(running.send("/v1/conversations", {})).json["id"]
        for number, first in enumerate(({}, {"conversation": talk})):
            last, done = self.chain(running, self.TURNS, **first)
            self.assertGreaterEqual(done, 1)
            self.assertEqual(self.folds(running, "failed"), 0)
            key = first.get("conversation") or last["id"]
            self.assertGreaterEqual(self.folds(running, "stored"), number + 1)
            self.assertIn("summary", [event["mode"] for event in self.events(running, key)])
        # One is asked for, counts after a restart, and is taken back.
        for key, names in ((talk, {"conversation": talk}),
                           (last["id"], {"previous_response_id": last["id"]})):
            before = self.respond(running, "on", store=False, previous_response_id=last["id"])
            self.assertIn("summary:", self.command("sessions", "compact", key))
            running.kill()
            running.restart()
            after = self.respond(running, "on", store=False, **names)
            self.assertLess(after.json["usage"]["input_tokens"],
                            before.json["usage"]["input_tokens"])
            self.assertIn("no longer counts", self.command("sessions", "undo", key))
            whole = self.respond(running, "on", store=False, **names)
            self.assertGreater(whole.json["usage"]["input_tokens"],
                               after.json["usage"]["input_tokens"])


if __name__ == "__main__":
    unittest.main()
