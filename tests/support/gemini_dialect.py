"""Answers of Gemini's dialect (generateContent). Pure functions; no sockets.

What is refused stands in gemini_request.py; paths and explicit caches in gemini_service.py.
"""

import json

import preserved_thinking
import prompt_cache
from gemini_request import declarations
from openai_dialect import id_of, named_call, text_of
from prompt_cache import canonical

MODELS = ["gemini-3.5-flash", "gemini-3-pro", "gemini-3-flash", "gemini-2.5-pro",
          "gemini-2.5-flash", "gemini-2.5-flash-lite"]
STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED",
            404: "NOT_FOUND", 409: "ABORTED", 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED",
            500: "INTERNAL", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
TYPES = "type.googleapis.com/google.rpc."


def error_body(status, message, details=None, retry_after=""):
    details = list(details or [])
    if retry_after and status == 429:
        details.append({"@type": TYPES + "RetryInfo", "retryDelay": f"{retry_after}s"})
    error = {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}
    return {"error": {**error, "details": details} if details else error}


def is_known(model):
    """A version of a model has its name in front."""
    return any(model == name or model.startswith(name + "-") for name in MODELS)


def thinks(model, body):
    """True where the model thinks before it answers."""
    config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    if "thinkingBudget" in config:
        return config["thinkingBudget"] != 0
    return "lite" not in model or "thinkingLevel" in config


def wants_thoughts(body):
    config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    return bool(config.get("includeThoughts"))


def function_call(body, seed, model):
    """The call of the answer, or None; newer models give it an id."""
    functions = declarations(body)
    config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if not functions or config.get("mode") == "NONE":
        return None
    names = config.get("allowedFunctionNames") or [found["name"] for found in functions]
    if named := named_call(body["contents"]):
        call = {"name": named[0], "args": named[1]}
    elif config.get("mode") == "ANY" or "call the tool" in canonical(body["contents"][-1:]):
        call = {"name": names[0], "args": {"q": "naïve", "n": 2 ** 53}}
    else:
        return None
    return {"id": id_of("", seed), **call} if model.startswith("gemini-3") else call


def instance(schema, root=None):
    """The smallest value that a schema describes, in either spelling of schemas."""
    root = schema if root is None else root
    if "$ref" in schema:
        found = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return instance(found, root)
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("anyOf"):
        return instance(schema["anyOf"][0], root)
    kind = schema.get("type", "object")
    kind = (kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object":
        return {name: instance(inner, root)
                for name, inner in (schema.get("properties") or {}).items()}
    if kind == "array":
        return [instance(schema.get("items") or {}, root)
                for _ in range(int(schema.get("minItems", 1)))]
    scalars = {"integer": 7, "number": 7.5, "boolean": True, "null": None}
    if kind in ("integer", "number") and "minimum" in schema:
        return max(scalars[kind], schema["minimum"])
    return scalars.get(kind, "2026-01-01T00:00:00Z" if schema.get("format") == "date-time"
                       else "naïve owls")


def answer_text(body, seed, words):
    config = body.get("generationConfig") or {}
    if config.get("responseMimeType", "text/plain") == "text/plain":
        return text_of(seed, words)
    schema = config.get("responseSchema", config.get("responseJsonSchema"))
    value = instance(schema) if schema is not None else {"text": text_of(seed, words)}
    is_enum = config["responseMimeType"] == "text/x.enum"
    return value if is_enum else json.dumps(value, ensure_ascii=False)


def usage_of(counts, output, thoughts):
    prompt, cached = counts
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": output,
             "totalTokenCount": prompt + output + thoughts,
             "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}]}
    if cached:
        usage["cachedContentTokenCount"] = cached
        usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": cached}]
    if thoughts:
        usage["thoughtsTokenCount"] = thoughts
    return usage


def generate(body, model, counts, words):
    """The whole answer; counts are (prompt tokens, cached)."""
    seed = {"model": model, **body}
    call, parts, thoughts = function_call(body, seed, model), [], 0
    is_thinking = thinks(model, body)
    if is_thinking:
        thought = {"text": f"for {id_of('', seed)}", "thought": True}
        thoughts = prompt_cache.count_tokens(thought["text"])
        parts += [thought] if wants_thoughts(body) else []
    part = {"functionCall": call} if call else {"text": answer_text(body, seed, words)}
    # Only the newest models sign texts too.
    if is_thinking and (call or model.startswith("gemini-3")):
        part["thoughtSignature"] = preserved_thinking.gemini_signature(part)
    parts.append(part)
    output = prompt_cache.count_tokens(canonical(call) if call else part["text"])
    return {"candidates": [{"content": {"parts": parts, "role": "model"},
                            "finishReason": "STOP", "index": 0}],
            "usageMetadata": usage_of(counts, output, thoughts),
            "modelVersion": model, "responseId": id_of("", seed)}


def generate_events(body, model, counts, words):
    """Each chunk is an answer of its own; only the last one says why it ended."""
    whole = generate(body, model, counts, words)
    total = whole["usageMetadata"]
    begun = {key: value for key, value in total.items()
             if key not in ("candidatesTokenCount", "thoughtsTokenCount")}
    begun["totalTokenCount"] = total["promptTokenCount"]
    pieces = []
    for part in whole["candidates"][0]["content"]["parts"]:
        if "text" not in part or part.get("thought"):
            pieces.append(part)
            continue
        texts = part["text"].split(" ")
        pieces += [{"text": text if at + 1 == len(texts) else text + " "}
                   for at, text in enumerate(texts)]
        if "thoughtSignature" in part:  # it comes last, behind all of the text
            pieces.append({"text": "", "thoughtSignature": part["thoughtSignature"]})
    events = []
    for at, piece in enumerate(pieces):
        is_last = at + 1 == len(pieces)
        candidate = {"content": {"parts": [piece], "role": "model"}, "index": 0}
        if is_last:
            candidate["finishReason"] = "STOP"
        events.append({**whole, "candidates": [candidate],
                       "usageMetadata": total if is_last else begun})
    return [(None, json.dumps(event, ensure_ascii=False)) for event in events]


def count(counts):
    prompt, cached = counts
    found = {"totalTokens": prompt,
             "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}]}
    return {**found, "cachedContentTokenCount": cached} if cached else found


def model_entry(name):
    return {"name": f"models/{name}", "version": "001", "displayName": name,
            "description": "A simulated model.", "inputTokenLimit": 1048576,
            "outputTokenLimit": 65536,
            "supportedGenerationMethods": ["generateContent", "countTokens",
                                           "createCachedContent", "batchGenerateContent"],
            "temperature": 1, "topP": 0.95, "topK": 64, "maxTemperature": 2, "thinking": True}
