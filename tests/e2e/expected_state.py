"""What a server has acknowledged, as an oracle of what it must still have after any end.

Each client owns the objects that it makes, and waits for each reply before its next request, so at
most one write of it is in doubt when the server goes: that one may be there or not, all others may
not be lost, and nothing that was deleted may return.
"""

import http.client
import json
import random

from case import text_of, wait_until
from server import ServerError

GONE = (OSError, http.client.HTTPException, json.JSONDecodeError, ServerError, KeyError)
FACTS_MAX = 60  # of a client; beyond that it forgets some, which costs nothing but time

THERE, ABSENT, IN_DOUBT = "there", "absent", "in doubt"


class Client:
    """One thread's requests, and what it has been told."""

    def __init__(self, name, seed):
        self.name = name
        self.random = random.Random(seed)
        self.responses = {}      # id -> [state, output]
        self.conversations = {}  # id -> [state, texts acknowledged]
        self.pins = {}           # name of a prefix -> state; its id is in self.ids
        self.prefixes = {}       # name of a prefix, never pinned -> state of its removal
        self.ids = {}
        self.num_acknowledged = 0
        self.num_made = 0

    def drive(self, running, stop):
        while not stop.is_set():
            try:
                self.step(running)
            except GONE:
                return  # killed in the middle: what this is about

    def step(self, running):
        self.random.choice((self.respond, self.respond, self.delete_response, self.converse,
                            self.converse, self.delete_conversation, self.pin, self.unpin,
                            self.remove_prefix))(running)

    def acknowledge(self, fact, state, reply):
        """A write that was refused may still have been done in part of its ways."""
        fact[0] = state if reply.status == 200 else IN_DOUBT
        self.num_acknowledged += reply.status == 200

    def text(self, words):
        return text_of(self.random.random(), words)

    def known(self, facts, state=THERE):
        return [key for key, fact in facts.items() if fact[0] == state]

    def respond(self, running):
        body = {"model": "local", "input": self.text(12), "max_output_tokens": 4}
        before = self.known(self.responses)
        if before and self.random.random() < 0.4:
            body["previous_response_id"] = self.random.choice(before)
        reply = running.send("/v1/responses", body)
        if reply.status == 200:
            self.responses[reply.json["id"]] = [THERE, reply.json["output"]]
            self.num_acknowledged += 1

    def delete(self, running, path, fact):
        fact[0] = IN_DOUBT
        connection = running.connect()
        try:
            connection.request("DELETE", path)
            reply = connection.getresponse()
            reply.read()
        finally:
            connection.close()
        if reply.status == 404:
            raise AssertionError(f"{self.name}: {path} was acknowledged and is not there")
        self.acknowledge(fact, ABSENT, reply)

    def delete_response(self, running):
        known = self.known(self.responses)
        if len(known) > 3:
            identifier = self.random.choice(known)
            self.delete(running, f"/v1/responses/{identifier}", self.responses[identifier])

    def converse(self, running):
        known = [key for key in self.known(self.conversations)
                 if len(self.conversations[key][1]) < 30]
        if len(known) < 2:
            reply = running.send("/v1/conversations", {})
            if reply.status == 200:
                self.conversations[reply.json["id"]] = [THERE, []]
                self.num_acknowledged += 1
            return
        identifier = self.random.choice(known)
        fact = self.conversations[identifier]
        text = self.text(8)
        reply = running.send("/v1/responses", {"model": "local", "input": text,
                                               "conversation": identifier, "max_output_tokens": 4})
        if reply.status == 200:
            said = reply.json["output"][0]["content"][0]["text"]
            fact[1] += [text, said]
            self.num_acknowledged += 1

    def delete_conversation(self, running):
        known = self.known(self.conversations)
        if len(known) > 1 and self.random.random() < 0.3:
            identifier = self.random.choice(known)
            self.delete(running, f"/v1/conversations/{identifier}",
                        self.conversations[identifier])

    def warm(self, running, name, **options):
        system = {"role": "system", "content": text_of(f"{self.name} {name}", 120)}
        return running.send("/kvgate/v1/prefixes/warm",
                            {"model": "local", "messages": [system], "kvgate": options})

    def pin(self, running):
        name = f"pin {self.random.randrange(3)}"
        fact = self.pins.setdefault(name, [ABSENT])
        fact[0] = IN_DOUBT
        reply = self.warm(running, name, pin=True)
        if reply.status == 200:
            self.ids[name] = reply.json["id"]
        self.acknowledge(fact, THERE, reply)

    def unpin(self, running):
        known = self.known(self.pins)
        if known:
            name = self.random.choice(known)
            self.delete(running, f"/kvgate/v1/prefixes/{self.ids[name]}/pin", self.pins[name])

    def remove_prefix(self, running):
        name = f"prefix {self.num_made}"
        self.num_made += 1
        made = self.warm(running, name)
        if made.status != 200 or not made.json["stored"]:
            return
        self.ids[name] = made.json["id"]
        fact = self.prefixes[name] = [IN_DOUBT]
        self.delete(running, f"/kvgate/v1/prefixes/{self.ids[name]}", fact)

    def check(self, test, running, label):
        """Asserts all of it; what was in doubt is as found. Returns how many were compared."""
        num = 0
        for identifier, fact in self.responses.items():
            reply = running.get(f"/v1/responses/{identifier}")
            num += 1
            self.judge(test, fact, reply.status == 200, f"{label}: response {identifier}")
            if reply.status == 200:
                test.assertEqual(reply.json["output"], fact[1], f"{label}: {identifier}")
        for identifier, fact in self.conversations.items():
            reply = running.get(f"/v1/conversations/{identifier}/items?order=asc&limit=100")
            num += 1
            self.judge(test, fact, reply.status == 200, f"{label}: conversation {identifier}")
            if reply.status == 200:
                texts = [item["content"][0]["text"] for item in reply.json["data"]]
                test.assertEqual(texts[:len(fact[1])], fact[1], f"{label}: {identifier}")
                test.assertLessEqual(len(texts), len(fact[1]) + 2, "one turn was in doubt")
                fact[1] = texts
        self.wait_for_pins(running)
        rows = {row["id"]: row for row in running.get("/kvgate/v1/prefixes").json["data"]}
        for name, fact in [*self.pins.items(), *self.prefixes.items()]:
            row = rows.get(self.ids.get(name))
            num += 1
            there = row is not None and (row["pinned"] or name in self.prefixes)
            self.judge(test, fact, there, f"{label}: {self.name}, {name}")
        self.forget()
        return num

    @staticmethod
    def judge(test, fact, is_there, label):
        if fact[0] != IN_DOUBT:
            test.assertEqual(is_there, fact[0] == THERE,
                             f"{label}: it was {fact[0]} when that was acknowledged")
        fact[0] = THERE if is_there else ABSENT

    def wait_for_pins(self, running, seconds=60):
        """A pinned prefix whose KV was not flushed is computed again after the start."""
        wanted = {self.ids[name] for name in self.known(self.pins)}

        def pinned():
            rows = running.get("/kvgate/v1/prefixes").json["data"]
            return {row["id"] for row in rows if row["pinned"]}

        wait_until(lambda: wanted <= pinned(), lambda: f"pins: {wanted - pinned()}", seconds)

    def forget(self):
        for facts in (self.responses, self.conversations, self.prefixes):
            while len(facts) > FACTS_MAX:
                del facts[self.random.choice(list(facts))]
