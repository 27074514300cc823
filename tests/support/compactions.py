"""Compactions as the providers make them: on demand, and over a threshold of the prompt. What they
say of the conversation are simulated words. Pure functions; no sockets."""

import copy
import json
import time

import anthropic_dialect
import context_edits
import openai_dialect
import prompt_cache
from openai_dialect import id_of, text_of
from prompt_cache import BadRequest, canonical

SUMMARIZE, THRESHOLD = "summarize", "compact_20260112"
NO_TOKENS = {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0,
             "cache_read_input_tokens": 0}


# --- Responses -----------------------------------------------------------------------------------

def item_of(body):
    return {"id": id_of("cmp_", body), "type": "compaction",
            "encrypted_content": id_of("gAAAA", body)}


def asked_of_responses(body):
    """"trigger", "threshold" or None."""
    items = body.get("input")
    if isinstance(items, list) and items and items[-1].get("type") == "compaction_trigger":
        return "trigger"
    for edit in body.get("context_management") or []:
        least = edit.get("compact_threshold")
        is_over = least and prompt_cache.count_tokens(canonical(items)) >= least
        if edit["type"] == "compaction" and is_over:
            return "threshold"
    return None


def response(body, counts, words):
    kind = asked_of_responses(body)
    answer = openai_dialect.responses(body, counts, words)
    if kind == "trigger":
        answer["output"] = [item_of(body)]
    elif kind == "threshold":
        answer["output"].insert(0, item_of(body))
    return answer


def response_events(body, counts, words):
    kind = asked_of_responses(body)
    events = [(name, json.loads(data))
              for name, data in openai_dialect.responses_events(body, counts, words)]
    if kind is None:
        return [(name, json.dumps(event, ensure_ascii=False)) for name, event in events]
    begun, middle = events[:2], events[2:-1] if kind == "threshold" else []
    for _, event in middle:
        event["output_index"] += 1
    made = [(name, {"type": name, "output_index": 0, "item": item_of(body)})
            for name in ("response.output_item.added", "response.output_item.done")]
    done = ("response.completed", {"type": "response.completed",
                                   "response": response(body, counts, words)})
    return [(name, json.dumps({**event, "sequence_number": number}, ensure_ascii=False))
            for number, (name, event) in enumerate([*begun, *made, *middle, done])]


def compact(body, counts, _words):
    """`/v1/responses/compact`."""
    for name in ("include", "store", "stream"):
        if name in body:
            raise BadRequest(f"Unknown parameter: '{name}'.")
    output = []
    for item in body["input"]:
        if item.get("role") == "user":
            content = item["content"]
            if isinstance(content, str):
                content = [{"type": "input_text", "text": content}]
            output.append({"id": id_of("msg_", item), "type": "message", "status": "completed",
                           "role": "user", "content": content})
    return {"id": id_of("resp_", body), "object": "response.compaction",
            "created_at": int(time.time()), "output": [*output, item_of(body)],
            "usage": openai_dialect.responses_usage(counts, 20)}


# --- Messages ------------------------------------------------------------------------------------

def asked_of_messages(body):
    """(SUMMARIZE or THRESHOLD, if the answer ends with the compaction), or None."""
    if (body.get("compaction") or {}).get("type") == SUMMARIZE:
        return SUMMARIZE, True
    for edit in (body.get("context_management") or {}).get("edits") or []:
        least = (edit.get("trigger") or {}).get("value", 150_000)
        if edit["type"] == THRESHOLD and context_edits.tokens_of(body) >= least:
            return THRESHOLD, bool(edit.get("pause_after_compaction"))
    return None


def block_of(body, kind, words):
    block = {"type": "compaction", "content": text_of(body, words)}
    if kind == SUMMARIZE:
        return {**block, "encrypted_content": None, "signature": id_of("sig_", body)}
    return {**block, "encrypted_content": id_of("gAAAA", body)}


def message(body, usage, words):
    answer = anthropic_dialect.message(body, usage, words)
    asked = asked_of_messages(body)
    if asked is None:
        return answer
    kind, is_all = asked
    call = {"type": "compaction", **usage, "output_tokens": 20}
    block = block_of(body, kind, words)
    if is_all:
        return {**answer, "content": [block], "stop_reason": "compaction",
                "usage": {**NO_TOKENS, "iterations": [call]}}
    calls = [call, {"type": "message", **answer["usage"]}]
    return {**answer, "content": [block, *answer["content"]],
            "usage": {**answer["usage"], "iterations": calls}}


def message_events(body, usage, words):
    asked = asked_of_messages(body)
    events = [json.loads(data) for _, data in anthropic_dialect.message_events(body, usage, words)]
    if asked is not None:
        kind, is_all = asked
        whole, block = message(body, usage, words), block_of(body, kind, words)
        begun, middle, end = events[:1], [] if is_all else events[1:-2], copy.deepcopy(events[-2:])
        for event in middle:
            if "index" in event:
                event["index"] += 1
        begins = block if kind == SUMMARIZE else {**block, "content": None,
                                                  "encrypted_content": None}
        made = [{"type": "content_block_start", "index": 0, "content_block": begins}]
        if kind == THRESHOLD:
            made.append({"type": "content_block_delta", "index": 0,
                         "delta": {**block, "type": "compaction_delta"}})
        made.append({"type": "content_block_stop", "index": 0})
        end[0]["delta"]["stop_reason"] = whole["stop_reason"]
        end[0]["usage"] = whole["usage"]
        events = [*begun, *made, *middle, *end]
    return [(event["type"], json.dumps(event, ensure_ascii=False)) for event in events]
