"""Hostile schemas, grammars, prompts and templates from a seed: what a tenant may send to cost
more than its size says. structure(seed) is one request's fields and a name; template(seed) a
template."""

import json
import random

BODY_BYTES_MAX = 1 << 20
SOURCE_BYTES_MAX = 250_000  # of a schema or a grammar, which are read up to 256 KiB


def words(rng, count, prefix=""):
    return [f"{prefix}{rng.choice('abcxyz')}{i}" for i in range(count)]


def leaf(rng):
    return rng.choice([
        {"type": "string"}, {"type": "integer", "minimum": -5, "maximum": rng.randrange(10**9)},
        {"type": "string", "maxLength": rng.randrange(1, 5000)}, {"type": "boolean"}, {},
        {"type": "string", "pattern": rng.choice(["^[a-z]{1,40}$", "(a|b)*a(a|b){7}", "x.{20}y"])},
        {"type": "string", "format": rng.choice(["date-time", "email", "uuid", "uri", "ipv6"])},
        {"type": "integer", "multipleOf": rng.randrange(2, 1000)},
        {"enum": list(range(rng.randrange(1, 40)))}])


def schema_values(rng, n):
    values = words(rng, n)
    return rng.choice([
        {"enum": values}, {"type": "array", "items": {"enum": values}, "uniqueItems": True},
        {"type": "array", "items": {"enum": list(range(n))}, "uniqueItems": True,
         "minItems": rng.randrange(n + 1), "maxItems": rng.randrange(n, 2 * n + 1)},
        {"type": "string", "not": {"enum": values}},
        {"type": "string", "pattern": "^[a-z]+[0-9]+$", "enum": values},
        {"$defs": {"e": {"enum": values}}, "type": "object",
         "properties": {f"p{i}": {"$ref": "#/$defs/e"} for i in range(n)}},
        {"$defs": {"e": {"enum": values}}, "type": "object",
         "properties": {f"p{i}": {"$ref": "#/$defs/e", "minLength": i % 3} for i in range(n)}},
        {"allOf": [{"enum": values}, {"enum": values[::-1]}]}])


