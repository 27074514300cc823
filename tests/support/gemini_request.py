"""What Google's API takes as a request of Gemini's dialect: names, types, and what its models
refuse. Pure functions; no sockets.

Names are taken in camelCase and in snake_case, as protobuf's JSON takes them; read() gives them
back in camelCase, so that both spellings are the same prompt.
"""

import json
import re

from prompt_cache import BadRequest

# A field's type: a name of a message, a scalar, "struct" (any object), "any", or a tuple of the
# values of an enum; in a list for a repeated field, in a dict for a map.
MESSAGES = {
    "GenerateContentRequest": {
        "model": "string", "contents": ["Content"], "systemInstruction": "Content",
        "tools": ["Tool"], "toolConfig": "ToolConfig", "safetySettings": ["struct"],
        "generationConfig": "GenerationConfig", "cachedContent": "string",
        "serviceTier": "string", "store": "bool", "labels": "struct",
        "continuationToken": "string"},
    "CountTokensRequest": {
        "contents": ["Content"], "generateContentRequest": "GenerateContentRequest"},
    "CachedContent": {
        "name": "string", "model": "string", "displayName": "string", "contents": ["Content"],
        "systemInstruction": "Content", "tools": ["Tool"], "toolConfig": "ToolConfig",
        "ttl": "string", "expireTime": "string"},
    "Content": {"role": "string", "parts": ["Part"]},
    "Part": {
        "text": "string", "inlineData": "Blob", "fileData": "FileData",
        "functionCall": "FunctionCall", "functionResponse": "FunctionResponse",
        "executableCode": "struct", "codeExecutionResult": "struct", "toolCall": "struct",
        "toolResponse": "struct", "thought": "bool", "thoughtSignature": "string",
        "videoMetadata": "struct", "mediaResolution": "struct", "partMetadata": "struct"},
    "Blob": {"mimeType": "string", "data": "string"},
    "FileData": {"mimeType": "string", "fileUri": "string"},
    "FunctionCall": {"id": "string", "name": "string", "args": "struct"},
    "FunctionResponse": {
        "id": "string", "name": "string", "response": "struct", "parts": ["struct"],
        "willContinue": "bool", "scheduling": "string"},
    "Tool": {
        "functionDeclarations": ["FunctionDeclaration"], "googleSearch": "struct",
        "googleSearchRetrieval": "struct", "codeExecution": "struct", "urlContext": "struct",
        "googleMaps": "struct", "fileSearch": "struct", "computerUse": "struct"},
    "FunctionDeclaration": {
        "name": "string", "description": "string", "parameters": "Schema",
        "parametersJsonSchema": "any", "response": "Schema", "responseJsonSchema": "any",
        "behavior": "string"},
    "Schema": {
        "type": ("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"),
        "format": "string", "title": "string", "description": "string", "nullable": "bool",
        "enum": ["string"], "items": "Schema", "maxItems": "int", "minItems": "int",
        "properties": {"": "Schema"}, "required": ["string"], "minProperties": "int",
        "maxProperties": "int", "minimum": "float", "maximum": "float", "minLength": "int",
        "maxLength": "int", "pattern": "string", "example": "any", "anyOf": ["Schema"],
        "propertyOrdering": ["string"], "default": "any"},
    "ToolConfig": {
        "functionCallingConfig": "FunctionCallingConfig", "retrievalConfig": "struct",
        "includeServerSideToolInvocations": "bool"},
    "FunctionCallingConfig": {
        "mode": ("AUTO", "ANY", "NONE", "VALIDATED"), "allowedFunctionNames": ["string"],
        "streamFunctionCallArguments": "bool"},
    "GenerationConfig": {
        "stopSequences": ["string"], "responseMimeType": "string", "responseSchema": "Schema",
        "responseJsonSchema": "any", "responseModalities": [("TEXT", "IMAGE", "AUDIO")],
        "candidateCount": "int", "maxOutputTokens": "int", "temperature": "float",
        "topP": "float", "topK": "float", "seed": "int", "presencePenalty": "float",
        "frequencyPenalty": "float", "responseLogprobs": "bool", "logprobs": "int",
        "enableEnhancedCivicAnswers": "bool", "speechConfig": "struct", "imageConfig": "struct",
        "audioTranscriptionConfig": "struct", "mediaResolution": "string",
        "thinkingConfig": "ThinkingConfig"},
    "ThinkingConfig": {
        "includeThoughts": "bool", "thinkingBudget": "int",
        "thinkingLevel": ("MINIMAL", "LOW", "MEDIUM", "HIGH")},
}
KINDS_OF_PART = ("text", "inlineData", "fileData", "functionCall", "functionResponse",
                 "executableCode", "codeExecutionResult", "toolCall", "toolResponse")
