"""The providers' prompt caches, as the simulator plays them: what is read, written and billed.

A token is four bytes of the rendered prompt: crude, and the same for everyone. Entries belong to a
credential and a model; the rules (minimum, increment, lifetime) are those of the data file that the
gateway itself uses, so a test of a price or a minimum has one source. Times are the simulator's own
clock, which a test can advance.
"""

import fnmatch
import hashlib
import json
import math
from pathlib import Path

PRICES = Path(__file__).resolve().parent.parent.parent / "gateway/ledger/prices.json"
TOKEN_BYTES = 4


class BadRequest(Exception):
    """A request that the provider would refuse, mostly with a 400."""

    def __init__(self, message, details=None, status=400):
        super().__init__(message)
        self.details = details
        self.status = status


def rules_of(provider, model):
    """The cache rules of a model, from the first row that fits."""
    rows = json.loads(PRICES.read_text())["providers"][provider]
    for row in rows:
        if any(fnmatch.fnmatchcase(model, glob) for glob in row["models"]):
            return row["rules"]
    raise KeyError(model)


def canonical(value):
    """The text of a JSON value, in the order its sender gave."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def count_tokens(text):
    return math.ceil(len(text.encode()) / TOKEN_BYTES)


class Chain:
    """Hashes of ever longer prefixes: (tokens so far, hash) at each boundary added."""

    def __init__(self, *scope):
        self._hash = hashlib.sha256(canonical(scope).encode())
        self.tokens = 0

    def add(self, text):
        self.tokens += count_tokens(text)
        self._hash.update(len(text).to_bytes(8, "big") + text.encode())
        return self.tokens, self._hash.hexdigest()

    def salt(self, value):
        """What is no text of the prompt, and changes everything behind it."""
        self._hash.update(b"\0salt" + canonical(value).encode())


class Store:
    """Entries by hash, with the moment they end."""

    def __init__(self, clock):
        self._clock = clock
        self._ends = {}

    def has(self, key):
        return self._ends.get(key, (0, 0))[0] > self._clock()

    def put(self, key, ttl):
        end, before = self._ends.get(key, (0, 0))
        if end > self._clock():  # it is there: nothing that was paid for is lost
            ttl = max(ttl, before)
        self._ends[key] = (max(end, self._clock() + ttl), ttl)

    def refresh(self, key):
        self.put(key, self._ends[key][1])


# --- OpenAI ---------------------------------------------------------------------------------------

# What keeps caches apart, and is no text of the prompt.
OPENAI_SALTS = ("parallel_tool_calls", "text", "response_format", "reasoning", "reasoning_effort",
                "verbosity", "service_tier")


def has_breakpoints(model):
    """The families with explicit breakpoints and paid writes."""
    return rules_of("openai", model).get("markers") == "breakpoint"


def part_text(part):
    """A text, as a string or as the only thing in its part, is the same prompt."""
    if isinstance(part, dict):
        part = {k: v for k, v in part.items() if k != "prompt_cache_breakpoint"}
        if isinstance(part.get("text"), str) and set(part) <= {"type", "text"}:
            part = part["text"]
    return canonical(part)


def openai_items(body):
    """The prompt as (text, ends a user or tool turn, has an explicit breakpoint), in its order."""
    items = []
    for tool in body.get("tools") or []:
        items.append((canonical(tool), False, False))
    if isinstance(body.get("instructions"), str):
        items.append((body["instructions"], False, False))
    turns = body.get("messages", body.get("input", body.get("prompt", [])))
    if isinstance(turns, str):
        return items + [(turns, True, False)]
    for turn in turns:
        if not isinstance(turn, dict):
            items.append((canonical(turn), True, False))
            continue
        eligible = turn.get("role") in ("user", "tool") or turn.get("type", "").endswith("_output")
        content = turn.get("content")
        parts = content if isinstance(content, list) and content else [None]
        head = {key: value for key, value in turn.items() if key != "content"}
        for index, part in enumerate(parts):
            marked = isinstance(part, dict) and "prompt_cache_breakpoint" in part
            text = canonical(head if index == 0 else {}) + \
                part_text(content if part is None else part)
            items.append((text, eligible and index + 1 == len(parts), marked))
    return items


def check_openai(body):
    model = body.get("model", "")
    if len(body.get("prompt_cache_key") or "") > 64:
        raise BadRequest("Invalid 'prompt_cache_key': string too long, at most 64 characters.")
    marked = sum(item[2] for item in openai_items(body))
    if not has_breakpoints(model):
        if "prompt_cache_options" in body:
            raise BadRequest("Unsupported parameter: 'prompt_cache_options' with this model.")
        if marked:
            raise BadRequest("Unsupported parameter: 'prompt_cache_breakpoint' with this model.")
    if marked > 4:
        raise BadRequest("At most 4 prompt_cache_breakpoint markers may be given.")


def openai_usage(store, body, scope):
    """(prompt tokens, cached, written, what to keep once the answer has begun)."""
    model = body.get("model", "")
    rules = rules_of("openai", model)
    minimum, ttl = rules.get("minimum_tokens", 0), rules.get("ttl_seconds", 300)
    if not has_breakpoints(model):
        rendered = "".join(item[0] for item in openai_items(body)).encode()
        salts = [body.get(name) for name in OPENAI_SALTS]
        total, cached, keep = _by_increments(store, rendered, [scope, model, salts], rules)
        return total, cached, 0, keep
    options = body.get("prompt_cache_options") or {}
    chain = Chain(scope, model, body.get("prompt_cache_key"),
                  [body.get(name) for name in OPENAI_SALTS])
    turns, explicit = [], []
    for text, ends_turn, marked in openai_items(body):
        point = chain.add(text)
        if ends_turn:
            turns.append(point)
        if marked:
            explicit.append(point)
    wanted = explicit if options.get("mode") == "explicit" else explicit[-3:] + turns[-1:]
    if not wanted:
        return chain.tokens, 0, 0, []
    # Explicit breakpoints of both ends, the newest turn, and the ends of some turns before it.
    first, last = rules.get("first_breakpoints_read", 0), rules.get("last_breakpoints_read", 0)
    points = explicit[:first] + explicit[first:][-last:]
    points += turns[-rules.get("earlier_turns_read", 0) - 1:]
    hits = [p for p in sorted(points) if p[0] >= minimum and store.has(p[1])]
    cached = max((p[0] for p in hits), default=0)
    for point in hits[-1:]:
        store.refresh(point[1])
    new = [p for p in wanted if p[0] >= minimum and p[0] > cached]
    written = max((p[0] for p in new), default=cached) - cached
    return chain.tokens, cached, written, [(p[1], ttl) for p in new]


def _by_increments(store, rendered, scope, rules):
    """(tokens, cached, what to keep): nobody marks anything, and each increment can be read."""
    step = rules.get("increment_tokens", 128)
    total = math.ceil(len(rendered) / TOKEN_BYTES)
    cached, keep, going = 0, [], True
    running = hashlib.sha256(canonical(scope).encode())
    for end in range(step, total + 1, step):
        running.update(rendered[(end - step) * TOKEN_BYTES:end * TOKEN_BYTES])
        key = running.hexdigest()
        going = going and store.has(key)
        if going:
            cached = end
        keep.append((key, rules.get("ttl_seconds", 300)))
    return total, cached if cached >= rules.get("minimum_tokens", 0) else 0, keep


# --- Gemini ---------------------------------------------------------------------------------------

def gemini_text(body):
    """The prompt in the order in which the cache sees it: tools, system, contents."""
    texts = [canonical(tool) for tool in body.get("tools") or []]
    if "systemInstruction" in body:
        texts.append(canonical(body["systemInstruction"].get("parts")))
    for content in body.get("contents") or []:
        texts.append(content.get("role", "user") + ":" + canonical(content.get("parts")))
    return "".join(texts)


def gemini_minimum(model):
    return rules_of("gemini", model).get("minimum_tokens", 0)


def gemini_usage(store, body, model, scope):
    """(prompt tokens, cached, what to keep): implicit caching, written for nothing."""
    rendered = gemini_text(body).encode()
    return _by_increments(store, rendered, [scope, model], rules_of("gemini", model))


# --- Anthropic ------------------------------------------------------------------------------------

def is_web_search(tool):
    """Switched on and off it leaves the prefix of the other tools."""
    return str(tool.get("type", "")).startswith("web_search") and not tool.get("cache_control")


def is_billing_header(text):
    """Anthropic's own servers leave out a block that is nothing but the line with which its client
    signs requests."""
    line, _, rest = str(text).partition("\n")
    return line.startswith("x-anthropic-billing-header:") and not rest


def anthropic_blocks(body):
    """(text, cache_control or None, section, why it cannot be marked or "") in the order in which
    the cache sees them."""
    blocks = []

    def add(section, block, extra=""):
        control, bare, problem = None, block, ""
        if isinstance(block, dict):
            control = block.get("cache_control")
            bare = {k: v for k, v in block.items() if k != "cache_control"}
            if block.get("type") in ("thinking", "redacted_thinking"):
                problem = "cache_control cannot be set on thinking blocks."
            elif block.get("type") == "text" and not block.get("text"):
                problem = "cache_control cannot be set for empty text blocks."
        blocks.append((extra + canonical(bare), control, section, problem))

    for tool in body.get("tools") or []:
        if not is_web_search(tool):
            add("tools", tool)
    system = body.get("system") or []
    if isinstance(system, str):
        if not is_billing_header(system):
            blocks.append((canonical({"type": "text", "text": system}), None, "system", ""))
        system = []
    for block in system:
        if not is_billing_header(block.get("text", "")):
            add("system", block)
    for message in body.get("messages") or []:
        content, role = message.get("content"), message.get("role", "") + ":"
        if isinstance(content, str):
            text = role + canonical({"type": "text", "text": content})
            blocks.append((text, None, "messages", ""))
            continue
        for part in content or []:
            add("messages", part, role)
    return blocks


def anthropic_salts(body):
    """What changes everything from a section on, without being text of the prompt."""
    def parts(value):
        for part in value.get("content") or [] if isinstance(value, dict) and \
                isinstance(value.get("content"), list) else []:
            if isinstance(part, dict):
                yield part
                yield from parts(part)

    found = [part for message in body.get("messages") or [] for part in parts(message)]
    config = dict(body.get("output_config") or {})
    if config.get("effort") == "high":  # the default, which is as good as nothing
        del config["effort"]
    cited = any((part.get("citations") or {}).get("enabled") is True for part in found)
    search = [tool for tool in body.get("tools") or [] if is_web_search(tool)]
    return {"tools": None, "system": [body.get("speed"), search, cited],
            "messages": [body.get("tool_choice"), body.get("thinking"), config or None,
                         any(part.get("type") == "image" for part in found)]}


def anthropic_breakpoints(body, blocks):
    """{index of a block: ttl in seconds}; raises what the API refuses."""
    def ttl_of(control):
        return 3600 if control.get("ttl") == "1h" else 300

    points = {i: ttl_of(block[1]) for i, block in enumerate(blocks) if block[1]}
    for index in points:
        if blocks[index][3]:
            raise BadRequest(blocks[index][3])
    automatic = body.get("cache_control")
    eligible = [i for i, block in enumerate(blocks) if not block[3]]
    if automatic and eligible:
        last = eligible[-1]
        if points.get(last, ttl_of(automatic)) != ttl_of(automatic) or \
                (last not in points and len(points) >= 4):
            raise BadRequest("cache_control: automatic caching needs a breakpoint of its own.")
        points[last] = ttl_of(automatic)
    if len(points) > 4:
        raise BadRequest("A maximum of 4 blocks with cache_control may be provided. "
                         f"Found {len(points)}.")
    lifetimes = [points[i] for i in sorted(points)]
    if lifetimes != sorted(lifetimes, reverse=True):
        raise BadRequest("a ttl='1h' cache_control block must not come after a ttl='5m' one.")
    return points


def anthropic_usage(store, body, scope):
    """(usage object without the output, what to keep once the answer has begun)."""
    model = body.get("model", "")
    rules = rules_of("anthropic", model)
    minimum = rules.get("minimum_tokens", 0)
    lookback = rules.get("lookback_blocks", 20)
    blocks = anthropic_blocks(body)
    points = anthropic_breakpoints(body, blocks)
    chain, prefixes = Chain(scope, model), []
    salts = anthropic_salts(body)
    sections = list(salts)  # in render order; those begun have had their salt
    for text, _, section, _ in blocks:
        while section in sections:
            chain.salt(salts[sections.pop(0)])
        prefixes.append(chain.add(text))
    hit = -1
    for point in sorted(points, reverse=True):
        for index in range(point, max(-1, point - lookback), -1):
            if prefixes[index][0] >= minimum and store.has(prefixes[index][1]):
                hit = max(hit, index)
                break
    read = prefixes[hit][0] if hit >= 0 else 0
    if hit >= 0:
        store.refresh(prefixes[hit][1])
    new = [i for i in points if prefixes[i][0] >= minimum and prefixes[i][0] > read]
    hour_end = max([prefixes[i][0] for i in new if points[i] == 3600], default=read)
    end = max([prefixes[i][0] for i in new], default=read)
    usage = {"input_tokens": chain.tokens - end, "cache_creation_input_tokens": end - read,
             "cache_read_input_tokens": read,
             "cache_creation": {"ephemeral_5m_input_tokens": end - hour_end,
                                "ephemeral_1h_input_tokens": hour_end - read}}
    return usage, [(prefixes[i][1], points[i]) for i in new]
