#!/usr/bin/env python3
"""/v1/responses and /v1/conversations on a local model, through the real binary.

A model of random weights never calls a tool by itself; tool_choice "required" makes it.
"""

import json
import threading
import unittest

from case import Case, tenant, text_of, wait_until
from forward_test import Upstream, answer

NUM_TOOLS = 20
CACHED_SHARE_MIN = 0.95
# What a template that knows tools and reasoning writes.
TEMPLATE = """
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
# … and one that has the model think first.
THINKING_TEMPLATE = TEMPLATE.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")


def tools(count):
    return [{"type": "function", "name": f"tool_{i}", "description": text_of(f"tool {i}", 30),
             "parameters": {"type": "object", "required": ["path"], "additionalProperties": False,
                            "properties": {"path": {"type": "string", "maxLength": 8}}},
             "strict": True} for i in range(count)]


class ResponsesCase(Case):
    def ask(self, running, input_, headers=None, max_output_tokens=16, **fields):
        body = {"model": "local", "input": input_, "max_output_tokens": max_output_tokens,
                "temperature": 0, **fields}
        return running.send("/v1/responses", body, headers)

    def answer(self, running, input_, headers=None, **fields):
        reply = self.assert_ok(self.ask(running, input_, headers, **fields))
        return reply.events[-1]["response"] if reply.events else reply.json

    def delete(self, running, path, headers=None):
        connection = running.connect()
        try:
            connection.request("DELETE", path, headers=headers or {})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def error(self, reply, status, param):
        self.assertEqual(reply.status, status, reply.body)
        self.assertEqual(reply.error["param"], param, reply.body)
        return reply.error


class LifeTest(ResponsesCase):
    def test_a_response_is_whole_and_its_stream_ends_with_it(self):
        running = self.serve()
        whole = self.answer(running, text_of("life", 20), metadata={"a": "b"},
                            instructions="Be brief.")
        self.assertEqual(whole["object"], "response")
        self.assertIn(whole["status"], ("completed", "incomplete"))
        self.assertEqual(whole["instructions"], "Be brief.")
        self.assertEqual(whole["metadata"], {"a": "b"})
        self.assertEqual(whole["model"], running.get("/v1/models").json["data"][0]["id"])
        message = whole["output"][0]
        self.assertEqual((message["type"], message["role"]), ("message", "assistant"))
        self.assertEqual(message["content"][0]["annotations"], [])
        usage = whole["usage"]
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"])
        self.assertEqual(whole["kvgate"]["cached_tokens"],
                         usage["input_tokens_details"]["cached_tokens"])

        reply = self.ask(running, text_of("life", 20), instructions="Be brief.", stream=True)
        events = reply.events
        self.assertFalse(reply.done, "no [DONE] in this dialect")
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        self.assertEqual([e["type"] for e in events[:4]],
                         ["response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added"])
        self.assertEqual(events[-1]["type"], f"response.{events[-1]['response']['status']}")
        text = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
        self.assertEqual(text, message["content"][0]["text"])
        last = events[-1]["response"]
        self.assertEqual(last["output"][0]["content"], message["content"])
        self.assertIn("kvgate", last)

        found = running.get(f"/v1/responses/{last['id']}").json
        last.pop("kvgate")
        self.assertEqual(found, last)

    def test_a_response_is_gone_on_from_the_moment_it_ends_and_after_kill_9(self):
        running = self.serve()
        previous, inputs = None, []
        for turn in range(6):
            more = {"previous_response_id": previous} if previous else {}
            response = self.answer(running, f"turn {turn}: {text_of(turn, 60)}",
                                   stream=turn % 2 == 1, **more)
            self.assertEqual(response["previous_response_id"], previous)
            inputs.append(response["usage"]["input_tokens"])
            previous = response["id"]
            running.kill()
            running.restart()
        self.assertEqual(inputs, sorted(inputs))
        self.assertGreater(inputs[-1], 5 * inputs[0])
        self.assertEqual(running.get(f"/v1/responses/{previous}").json["id"], previous)
        items = running.get(f"/v1/responses/{previous}/input_items?order=asc&limit=100").json
        self.assertEqual(len(items["data"]), 11)
        self.assertTrue(items["data"][0]["content"][0]["text"].startswith("turn 0"))

    def test_what_is_not_there_is_refused_and_nobody_elses_is_seen(self):
        running = self.serve()
        mine = self.answer(running, "hi", tenant("me"))
        refused = self.ask(running, "x", tenant("you"), previous_response_id=mine["id"])
        error = self.error(refused, 400, "previous_response_id")
        self.assertEqual(error["code"], "previous_response_not_found")
        self.assertEqual(error["type"], "invalid_request_error")
        path = f"/v1/responses/{mine['id']}"
        self.assertEqual(running.get(path, tenant("you")).status, 404)
        self.assertEqual(self.delete(running, path, tenant("you"))[0], 404)
        self.assertEqual(running.get(path, tenant("me")).status, 200)
        self.assertEqual(running.get("/v1/responses/resp_123").error["type"],
                         "invalid_request_error")
        unstored = self.answer(running, "hi", store=False)
        self.assertFalse(unstored["store"])
        self.assertEqual(running.get(f"/v1/responses/{unstored['id']}").status, 404)
        self.error(self.ask(running, "x", previous_response_id=unstored["id"]), 400,
                   "previous_response_id")

    def test_a_deleted_response_is_gone_for_good(self):
        running = self.serve()
        made = self.answer(running, "hi")
        path = f"/v1/responses/{made['id']}"
        self.assertEqual(running.get(f"{path}?stream=true").error["param"], "stream")
        cancelled = running.send(f"{path}/cancel", b"")
        self.assertEqual(cancelled.status, 400)
        self.assertIn("background", cancelled.error["message"])
        self.assertEqual(self.delete(running, path),
                         (200, {"id": made["id"], "object": "response", "deleted": True}))
        running.kill()
        running.restart()
        self.assertEqual(running.get(path).status, 404)
        self.assertEqual(self.delete(running, path)[0], 404)
        self.error(self.ask(running, "x", previous_response_id=made["id"]), 400,
                   "previous_response_id")

    def test_input_items_come_in_pages(self):
        running = self.serve()
        made = self.answer(running, [{"role": "user", "content": f"item {i}"} for i in range(7)])
        path = f"/v1/responses/{made['id']}/input_items"
        first = running.get(f"{path}?limit=3&order=asc").json
        self.assertEqual([i["content"][0]["text"] for i in first["data"]],
                         ["item 0", "item 1", "item 2"])
        self.assertTrue(first["has_more"])
        self.assertEqual(first["last_id"], first["data"][-1]["id"])
        rest = running.get(f"{path}?order=asc&after={first['last_id']}").json
        self.assertEqual(len(rest["data"]), 4)
        self.assertFalse(rest["has_more"])
        newest = running.get(path).json["data"][0]["content"][0]["text"]
        self.assertEqual(newest, "item 6", "the newest first")
        self.error(running.get(f"{path}?limit=101"), 400, "limit")

    def test_turns_that_are_switched_off_are_no_error(self):
        running = self.serve(arguments=["--set", "store.turns=false"])
        made = self.answer(running, "hi")
        self.assertFalse(made["store"])
        self.error(self.ask(running, "x", previous_response_id=made["id"]), 400,
                   "previous_response_id")
        self.assertEqual(running.send("/v1/conversations", {}).status, 400)

    def test_tokens_are_counted_as_an_answer_would_count_them(self):
        running = self.serve()
        first = self.answer(running, text_of("count", 50))
        body = {"model": "local", "input": "more", "previous_response_id": first["id"],
                "tools": tools(2), "instructions": "Be brief."}
        counted = running.send("/v1/responses/input_tokens", body)
        self.assertEqual(counted.json["object"], "response.input_tokens")
        asked = running.send("/v1/responses", {**body, "max_output_tokens": 4}).json
        self.assertEqual(counted.json["input_tokens"], asked["usage"]["input_tokens"])

    def test_the_ledger_knows_the_endpoint_and_its_tokens(self):
        running = self.serve()
        made = self.answer(running, text_of("ledger", 40))
        request_id = made["id"].removeprefix("resp_kv")
        running.wait_for("the record", lambda _: running.get(
            f"/kvgate/v1/requests/{request_id}").status == 200, 10)
        record = running.get(f"/kvgate/v1/requests/{request_id}").json
        self.assertEqual(record["path"], "/v1/responses")
        self.assertIn(str(made["usage"]["input_tokens"]), json.dumps(record))


class BadInputTest(ResponsesCase):
    def test_every_error_names_its_field_and_disturbs_nothing(self):
        running = self.serve()
        before = self.answer(running, "hi")["output"]
        image = [{"role": "user", "content": [{"type": "input_image"}]}]
        orphan = [{"type": "function_call_output", "call_id": "c", "output": "x"}]
        for fields, param in (
                ({"background": True}, "background"), ({"input": 7}, "input"),
                ({"input": image}, "input[0].content[0].image_url"),
                ({"input": orphan}, "input[0].call_id"),
                ({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}},
                 "tool_choice.type"),
                ({"tool_choice": "required"}, "tool_choice"),
                ({"temperature": "hot"}, "temperature"),
                ({"conversation": "c", "previous_response_id": "r"}, "conversation"),
                ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
                ({"max_output_tokens": -1}, "max_output_tokens"), ({"model": None}, "model")):
            body = {"model": "local", "input": "hi", **fields}
            self.error(running.send("/v1/responses", body), 400, param)
        self.error(running.send("/v1/responses", {"model": "gpt-9", "input": "x"}), 404, "model")
        self.error(self.ask(running, "x", conversation="conv_1"), 404, "conversation")
        self.error(self.ask(running, [{"type": "item_reference", "id": "msg_1"}]), 404,
                   "input[0].id")
        self.assertEqual(running.send("/v1/responses", b"{").status, 400)
        after = self.answer(running, "hi")["output"]
        self.assertEqual(after[0]["content"], before[0]["content"])


class LoopTest(ResponsesCase):
    """Ten turns with twenty tools: nearly all of the prompt is there already."""

    def loop_server(self, text=TEMPLATE):
        template = self.folder / "chat.jinja"
        template.write_text(text)
        return self.serve(arguments=["--chat-template", str(template)])

    def assert_cached(self, response, turn):
        usage = response["usage"]
        share = usage["input_tokens_details"]["cached_tokens"] / usage["input_tokens"]
        if turn > 0:
            self.assertGreaterEqual(share, CACHED_SHARE_MIN, f"turn {turn}: {usage}")

    def test_with_previous_response_id(self):
        running = self.loop_server()
        previous = {}
        for turn in range(10):
            response = self.answer(running, f"Now {turn}.", tools=tools(NUM_TOOLS),
                                   instructions="Use the tools.", stream=turn % 2 == 1, **previous)
            self.assert_cached(response, turn)
            previous = {"previous_response_id": response["id"]}

    def test_with_the_history_sent_by_the_client(self):
        running = self.loop_server()
        history = []
        for turn in range(10):
            history.append({"role": "user", "content": f"Now {turn}."})
            response = self.answer(running, history, tools=tools(NUM_TOOLS), store=False,
                                   include=["reasoning.encrypted_content"])
            self.assert_cached(response, turn)
            history += response["output"]

    def test_with_calls_and_their_results(self):
        running = self.loop_server()
        previous, num_called, input_ = {}, 0, "Begin."
        for turn in range(10):
            response = self.answer(running, input_, tools=tools(NUM_TOOLS), max_output_tokens=80,
                                   tool_choice={"type": "function", "name": f"tool_{turn}"},
                                   **previous)
            self.assert_cached(response, turn)
            calls = [item for item in response["output"] if item["type"] == "function_call"]
            self.assertLessEqual({call["name"] for call in calls}, {f"tool_{turn}"})
            for call in calls:
                self.assertEqual(list(json.loads(call["arguments"])), ["path"])
            num_called += len(calls)
            previous = {"previous_response_id": response["id"]}
            input_ = [{"type": "function_call_output", "call_id": call["call_id"],
                       "output": f"result {turn}"} for call in calls] or "Go on."
        self.assertEqual(num_called, 10)

    def test_reasoning_is_where_it_was_however_it_comes_back(self):
        running = self.loop_server(THINKING_TEMPLATE)

        def lengths(next_input, **fields):
            """The prompts' lengths of a loop, and the last answer."""
            sizes, input_ = [], [{"role": "user", "content": "Now 0."}]
            for turn in range(1, 5):
                response = self.answer(running, input_, reasoning={"summary": "auto"}, **fields)
                sizes.append(response["usage"]["input_tokens"])
                user = {"role": "user", "content": f"Now {turn}."}
                input_ = next_input(input_, response["output"], user)
                if fields.get("store", True):
                    fields["previous_response_id"] = response["id"]
            return sizes

        chained = lengths(lambda before, output, user: [user])
        sealed = {"store": False, "include": ["reasoning.encrypted_content"]}
        self.assertEqual(lengths(lambda before, output, user: before + output + [user],
                                 store=False), chained)
        self.assertEqual(lengths(lambda before, output, user: before + [
            {k: v for k, v in item.items() if k not in ("content", "summary") or
             item["type"] != "reasoning"} for item in output] + [user], **sealed), chained)
        self.assertEqual(lengths(lambda before, output, user: before + [
            {k: v for k, v in item.items() if k not in ("content", "id")}
            for item in output] + [user], store=False), chained)
        # What is left out comes back from what was stored, of this tenant; else it is not there.
        def visible(before, output, user):
            said = [item for item in output if item["type"] != "reasoning"]
            return before + (said or [{"role": "assistant", "content": ""}]) + [user]

        self.assertLess(sum(lengths(visible, store=False, headers=tenant("forgetful"))),
                        sum(chained))
        stream = self.ask(running, "Think.", reasoning={"summary": "auto"}, stream=True).events
        kinds = {event["type"] for event in stream}
        self.assertLessEqual({"response.reasoning_text.delta",
                              "response.reasoning_summary_text.delta"}, kinds)
        item = stream[-1]["response"]["output"][0]
        self.assertEqual(item["type"], "reasoning")
        self.assertEqual(item["summary"][0]["text"], item["content"][0]["text"])
        usage = stream[-1]["response"]["usage"]
        self.assertGreater(usage["output_tokens_details"]["reasoning_tokens"], 0)

    def test_references_stand_for_their_items(self):
        running = self.loop_server()
        first = self.answer(running, "one")
        written = self.answer(running, [
            {"role": "user", "content": "one"}, *first["output"],
            {"role": "user", "content": "two"}], store=False)
        referred = self.answer(running, [
            {"role": "user", "content": "one"},
            *({"type": "item_reference", "id": item["id"]} for item in first["output"]),
            {"role": "user", "content": "two"}])
        self.assertEqual(referred["usage"]["input_tokens"], written["usage"]["input_tokens"])