def schema_objects(rng, n):
    names = words(rng, n)
    properties = {name: leaf(rng) for name in names}
    made = {"type": "object", "properties": properties}
    for extra in rng.sample([
            {"additionalProperties": leaf(rng)}, {"required": rng.sample(names, n // 2)},
            {"propertyNames": {"enum": names}}, {"minProperties": min(n, rng.randrange(200))},
            {"maxProperties": rng.randrange(1, n + 1)}, {"patternProperties": {"^a.{0,9}$": {}}},
            {"anyOf": [{"required": [name]} for name in names[:500]]}], rng.randrange(1, 4)):
        made.update(extra)
    if rng.random() < 0.2:
        made = {"type": "object", "properties": {"n" * rng.randrange(1, 100_000): made}}
    return made


def schema_choices(rng, n):
    depth = rng.randrange(1, 7)
    some = {"type": "string"}
    for level in range(depth):
        keyword = rng.choice(["anyOf", "oneOf", "allOf"])
        count = max(1, min(n, rng.randrange(2, 60)))
        some = {keyword: [{"type": "object", "properties": {f"k{level}_{i}": leaf(rng)},
                           "required": [f"k{level}_{i}"]} for i in range(count)] + [some]}
    if rng.random() < 0.4:
        count = rng.randrange(2, 40)
        some = {"$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2}
                          for i in range(count)} | {f"d{count}": some}, "$ref": "#/$defs/d0"}
    return some


def schema_texts(rng, n):
    pattern = rng.choice([
        "^(" + "|".join(words(rng, n)) + ")$", "[" + "".join(chr(0x4E00 + 2 * i) for i in range(n))
        + "]", "(a?){%d}b" % min(n, 500), "(.*a){%d}" % min(n, 300), "^([^x]|x[^y]){%d}$" % n,
        "^(" + "|".join(f"[^{chr(0x4E00 + i)}]x" for i in range(n)) + ")$"])
    one = {"type": "string", "pattern": pattern, "minLength": rng.randrange(50)}
    return {"allOf": [one] + [{"pattern": f"(a|b)*a(a|b){{{i % 9}}}"} for i in range(n % 60)]}


def grammar(rng, n):
    part = rng.choice(['[a-z]{0,1000}', '"a"{0,100000}', '("a"|"b"){0,9}', "[a-z]?", "[a-z]*", ".*",
                       "(.{0,9} .*)?", "[^x]{3,70}"])
    mark = f'"{rng.randrange(10**6)}"? '
    kind = rng.randrange(7)
    if kind == 0:
        return "root ::= " + mark + " ".join([part] * n)
    if kind == 1:
        return "root ::= " + mark + f"(w{part}){{0,{n}}}\nw ::= " + " | ".join(
            f'"{word}"' for word in words(rng, n))
    if kind == 2:
        depth = rng.randrange(2, 14)
        return "root ::= " + mark + "a0\n" + "\n".join(
            f"a{i} ::= a{i + 1} a{i + 1} | {part} a{i + 1}" for i in range(depth)) + \
            f"\na{depth} ::= [a-z ]*"
    if kind == 3:
        return "root ::= " + "a " * n + "b\na ::= \"x\"\nb ::= " + rng.choice(
            ['"y" b', "c\nc ::= \"z\"", '"y" | b2\nb2 ::= "z"'])
    if kind == 4:
        return "root ::= " + mark + f"(([a-z]{{0,99}} .?){{0,99}}){{0,{n}}}"
    if kind == 5:
        return "root ::= " + mark + "[" + "".join(
            chr(0x9000 - 2 * (i % 0x3000)) for i in range(n)) + "]*"
    return "root ::= r0\n" + "\n".join(
        f'r{i} ::= {mark} "{i}" r{(i * 7 + 1) % n}? | r{i}x\nr{i}x ::= {part} "q"'
        for i in range(min(n, 4000)))


def prompt(rng, n):
    piece = rng.choice(["a", " ", "\n", "<|im_start|>", "<|", "\u65e5", "e\u0301", "7", "-", "\t ",
                        "\U0001F468\u200D", "ab", "'s", "\u00a0"])
    return (piece * (1 + n * 40 // len(piece)))[:n * 20]


def structure(seed):
    """(name, fields of a chat request)"""
    rng = random.Random(f"structure {seed}")
    n = int(10 ** rng.uniform(1, 4.3))
    kind = rng.choice([schema_values, schema_objects, schema_choices, schema_texts, grammar,
                       grammar, grammar, prompt])
    while True:
        made = kind(rng, n)
        if kind is prompt:
            break
        text = made if kind is grammar else json.dumps(made)
        if len(text.encode()) <= SOURCE_BYTES_MAX:
            break
        n = max(2, n // 2)
    fields = {"messages": [{"role": "user", "content": made if kind is prompt else "x"}],
              "max_tokens": rng.choice([1, 8, 32])}
    if kind is grammar:
        fields["grammar"] = made
    elif kind is not prompt and rng.random() < 0.3:
        fields["tools"] = [{"type": "function", "function": {
            "name": "f", "parameters": made, "strict": rng.random() < 0.5}}]
    elif kind is not prompt:
        fields["response_format"] = {"type": "json_schema",
                                     "json_schema": {"name": "s", "schema": made}}
    if rng.random() < 0.3:
        fields["stop"] = ["a" * 100 + "b", "aaaa"]
    return f"{seed}: {kind.__name__} of {n}", fields


def template(seed):
    rng = random.Random(f"template {seed}")
    n = rng.choice([1000, 100_000, 3_000_000])
    a, b = f"('a' * {n})", f"('a' * {n // 2} + 'b')"
    body = rng.choice([
        "{{ B in A }}", "{{ A.find(B) }}", "{{ A.rfind(B) }}", "{{ A.count(B) }}",
        "{{ A.split(B)|length }}", "{{ A.rsplit('b' + A)|length }}", "{{ A.replace(B, A)|length }}",
        "{{ A.strip(B + A)|length }}", "{{ A.startswith((B,) * 50000) }}", "{{ {A: 1}[A] }}",
        "{{ A|wordwrap(1)|length }}", "{{ ('-' * 99999)|wordwrap(7)|length }}",
        "{{ A|e|e|length }}", "{{ [A] * 50000 == [A ~ ''] * 50000 }}",
        "{{ A.partition(B)|length }}",
        "{% for c in A %}{% if B in A %}{% endif %}{% endfor %}",
        "{% for i in range(99999) %}{{ (A ~ i)[0] }}{% endfor %}",
        "{% for i in range(99999) %}{{ A.removeprefix(B)|length }}{% endfor %}",
        "{% for i in range(99999) %}{{ {}.get(A) }}{% endfor %}", "{{ (A + 'x')|title|length }}"])
    return body.replace("A", a).replace("B", b)
