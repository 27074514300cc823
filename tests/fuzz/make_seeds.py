#!/usr/bin/env python3
"""Writes a small seed corpus for each fuzz target: make_seeds.py FOLDER makes FOLDER/TARGET/*.

To the seeds written here it adds what earlier runs have learnt (corpus/, see keep_corpus.py).
"""

import gzip
import json
import struct
import sys
import tarfile
from pathlib import Path

MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "h\u00e9"},
            {"role": "assistant", "content": None}, {"role": "tool", "content": "t"},
            {"role": "user", "content": [{"type": "text", "text": "a"}]}]
SAMPLING = {"temperature": 0.5, "top_p": 1, "top_k": 3, "min_p": 0.1, "seed": 7, "stop": ["x", "y"],
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}


def json_seeds(key, values, **more):
    bodies = [{"model": "local", key: value} for value in values]
    bodies += [{**bodies[0], **SAMPLING, **more}, [], {"a": [[[]]], "b": {"c": -0.0}}]
    return [json.dumps(body, ensure_ascii=False).encode() for body in bodies]


def gguf_string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def gguf(version=3):
    """One tensor, and a value of each kind that a model file has."""
    pairs = [("general.architecture", 8, gguf_string("llama")),
             ("llama.block_count", 4, struct.pack("<I", 1)),
             ("llama.rope.freq_base", 6, struct.pack("<f", 1e4)),
             ("tokenizer.ggml.add_bos_token", 7, b"\1"),
             ("tokenizer.ggml.tokens", 9,
              struct.pack("<IQ", 8, 2) + gguf_string("a") + gguf_string("b"))]
    head = b"GGUF" + struct.pack("<IQQ", version, 1, len(pairs))
    for key, kind, value in pairs:
        head += gguf_string(key) + struct.pack("<I", kind) + value
    head += gguf_string("w") + struct.pack("<IQQIQ", 2, 4, 2, 0, 0)
    return head + bytes(-len(head) % 32) + struct.pack("<8f", *range(8))


def safetensors(data_bytes=16, **more):
    """Its header in mode 1 to 255, which is the size of the data behind it."""
    header = {"__metadata__": {"format": "pt"},
              "w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
              "b": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}, **more}
    return bytes([data_bytes]) + json.dumps(header).encode()


USAGE = {"model": "m", "error": None, "usage": {
    "prompt_tokens": 9, "completion_tokens": 2.0, "prompt_tokens_details": {"cached_tokens": 8},
    "input_tokens": 3, "cache_read_input_tokens": 4, "cache_creation": {
        "ephemeral_1h_input_tokens": 5}, "x": [{"usage": "\"}"}]}}
EVENTS = (b": hi\r\nevent: a\ndata: "
          + json.dumps({"type": "message_start", "message": USAGE}).encode()
          + b"\r\rdata: {\ndata: }\n\ndata: [DONE]\n\n")

JINJA = [
    "{%- for m in messages recursive -%}{{ loop.index }}{{ m.role ~ m['content']|trim|tojson }}"
    "{% if loop.last and not m.n is defined %}{% break %}{% else %}{{ loop([]) }}{% endif %}"
    "{% else %}x{% endfor %}",
    "{% macro f(a, b=1, *c) %}{% endmacro %}",
    "{% macro f(a, b=[1, {'k': (1,)}]) %}{{ caller(a) }}{{ varargs }}{{ kwargs }}{% endmacro %}"
    "{% call(y) f(s[::-1], *[2], **{'z': 3}) %}{{ y.split(',', 1)[-1]|upper }}{% endcall %}",
    "{% set ns = namespace(t='') %}{% for k, v in tools[0].items() if v is not none %}"
    "{% set ns.t = ns.t + '%s=%05.1f' % (k, x / 2) %}{% endfor %}{{ ns.t }}{{ big }}",
    "{%+ filter indent(2, true) %}{% set b | title %}a{% endset %}{{ b }}{% endfilter %}{# c -#}"
    "{% raw -%} {{ {% endraw %}{{ '{:>8}|{0!r}'.format(x) if x in [7] else strftime_now('%d') }}",
    "{{ messages|selectattr('role', 'eq', 'user')|map(attribute='content')|join(', ') }}"
    "{{ s|wordwrap(3) }}{{ tools|groupby('name')|pprint }}"
    "{{ (x // 2 ** 3 % -4, -x.real, 1_0.5e-3, 0x1F)|sort }}"]

WORDS = "Hello World's  12345 \u65e5\u672c e\u0301 \U0001f44d\n\n\t foo_bar();".encode()


def tokenizer_json(model, text=WORDS, **more):
    """Mode 2 of tokenizer_fuzz: a tokenizer.json and a text."""
    return b"\2" + json.dumps({"model": model, **more}).encode() + b"\0" + text


