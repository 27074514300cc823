#!/usr/bin/env python3
"""Structured output through the whole house: a model with random weights writes what was asked for.

Random schemas are judged by the Python package `jsonschema`; without it that test skips by name.
"""

import json
import random
import unittest

from case import Case, text_of
from sampling_test import choices_of

try:
    import jsonschema
except ImportError:
    jsonschema = None

PROMPT = text_of("structured", 30)
NUM_SCHEMAS = 120
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "kind": {"enum": ["red", "green", None]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
    },
    "required": ["name", "age", "kind", "tags"],
    "additionalProperties": False,
}


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}


class RandomSchema:
    """Nested objects, arrays, enums, const, anyOf, $ref, bounds and patterns."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.uses_tree = False

    def make(self):
        schema = self.any(0)
        if self.uses_tree:
            schema["$defs"] = {"tree": {
                "type": "object",
                "properties": {"v": self.scalar(), "next": {
                    "anyOf": [{"type": "null"}, {"$ref": "#/$defs/tree"}]}},
                "required": ["v", "next"], "additionalProperties": False}}
        return schema

    def any(self, depth):
        if depth >= 3 or self.rng.random() < 0.4:
            return self.scalar()
        return self.rng.choice([self.object, self.object, self.array, self.choice,
                                self.reference])(depth)

    def scalar(self):
        rng = self.rng
        low = rng.randint(-500, 500)
        return rng.choice([
            {"type": "string", "minLength": rng.randint(0, 5), "maxLength": rng.randint(5, 30)},
            {"type": "string"},
            {"type": "string", "pattern": rng.choice(
                ["^[A-Z]{2}-\\d{3,5}$", "^(a|bc)+$", "[0-9]", "^[^@\\s]{1,9}@[a-z]+\\.org$"])},
            {"type": "string", "format": rng.choice(["date", "ipv4", "date-time", "uuid"])},
            {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 900)},
            {"type": "integer", "multipleOf": rng.randint(2, 9), "exclusiveMinimum": low},
            {"type": "number", "exclusiveMinimum": low / 8, "maximum": low / 8 + 40.5},
            {"enum": ["x", 1, -2.5, None, True, "\u00e9\"\n", {"k": [1, 2]}]},
            {"const": "only \"this\""}, {"type": ["boolean", "null"]}])

    def object(self, depth):
        names = self.rng.sample(["id", "name", "\u00e9 \u00fc", "a\"b", "x", "tags"],
                                self.rng.randint(0, 4))
        schema = {"type": "object", "properties": {n: self.any(depth + 1) for n in names},
                  "required": [n for n in names if self.rng.random() < 0.6]}
        if self.rng.random() < 0.6:
            schema["additionalProperties"] = False
        return schema

    def array(self, depth):
        low = self.rng.randint(0, 2)
        return {"type": "array", "items": self.any(depth + 1), "minItems": low,
                "maxItems": low + self.rng.randint(0, 3)}

    def choice(self, depth):
        return {"anyOf": [self.any(depth + 1) for _ in range(self.rng.randint(1, 3))]}

    def reference(self, _):
        self.uses_tree = True
        return {"$ref": "#/$defs/tree"}


class StructuredOutputTest(Case):
    def setUp(self):
        super().setUp()
        self.running = self.serve()

    def ask(self, **fields):
        return self.assert_ok(self.running.complete(
            PROMPT, **{"max_tokens": 300, "temperature": 1, **fields}))

    def test_a_schema_is_followed_in_both_dialects_streamed_and_whole(self):
        fields = dict(max_tokens=300, temperature=1, seed=7,
                      response_format=schema_format(PERSON))
        messages = [{"role": "user", "content": PROMPT}]
        for send, said in ((self.running.complete, PROMPT), (self.running.chat, messages)):
            whole = self.assert_ok(send(said, **fields))
            value = json.loads(whole.text)
            self.assertEqual(list(value), ["name", "age", "kind", "tags"])
            self.assertIn(value["age"], range(151))
            self.assertIn(value["kind"], ["red", "green", None])
            stream = self.assert_ok(send(said, stream=True, **fields))
            self.assertEqual(stream.text, whole.text)

    def test_three_answers_each_follow_the_schema_with_states_of_their_own(self):
        reply = self.ask(n=3, seed=1, response_format=schema_format(PERSON))
        texts, reasons = choices_of(reply)
        self.assertEqual(len(set(texts)), 3)
        for text, reason in zip(texts, reasons):
            self.assertIsInstance(json.loads(text)["name"], str)
            self.assertEqual(reason, "stop")

    def test_an_object_is_whole_even_where_the_tokens_cut_it(self):
        for seed in range(10):
            for greedy in (0, 1):
                reply = self.ask(seed=seed, max_tokens=60 + seed, temperature=1 - greedy,
                                 response_format={"type": "json_object"})
                self.assertIsInstance(json.loads(reply.text), dict)
        # What needs more than there is cannot be whole, and says so.
        short = self.ask(max_tokens=5, response_format=schema_format(PERSON))
        self.assertEqual(short.json["choices"][0]["finish_reason"], "length")

    def test_gbnf_decides_every_byte(self):
        grammar = 'root ::= "move " [a-h] [1-8] (" " [a-h] [1-8]){2} "\u00e9!"'
        for temperature in (0, 1):
            reply = self.ask(grammar=grammar, temperature=temperature, logprobs=2)
            self.assertRegex(reply.text, "^move ([a-h][1-8] ?){3}\u00e9!$")
            self.assertEqual(reply.json["choices"][0]["finish_reason"], "stop")

    @unittest.skipIf(jsonschema is None, "the Python package jsonschema is not installed")
    def test_answers_to_random_schemas_are_valid(self):
        checker = jsonschema.FormatChecker()
        for seed in range(NUM_SCHEMAS):
            schema = RandomSchema(seed).make()
            with self.subTest(seed=seed, schema=json.dumps(schema)):
                reply = self.ask(seed=seed, max_tokens=500, response_format=schema_format(schema))
                jsonschema.validate(json.loads(reply.text), schema, format_checker=checker,
                                    cls=jsonschema.Draft202012Validator)

    def test_what_cannot_be_is_named(self):
        base = "response_format.json_schema.schema"
        many = {"type": "object", "properties": {"x": {"if": {}}}}
        for field, fields in (
                (f"{base}.properties.x.if", dict(response_format=schema_format(many))),
                (f"{base}.type", dict(response_format=schema_format({"type": "frog"}))),
                (base, dict(response_format=schema_format({"enum": [1], "type": "string"}))),
                ("response_format.type", dict(response_format={"type": "yaml"})),
                ("grammar", dict(grammar="root ::= root \"x\" | \"y\"")),
                ("grammar", dict(grammar="root ::= [a")),
                ("json_schema", dict(grammar="root ::= \"a\"", json_schema={}))):
            with self.subTest(field=field, **fields):
                reply = self.running.send("/v1/completions",
                                          {"model": "local", "prompt": "a", **fields})
                self.assertEqual(reply.status, 400, reply.body)
                self.assertEqual(reply.error["param"], field)
                self.assertIn(field, reply.error["message"])


if __name__ == "__main__":
    unittest.main()
