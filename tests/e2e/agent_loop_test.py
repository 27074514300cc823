#!/usr/bin/env python3
"""An agent's ten turns with twenty tools: from the second turn on at least 95 % of the prompt is
read from the cache, with the templates of several models, in the Chat and the Messages dialect.

Each turn must call a tool; the call goes back with its result. The shares are printed."""

import json
import re
import unittest

from case import FULL, TEST_DATA, TINY, Case, tenant, text_of

TURNS = 10
SHARE_MIN = 0.95
TEMPLATES = ["Qwen-Qwen3-0.6B", "Qwen3-Coder", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
             "meta-llama-Llama-3.1-8B-Instruct", "deepseek-ai-DeepSeek-V3.1", "GLM-4.6",
             "Kimi-K2-Instruct", "openai-gpt-oss-120b", "LFM2-8B-A1B",
             "mistralai-Mistral-Nemo-Instruct-2407", "google-gemma-2-2b-it"]
# One of each way to write what is no JSON; the others with KVGATE_TEST_FULL.
WITH_CUSTOM_TOOLS = ("plain", "Qwen-Qwen3-0.6B", "Qwen3-Coder", "openai-gpt-oss-120b")
# Nothing of any model's: tools are told as text.
PLAIN = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
         "{% if add_generation_prompt %}<assistant>{% endif %}")
SYSTEM = "You work in a repository. " + text_of("system", 20)


def tool(index):
    return {"name": f"tool_{index}",
            "description": f"Does number {index}. {text_of(index, 36)}",
            "parameters": {"type": "object", "properties": {
                "path": {"type": "string", "maxLength": 12, "description": text_of(-index, 8)},
                "count": {"type": "integer", "minimum": 0, "maximum": 999}},
                "required": ["path"], "additionalProperties": False}}


TOOLS = [tool(i) for i in range(20)]


class ChatAgent:
    path = "/v1/chat/completions"

    def __init__(self):
        self.messages = [{"role": "system", "content": SYSTEM},
                         {"role": "user", "content": "Begin."}]

    def body(self):
        return {"model": "local", "messages": self.messages, "max_tokens": 300, "temperature": 0,
                "tools": [{"type": "function", "function": each} for each in TOOLS],
                "tool_choice": "required", "parallel_tool_calls": False}

    def share(self, reply):
        usage = reply["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"]

    def go_on(self, reply, result):
        """The calls of the turn, with their arguments."""
        message = reply["choices"][0]["message"]
        assert reply["choices"][0]["finish_reason"] == "tool_calls", reply["choices"][0]
        message.pop("reasoning_content", None)  # as agents do
        calls = message["tool_calls"]
        self.messages += [message, *({"role": "tool", "tool_call_id": call["id"], "content": result}
                                     for call in calls)]
        return [(call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in calls]


class MessagesAgent:
    path = "/v1/messages"

    def __init__(self):
        self.messages = [{"role": "user", "content": "Begin."}]

    def body(self):
        return {"model": "local", "system": SYSTEM, "messages": self.messages, "max_tokens": 300,
                "temperature": 0,
                "tools": [{"name": each["name"], "description": each["description"],
                           "input_schema": each["parameters"]} for each in TOOLS],
                "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}

    def share(self, reply):
        usage = reply["usage"]
        read = usage["cache_read_input_tokens"]
        return read / (read + usage["cache_creation_input_tokens"] + usage["input_tokens"])

    def go_on(self, reply, result):
        assert reply["stop_reason"] == "tool_use", reply
        content = [block for block in reply["content"] if block["type"] != "thinking"]
        calls = [block for block in content if block["type"] == "tool_use"]
        self.messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call["id"], "content": result}
            for call in calls]}]
        return [(call["name"], call["input"]) for call in calls]


