"""Edits of a Messages request's context, as the provider makes them: old results of tools and old
thinking are cleared from it. Pure functions; no sockets."""

import copy
import json

import prompt_cache

TOOL_USES, THINKING = "clear_tool_uses_20250919", "clear_thinking_20251015"
CLEARED = "[Old tool result content cleared]"


def tokens_of(body):
    return sum(prompt_cache.count_tokens(block[0]) for block in prompt_cache.anthropic_blocks(body))


def blocks_of(turn):
    return turn["content"] if isinstance(turn["content"], list) else []


def is_thinking(block):
    return block["type"] in ("thinking", "redacted_thinking")


def clear_thinking(body, edit):
    keep = edit.get("keep") or {"value": 1}
    if keep == "all" or keep.get("type") == "all":
        return 0
    rounds = [[]]
    for turn in body["messages"]:
        if turn["role"] == "user" and any(block["type"] != "tool_result"
                                          for block in blocks_of(turn) or [{"type": "text"}]):
            rounds.append([])
        rounds[-1].append(turn)
    thinking = [turns for turns in rounds
                if any(is_thinking(block) for turn in turns for block in blocks_of(turn))]
    old = thinking[:max(len(thinking) - keep["value"], 0)]
    for turns in old:
        for turn in turns:
            if blocks_of(turn):
                turn["content"] = [block for block in turn["content"] if not is_thinking(block)]
    return len(old)


def clear_tool_uses(body, edit):
    blocks = [block for turn in body["messages"] for block in blocks_of(turn)]
    uses = [block for block in blocks if block["type"] == "tool_use"]
    results = {block["tool_use_id"]: block for block in blocks if block["type"] == "tool_result"}
    trigger = edit.get("trigger") or {"type": "input_tokens", "value": 100_000}
    size = len(uses) if trigger["type"] == "tool_uses" else tokens_of(body)
    if size <= trigger["value"]:
        return 0
    old = uses[:max(len(uses) - (edit.get("keep") or {"value": 3})["value"], 0)]
    old = [use for use in old
           if use["name"] not in (edit.get("exclude_tools") or []) and use["id"] in results]
    inputs = edit.get("clear_tool_inputs")
    before = copy.deepcopy(body["messages"])
    tokens = tokens_of(body)
    for use in old:
        results[use["id"]]["content"] = CLEARED
        if inputs is True or (isinstance(inputs, list) and use["name"] in inputs):
            use["input"] = {}
    least = (edit.get("clear_at_least") or {"value": 0})["value"]
    if tokens - tokens_of(body) < least:
        body["messages"] = before
        return 0
    return len(old)


def applied_to(body):
    """The body as the model sees it, and the edits that changed it, as an answer lists them; None
    for a request that asks for no edits."""
    edits = (body.get("context_management") or {}).get("edits")
    if edits is None:
        return body, None
    body = copy.deepcopy(body)
    applied = []
    makes = {TOOL_USES: (clear_tool_uses, "cleared_tool_uses"),
             THINKING: (clear_thinking, "cleared_thinking_turns")}
    for edit in edits:
        if edit["type"] not in makes:
            continue
        before = tokens_of(body)
        clear, name = makes[edit["type"]]
        number = clear(body, edit)
        if number:
            applied.append({"type": edit["type"], name: number,
                            "cleared_input_tokens": before - tokens_of(body)})
    return body, applied


def size(body):
    """A count of tokens, as the provider answers it."""
    edited, applied = applied_to(body)
    count = {"input_tokens": tokens_of(edited)}
    if applied is not None:
        count["context_management"] = {"original_input_tokens": tokens_of(body)}
    return count


def said_in(answer, applied):
    """The answer, or its events, with the edits that were made."""
    said = {"context_management": {"applied_edits": applied}}
    if isinstance(answer, dict):
        return {**answer, **said}
    return [(name, json.dumps({**json.loads(data), **said}) if name == "message_delta" else data)
            for name, data in answer]
