"""Answers of the Anthropic Messages dialect. Pure functions; no sockets."""

import hashlib
import json

import prompt_cache
from openai_dialect import id_of, named_call, text_of
from prompt_cache import BadRequest, canonical

MODELS = ["claude-opus-5-5", "claude-sonnet-5", "claude-haiku-4-5"]
ERROR_TYPES = {400: "invalid_request_error", 401: "authentication_error", 402: "billing_error",
               403: "permission_error", 404: "not_found_error", 413: "request_too_large",
               429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error"}
FIELDS = set(
    "model messages system tools tool_choice stream max_tokens temperature top_p top_k "
    "stop_sequences metadata thinking service_tier container compaction context_management "
    "mcp_servers output_config output_format cache_control speed diagnostics inference_geo "
    "thread".split())


def error_body(status, message, details=None):
    error = {"type": ERROR_TYPES.get(status, "api_error"), "message": message}
    if details:
        error["details"] = details
    return {"type": "error", "error": error, "request_id": "req_simulated"}


def check(body):
    for name in body:
        if name not in FIELDS:
            raise BadRequest(f"{name}: Extra inputs are not permitted")
    if "thread" in body:  # the official client goes on without, when it is told so this way
        raise BadRequest("thread: not supported", {"error_code": "thread_unsupported_request",
                                                   "unsupported": ["thread"]})
    if not body.get("messages"):
        raise BadRequest("messages: Field required")
    if "max_tokens" not in body:
        raise BadRequest("max_tokens: Field required")
    if body["max_tokens"] == 0 and body.get("stream"):
        raise BadRequest("max_tokens: 0 cannot be used with stream")


CLEAR_AT_BETA = "mid-conversation-system-clear-at-2026-08-21"


def check_system_turns(body, betas, takes):
    """Mid-conversation system messages: which `takes` ("", "plain" or "clear_at")."""
    if CLEAR_AT_BETA in betas and takes != "clear_at":
        raise BadRequest(f"Unexpected value(s) `{CLEAR_AT_BETA}` for the `anthropic-beta` header")
    turns = body["messages"]
    for index, turn in enumerate(turns):
        if turn["role"] != "system":
            continue
        if not takes:
            raise BadRequest(f"messages.{index}.role: system is not supported")
        if index == 0 or turns[index - 1]["role"] != "user":
            raise BadRequest(f"messages.{index}: a system message has to follow a user turn")
        if "clear_at" in turn and CLEAR_AT_BETA not in betas:
            raise BadRequest(f"messages.{index}.clear_at: Extra inputs are not permitted")


def shown(body):
    """The body without the system messages that a later user message has cleared."""
    turns = body.get("messages") or []
    last_user = max((i for i, turn in enumerate(turns) if turn["role"] == "user"), default=-1)
    return {**body, "messages": [turn for index, turn in enumerate(turns)
                                 if "clear_at" not in turn or index > last_user]}


def tool_use(body):
    tools = body.get("tools") or []
    if tools and (named := named_call(body["messages"])):
        return {"type": "tool_use", "id": id_of("toolu_", body), "name": named[0],
                "input": named[1]}
    if not tools or "call the tool" not in canonical(body["messages"][-1:]):
        return None
    return {"type": "tool_use", "id": id_of("toolu_", body), "name": tools[0]["name"],
            "input": {"q": "naïve", "n": 2 ** 53}}


def message(body, usage, words):
    check(body)
    use = tool_use(body)
    content = [use] if use else [{"type": "text", "text": text_of(body, words)}]
    stop = "tool_use" if use else "end_turn"
    if body["max_tokens"] == 0:
        content, stop = [], "max_tokens"
    output = prompt_cache.count_tokens(canonical(content)) if content else 0
    return {"id": id_of("msg_", body), "type": "message", "role": "assistant",
            "model": body["model"], "content": content, "stop_reason": stop,
            "stop_sequence": None,
            "usage": {**usage, "output_tokens": output, "service_tier": "standard"}}


def message_events(body, usage, words):
    whole = message(body, usage, words)
    block = whole["content"][0]
    start = {**whole, "content": [], "stop_reason": None,
             "usage": {**whole["usage"], "output_tokens": 1}}
    events = [{"type": "message_start", "message": start}]
    if block["type"] == "tool_use":
        events.append({"type": "content_block_start", "index": 0,
                       "content_block": {**block, "input": {}}})
        text = json.dumps(block["input"], ensure_ascii=False)
        pieces = [""] + [text[at:at + 7] for at in range(0, len(text), 7)]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    else:
        events.append({"type": "content_block_start", "index": 0,
                       "content_block": {"type": "text", "text": ""}})
        parts = block["text"].split(" ")
        deltas = [{"type": "text_delta", "text": part if at + 1 == len(parts) else part + " "}
                  for at, part in enumerate(parts)]
    events.append({"type": "ping"})
    events += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    events.append({"type": "content_block_stop", "index": 0})
    events.append({"type": "message_delta",
                   "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
                   "usage": {"output_tokens": whole["usage"]["output_tokens"]}})
    events.append({"type": "message_stop"})
    return [(event["type"], json.dumps(event, ensure_ascii=False)) for event in events]


def models():
    return {"data": [{"type": "model", "id": name, "display_name": name,
                      "created_at": "2026-01-01T00:00:00Z"} for name in MODELS],
            "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}


def request_id(head):
    return "req_" + hashlib.sha256(head).hexdigest()[:20]