BPE = {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "ignore_merges": True,
       "fuse_unk": True, "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "<0x41>": 4},
       "merges": ["a b"]}
UNIGRAM = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1.5], ["ab", -2]]}
STEPS = [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip"}, {"type": "StripAccents"},
         {"type": "Prepend", "prepend": "_"}, {"type": "Precompiled",
                                               "precompiled_charsmap": "AAAAAAA="},
         {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}]
CUTS = [{"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"}, "behavior": "Isolated"},
        {"type": "Punctuation"}, {"type": "Digits"}, {"type": "Whitespace"},
        {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}]
ADDED = [{"id": 9, "content": "<s>", "special": True, "rstrip": True},
         {"id": 10, "content": "foo", "lstrip": True, "single_word": True}]
TEMPLATE = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}},
                                                     {"Sequence": {"id": "A"}}],
            "special_tokens": {"<s>": {"ids": [9]}}}

# The body of a stored turn with one item, and a stored record, as store/FORMAT.md has them.
TURN = (struct.pack("<IHH", 0x4e54564b, 1, 0) + struct.pack("<QQqqqq", 3, 2, 5, 9, 8, 7)
        + bytes(33) + b"".join(struct.pack("<I", len(text)) + text
                               for text in (b"id", b"parent", b"tenant", b""))
        + struct.pack("<I", 1) + struct.pack("<I", 4) + b"user" + struct.pack("<I", 2) + b"{}")
# Flags (everything known, one digest for both), endpoint, dialect, 13 texts, 9 numbers, the counts
# that are present, usage, cost, digest; one edit.
def record(version, flags):
    return (version + bytes(8) + flags + b"\0\0" + b"\1x" * 13 + b"\2" * 9 + b"\3\2\4" + b"\6" * 6
            + b"\x0a\x0c" + bytes(32) + b"\1\1e")


# In version 3 behind it: its count, preparation, plan, break, one source, the provider's reason.
RECORDS = [record(b"\2", b"\x2f"),
           record(b"\3", b"\xef\x0f") + b"\2" + b"\1p" * 3 + b"\1r" + bytes(8) + b"\4" + b"\1b" * 6
           + b"\2" * 3 + b"\1\1t" + b"\2" * 4 + b"\1y"]

# Replies with calls, as the families write them; the first byte is the family's row.
CALL = '{"name": "f", "arguments": {"s": "a\\n}", "n": [1, null]}}'
NAMED = '{"s": "x"}'
REPLIES = [
    "<think>hm</think>\nso\n<tool_call>\n" + CALL + "\n</tool_call>", "<tool_call>" + CALL,
    "<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
    "<function=f>" + NAMED + "</function>",
    CALL.replace("arguments", "parameters") + "; <|python_tag|>f.call(s='x')",
    "[TOOL_CALLS][" + CALL + "][TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]" + NAMED,
    "<\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>f\n```json\n"
    + NAMED + "\n```<\uff5ctool\u2581call\u2581end\uff5c>",
    "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>" + NAMED + "<|tool_call_end|>",
    "<|START_THINKING|>x<|END_THINKING|><|START_ACTION|>[" + CALL + "]<|END_ACTION|>",
    "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>commentary "
    "to=functions.f<|message|>" + NAMED + "<|call|>",
    "all\nx>>>f\n" + NAMED]
ANTHROPIC = [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {
    "type": "ephemeral", "ttl": "1h"}}]}, {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "is_error": True,
                                  "content": [{"type": "text", "text": "r"}]}]},
    {"role": "system", "content": "s"}]
ITEMS = [{"role": "user", "content": [{"type": "input_text", "text": "a"}]},
         {"type": "reasoning", "id": "rs_kv0123456789abcdef01234567_0", "summary": [],
          "encrypted_content": "kvgate-reasoning-1:aG0="},
         {"type": "message", "id": "msg_kv0123456789abcdef01234567_1", "role": "assistant",
          "content": [{"type": "output_text", "text": "b", "annotations": []}]},
         {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
         {"type": "function_call_output", "call_id": "c", "output": "r"},
         {"type": "item_reference", "id": "msg_1"}]
GBNF = [b'root ::= "{" (p ("," p)*)? "}" # x\np ::= "\\"" [^"\\\\x00-\\x1F]{0,9} "\\":" v\n'
        b'v ::= root | [0-9]+ | . \n | "\\u00e9" ("a" | "")? [a-z\\]-]{2,}',
        b"root ::= a b\na ::= \"x\" a | \"\"\nb ::= (a | [^b])"]
SCHEMAS = [
    {"type": "object",
     "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": ["null", "number"]}},
     "required": ["a", "c"], "additionalProperties": {"type": "string", "maxLength": 3},
     "$defs": {"x": {"anyOf": [{"const": "\u00e9"}, {"items": {"$ref": "#"}, "maxItems": 2}]}}},
    {"allOf": [{"type": "integer", "minimum": -12}, {"exclusiveMaximum": 99.5, "multipleOf": 3}]},
    {"type": "string", "pattern": "^(a|[^b-d\\\\s]{2,})+x?$", "minLength": 2, "maxLength": 9},
    {"prefixItems": [{"enum": [1, None, {"k": []}]}, {"format": "date-time", "type": "string"}],
     "items": False, "minItems": 1},
    {"oneOf": [{"type": "null"}, {"type": "number", "minimum": 0.125, "maximum": 1e3}]}]

