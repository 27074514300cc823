#!/usr/bin/env python3
"""tool_choice through the whole house: a model with random weights, under the chat templates of
real ones, calls what it must, with arguments that the tools' schemas allow.

The templates are in the shared test data; without them these tests skip by name.
"""

import concurrent.futures
import json
import re
import unittest

from case import TEST_DATA, Case

# One of each way to write calls.
TEMPLATES = [
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "Qwen-Qwen3-0.6B", "Qwen3-Coder", "GLM-4.6",
    "meetkai-functionary-medium-v3.1", "meta-llama-Llama-3.1-8B-Instruct",
    "mistralai-Mistral-Nemo-Instruct-2407", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "deepseek-ai-DeepSeek-V3.1", "Kimi-K2-Instruct",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use", "LFM2-8B-A1B", "openai-gpt-oss-120b",
    "google-gemma-2-2b-it"]
NUM_SEEDS = 56  # of each template, over all of its tests
AT_ONCE = 8
MESSAGES = [{"role": "user", "content": "What is the weather, and what is in the file?"}]


def tool(name, parameters=None, **more):
    function = {"name": name, "description": f"Does {name}.", **more}
    if parameters is not None:
        function["parameters"] = parameters
    return {"type": "function", "function": function}


TOOLS = [
    tool("get_weather", {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12},
                       "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                       "days": {"type": "integer", "minimum": 1, "maximum": 14}},
        "required": ["city", "unit"], "additionalProperties": False}, strict=True),
    tool("read_file", {
        "type": "object",
        "properties": {"path": {"type": "string", "pattern": "^/[a-z/]{1,12}$"},
                       "lines": {"type": "array", "items": {"type": "integer", "maximum": 99},
                                 "maxItems": 2},
                       "options": {"type": "object",
                                   "properties": {"raw": {"type": "boolean"}},
                                   "required": ["raw"], "additionalProperties": False}},
        "required": ["path", "options"]}),
    tool("now"),
]
SCHEMAS = {t["function"]["name"]: t["function"].get("parameters") for t in TOOLS}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def problem_of(value, schema):
    """Why the value does not meet the schema, by the keywords above; None where it does."""
    if not isinstance(value, TYPES[schema["type"]]) or (
            schema["type"] == "integer" and isinstance(value, bool)):
        return f"{value!r} is no {schema['type']}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{value!r} is not named"
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)):
            return f"{value!r} is too long"
        if not re.search(schema.get("pattern", ""), value):
            return f"{value!r} does not match"
    if isinstance(value, int) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            return f"{value!r} is out of range"
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            return f"{value!r} has too many"
        return next(filter(None, (problem_of(v, schema["items"]) for v in value)), None)
    if isinstance(value, dict):
        missing = set(schema.get("required", [])) - set(value)
        unknown = set(value) - set(schema["properties"])
        if missing or unknown:
            return f"{value!r}: missing {missing}, unknown {unknown}"
        return next(filter(None, (problem_of(v, schema["properties"][k])
                                  for k, v in value.items())), None)
    return None


def calls_of(reply, stream):
    """(name, arguments as text, id) of each call of the only choice, and its finish reason."""
    if not stream:
        choice = reply.json["choices"][0]
        return [(c["function"]["name"], c["function"]["arguments"], c["id"])
                for c in choice["message"].get("tool_calls") or []], choice["finish_reason"]
    calls, finish = {}, None
    for chunk in reply.objects:
        for choice in chunk.get("choices", []):
            finish = choice.get("finish_reason") or finish
            for call in choice["delta"].get("tool_calls") or []:
                known = calls.setdefault(call["index"], ["", "", ""])
                known[0] += call["function"].get("name") or ""
                known[1] += call["function"].get("arguments") or ""
                known[2] += call.get("id") or ""
    return [tuple(calls[i]) for i in sorted(calls)], finish


