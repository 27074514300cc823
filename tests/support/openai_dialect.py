"""Answers of the OpenAI dialects: Chat Completions, Completions, Responses, embeddings, models.

Pure functions from a request to objects and events; no sockets. The shapes are those that the
clients in tests/clients were found to need.
"""

import base64
import hashlib
import json
import re
import struct
import time

import prompt_cache
from prompt_cache import BadRequest, canonical

WORDS = "the quick brown fox jumps over a lazy dog and naïve café owls 🦉 watch".split()
MODELS = ["gpt-6-sol", "gpt-5.6-luna", "gpt-5.5", "gpt-4o"]

CHAT_FIELDS = set(
    "model messages tools tool_choice parallel_tool_calls stream stream_options max_tokens "
    "max_completion_tokens temperature top_p n stop seed user metadata store service_tier "
    "response_format reasoning_effort verbosity logprobs top_logprobs logit_bias modalities audio "
    "prediction presence_penalty frequency_penalty prompt_cache_key prompt_cache_options "
    "prompt_cache_retention safety_identifier functions function_call web_search_options".split())
RESPONSES_FIELDS = set(
    "model input instructions tools tool_choice parallel_tool_calls stream stream_options "
    "max_output_tokens max_tool_calls temperature top_p user metadata store service_tier text "
    "reasoning previous_response_id conversation include truncation background prompt "
    "prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier "
    "top_logprobs context_management".split())


def error_body(status, message, param=None, code=None):
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def text_of(body, words):
    """The same request has the same answer."""
    seed = hashlib.sha256(canonical(body).encode()).digest()
    return " ".join(WORDS[seed[i % 32] % len(WORDS)] for i in range(words))


def named_call(turns):
    """(name, input) where the last text says "use the tool NAME on ID from OFFSET"."""
    found = re.search(r"use the tool (\w+) on (\w+) from (\d+)", canonical(turns[-1:]))
    return found and (found[1], {"id": found[2], "offset": int(found[3])})


def tool_call(body):
    """(name, arguments) where the request has tools and its last text asks for them."""
    tools = body.get("tools") or []
    turns = body.get("messages", body.get("input", []))
    if tools and isinstance(turns, list) and named_call(turns):
        name, given = named_call(turns)
        return name, json.dumps(given)
    if not tools or "call the tool" not in canonical(turns[-1:] if turns else []):
        return None
    tool = tools[0].get("function", tools[0])
    return tool.get("name", "tool"), '{"q": "naïve \\u00e9", "n": 12345678901234567890}'


def id_of(prefix, body):
    return prefix + hashlib.sha256(canonical(body).encode()).hexdigest()[:24]


def refuse_unknown(body, known):
    for name in body:
        if name not in known:
            raise BadRequest(f"Unrecognized request argument supplied: {name}")


def chat_usage(counts, output):
    prompt, cached, written = counts
    return {"prompt_tokens": prompt, "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written,
                                      "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0}}


def responses_usage(counts, output):
    prompt, cached, written = counts
    return {"input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + output}


def chat(body, counts, words):
    refuse_unknown(body, CHAT_FIELDS)
    if not body.get("messages"):
        raise BadRequest("Missing required parameter: 'messages'.")
    message = {"role": "assistant", "content": text_of(body, words), "refusal": None}
    call = tool_call(body)
    finish = "stop"
    if call:
        message.update(content=None, tool_calls=[
            {"id": id_of("call_", body), "type": "function",
             "function": {"name": call[0], "arguments": call[1]}}])
        finish = "tool_calls"
    output = prompt_cache.count_tokens(canonical(message))
    return {"id": id_of("chatcmpl-", body), "object": "chat.completion",
            "created": int(time.time()), "model": body["model"], "service_tier": "default",
            "system_fingerprint": "fp_simulated",
            "choices": [{"index": 0, "message": message, "logprobs": None,
                         "finish_reason": finish}],
            "usage": chat_usage(counts, output)}


def chat_events(body, counts, words):
    whole = chat(body, counts, words)
    choice = whole["choices"][0]
    wants_usage = (body.get("stream_options") or {}).get("include_usage")
    base = {key: whole[key] for key in ("id", "created", "model", "service_tier",
                                        "system_fingerprint")}

    def chunk(delta, finish=None):
        found = {**base, "object": "chat.completion.chunk",
                 "choices": [{"index": 0, "delta": delta, "logprobs": None,
                              "finish_reason": finish}]}
        return {**found, "usage": None} if wants_usage else found

    events = [chunk({"role": "assistant", "content": ""})]
    for call in choice["message"].get("tool_calls", []):
        start = {**call, "index": 0, "function": {**call["function"], "arguments": ""}}
        events.append(chunk({"tool_calls": [start]}))
        arguments = call["function"]["arguments"]
        for at in range(0, len(arguments), 7):
            part = {"index": 0, "function": {"arguments": arguments[at:at + 7]}}
            events.append(chunk({"tool_calls": [part]}))
    for word in (choice["message"]["content"] or "").split(" "):
        if word:
            events.append(chunk({"content": word + " "}))
    events.append(chunk({}, choice["finish_reason"]))
    if wants_usage:
        events.append({**base, "object": "chat.completion.chunk", "choices": [],
                       "usage": whole["usage"]})
    return [(None, json.dumps(event, ensure_ascii=False)) for event in events] + [(None, "[DONE]")]


def completions(body, counts, words):
    text = text_of(body, words)
    return {"id": id_of("cmpl-", body), "object": "text_completion", "created": int(time.time()),
            "model": body["model"],
            "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}],
            "usage": chat_usage(counts, prompt_cache.count_tokens(text))}


def completions_events(body, counts, words):
    whole = completions(body, counts, words)
    events = []
    for word in whole["choices"][0]["text"].split(" "):
        piece = {**whole["choices"][0], "text": word + " ", "finish_reason": None}
        events.append({**whole, "choices": [piece], "usage": None})
    last = {**whole["choices"][0], "text": ""}
    events.append({**whole, "choices": [last]})
    return [(None, json.dumps(event, ensure_ascii=False)) for event in events] + [(None, "[DONE]")]


def responses(body, counts, words):
    refuse_unknown(body, RESPONSES_FIELDS)
    if "input" not in body:
        raise BadRequest("Missing required parameter: 'input'.")
    call = tool_call(body)
    if call:
        item = {"id": id_of("fc_", body), "type": "function_call", "status": "completed",
                "call_id": id_of("call_", body), "name": call[0], "arguments": call[1]}
    else:
        item = {"id": id_of("msg_", body), "type": "message", "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text_of(body, words),
                             "annotations": [], "logprobs": []}]}
    output = prompt_cache.count_tokens(canonical(item))
    return {"id": id_of("resp_", body), "object": "response", "created_at": int(time.time()),
            "status": "completed", "error": None, "incomplete_details": None,
            "model": body["model"], "output": [item], "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": body.get("tools") or [],
            "instructions": body.get("instructions"), "metadata": {}, "temperature": 1.0,
            "top_p": 1.0, "service_tier": "default", "usage": responses_usage(counts, output)}