SERVER_TOOLS = ("googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext",
                "googleMaps", "fileSearch", "computerUse")
FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}\Z")
NO_CONTENTS = "* GenerateContentRequest.contents: contents is not specified\n"
COUNTS_DIFFER = ("Please ensure that the number of function response parts is equal to the number "
                 "of function call parts of the function call turn.")


def camel(name):
    return re.sub(r"(?<=[a-zA-Z0-9])_([a-z0-9])", lambda found: found[1].upper(), name)


def snake(name):
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), name)


# --- names and types ------------------------------------------------------------------------------

def violation(message, path):
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{"field": path, "description": message}]}]
    return BadRequest(message, details)


def wrong_value(value, kind, path):
    shown = json.dumps(value, ensure_ascii=False)
    return violation(f"Invalid value at '{path}' ({kind}), {shown}", path)


def read_scalar(value, kind, path):
    # A number may be spelled as a string, as protobuf's JSON allows.
    if kind == "bool":
        fits = isinstance(value, bool)
    elif kind == "string":
        fits = isinstance(value, str)
    else:
        try:
            number = float(value) if not isinstance(value, bool) else None
        except (TypeError, ValueError):
            number = None
        fits = number is not None and (kind == "float" or number == int(number))
        value = (int(number) if kind == "int" else number) if fits else value
    if not fits:
        names = {"bool": "TYPE_BOOL", "string": "TYPE_STRING", "int": "TYPE_INT32",
                 "float": "TYPE_FLOAT"}
        raise wrong_value(value, names[kind], path)
    return value


def read_value(value, kind, path):
    if isinstance(kind, list):
        # One that is not in a list is taken as a list of one.
        values = value if isinstance(value, list) else [value]
        return [read_value(one, kind[0], f"{path}[{at}]") for at, one in enumerate(values)]
    if isinstance(value, list) and kind != "any":
        raise violation("Invalid JSON payload received. Unknown name "
                        f"\"{path.rpartition('.')[2]}\" at '{path.rpartition('.')[0]}': "
                        "Proto field is not repeating, cannot start list.", path)
    if kind == "any":
        return value
    if isinstance(kind, tuple):
        if not isinstance(value, str) or value.upper() not in kind:
            raise wrong_value(value, "TYPE_ENUM", path)
        return value.upper()
    if kind == "struct" or isinstance(kind, dict):
        if not isinstance(value, dict):
            raise wrong_value(value, "TYPE_MESSAGE", path)
        if kind == "struct":
            return value
        return {name: read_value(one, kind[""], f"{path}[{at}].value")
                for at, (name, one) in enumerate(value.items())}
    return read(value, kind, path) if kind in MESSAGES else read_scalar(value, kind, path)