class ToolChoiceTest(Case):
    def serve_with(self, name):
        template = TEST_DATA / "templates" / f"{name}.jinja"
        if not template.exists():
            self.skipTest(f"{template} is not there (KVGATE_TEST_DATA)")
        return self.serve(data_dir=self.folder / name,
                          arguments=["--chat-template", str(template)])

    def assert_calls(self, calls, allowed):
        for name, arguments, _ in calls:
            self.assertIn(name, allowed)
            value = json.loads(arguments)
            if SCHEMAS[name] is None:
                self.assertEqual(value, {})
            else:
                self.assertIsNone(problem_of(value, SCHEMAS[name]), arguments)
        self.assertEqual(len({call[2] for call in calls}), len(calls), calls)

    def ask(self, running, seed):
        """What the seed asks for, and the reply: (choice, names, parallel, stream, reply)."""
        stream = seed % 2 == 1
        parallel = seed % 3 != 0
        choice, allowed = [
            ("required", list(SCHEMAS)),
            ({"type": "function", "function": {"name": "read_file"}}, ["read_file"]),
            ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                {"type": "function", "function": {"name": "get_weather"}},
                {"type": "function", "function": {"name": "now"}}]}},
             ["get_weather", "now"]),
            ("auto", list(SCHEMAS))][seed % 4]
        reply = running.chat(
            MESSAGES, max_tokens=700 if choice != "auto" else 40, temperature=1, seed=seed,
            tools=TOOLS, tool_choice=choice, parallel_tool_calls=parallel, stream=stream)
        return choice, allowed, parallel, stream, reply

    def check(self, running, name):
        several = 0
        # Together they are decoded in one batch, each with its own grammar.
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            asked = list(pool.map(lambda seed: self.ask(running, seed), range(NUM_SEEDS)))
        for seed, (choice, allowed, parallel, stream, reply) in enumerate(asked):
            calls, finish = calls_of(self.assert_ok(reply), stream)
            with self.subTest(template=name, seed=seed, calls=calls):
                if choice != "auto":
                    self.assertGreaterEqual(len(calls), 1)
                    self.assert_calls(calls, allowed)
                    self.assertIn(finish, ("tool_calls", "length"))
                    self.assertTrue(parallel or len(calls) == 1)
            several += len(calls) > 1
        return several

    def test_replies_that_must_call_do_so_under_every_template(self):
        several = 0
        for name in TEMPLATES:
            running = self.serve_with(name)
            several += self.check(running, name)
            running.kill()
        self.assertGreater(several, 20)

    def test_auto_says_what_a_model_without_tools_in_its_grammar_says(self):
        running = self.serve_with("Qwen-Qwen3-0.6B")
        said = dict(max_tokens=60, temperature=1, tools=TOOLS)
        for seed in range(5):
            auto = self.assert_ok(running.chat(MESSAGES, seed=seed, **said))
            none = self.assert_ok(running.chat(MESSAGES, seed=seed, tool_choice="none", **said))
            self.assertEqual(auto.json["choices"][0]["message"]["content"],
                             none.json["choices"][0]["message"]["content"])

    def test_a_strict_tool_with_what_is_not_supported_is_a_400_that_names_it(self):
        running = self.serve_with("Qwen-Qwen3-0.6B")
        odd = {"type": "object", "properties": {"x": {"type": "string", "if": {}}}}
        tools = [*TOOLS, tool("odd", odd, strict=True)]
        for choice in ("auto", "required"):
            reply = running.chat(MESSAGES, tools=tools, tool_choice=choice)
            self.assertEqual(reply.status, 400)
            self.assertEqual(reply.error["param"],
                             "tools[3].function.parameters.properties.x.if")
        self.assert_ok(running.chat(MESSAGES, tools=tools, tool_choice="none", max_tokens=2))
        tools[3]["function"]["strict"] = False
        self.assert_ok(running.chat(MESSAGES, tools=tools, max_tokens=2))

    def test_a_json_answer_comes_behind_the_reasoning_that_the_prompt_opens(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}},
                  "required": ["n"], "additionalProperties": False}
        for name in ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "openai-gpt-oss-120b"):
            running = self.serve_with(name)
            for seed in range(6):
                reply = self.assert_ok(running.chat(
                    MESSAGES, max_tokens=120, temperature=1, seed=seed, response_format={
                        "type": "json_schema",
                        "json_schema": {"name": "x", "schema": schema, "strict": True}}))
                message = reply.json["choices"][0]["message"]
                self.assertIsNone(problem_of(json.loads(message["content"]), schema))
                if "R1" in name:
                    self.assertTrue(message["reasoning_content"])
            running.kill()


if __name__ == "__main__":
    unittest.main()