def responses_events(body, counts, words):
    whole = responses(body, counts, words)
    item = whole["output"][0]
    at = {"item_id": item["id"], "output_index": 0}
    opened = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [("response.created", {"response": opened}),
              ("response.in_progress", {"response": opened})]
    if item["type"] == "function_call":
        begun = {**item, "status": "in_progress", "arguments": ""}
        events.append(("response.output_item.added", {"output_index": 0, "item": begun}))
        for start in range(0, len(item["arguments"]), 7):
            events.append(("response.function_call_arguments.delta",
                           {**at, "delta": item["arguments"][start:start + 7]}))
        events.append(("response.function_call_arguments.done",
                       {**at, "name": item["name"], "arguments": item["arguments"]}))
    else:
        part = item["content"][0]
        inside = {**at, "content_index": 0}
        events.append(("response.output_item.added",
                       {"output_index": 0,
                        "item": {**item, "status": "in_progress", "content": []}}))
        events.append(("response.content_part.added", {**inside, "part": {**part, "text": ""}}))
        words_of = part["text"].split(" ")
        for index, word in enumerate(words_of):
            delta = word if index + 1 == len(words_of) else word + " "
            events.append(("response.output_text.delta",
                           {**inside, "delta": delta, "logprobs": []}))
        events.append(("response.output_text.done",
                       {**inside, "text": part["text"], "logprobs": []}))
        events.append(("response.content_part.done", {**inside, "part": part}))
    events.append(("response.output_item.done", {"output_index": 0, "item": item}))
    events.append(("response.completed", {"response": whole}))
    return [(name, json.dumps({"type": name, "sequence_number": number, **event},
                              ensure_ascii=False))
            for number, (name, event) in enumerate(events)]


def meaning_of(text, synonyms):
    """A vector in which words of one set of `synonyms` count as one, and three times as much."""
    vector = [0.0] * (len(synonyms) + 64)
    for word in re.findall(r"[a-z]+", text.lower()):
        number = next((i for i, same in enumerate(synonyms) if word in same), None)
        if number is not None:
            vector[number] += 3
        else:
            vector[len(synonyms) + hashlib.sha256(word.encode()).digest()[0] % 64] += 1
    return vector


def embeddings(body, _counts, _words, synonyms=None):
    texts = body.get("input")
    texts = [texts] if isinstance(texts, str) else texts or []
    tokens = sum(prompt_cache.count_tokens(str(text)) for text in texts)
    data = []
    for index, text in enumerate(texts):
        vector = [round(byte / 255 - 0.5, 6)
                  for byte in hashlib.sha256(str(text).encode()).digest()[:8]]
        if synonyms:
            vector = meaning_of(str(text), synonyms)
        if body.get("encoding_format") == "base64":  # what the official client asks for by itself
            vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    return {"object": "list", "model": body.get("model"), "data": data,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}


def models():
    return {"object": "list", "data": [{"id": name, "object": "model", "created": 1,
                                        "owned_by": "simulator"} for name in MODELS]}
