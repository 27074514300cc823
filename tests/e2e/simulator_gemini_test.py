#!/usr/bin/env python3
"""The provider simulator's Gemini dialect, against Google's documented rules."""

import json
import unittest

from simulator_test import SimulatorCase, text

KEY = {"x-goog-api-key": "k", "content-type": "application/json"}
SCHEMA = {"type": "OBJECT", "properties": {"q": {"type": "STRING"}, "n": {"type": "INTEGER"}},
          "required": ["q"]}
TOOLS = [{"functionDeclarations": [{"name": "look_up", "parameters": SCHEMA}]}]
FLASH = "gemini-2.5-flash"
NEWEST = "gemini-3-flash"


def said(words, role="user"):
    return {"role": role, "parts": [{"text": words}]}


class GeminiCase(SimulatorCase):
    def ask(self, contents="hi", status=200, model=FLASH, method="generateContent", headers=KEY,
            **fields):
        contents = [said(contents)] if isinstance(contents, str) else contents
        return self.post(f"/v1beta/models/{model}:{method}", {"contents": contents, **fields},
                         headers, status)

    def refused(self, words, *given, status=400, **fields):
        error = self.ask(*given, status=status, **fields)["error"]
        self.assertEqual(error["code"], status)
        self.assertIn(words, error["message"])
        return error

    def content_of(self, answer):
        return answer["candidates"][0]["content"]


class AnswerTest(GeminiCase):
    def test_an_answer_has_its_text_and_counts(self):
        answer = self.ask()
        self.assertEqual(self.content_of(answer)["role"], "model")
        usage = answer["usageMetadata"]
        self.assertEqual(usage["totalTokenCount"], usage["promptTokenCount"] +
                         usage["candidatesTokenCount"] + usage["thoughtsTokenCount"])
        self.assertNotIn("cachedContentTokenCount", usage)
        self.assertEqual(answer, self.ask(), "equal requests get equal answers")
        found = self.ask(method="countTokens")
        self.assertEqual(found["totalTokens"], usage["promptTokenCount"])
        none = {"thinkingConfig": {"thinkingBudget": 0}}
        self.assertNotIn("thoughtsTokenCount", self.ask(generationConfig=none)["usageMetadata"])
        shown = self.ask(generationConfig={"thinkingConfig": {"includeThoughts": True}})
        self.assertTrue(self.content_of(shown)["parts"][0]["thought"])

    def test_a_stream_is_events_or_an_array(self):
        body = {"contents": [said("hi")]}
        path = f"/v1beta/models/{FLASH}:streamGenerateContent"
        whole = self.content_of(self.ask())["parts"][0]["text"]
        response, data = self.send(path + "?alt=sse", body, KEY)
        self.assertEqual(response.getheader("content-type"), "text/event-stream")
        events = data.decode().split("\r\n\r\n")
        self.assertEqual(events.pop(), "")
        chunks = [json.loads(event.removeprefix("data: ")) for event in events]
        _, data = self.send(path, body, KEY)
        self.assertEqual(json.loads(data), chunks)
        self.assertEqual("".join(self.content_of(chunk)["parts"][0]["text"] for chunk in chunks),
                         whole)
        reasons = [chunk["candidates"][0].get("finishReason") for chunk in chunks]
        self.assertEqual(reasons, [None] * (len(chunks) - 1) + ["STOP"])
        _, data = self.send(path + "?alt=sse", body, {**KEY, "x-sim-fault": "error_event:2"})
        last = json.loads(data.decode().split("\r\n\r\n")[-2].removeprefix("data: "))
        self.assertEqual(last["error"]["status"], "UNAVAILABLE")
        _, data = self.send(path, body, {**KEY, "x-sim-fault": "error_event:2"})
        self.assertEqual(json.loads(data)[2]["error"]["status"], "UNAVAILABLE")
        _, data = self.send(path, {"contents": []}, KEY)
        self.assertEqual(json.loads(data)[0]["error"]["status"], "INVALID_ARGUMENT")

    def test_structured_output_fits_its_schema(self):
        config = {"responseMimeType": "application/json"}
        for name, schema in (("responseSchema", SCHEMA), ("response_schema", SCHEMA), (
                "responseJsonSchema", {"type": "object", "additionalProperties": False,
                                       "properties": {"q": {"$ref": "#/$defs/q"},
                                                      "n": {"type": "integer"}},
                                       "$defs": {"q": {"type": ["string", "null"]}}})):
            answer = self.ask(generationConfig={**config, name: schema})
            value = json.loads(self.content_of(answer)["parts"][0]["text"])
            self.assertEqual(value, {"q": "naïve owls", "n": 7})

    def test_models_are_listed_by_pages_and_found(self):
        first = json.loads(self.send("/v1beta/models?pageSize=4", b"", KEY, "GET")[1])
        rest = json.loads(self.send("/v1beta/models?pageSize=4&pageToken=" +
                                    first["nextPageToken"], b"", KEY, "GET")[1])
        names = [model["name"] for model in first["models"] + rest["models"]]
        self.assertIn(f"models/{FLASH}", names)
        found = json.loads(self.send(f"/v1beta/models/{FLASH}", b"", KEY, "GET")[1])
        self.assertEqual(found["name"], f"models/{FLASH}")
        self.assertEqual(self.send("/v1beta/models/none", b"", KEY, "GET")[0].status, 404)
        self.refused("not found for API version", model="gemini-none", status=404)