def read(value, message, path=""):
    """The message in camelCase; raises what the API refuses while it parses."""
    if not isinstance(value, dict):
        raise wrong_value(value, "TYPE_MESSAGE", path) if path else BadRequest(
            "Invalid JSON payload received. Unexpected token.")
    known, found = MESSAGES[message], {}
    for name, inner in value.items():
        kind = known.get(camel(name))
        if kind is None:
            where = f" at '{path}'" if path else ""
            raise violation("Invalid JSON payload received. "
                            f"Unknown name \"{name}\"{where}: Cannot find field.", path)
        if inner is not None:  # null is as good as nothing
            inside = f"{path}.{snake(camel(name))}" if path else snake(camel(name))
            found[camel(name)] = read_value(inner, kind, inside)
    return found


# --- what the models refuse -----------------------------------------------------------------------

def must(condition, message):
    if not condition:
        raise BadRequest(message)


def check_schema(schema, path):
    """The rules of the OpenAPI subset; the paths are as the API says them."""
    kind = schema.get("type")
    if kind == "OBJECT":
        properties = schema.get("properties") or {}
        must(properties, f"* {path}.properties: should be non-empty for OBJECT type\n")
        for at, name in enumerate(schema.get("required") or []):
            must(name in properties, f"* {path}.required[{at}]: property is not defined\n")
        for name, inner in properties.items():
            check_schema(inner, f"{path}.properties[{name}]")
    for name in ("properties", "required"):
        must(kind == "OBJECT" or name not in schema,
             f"* {path}.{name}: only allowed for OBJECT type\n")
    if kind == "ARRAY":
        must("items" in schema, f"* {path}.items: missing field.\n")
        check_schema(schema["items"], f"{path}.items")
    must(kind == "STRING" or "enum" not in schema, f"* {path}.enum: only allowed for STRING type\n")
    must(kind != "STRING" or schema.get("format", "enum") in ("enum", "date-time"),
         f"* {path}.format: only 'enum' and 'date-time' are supported for STRING type\n")
    for at, inner in enumerate(schema.get("anyOf") or []):
        check_schema(inner, f"{path}.any_of[{at}]")
    must(kind or schema.get("anyOf"), f"* {path}.type: must be specified\n")


def declarations(body):
    return [function for tool in body.get("tools") or []
            for function in tool.get("functionDeclarations") or []]


def check_tools(body, model):
    names = set()
    for number, tool in enumerate(body.get("tools") or []):
        where = f"GenerateContentRequest.tools[{number}]"
        must(len(tool) > 0, f"* {where}.tool_type: required one_of 'tool_type' must have one "
                            "initialized field\n")
        for at, function in enumerate(tool.get("functionDeclarations") or []):
            path = f"{where}.function_declarations[{at}]"
            name = function.get("name", "")
            must(FUNCTION_NAME.match(name),
                 f"* {path}.name: Invalid function name. Must start with a letter or an "
                 "underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), "
                 "colons (:), or dashes (-), with a maximum length of 64.\n")
            must(name not in names, f"Duplicate function declaration found: {name}")
            names.add(name)
            must("parameters" not in function or "parametersJsonSchema" not in function,
                 f"* {path}: parameters and parameters_json_schema cannot both be set\n")
            if "parameters" in function:
                check_schema(function["parameters"], f"{path}.parameters")
    uses = any(kind in tool for tool in body.get("tools") or [] for kind in SERVER_TOOLS)
    must(not (names and uses and model.startswith("gemini-2")),
         "Tool use with function calling is unsupported")
    config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if config.get("mode") in ("ANY", "VALIDATED"):
        must(names, "Function calling config is set without function_declarations.")
    else:
        must(not config.get("allowedFunctionNames"),
             "Allowed function names can be set only when the function calling mode is ANY or "
             "VALIDATED.")
    for name in config.get("allowedFunctionNames") or []:
        must(name in names, f"Allowed function name {name} is not in the function declarations.")


def check_thinking(thinking, model):
    must("thinkingBudget" not in thinking or "thinkingLevel" not in thinking,
         "You can only set only one of thinking budget and thinking level.")
    must("thinkingLevel" not in thinking or model.startswith("gemini-3"),
         "Thinking level is not supported for this model.")
    must(thinking.get("thinkingBudget") != 0 or "pro" not in model,
         "Budget 0 is invalid. This model only works in thinking mode.")


