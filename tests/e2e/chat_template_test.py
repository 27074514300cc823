#!/usr/bin/env python3
"""A model's chat template through the real binary: what `kvgate render` prints is what the server
tokenizes, and a template that fails says so in the caller's dialect."""

import json
import subprocess
import unittest

from case import Case
import server

TEMPLATE = """{{ bos_token }}{% for message in messages -%}
{% if message.content == 'boo' %}{{ raise_exception('no boos, please') }}{% endif -%}
<{{ message.role }}>{{ message.content }}
{% endfor %}{% if style %}[{{ style }}]{% endif -%}
{% if add_generation_prompt %}<assistant>{% endif %}
"""
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who are you?"},
            {"role": "assistant", "content": "A cat."}, {"role": "user", "content": "Why?"}]


class ChatTemplateTest(Case):
    def setUp(self):
        super().setUp()
        self.template = self.folder / "chat.jinja"
        self.template.write_text(TEMPLATE)

    def kvgate(self, *arguments, stdin=""):
        return subprocess.run([server.binary_path(), *arguments], input=stdin, text=True,
                              capture_output=True, check=True, timeout=60).stdout

    def rendered_tokens(self, **more):
        """Of the same conversation, by the commands. The model adds its BOS itself."""
        given = {"messages": MESSAGES, "add_generation_prompt": True, **more}
        text = self.kvgate("render", "--template", self.template, "-", stdin=json.dumps(given))
        return len(self.kvgate("tokenize", "--model", self.tiny(), stdin=text).split())

    def serve_with(self, template):
        return self.serve(arguments=["--chat-template", str(template)])

    def prompt_tokens(self, running, **more):
        return self.assert_ok(running.chat(MESSAGES, max_tokens=1, **more)).usage["prompt_tokens"]

    def test_what_render_prints_is_what_the_server_tokenizes(self):
        running = self.serve_with(self.template)
        plain = self.rendered_tokens()
        self.assertEqual(self.prompt_tokens(running), plain)
        styled = self.prompt_tokens(running, chat_template_kwargs={"style": "very terse indeed"})
        self.assertEqual(styled, self.rendered_tokens(style="very terse indeed"))
        self.assertGreater(styled, plain)

    def test_a_template_that_raises_is_a_400_with_its_words(self):
        running = self.serve_with(self.template)
        reply = running.chat([*MESSAGES, {"role": "user", "content": "boo"}])
        self.assertEqual(reply.status, 400)
        self.assertIn("no boos, please", reply.error["message"])
        self.assertEqual(reply.error["param"], "messages")
        self.assert_ok(running.chat(MESSAGES, max_tokens=1))

    def test_a_template_that_cannot_be_read_stops_the_start_and_says_where(self):
        for text, words in (("one\n {% for %}", "2:"), (None, "chat.jinja")):
            if text is None:
                self.template.unlink()
            else:
                self.template.write_text(text)
            made = subprocess.run([server.binary_path(), "serve", "--model", self.tiny(),
                                   "--listen", "127.0.0.1:0", "--data-dir", self.folder / "other",
                                   "--chat-template", self.template],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertNotEqual(made.returncode, 0)
            self.assertIn(words, made.stderr)

    def test_a_built_in_can_be_asked_for_by_its_name(self):
        self.assertNotEqual(self.prompt_tokens(self.serve_with("chatml")), self.rendered_tokens())


if __name__ == "__main__":
    unittest.main()
