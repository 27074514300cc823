#!/usr/bin/env python3
"""Reasoning that an agent leaves out of what it sends back is put back from the turn store, so that
the cached prefix still matches.

A grammar holds the model to an answer with reasoning and a call; its vocabulary is bytes, so that
the answer's tokens are those of its text."""

import unittest

from case import TINY, Case, tenant

BYTES = {**TINY, "arch": "qwen2", "vocab": 259}
TEMPLATE = """{%- for tool in tools or [] %}<tools>{{ tool | tojson }}{% endfor %}
{%- for m in messages %}
{{- '<' ~ m.role ~ '>' }}
{%- if m.role == 'assistant' and m.reasoning_content %}
{{- '<think>\\n' ~ m.reasoning_content ~ '\\n</think>\\n\\n' }}
{%- endif %}
{{- m.content }}
{%- for call in m.tool_calls or [] %}
{{- '<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' }}
{{- call.function.arguments is string and call.function.arguments
    or call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<end>' }}
{%- endfor %}
{%- if add_generation_prompt %}<assistant>{% endif %}
"""
THOUGHT = "The user wants the file. I look at it first, and decide then what is to be done."
ANSWER = (f'<think>\\n{THOUGHT}\\n</think>\\n\\n<tool_call>\\n{{\\"name\\": \\"look\\", '
          '\\"arguments\\": {\\"path\\": \\"a\\", \\"n\\": 1.50}}\\n</tool_call>')
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "number"}}}}}]


class ReasoningTest(Case):
    def start(self, *arguments):
        template = self.folder / "think.jinja"
        template.write_text(TEMPLATE)
        return self.serve(self.model(BYTES, "bytes"),
                          arguments=["--chat-template", str(template), *arguments])

    def ask(self, running, messages, name="a", **more):
        body = {"model": "local", "messages": messages, "tools": TOOLS, "max_tokens": 400,
                "grammar": f'root ::= "{ANSWER}"', **more}
        return self.assert_ok(running.send("/v1/chat/completions", body, tenant(name))).json

    def turn(self, running, messages, name="a"):
        """Answers, and goes on as agents do: the call alone, spelled anew."""
        reply = self.ask(running, messages, name)
        message = reply["choices"][0]["message"]
        self.assertEqual(message["reasoning_content"], THOUGHT)
        self.assertEqual(reply["choices"][0]["finish_reason"], "tool_calls")
        call = message["tool_calls"][0]
        call["function"]["arguments"] = '{"path":"a","n":1.50}'
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": call["id"], "content": "empty"}]
        return reply["usage"]

    def test_the_next_prompt_has_the_reasoning_and_reads_it_from_the_cache(self):
        running = self.start()
        messages = [{"role": "user", "content": "Go."}]
        before = self.turn(running, messages)
        for _ in range(3):
            usage = self.turn(running, messages)
            # Up to the arguments, which the agent has spelled anew.
            known = before["prompt_tokens"] + before["completion_tokens"] - 60
            self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], known)
            self.assertGreater(usage["prompt_tokens"],
                               before["prompt_tokens"] + len(THOUGHT), "it is not in the prompt")
            before = usage

    def test_it_survives_a_restart_and_is_nobody_elses(self):
        running = self.start()
        messages = [{"role": "user", "content": "Go."}]
        self.turn(running, messages)
        whole = self.ask(running, messages)["usage"]["prompt_tokens"]
        running.kill()
        running.start()
        self.assertEqual(self.ask(running, messages)["usage"]["prompt_tokens"], whole)
        other = self.ask(running, messages, "b")["usage"]["prompt_tokens"]
        self.assertLess(other, whole - len(THOUGHT) + 1)

    def test_what_the_agent_sends_itself_stays(self):
        running = self.start()
        messages = [{"role": "user", "content": "Go."}]
        self.turn(running, messages)
        whole = self.ask(running, messages)["usage"]["prompt_tokens"]
        messages[1]["reasoning_content"] = THOUGHT + " Or not."
        self.assertEqual(self.ask(running, messages)["usage"]["prompt_tokens"],
                         whole + len(" Or not."))

    def test_without_turns_nothing_is_kept(self):
        running = self.start("--set", "store.turns=false")
        messages = [{"role": "user", "content": "Go."}]
        before = self.turn(running, messages)
        usage = self.turn(running, messages)
        self.assertLess(usage["prompt_tokens"], before["prompt_tokens"] + 120)
        self.assertEqual(running.stats()["turns"]["turns"], 0)


if __name__ == "__main__":
    unittest.main()