class TruncationTest(ResponsesCase):
    """truncation: "auto" where the conversation has long outgrown the context."""
    TURNS = 80
    CONTEXT = 2048

    def serve_small(self):
        template = self.folder / "chat.jinja"
        template.write_text(TEMPLATE)
        return self.serve(arguments=["--chat-template", str(template), "--context",
                                     str(self.CONTEXT)])

    def ask_on(self, running, input_, previous=None):
        more = {"previous_response_id": previous} if previous else {}
        reply = self.ask(running, input_, instructions="Be brief.", truncation="auto",
                         include=["reasoning.encrypted_content"], **more)
        self.assert_ok(reply)
        usage = reply.json["usage"]
        self.assertLessEqual(usage["input_tokens"], self.CONTEXT - 16)
        self.compactions.append(reply.headers.get("x-kvgate-compaction", ""))
        self.prompt_tokens += usage["input_tokens"]
        self.cached_tokens += usage["input_tokens_details"]["cached_tokens"]
        return reply.json

    def setUp(self):
        super().setUp()
        self.compactions, self.prompt_tokens, self.cached_tokens = [], 0, 0

    def assert_mostly_cached(self):
        share = self.cached_tokens / self.prompt_tokens
        print(f"{share:.1%} of {self.prompt_tokens} prompt tokens are cached", flush=True)
        self.assertGreaterEqual(share, 0.8)
        self.assertTrue(self.compactions[-1].startswith("done;before="), self.compactions)
        self.assertEqual(self.compactions[0], "")

    def test_a_chain_keeps_what_is_cached(self):
        running = self.serve_small()
        previous = None
        for turn in range(self.TURNS):
            previous = self.ask_on(running, text_of(f"turn {turn}", 8), previous)["id"]
        self.assert_mostly_cached()

    def test_so_does_a_history_that_the_client_keeps(self):
        running = self.serve_small()
        history = []
        for turn in range(self.TURNS):
            history.append({"role": "user", "content": text_of(f"turn {turn}", 8)})
            history += self.ask_on(running, history)["output"]
        self.assert_mostly_cached()

    def test_a_loop_of_calls_keeps_its_task(self):
        running = self.serve_small()
        history = [{"role": "user", "content": text_of("the task", 60)}]
        for turn in range(self.TURNS):
            self.ask_on(running, history)
            history += [{"type": "function_call", "call_id": f"c{turn}", "name": "read",
                         "arguments": json.dumps({"path": f"f{turn}"})},
                        {"type": "function_call_output", "call_id": f"c{turn}",
                         "output": text_of(f"file {turn}", 8)}]
        self.assert_mostly_cached()