REMINDER = {"type": "text", "text": "<system-reminder>r</system-reminder>"}
OUTLINES = [json.dumps({
    "model": "m", "tools": [{"name": name, "input_schema": {"maximum": 1.0}} for name in names],
    "system": [{"type": "text", "text": f"Be brief.\nCurrent time: 2026-11-22 10:0{turn}:00",
                "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": [*first, {"type": "text", "text": "go"}]}] + more,
}).encode() for turn, names, first, more in (
    (0, "ab", [REMINDER], []),
    (1, "ba", [], [{"role": "assistant", "content": [
        {"type": "tool_use", "id": "1", "name": "a", "input": {"x": 1}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": "ok"}, REMINDER]}]))]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1.0}"}}
IMAGE = {"type": "base64", "media_type": "image/png", "data": "AA=="}
TRANSLATED = [json.dumps(body).encode() for body in (
    {"systemInstruction": {"parts": [{"text": "s"}]}, "contents": [
        {"parts": [{"text": "u"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1.0}},
                                     "thoughtSignature": "a3ZnYXRlLQ=="}]},
        {"parts": [{"functionResponse": {"name": "f", "response": {"output": "t"}}}]}],
     "tools": [{"functionDeclarations": [{"name": "f", "parameters": {
         "type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}}]}],
     "generationConfig": {"topK": 3, "thinkingConfig": {"thinkingBudget": 9}}},
    {"model": "m", "messages": [
        MESSAGES[0], {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]},
        {"role": "assistant", "reasoning_content": "r", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "t"}], "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
     "tool_choice": "required", "reasoning_effort": "low", "stop": ["x"], "max_tokens": 3},
    {"model": "m", "max_tokens": 3, "system": [{"type": "text", "text": "s"}], "messages": [
        {"role": "user", "content": [{"type": "image", "source": IMAGE}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "t", "signature": "kvgate-item:a:b"},
            {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1.0}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": [
                {"type": "image", "source": IMAGE}]}]}],
     "tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "any"}},
    {"model": "m", "instructions": "i", "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "kvgate-thinking:s:t"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "o"}],
     "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}})]
UPSTREAM_REPLIES = [
    {"choices": [{"message": {"content": "x", "tool_calls": [CALL]}, "finish_reason": "stop"}],
     "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    {"content": [{"type": "thinking", "thinking": "t", "signature": "s"},
                 {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}],
     "stop_reason": "tool_use", "usage": {"input_tokens": 1, "cache_read_input_tokens": 2}},
    {"status": "completed", "output": [
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]}]
UPSTREAM_EVENTS = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in (
    {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3}}},
    {"choices": [{"delta": {"content": "x", "tool_calls": [{"index": 0, **CALL}]}}]},
    {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "c", "name": "f"}},
    {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "response.output_text.delta", "delta": "x"},
    {"type": "response.output_item.done", "item": {"type": "reasoning", "encrypted_content": "e"}},
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "response.completed", "response": {"status": "completed"}},
    {"type": "message_stop"})) + b"data: [DONE]\n\n"

# Replies of every kind; what lies behind a push and an attribute; sizes that are lies; commands.
RESP = [b"+OK\r\n-ERR no\r\n:-12\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n_\r\n#t\r\n,1.5\r\n(123\r\n"
        b"=5\r\ntxt:a\r\n!3\r\nERR\r\n",
        b"*3\r\n:1\r\n*2\r\n+a\r\n*0\r\n$1\r\nx\r\n%1\r\n+a\r\n~1\r\n:1\r\n",
        b">2\r\n+p\r\n*1\r\n:1\r\n*1\r\n|1\r\n+k\r\n%1\r\n+x\r\n*0\r\n+v\r\n>0\r\n",
        b"$99999999999\r\n", b"*1000000000\r\n", b"$999\r\nab", b"*1\r\n" * 20,
        b"SET\0key\0value\1GET\0key"]

SEEDS = {
    "gbnf_fuzz": GBNF,
    "schema_fuzz": [json.dumps(schema).encode() for schema in SCHEMAS],
    "jinja_fuzz": [b"\x0b" + source.encode() for source in JINJA],
    "chat_completions_fuzz": json_seeds("messages", [MESSAGES, MESSAGES[:1]], logprobs=True,
                                        top_logprobs=2, max_completion_tokens=5),
    "messages_fuzz": json_seeds("messages", [ANTHROPIC, ANTHROPIC[:1]], max_tokens=5, system="s",
                                tools=[{"name": "f", "input_schema": {"type": "object"}}],
                                tool_choice={"type": "tool", "name": "f"},
                                thinking={"type": "disabled"}, stop_sequences=["x"]),
    "responses_fuzz": json_seeds("input", ["hi", ITEMS, ITEMS[:1]], store=True, instructions="s",
                                 tools=[{"type": "function", "name": "f",
                                         "parameters": {"type": "object"}}],
                                 tool_choice={"type": "function", "name": "f"},
                                 reasoning={"effort": "low", "summary": "auto"},
                                 text={"format": {"type": "json_object"}},
                                 include=["reasoning.encrypted_content"], max_output_tokens=5,
                                 previous_response_id="resp_1"),
    # The first byte: a request, events, a whole answer or an error; where events are divided.
    "translate_fuzz": [b"\4" + seed for seed in TRANSLATED] + [b"\1" + UPSTREAM_EVENTS] + [
        b"\2" + json.dumps(reply).encode() for reply in UPSTREAM_REPLIES] + [
        b"\3" + json.dumps({"type": "error", "error": {"type": "api_error", "message": "m"}})
        .encode()],
    "tool_call_fuzz": [bytes([row, 1]) + reply.encode() for row, reply in enumerate(REPLIES)],
    "completions_fuzz": json_seeds("prompt", ["hi", [1, 2, 3], ["a"]], logprobs=2, echo=True,
                                   max_tokens=5),
    "json_fuzz": json_seeds("prompt", ["hi"]) + [b"\xff\xed\xa0\x80", b'{"a":"\\ud83d\\ude00"}'],
    "gguf_fuzz": [gguf(), gguf(2), gguf()[:60]],
    "safetensors_fuzz": [
        safetensors(), safetensors(20, c={"dtype": "I8", "shape": [], "data_offsets": [16, 17]}),
        b"\0" + struct.pack("<Q", 2) + b"{}", b"\0" + struct.pack("<Q", 1 << 63)],
    "tokenizer_fuzz": [bytes([0, family]) + WORDS for family in range(0, 40, 4)] + [
        b"\1" + WORDS,
        tokenizer_json(BPE, added_tokens=ADDED, post_processor=TEMPLATE,
                       normalizer={"type": "Sequence", "normalizers": STEPS},
                       pre_tokenizer={"type": "Sequence", "pretokenizers": CUTS},
                       decoder={"type": "ByteFallback"}),
        tokenizer_json(UNIGRAM, pre_tokenizer=CUTS[4]),
        tokenizer_json(BPE, pre_tokenizer={"type": "ByteLevel"}, decoder={"type": "ByteLevel"})],
    # The first byte is the endpoint, the mode and the rules; bodies of one conversation follow.
    "request_layout_fuzz": [bytes([kind]) + b"\0".join(OUTLINES) for kind in (0, 3, 6, 0x43, 0xC3)],
    "sse_reader_fuzz": [b"\3" + EVENTS, b"\0\xef\xbb\xbfdata\n\n"],
    # The first byte is the endpoint, the coding and whether it is events; the second the size of
    # pieces.
    "usage_reader_fuzz": [b"\x20\3" + gzip.compress(json.dumps(USAGE).encode()),
                          b"\xa4\5" + gzip.compress(EVENTS), b"\0\3" + json.dumps(USAGE).encode(),
                          b"\x84\5" + EVENTS,
                          b"\2\1" + json.dumps({"response": USAGE}).encode()],
    # Zeros are a record; lengths around the fixed parts of keys, entries and headers.
    "prefix_file_fuzz": [bytes(size) for size in (0, 16, 60, 200)],
    "turn_format_fuzz": [bytes(size) for size in (0, 16, 32, 61, 120, 400)] + [TURN],
    # Its version, a time, then zeros: numbers, absent texts, no edits.
    "record_format_fuzz": [b"\3" + bytes(8 + size) for size in (0, 20, 30)] + RECORDS,
    # The first byte is the size of pieces and the limit.
    "resp_fuzz": [bytes([first]) + seed for first in (0, 130) for seed in RESP],
    "kv_format_fuzz": [bytes(size) for size in (0, 32, 120, 128, 160, 400)],
}


def main():
    for target, seeds in SEEDS.items():
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for index, seed in enumerate(seeds):
            (folder / f"seed-{index}").write_bytes(seed)
        with tarfile.open(Path(__file__).parent / "corpus" / f"{target}.tar.xz") as kept:
            for member in kept:
                (folder / member.name).write_bytes(kept.extractfile(member).read())


if __name__ == "__main__":
    main()
