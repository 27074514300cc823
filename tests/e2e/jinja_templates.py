"""Random Jinja templates over a wide grammar, with data: mostly valid, some that fail.

Generator(seed).template() gives a source; DATA is what it is rendered with.
"""

import random

DATA = {
    "s": "Hello, W\u00f6rld \u00df!", "t": "ab-cd ef", "e": "", "n": 42, "neg": -7, "f": 2.5,
    "z": 0, "yes": True, "no": False, "nothing": None, "l": [3, 1, 2, 2],
    "ls": ["b", "A", "c", "a b"],
    "mixed": [1, "x", None, 2.5, [1], {"k": 1}],
    "d": {"b": 1, "a": "x", "\u00e9": [1, {"k": None}]},
    "users": [{"name": "Bob", "age": 30, "tags": ["x", "y"]},
              {"name": "alice", "age": 25, "tags": []},
              {"name": "Carl", "age": 30, "tags": ["z"], "more": {"q": 1}}],
    "messages": [{"role": "system", "content": " Be brief.\n"},
                 {"role": "user", "content": "Hi\n\nyou"},
                 {"role": "assistant", "content": None, "tool_calls": [
                     {"type": "function", "function": {"name": "f", "arguments": {"x": 1.0}}}]},
                 {"role": "tool", "content": "{\"a\": 1}"}],
    "lines": "one\n  two\n\nthree three\r\nfour", "tree": [{"v": 1, "c": [{"v": 2, "c": []}]},
                                                          {"v": 3, "c": []}],
}
STRINGS = ["''", "'a'", "\"b'c\"", "'x y'", "'\\n'", "'\u00e9\u00fc'", "', '", "'role'", "'%s'",
           "'{}-{}'", "'12'", "'3.5'", "'<b>&'", "'name'"]
TEXTS = ["x", " y ", "\n", "\n  ", "a\nb\n", "<|im_start|>", "  ", "\t", "{", "} ", "\u00e9", "#",
         "%"]