class ConversationTest(ResponsesCase):
    def texts(self, running, conversation):
        listed = running.get(f"/v1/conversations/{conversation}/items?order=asc&limit=100").json
        return [item["content"][0]["text"] for item in listed["data"]]

    def test_a_conversation_grows_and_outlives_kill_9(self):
        running = self.serve()
        made = self.assert_ok(running.send("/v1/conversations", {
            "items": [{"role": "user", "content": "first"}], "metadata": {"topic": "x"}})).json
        self.assertEqual((made["object"], made["metadata"]), ("conversation", {"topic": "x"}))
        path = f"/v1/conversations/{made['id']}"
        response = self.answer(running, "second", conversation=made["id"])
        self.assertEqual(response["conversation"], {"id": made["id"]})
        added = running.send(f"{path}/items",
                             {"items": [{"role": "user", "content": "third"}]}).json
        running.kill()
        running.restart()
        said = response["output"][0]["content"][0]["text"]
        self.assertEqual(self.texts(running, made["id"]), ["first", "second", said, "third"])
        item = added["data"][0]["id"]
        self.assertEqual(running.get(f"{path}/items/{item}").json["id"], item)
        self.assertEqual(self.delete(running, f"{path}/items/{item}")[1]["id"], made["id"])
        self.assertEqual(running.get(f"{path}/items/{item}").status, 404)
        self.assertEqual(running.send(path, {"metadata": {"topic": "y"}}).json["metadata"],
                         {"topic": "y"})
        before = response["usage"]["input_tokens"]
        after = self.answer(running, "fourth", conversation={"id": made["id"]})
        self.assertGreater(after["usage"]["input_tokens"], before)
        self.assertEqual(self.delete(running, path)[1],
                         {"id": made["id"], "object": "conversation.deleted", "deleted": True})
        self.assertEqual(running.get(path).status, 404)
        self.error(self.ask(running, "x", conversation=made["id"]), 404, "conversation")

    def test_two_at_once_leave_it_whole(self):
        running = self.serve(self.slow())
        made = running.send("/v1/conversations", {}).json
        replies = []

        def ask(text):
            replies.append(self.ask(running, text, conversation=made["id"], max_output_tokens=64))

        threads = [threading.Thread(target=ask, args=(f"question {i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answered = [reply for reply in replies if reply.status == 200]
        refused = [reply for reply in replies if reply.status == 409]
        self.assertEqual(len(answered) + len(refused), 4)
        self.assertGreaterEqual(len(answered), 1)
        for reply in refused:
            self.assertEqual(reply.error["code"], "conversation_locked")
        self.assertEqual(len(self.texts(running, made["id"])), 2 * len(answered))
        self.assert_ok(self.ask(running, "more", conversation=made["id"]))

    def test_a_client_that_leaves_lets_go_of_its_conversation(self):
        running = self.serve(self.slow())
        made = running.send("/v1/conversations", {}).json
        connection = running.connect()
        body = {"model": "local", "input": "hi", "conversation": made["id"], "stream": True,
                "max_output_tokens": 4000, "ignore_eos": True}
        connection.request("POST", "/v1/responses", json.dumps(body),
                           {"Content-Type": "application/json"})
        connection.getresponse().read(100)
        self.assertEqual(self.ask(running, "x", conversation=made["id"]).status, 409)
        connection.close()
        running.wait_for("the end of the work", lambda s: s["engine"]["running"] == 0, 5)
        self.assertEqual(self.texts(running, made["id"]), [])
        # The engine is done with it a moment before the connection is; clients try again at a 409.
        def ask_again():
            reply = self.ask(running, "x", conversation=made["id"])
            return None if reply.status == 409 else reply

        self.assert_ok(wait_until(ask_again, "the conversation is free again"))


class BesideAnUpstreamTest(ResponsesCase):
    def test_what_is_not_kept_here_goes_to_the_upstream_as_it_came(self):
        with Upstream(lambda c, h, b: c.sendall(answer(b'{"id":"resp_theirs"}'))) as upstream:
            config = self.folder / "kvgate.toml"
            config.write_text('[[upstream]]\nname = "u"\ndialect = "openai"\n'
                              f'base_url = "http://127.0.0.1:{upstream.port}/v1"\n'
                              'models = ["gpt-*"]\n')
            running = self.serve(arguments=["--config", str(config)])
            mine = self.answer(running, "hi")
            conversation = running.send("/v1/conversations", {}).json["id"]
            self.assertEqual(upstream.requests, [])
            for method, path, body in (
                    ("POST", "/v1/responses", b'{"model": "gpt-9",  "input":"x", "odd":1.0}'),
                    ("GET", "/v1/responses/resp_theirs?include=x", None),
                    ("GET", "/v1/responses/resp_theirs/input_items", None),
                    ("DELETE", "/v1/responses/resp_theirs", None),
                    ("POST", "/v1/responses/resp_theirs/cancel", b"{}"),
                    ("POST", "/v1/conversations/conv_theirs/items", b'{"items": [ ]}'),
                    ("GET", "/v1/conversations/conv_theirs/items/msg_1", None)):
                connection = running.connect()
                connection.request(method, path, body, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                self.assertEqual((reply.status, reply.read()), (200, b'{"id":"resp_theirs"}'))
                connection.close()
                head, sent = upstream.requests[-1][:2]
                self.assertTrue(head.startswith(f"{method} {path} ".encode()), head)
                self.assertEqual(sent, body or b"")
            before = len(upstream.requests)
            self.assertEqual(running.get(f"/v1/responses/{mine['id']}").json["id"], mine["id"])
            self.answer(running, "hi", conversation=conversation, previous_response_id=None)
            gone = mine["id"][:-4] + "ffff"
            self.assertEqual(running.get(f"/v1/responses/{gone}").status, 404)
            self.assertEqual(len(upstream.requests), before)


if __name__ == "__main__":
    unittest.main()
