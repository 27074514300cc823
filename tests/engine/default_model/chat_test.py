#!/usr/bin/env python3
"""The chat template: Python renders what the engine renders, and knows what the model says."""

import json
import subprocess
import unittest

from model_case import SCRIPTS, ModelCase, program

import chat  # noqa: E402
import generate  # noqa: E402

TOOL = {"type": "function", "function": {"name": "f", "description": "ä <b> 'q' \"d\"",
                                         "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "c1", "type": "function",
        "function": {"name": "f", "arguments": {"a": "ü", "n": [1]}}}
CASES = [
    {"messages": [{"role": "user", "content": "Hi"}]},
    {"messages": []},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]},
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Late."}]},
    {"messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL]},
    {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}],
     "tools": [TOOL, TOOL["function"]]},
    {"messages": [{"role": "user", "content": "x"},
                  {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]},
                  {"role": "tool", "content": "ok", "tool_call_id": "c1"},
                  {"role": "assistant", "content": "Done."}], "tools": [TOOL]},
    {"messages": [{"role": "user", "content": "x"},
                  {"role": "assistant", "content": "Well.", "tool_calls": [
                      {**CALL, "function": {"name": "f", "arguments": "{\"a\":1}"}}]}]},
]


class ChatTest(ModelCase):
    def rendered(self, conversation, add_generation_prompt):
        body = {"messages": conversation["messages"], "tools": conversation.get("tools"),
                "add_generation_prompt": add_generation_prompt}
        path = self.folder / "input.json"
        path.write_text(json.dumps(body))
        return subprocess.run([program(), "render", "--template", SCRIPTS / "chat_template.jinja",
                               path], capture_output=True, check=True).stdout.decode()

    def test_the_engine_renders_the_same(self):
        made = list(generate.Corpus(11).conversations(1e5))
        by_kind = {}
        for conversation in made:
            by_kind.setdefault(conversation["kind"], []).append(conversation)
        chosen = [c for kind in sorted(by_kind) for c in by_kind[kind][:6]]
        for conversation in CASES + chosen:
            for prompt in (False, True):
                self.assertEqual(self.rendered(conversation, prompt),
                                 chat.render(conversation, prompt))

    def test_what_the_model_says_is_its_turns_with_their_ends(self):
        for conversation in CASES + list(generate.Corpus(12).conversations(2e5)):
            said = [text for text, is_said in chat.segments(conversation) if is_said]
            self.assertEqual(said, [chat.body_of(m) + chat.END for m in conversation["messages"]
                                    if m["role"] == "assistant"])

    def test_a_conversation_grows_at_its_end(self):
        for conversation in list(generate.Corpus(13).conversations(1e5)):
            for count in range(1, len(conversation["messages"])):
                before = {**conversation, "messages": conversation["messages"][:count]}
                self.assertTrue(chat.render(conversation).startswith(chat.render(before)))


if __name__ == "__main__":
    unittest.main()
