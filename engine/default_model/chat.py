"""The chat template in Python: what chat_template.jinja renders, and which of it the model says.

A conversation is a dict like a Chat Completions body: `messages`, and `tools` where there are some.
Standard library only. tests/engine/default_model compares every rendering with `kvgate render`.
"""

import json
from pathlib import Path

TEMPLATE = (Path(__file__).parent / "chat_template.jinja").read_text()
START, END = "<|im_start|>", "<|im_end|>"


def dump(value):
    """JSON as the template's tojson writes it."""
    return json.dumps(value, ensure_ascii=False)


def call_text(call):
    call = call.get("function", call)
    arguments = call["arguments"]
    if not isinstance(arguments, str):
        arguments = dump(arguments)
    return '<tool_call>\n{"name": "' + call["name"] + '", "arguments": ' + arguments + \
        "}\n</tool_call>"


def body_of(message):
    """The text of a turn between its role and its end."""
    parts = [message.get("content") or ""] if message.get("content") else []
    parts += [call_text(call) for call in message.get("tool_calls") or []]
    return "\n".join(parts)


def segments(conversation, add_generation_prompt=False):
    """Yields (text, said): the rendering in pieces, and if the model is the one that says it.

    Each piece can be encoded alone: it begins or ends beside a control token, or stands between a
    line end and a text that begins with no blank (`check` in corpus/generate.py).
    """
    messages, tools = conversation["messages"], conversation.get("tools") or []
    has_system = bool(messages) and messages[0]["role"] == "system"
    if tools:
        text = START + "system\n"
        if has_system:
            text += messages[0]["content"] + "\n\n"
        text += "<tools>\n"
        for tool in tools:
            text += dump(tool.get("function", tool)) + "\n"
        yield text + "</tools>" + END + "\n", False
    for index, message in enumerate(messages):
        if tools and has_system and index == 0:
            continue
        yield START + message["role"] + "\n", False
        yield body_of(message) + END, message["role"] == "assistant"
        yield "\n", False
    if add_generation_prompt:
        yield START + "assistant\n", False


def render(conversation, add_generation_prompt=False):
    return "".join(text for text, _ in segments(conversation, add_generation_prompt))