class ToolTest(GeminiCase):
    def called(self, model, **fields):
        """The turns up to the answers of the calls."""
        turns = [said("call the tool")]
        answer = self.ask(turns, model=model, tools=TOOLS, **fields)
        content = self.content_of(answer)
        call = content["parts"][-1]["functionCall"]
        self.assertEqual((call["name"], call["args"]), ("look_up", {"q": "naïve", "n": 2 ** 53}))
        result = {"name": "look_up", "response": {"output": "found"}}
        if "id" in call:
            result["id"] = call["id"]
        return turns + [content, {"role": "user", "parts": [{"functionResponse": result}]}]

    def test_a_call_is_answered_with_and_without_an_id(self):
        for model in (FLASH, NEWEST):
            turns = self.called(model)
            self.assertEqual("id" in turns[2]["parts"][0]["functionResponse"], model == NEWEST)
            answer = self.ask(turns, model=model, tools=TOOLS)
            self.assertIn("text", self.content_of(answer)["parts"][-1])

    def test_calls_and_answers_have_to_fit(self):
        turns = self.called(NEWEST)
        self.refused("number of function response parts", turns[:2], tools=TOOLS)
        self.refused("number of function response parts", turns[:2] + [said("and?")], tools=TOOLS)
        self.refused("immediately after a function call turn", [turns[0], turns[2]], tools=TOOLS)
        other = {"functionResponse": {"name": "other", "response": {}}}
        self.refused("other does not", turns[:2] + [{"parts": [other]}], tools=TOOLS)
        twice = turns[2]["parts"] * 2
        self.refused("number of", turns[:2] + [{"role": "user", "parts": twice}], tools=TOOLS)

    def test_a_mode_forces_or_forbids_a_call(self):
        def config(**fields):
            return {"functionCallingConfig": fields}
        answer = self.ask(tools=TOOLS, toolConfig=config(mode="ANY"))
        self.assertIn("functionCall", self.content_of(answer)["parts"][-1])
        answer = self.ask("call the tool", tools=TOOLS, toolConfig=config(mode="NONE"))
        self.assertNotIn("functionCall", self.content_of(answer)["parts"][-1])
        self.refused("not in the", tools=TOOLS,
                     toolConfig=config(mode="ANY", allowedFunctionNames=["x"]))

    def test_thinking_models_miss_their_signatures_in_the_turn_that_goes_on(self):
        def without(turns):
            bare = json.loads(json.dumps(turns))
            del bare[1]["parts"][-1]["thoughtSignature"]
            return bare
        turns, older = self.called(NEWEST), self.called(FLASH)
        self.ask(without(turns), model=NEWEST, tools=TOOLS)
        self.provider.thinks = True
        self.ask(without(older), tools=TOOLS)
        self.ask(turns, model=NEWEST, tools=TOOLS)
        self.refused("thought_signature", without(turns), model=NEWEST, tools=TOOLS)
        self.ask(without(turns) + [said("ok", "model"), said("next")], model=NEWEST, tools=TOOLS)
        turns[1]["parts"][-1]["functionCall"]["args"]["q"] = "changed"
        self.refused("not valid", turns, model=NEWEST, tools=TOOLS)
        turns[1]["parts"][-1]["thoughtSignature"] = "skip_thought_signature_validator"
        self.ask(turns, model=NEWEST, tools=TOOLS)