class CodexAgent:
    """As Codex has its tools: one with a grammar, one of a namespace, some that nobody runs here;
    an image comes back with the third call."""
    path = "/v1/responses"
    grammar = ('start: "*** Begin Patch" LF line ~ 1..4 "*** End Patch"\n'
               'line: ("+" | "-" | " ") /[a-z "]{0,6}/ LF\n%import common.LF\n')
    names = ("apply_patch", "spawn", "tool_1")

    def __init__(self):
        self.items = [
            {"type": "additional_tools", "role": "developer", "tools": [
                {"type": "namespace", "name": "agents", "description": text_of("team", 20),
                 "tools": [{"type": "function", **tool(0), "name": "spawn"}]}]},
            {"type": "message", "role": "user", "content": "Begin."}]
        self.turn = 0

    def body(self):
        tools = [{"type": "custom", "name": "apply_patch", "description": text_of("patch", 200),
                  "format": {"type": "grammar", "syntax": "lark", "definition": self.grammar}},
                 *({"type": "function", **each} for each in TOOLS[1:]),
                 {"type": "tool_search", "execution": "client"}, {"type": "web_search"}]
        name = self.names[self.turn % 3]
        choice = {"type": "custom" if name == "apply_patch" else "function", "name": name}
        if name == "spawn":
            choice["namespace"] = "agents"
        return {"model": "local", "instructions": SYSTEM, "input": self.items, "store": False,
                "max_output_tokens": 300, "temperature": 0, "tools": tools, "tool_choice": choice}

    def share(self, reply):
        usage = reply["usage"]
        return usage["input_tokens_details"]["cached_tokens"] / usage["input_tokens"]

    def go_on(self, reply, result):
        calls = [item for item in reply["output"] if item["type"].endswith("_call")]
        self.items += [item for item in reply["output"] if item["type"] != "reasoning"]
        self.turn += 1
        told = []
        for call in calls:
            output = [{"type": "input_text", "text": result}]
            if self.turn == 3:
                output.append({"type": "input_image", "image_url": "data:image/png;base64,AA=="})
            self.items.append({"type": call["type"] + "_output", "call_id": call["call_id"],
                               "output": output})
            if call["type"] == "custom_tool_call":
                lines = call["input"].split("\n")
                assert (lines[0], lines[-1]) == ("*** Begin Patch", "*** End Patch"), call
                for line in lines[1:-1]:
                    assert re.fullmatch(r'[+ -][a-z "]{0,6}', line), call
                told.append((TOOLS[0]["name"], {"path": call["input"]}))
            else:
                space = "agents" if call["name"] == "spawn" else None
                assert call.get("namespace") == space, call
                told.append((TOOLS[1]["name"], json.loads(call["arguments"])))
        return told


class AgentLoopTest(Case):
    def loop(self, running, agent, name):
        shares = []
        for turn in range(TURNS):
            reply = self.assert_ok(running.send(agent.path, agent.body(), tenant(name))).json
            shares.append(agent.share(reply))
            calls = agent.go_on(reply, f"Result {turn}: {text_of(turn, 10)}.")
            self.assertEqual(len(calls), 1)
            self.assertIn(calls[0][0], [each["name"] for each in TOOLS])
            self.assertIsInstance(calls[0][1].get("path"), str, calls)
        print(f"{name}: " + " ".join(f"{share:.3f}" for share in shares))
        self.assertGreaterEqual(min(shares[1:]), SHARE_MIN, f"{name}: {shares}")

    def loops(self, template, name):
        # Room for twenty tools in tokens of a byte or two.
        model = self.model({**TINY, "context": 65536}, "tiny-long")
        running = self.serve(model, arguments=["--chat-template", str(template)])
        # V20: turn by turn alike in both dialects.
        self.loop(running, ChatAgent(), f"{name}, chat")
        self.loop(running, MessagesAgent(), f"{name}, messages")
        if FULL or name in WITH_CUSTOM_TOOLS:
            self.loop(running, CodexAgent(), f"{name}, responses")
        running.__exit__()

    def test_v11_thinking_that_a_template_drops_costs_the_last_turn_alone(self):
        path = TEST_DATA / "templates" / "Qwen-Qwen3-0.6B.jinja"
        if not path.exists():
            self.skipTest(f"{path} is not there (KVGATE_TEST_DATA)")
        running = self.serve(self.model({**TINY, "context": 65536}, "tiny-long"),
                             arguments=["--chat-template", str(path)])
        messages = [{"role": "system", "content": SYSTEM}]
        before = 0
        for turn in range(6):
            messages.append({"role": "user", "content": f"{turn}: {text_of(turn, 40)}"})
            usage = self.assert_ok(running.send("/v1/chat/completions", {
                "model": "local", "messages": messages, "max_tokens": 20, "temperature": 0},
                tenant("thinking"))).json["usage"]
            read = usage["prompt_tokens_details"]["cached_tokens"]
            # All that was asked before, but for what asks for an answer.
            self.assertGreaterEqual(read, before - 2 * 32, f"turn {turn}")
            before = usage["prompt_tokens"]
            messages.append({"role": "assistant", "content": f"Answer {turn}.",
                             "reasoning_content": f"Thought {turn}. {text_of(-turn, 30)}"})

    def test_a_template_that_knows_no_tools(self):
        path = self.folder / "plain.jinja"
        path.write_text(PLAIN)
        self.loops(path, "plain")

    def test_the_templates_of_models(self):
        for name in TEMPLATES:
            path = TEST_DATA / "templates" / f"{name}.jinja"
            if not path.exists():
                self.skipTest(f"{path} is not there (KVGATE_TEST_DATA)")
            with self.subTest(name):
                self.loops(path, name)


if __name__ == "__main__":
    unittest.main()