class Generator:
    """Each method gives a piece of source; depth bounds how they nest."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.scopes = [{"s": "str", "t": "str", "e": "str", "lines": "str", "n": "num",
                        "neg": "num", "f": "num", "z": "num", "yes": "any", "no": "any",
                        "nothing": "any",
                        "l": "list", "ls": "strs", "mixed": "list", "d": "dict", "users": "dicts",
                        "messages": "dicts", "tree": "list", "missing": "any"}]
        self.loops = 0
        self.macros = []
        self.count = 0

    def pick(self, *choices):
        return self.rng.choice(choices)

    def chance(self, share):
        return self.rng.random() < share

    def name(self, kind):
        known = [n for scope in self.scopes for n, k in scope.items() if k == kind]
        return self.rng.choice(known) if known else "s"

    def fresh(self):
        self.count += 1
        return f"v{self.count % 9}"

    # --- expressions by what they should give ---

    def number(self, depth):
        if depth <= 0:
            return self.pick("0", "1", "2", "-3", "10", "2.5", "1e3", "0.1", self.name("num"))
        sub = lambda: self.number(depth - 1)  # noqa: E731
        return self.rng.choice([
            lambda: f"({sub()} {self.pick('+', '-', '*', '/', '//', '%')} {sub()})",
            lambda: f"{self.any(depth - 1)}|length",
            lambda: f"{self.list(depth - 1)}|{self.pick('sum', 'max', 'min', 'first', 'last')}",
            lambda: f"{self.string(depth - 1)}|int({self.pick('', '7')})",
            lambda: f"{sub()}|{self.pick('abs', 'round', 'round(1)', 'int', 'float')}",
            lambda: f"{self.string(depth - 1)}.{self.pick('find', 'count', 'rfind')}"
                    f"({self.string(0)})",
            lambda: f"(-{sub()})", lambda: f"2 ** {self.pick('3', '-1', '0')}",
            lambda: f"{self.name('list')}[{self.pick('0', '-1', '2', '9')}]",
            lambda: self.pick("loop.index", "loop.index0", "loop.revindex", "loop.length",
                              "loop.depth") if self.loops else "1",
        ])()

    def string(self, depth):
        if depth <= 0:
            return self.pick(self.rng.choice(STRINGS), self.name("str"))
        sub = lambda: self.string(depth - 1)  # noqa: E731
        return self.rng.choice([
            lambda: f"({sub()} {self.pick('~', '+')} {sub()})",
            lambda: f"({self.any(depth - 1)} ~ {sub()})",
            lambda: f"{sub()}|{self.text_filter()}",
            lambda: f"{sub()}.{self.method()}",
            lambda: f"{sub()}{self.slice()}",
            lambda: f"{self.list(depth - 1)}|join({self.pick('', sub())})",
            lambda: f"{self.any(depth - 1)}|{self.pick('tojson', 'string', 'tojson(indent=2)')}",
            lambda: f"('%s %5s' % ({self.any(depth - 1)}, {self.number(depth - 1)}))",
            lambda: f"'{{}} {{:>6}} {{0!r}}'.format({self.any(depth - 1)}, {sub()})"
                    if self.chance(.2) else f"'{{}}/{{}}'.format({sub()}, {self.number(0)})",
            lambda: f"({sub()} * {self.pick('2', '0', '3')})",
            lambda: f"({sub()} if {self.truth(depth - 1)} else {sub()})",
            lambda: f"{self.name('strs')}[{self.pick('0', '1', '-1')}]",
            lambda: f"messages[{self.pick('0', '1', '-1', '2')}]"
                    + self.pick(".role", ".content", "['role']", "['content']"),
            lambda: f"{self.macro_call(depth)}" if self.macros else sub(),
        ])()

    def text_filter(self):
        return self.pick("upper", "lower", "title", "capitalize", "trim", "e", "string", "reverse",
                         "replace('a', 'X')", "replace('l', '', 1)", "indent", "indent(2, true)",
                         "truncate(5)", "truncate(6, true, '', 0)", "center(9)", "wordcount",
                         "wordwrap(4)", "wordwrap(6, false)", "striptags", "default('D')",
                         "default('D', true)", "urlencode", "first", "last", "trim('a ')", "list",
                         "length", "format('q')", "safe", "forceescape", "pprint", "float",
                         "int(5)")

    def method(self):
        return self.pick("upper()", "lower()", "title()", "strip()", "lstrip()", "rstrip('!')",
                         "split()", "split(' ')[0]", "split('a', 1)", "rsplit(' ', 1)[-1]",
                         "replace('a', 'b')", "startswith('H')", "endswith(('!', 'x'))",
                         "capitalize()", "splitlines()", "isdigit()", "isalpha()", "zfill(4)",
                         "ljust(4, '.')", "rjust(5)", "center(6, '*')", "swapcase()", "join(ls)",
                         "removeprefix('a')", "removesuffix('d')", "partition('-')", "isupper()",
                         "find('l')", "index('b')", "count('')", "expandtabs(4)", "casefold()")

    def slice(self):
        part = lambda: self.pick("", "0", "1", "-1", "2", "-2", "5", "100")  # noqa: E731
        return self.pick(f"[{part()}:{part()}]", f"[{part()}:{part()}:{self.pick('1', '2', '-1')}]",
                         f"[{part() or '0'}]")

    def list(self, depth):
        if depth <= 0:
            return self.pick("[]", "[1, 2]", "['a', 'B']", self.name("list"), self.name("strs"),
                             self.name("dicts"))
        sub = lambda: self.list(depth - 1)  # noqa: E731
        return self.rng.choice([
            lambda: f"{sub()}|{self.list_filter()}|list",
            lambda: f"{self.name('dicts')}|{self.select()}|list",
            lambda: f"{self.name('dicts')}|map(attribute="
                    f"'{self.pick('name', 'role', 'zz', 'tags.0')}')|list",
            lambda: f"({sub()} + {sub()})", lambda: f"{sub()}{self.slice()}",
            lambda: f"[{self.any(depth - 1)}, {self.any(depth - 1)}]",
            lambda: f"range({self.pick('3', '1, 4', '5, 0, -2')})|list",
            lambda: f"{self.string(depth - 1)}|list",
            lambda: f"{self.dict(depth - 1)}.{self.pick('items()', 'keys()', 'values()')}|list",
            lambda: f"{self.dict(depth - 1)}|{self.pick('dictsort', 'items|list', 'list')}",
            lambda: f"{self.name('dicts')}|groupby('{self.pick('age', 'role', 'name')}')",
        ])()

    def list_filter(self):
        return self.pick("sort", "sort(reverse=true)", "unique", "reverse", "map('string')", "list",
                         "map('upper')", "select", "reject('none')", "select('string')", "batch(2)",
                         "batch(3, 'f')", "slice(2)", "map('length')", "select('odd')",
                         "sort(case_sensitive=true)", "reject('in', [1])", "map('default', 'q')")

    def select(self):
        return self.pick("selectattr('tags')", "rejectattr('age', 'gt', 26)", "selectattr('zz')",
                         "selectattr('role', 'equalto', 'user')",
                         "rejectattr('role', 'in', ['tool'])",
                         "selectattr('age', 'defined')", "sort(attribute='name')")

    def dict(self, depth):
        if depth <= 0:
            return self.pick("d", "{}", "{'a': 1}", "users[0]", "messages[2]")
        return self.pick(f"{{'k': {self.any(depth - 1)}, {self.string(0)}: {self.any(depth - 1)}}}",
                         f"dict(a={self.any(depth - 1)})", "d", "dict(d, z=1)")

    def truth(self, depth):
        if depth <= 0:
            return self.pick("true", "false", "yes", "no", "missing", "n", "e", "l", "nothing")
        sub = lambda: self.truth(depth - 1)  # noqa: E731
        return self.rng.choice([
            lambda: f"({sub()} {self.pick('and', 'or')} {sub()})", lambda: f"(not {sub()})",
            lambda: f"({self.any(depth - 1)} is {self.pick('', 'not ')}{self.test()})",
            lambda: f"({self.number(depth - 1)} {self.compare()} {self.number(depth - 1)})",
            lambda: f"({self.string(depth - 1)} {self.compare()} {self.string(depth - 1)})",
            lambda: f"({self.any(depth - 1)} {self.pick('==', '!=')} {self.any(depth - 1)})",
            lambda: f"({self.any(depth - 1)} {self.pick('in', 'not in')} {self.list(depth - 1)})",
            lambda: f"({self.string(depth - 1)} in {self.string(depth - 1)})",
            lambda: f"({self.number(0)} < {self.number(0)} <= {self.number(0)})",
            lambda: self.pick("loop.first", "loop.last", "not loop.first") if self.loops else "yes",
        ])()

    def compare(self):
        return self.pick("<", "<=", ">", ">=", "==", "!=")

    def test(self):
        return self.pick("defined", "undefined", "none", "string", "number", "mapping", "iterable",
                         "sequence", "boolean", "integer", "float", "true", "false", "callable",
                         "odd", "even", "divisibleby 2", "lower", "upper", "sameas none", "escaped",
                         "eq 1", "in [1, 'a']", "equalto 'a'", "ne(2)", "filter", "test")

    def any(self, depth):
        if self.chance(.08):
            return self.pick("missing", "nothing", "yes", "1", "()", "(1,)", "none", "missing.x",
                             "d.zz", "mixed", "tree")
        kinds = [self.number, self.string, self.list, self.dict, self.truth]
        return self.rng.choice(kinds)(depth - 1)

    def expression(self, depth=3):
        text = self.any(depth)
        if self.chance(.1):
            text += f" if {self.truth(depth - 1)}" + self.pick("", f" else {self.any(1)}")
        return text

    # --- statements ---

    def tag(self, inside):
        sign = self.pick("", "", "", "-", "+")
        return "{%" + sign + f" {inside} " + self.pick("", "", "-") + "%}"

    def body(self, depth):
        self.scopes.append({})
        text = "".join(self.statement(depth - 1) for _ in range(self.rng.randint(1, 3)))
        self.scopes.pop()
        return text

    def statement(self, depth):
        if depth <= 0 or self.chance(.35):
            return self.rng.choice([
                lambda: "".join(self.rng.choices(TEXTS, k=self.rng.randint(1, 3))),
                lambda: "{{" + self.pick("", "-") + f" {self.expression()} "
                        + self.pick("", "-") + "}}",
                lambda: "{#" + self.pick("", "-") + " note " + self.pick("", "-") + "#}",
                lambda: self.set(depth)])()
        return self.rng.choice([self.loop, self.loop, self.branch, self.branch, self.branch,
                                self.set, self.macro, self.call, self.block_set, self.filter_block,
                                self.with_block, self.namespace, self.raw, self.recursive])(depth)

    def set(self, _):
        kind = self.pick("num", "str", "list")
        value = {"num": self.number, "str": self.string, "list": self.list}[kind](2)
        name = self.fresh()
        self.scopes[-1][name] = kind
        if self.chance(.1):
            return self.tag(f"set {name}, w = {value}, {self.any(1)}")
        return self.tag(f"set {name} = {value}")

    def block_set(self, depth):
        name = self.fresh()
        text = self.tag(f"set {name}{self.pick('', ' | upper', ' | trim | title')}")
        text += self.body(depth) + self.tag("endset")
        self.scopes[-1][name] = "str"
        return text

    def loop(self, depth):
        kind, over = self.pick(("any", self.list(1)), ("str", "ls"), ("num", "l"), ("str", "s"),
                               ("str", "d"), ("num", "range(3)"), ("pair", "d.items()"))
        name = self.fresh()
        target = f"k, {name}" if kind == "pair" else name
        head = f"for {target} in {over}"
        if self.chance(.2):
            head += f" if {name if self.chance(.5) else self.truth(1)}"
        self.loops += 1
        self.scopes.append({name: kind})
        inner = self.body(depth)
        if self.chance(.15):
            inner += self.tag(f"if {self.truth(1)}") + self.tag(self.pick("break", "continue")) \
                + self.tag("endif") + self.statement(0)
        self.scopes.pop()
        self.loops -= 1
        otherwise = self.tag("else") + self.body(1) if self.chance(.2) else ""
        return self.tag(head) + inner + otherwise + self.tag("endfor")

    def recursive(self, _):
        return ("{% for i in tree recursive %}{{ i.v }}{{ loop.depth }}{{ loop.index }}"
                + self.pick("{% if i.c %}", "{%- if i.c -%}")
                + "({{ loop(i.c) }}){% endif %}{% endfor %}")

    def branch(self, depth):
        text = self.tag(f"if {self.truth(2)}") + self.statement(depth - 1)
        for _ in range(self.rng.randint(0, 2)):
            text += self.tag(f"elif {self.truth(2)}") + self.statement(depth - 1)
        if self.chance(.5):
            text += self.tag("else") + self.statement(depth - 1)
        return text + self.tag("endif")

    def macro(self, depth):
        name = f"m{len(self.macros)}"
        default = self.any(1)
        loops, self.loops = self.loops, 0
        self.scopes.append({"a": "any", "b": "any"})
        inner = self.body(depth)
        self.scopes.pop()
        self.loops = loops
        special = self.pick("", "", "{{ varargs }}", "{{ kwargs }}", "{{ caller is defined }}",
                            "{{ caller() if caller is defined }}", "{{ a }}{{ b }}")
        self.macros.append(name)
        return (self.tag(f"macro {name}({self.pick('a', '')}{self.pick('', ', b=' + default)})")
                .replace("(, ", "(") + inner + special + self.tag("endmacro"))

    def macro_call(self, depth):
        arguments = ", ".join(self.any(depth - 2) for _ in range(self.rng.randint(0, 2)))
        keyword = self.pick("", "", "b=1")
        return f"{self.rng.choice(self.macros)}({', '.join(x for x in (arguments, keyword) if x)})"

    def call(self, depth):
        if not self.macros:
            return self.branch(depth)
        loops, self.loops = self.loops, 0
        inner = self.body(depth)
        self.loops = loops
        return self.tag(f"call {self.macro_call(1)}") + inner + self.tag("endcall")

    def filter_block(self, depth):
        name = self.pick("upper", "trim", "replace('a', 'b')", "indent(2)", "upper|trim", "e",
                         "title|replace('X', '')")
        return self.tag(f"filter {name}") + self.body(depth) + self.tag("endfilter")

    def with_block(self, depth):
        name = self.fresh()
        value = self.any(2)
        self.scopes.append({name: "any"})
        inner = self.body(depth)
        self.scopes.pop()
        return self.tag(f"with {name} = {value}, q = {self.pick(name, '1')}") + inner \
            + self.tag("endwith")

    def namespace(self, depth):
        return (self.tag(f"set ns = namespace(x={self.number(1)}, y='')")
                + self.tag(f"for i in {self.list(1)}") + self.tag("set ns.x = ns.x + 1")
                + self.tag(f"set ns.y = ns.y ~ {self.pick('i', 'loop.index', 'ns.x')}")
                + self.statement(min(depth - 1, 1)) + self.tag("endfor") + "{{ ns.x }}{{ ns.y }}")

    def raw(self, _):
        inside = self.pick("{{ x }}", " {% if %}\n", "\n  {# c #}")
        return self.tag("raw").replace("+", "") + inside + self.tag("endraw")

    def template(self):
        return "".join(self.statement(4) for _ in range(self.rng.randint(1, 4)))