class RefusalTest(GeminiCase):
    def test_names_and_types_are_those_of_the_api(self):
        self.ask(generation_config={"max_output_tokens": "9", "topP": 0.5},
                 system_instruction={"parts": {"text": "s"}})
        error = self.refused('Unknown name "x": Cannot find field.', x=1)
        self.assertEqual(error["status"], "INVALID_ARGUMENT")
        self.assertIn("fieldViolations", error["details"][0])
        self.refused("Unknown name \"x\" at 'generation_config': Cannot find field.",
                     generationConfig={"x": 1})
        self.refused("Unknown name \"x\" at 'contents[0].parts[0]'", [{"parts": [{"x": 1}]}])
        self.refused("'generation_config.temperature' (TYPE_FLOAT), \"hot\"",
                     generationConfig={"temperature": "hot"})
        self.refused("cannot start list",
                     generationConfig={"responseSchema": {"type": ["STRING", "NULL"]}})

    def test_contents_have_a_role_and_parts(self):
        self.refused("contents is not specified", [])
        self.refused("valid role: user, model", [said("a", "assistant")])
        self.refused("must not be empty", [{"role": "user", "parts": []}])
        self.refused("one initialized field", [{"parts": [{"thought": True}]}])

    def test_schemas_are_openapi(self):
        def tool(schema, name="parameters"):
            return [{"functionDeclarations": [{"name": "f", name: schema}]}]
        closed = {**SCHEMA, "additionalProperties": False}
        self.refused('"additionalProperties"', tools=tool(closed))
        self.refused("should be non-empty", tools=tool({"type": "OBJECT", "properties": {}}))
        self.refused("items: missing", tools=tool({"type": "ARRAY"}))
        self.refused("only allowed for OBJECT", tools=tool({**SCHEMA, "type": "STRING"}))
        self.refused("only allowed for STRING",
                     tools=tool({"type": "INTEGER", "enum": ["1"]}))
        self.refused("property is not defined", tools=tool({**SCHEMA, "required": ["z"]}))
        self.ask(tools=tool({"type": "object", "additionalProperties": False},
                            "parametersJsonSchema"))
        self.refused("Invalid function name", tools=[{"functionDeclarations": [{"name": "a b"}]}])

    def test_settings_that_a_model_does_not_take(self):
        json_answer = {"responseMimeType": "application/json"}
        self.refused("is unsupported", tools=TOOLS, generationConfig=json_answer)
        self.ask(tools=TOOLS, generationConfig=json_answer, model=NEWEST)
        self.refused("response_mime_type", generationConfig={"responseSchema": SCHEMA})
        self.refused("Thinking level",
                     generationConfig={"thinkingConfig": {"thinkingLevel": "LOW"}})
        self.refused("Budget 0", model="gemini-2.5-pro",
                     generationConfig={"thinkingConfig": {"thinkingBudget": 0}})

    def test_credentials(self):
        bare = {"content-type": "application/json"}
        self.refused("unregistered callers", headers=bare, status=403)
        self.refused("API key not valid", headers={**bare, "x-goog-api-key": "invalid"})
        self.refused("OAuth", headers={**bare, "authorization": "Bearer k"}, status=401)
        self.post(f"/v1beta/models/{FLASH}:generateContent?key=k", {"contents": [said("hi")]}, bare)

    def test_a_limit_says_how_long_to_wait(self):
        error = self.refused("Simulated", headers={**KEY, "x-sim-fault": "status:429:2"},
                             status=429)
        self.assertEqual(error["status"], "RESOURCE_EXHAUSTED")
        self.assertEqual(error["details"][0]["retryDelay"], "2s")


class GeminiCacheTest(GeminiCase):
    def cached(self, contents, **fields):
        return self.ask(contents, **fields)["usageMetadata"].get("cachedContentTokenCount", 0)

    def test_a_prefix_is_cached_by_itself_over_the_minimum(self):
        turns = [said(text(2500))]
        self.assertEqual(self.cached(turns), 0)
        turns += [said("a", "model"), said(text(100, "z"))]
        self.assertGreater(self.cached(turns), 2400)
        self.assertEqual(self.cached(turns, model="gemini-2.5-pro"), 0, "another model")
        self.assertEqual(self.cached(turns, headers={**KEY, "x-goog-api-key": "o"}), 0)
        self.assertEqual(self.cached(turns, systemInstruction=said("s")), 0, "it is in front")
        self.provider.clock_offset += 301
        self.assertEqual(self.cached(turns), 0)
        for _ in range(2):
            self.assertEqual(self.cached([said(text(1900, "y"))]), 0, "below 2048")

    def test_both_spellings_are_one_prefix(self):
        system = {"parts": [{"text": text(2500)}]}
        self.ask(systemInstruction=system)
        self.assertGreater(self.cached("hi", system_instruction=system), 2400)

    def test_an_explicit_cache_is_made_read_changed_and_deleted(self):
        made = {"model": f"models/{FLASH}", "ttl": "300s", "tools": TOOLS,
                "systemInstruction": said(text(2500))}
        entry = self.post("/v1beta/cachedContents", made, KEY)
        tokens = entry["usageMetadata"]["totalTokenCount"]
        self.assertEqual(self.cached("hi", cachedContent=entry["name"]), tokens)
        self.refused("can not be used with", cachedContent=entry["name"], tools=TOOLS)
        self.refused("has to be the same", cachedContent=entry["name"], model="gemini-2.5-pro")
        path = "/v1beta/" + entry["name"]
        later = json.loads(self.send(path, {"ttl": "900s"}, KEY, "PATCH")[1])
        self.assertGreater(later["expireTime"], entry["expireTime"])
        self.provider.clock_offset += 600
        listed = json.loads(self.send("/v1beta/cachedContents", b"", KEY, "GET")[1])
        self.assertEqual([found["name"] for found in listed["cachedContents"]], [entry["name"]])
        self.assertEqual(json.loads(self.send(path, b"", KEY, "DELETE")[1]), {})
        self.refused("CachedContent not found", cachedContent=entry["name"], status=403)
        small = {**made, "systemInstruction": said("s")}
        error = self.post("/v1beta/cachedContents", small, KEY, 400)["error"]
        self.assertIn("too small", error["message"])


if __name__ == "__main__":
    unittest.main()
