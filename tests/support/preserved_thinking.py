"""Thinking that is bound to its prefix, as the newest Claude models bind it: the signature of a
block holds for system, tools and all turns in front of it. Pure functions.

Legal: to append, to move cache_control, to remove thinking from the start, the end or everywhere.
A text is the same as a string and as the only block. Refused: any other change of the prefix, and
thinking that was removed from the middle.

Gemini's models sign what they thought in a part of the answer. Those of Gemini 3 miss it in the
calls of the turn that goes on, which are those since the last text of the user; older ones do not.
"""

import base64
import fnmatch
import hashlib
import json

from prompt_cache import PRICES, BadRequest, canonical

KINDS = ("thinking", "redacted_thinking")


def binds(model):
    """True for the models of which gateway/ledger/prices.json says so."""
    for row in json.loads(PRICES.read_text())["providers"]["anthropic"]:
        if any(fnmatch.fnmatchcase(model, glob) for glob in row["models"]):
            return row.get("binds_thinking", False)
    return False


def bare(value):
    if isinstance(value, dict):
        return {key: bare(part) for key, part in value.items() if key != "cache_control"}
    return [bare(part) for part in value] if isinstance(value, list) else value


def blocks_of(content):
    return [{"type": "text", "text": content}] if isinstance(content, str) else bare(content)


class Prefix:
    """Grows with each turn; thinking itself is not a part of it."""

    def __init__(self, body):
        front = [bare(body.get("tools") or []), blocks_of(body.get("system") or [])]
        self._hash = hashlib.sha256(canonical(front).encode())

    def add(self, message):
        blocks = [block for block in blocks_of(message["content"]) if block["type"] not in KINDS]
        self._hash.update(canonical([message["role"], blocks]).encode())

    def signature(self):
        return self._hash.hexdigest()[:32]


def check(body):
    """(the transformations that the answer has to name, the signature of the next thinking)."""
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    drops = binding.get("prefix_mismatch_behavior") == "drop_block"
    prefix, dropped, with_thinking = Prefix(body), [], []
    for index, message in enumerate(body["messages"]):
        if message["role"] == "assistant":
            blocks = blocks_of(message["content"])
            thinking = [number for number, block in enumerate(blocks) if block["type"] in KINDS]
            with_thinking.append(bool(thinking))
            for number in thinking:
                if blocks[number].get("signature") == prefix.signature():
                    continue
                path = f"messages[{index}].content[{number}]"
                if not drops:
                    raise BadRequest(f"{path}: thinking was made for another prefix")
                dropped.append({"type": "thinking_dropped", "path": path})
        if "clear_at" not in message:  # it is shown for a while only, and binds nothing
            prefix.add(message)
    kept = "".join("x" if has else " " for has in with_thinking).strip()
    if " " in kept:
        raise BadRequest("thinking was removed from the middle")
    return dropped, prefix.signature()


def add_to(message, dropped, signature):
    """Lets an answer, which is not streamed, think."""
    thought = {"type": "thinking", "thinking": f"for {message['id']}", "signature": signature}
    message["content"].insert(0, thought)
    if dropped:
        message["input_transformations"] = dropped


# --- Gemini ---------------------------------------------------------------------------------------

# What Google's documentation says to send with calls that another model has made.
GEMINI_DUMMIES = ("context_engineering_is_the_way_to_go", "skip_thought_signature_validator")


def gemini_signature(part):
    """A part without an id has the same signature: a client may leave ids out."""
    said = part.get("functionCall", {"text": part.get("text")})
    bound = canonical([said.get("name"), said.get("args"), said.get("text")])
    return base64.b64encode(b"thought:" + hashlib.sha256(bound.encode()).digest()).decode()


def check_gemini(contents, model):
    """The first call of each answer since the user's last text has its signature, as it was."""
    def is_text(content):
        return content.get("role", "user") == "user" and \
            any("text" in part for part in content["parts"])

    begin = max((at for at, content in enumerate(contents) if is_text(content)), default=0)
    for number, content in enumerate(contents):
        signed = [part for part in content["parts"] if "functionCall" in part][:1]
        for part in signed:
            found, name = part.get("thoughtSignature"), part["functionCall"]["name"]
            if found is None and number > begin and model.startswith("gemini-3"):
                raise BadRequest(
                    "Function call is missing a thought_signature in functionCall parts. This is "
                    "required for tools to work correctly, and missing thought_signature may lead "
                    "to degraded model performance. Additional data, function call "
                    f"`default_api:{name}` , position {number + 1}. Please refer to "
                    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details.")
            if found not in (None, gemini_signature(part), *GEMINI_DUMMIES):
                raise BadRequest("Thought signature is not valid.")