def check_config(body, model):
    config = body.get("generationConfig") or {}
    where = "* GenerateContentRequest.generation_config"
    for name, least, most in (("temperature", 0, 2), ("topP", 0, 1)):
        if name in config:
            must(least <= config[name] <= most, f"{where}.{snake(name)}: {snake(name)} must be in "
                                                f"the range [{least}.0, {most}.0].\n")
    must(config.get("maxOutputTokens", 1) >= 1, f"{where}.max_output_tokens: must be positive.\n")
    must(config.get("candidateCount", 1) == 1, "Multiple candidates is not enabled for this model")
    must(len(config.get("stopSequences") or []) <= 5,
         f"{where}.stop_sequences: at most 5 stop sequences are supported.\n")
    mime = config.get("responseMimeType", "text/plain")
    must(mime in ("text/plain", "application/json", "text/x.enum"),
         f"{where}.response_mime_type: allowed mimetypes are `text/plain`, `application/json`, "
         "`application/xml`, `application/yaml` and `text/x.enum`.\n")
    must("responseSchema" not in config or "responseJsonSchema" not in config,
         f"{where}: response_schema and response_json_schema cannot both be set\n")
    schema = "responseSchema" in config or "responseJsonSchema" in config
    must(not schema or mime != "text/plain",
         "Response schema is supported only with response_mime_type application/json.")
    if "responseSchema" in config:
        check_schema(config["responseSchema"], where[2:] + ".response_schema")
    must(mime == "text/plain" or not declarations(body) or not model.startswith("gemini-2"),
         f"Function calling with a response mime type: '{mime}' is unsupported")
    check_thinking(config.get("thinkingConfig") or {}, model)


def parts_of(content, kind):
    return [part[kind] for part in content.get("parts") or [] if kind in part]


def check_answers(calls, answers):
    """Every call has its answer: by its id where both have one, else by its name."""
    must(len(calls) == len(answers), COUNTS_DIFFER)
    left = list(calls)
    for answer in answers:
        fits = [call for call in left if call.get("name") == answer.get("name") and
                ("id" not in call or "id" not in answer or call["id"] == answer["id"])]
        must(fits, "Please ensure that function response parts match the function call parts of "
                   f"the function call turn: {answer.get('name')} does not.")
        left.remove(fits[0])


def check_contents(body):
    where = "* GenerateContentRequest.contents"
    must(body.get("contents"), NO_CONTENTS)
    calls, before = [], None
    for number, content in enumerate(body["contents"]):
        role = content.get("role") or "user"
        must(role in ("user", "model"), "Please use a valid role: user, model.")
        must(content.get("parts"),
             f"{where}[{number}].parts: contents.parts must not be empty.\n")
        for at, part in enumerate(content["parts"]):
            kinds = [kind for kind in KINDS_OF_PART if kind in part]
            must(len(kinds) == 1, f"{where}[{number}].parts[{at}].data: required oneof field "
                                  "'data' must have one initialized field\n")
            for kind in ("functionCall", "functionResponse"):
                must(kind not in part or part[kind].get("name"),
                     f"{where}[{number}].parts[{at}].{snake(kind)}.name: Name cannot be empty.\n")
        made, answers = parts_of(content, "functionCall"), parts_of(content, "functionResponse")
        must(not answers or calls, "Please ensure that function response turn comes immediately "
                                   "after a function call turn.")
        check_answers(calls, answers)
        must(not made or (role == "model" and before == "user"),
             "Please ensure that function call turn comes immediately after a user turn or after "
             "a function response turn.")
        calls, before = made, role
    must(not calls, COUNTS_DIFFER)


def check(body, model):
    """`body` is what read() gave for a GenerateContentRequest."""
    check_contents(body)
    check_tools(body, model)
    check_config(body, model)
