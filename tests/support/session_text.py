"""Text, tools and system prompts of made-up agents: the same for the same seed, in sizes that were
measured at real ones."""

import random

WORDS = ("agent buffer cache call check client commit config connection context count cursor data "
         "default delete diff edit entry error event field file filter find flag folder format "
         "function grep handle header history import index insert item job key layer length limit "
         "line link list load lock log loop map match merge message method model module name node "
         "number object option output page parse part path pattern plan point pool prefix print "
         "query queue range read record reference replace request result retry return route row "
         "rule run scan schema search section send server session set shell size sort source span "
         "start state step store stream string table task test text thread time token tool trace "
         "tree turn type unit update user value view wait window word worker write").split()
TOOLS = ("bash read write edit multi_edit glob grep ls todo_write todo_read web_fetch task "
         "notebook_read notebook_edit kill_shell bash_output exit_plan skill lsp_hover "
         "lsp_references apply_patch list_files codebase_search memory").split()
TOOL_BYTES = 1500  # 24 of them make 9,000 tokens of four bytes
SYSTEM_LINES = 96  # 2,000 tokens


class Text:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def word(self):
        return self.rng.choice(WORDS)

    def words(self, count):
        return " ".join(self.word() for _ in range(count))

    def lines(self, count):
        """Lines of about 84 bytes; some are indented like code, some are not ASCII."""
        made = []
        for _ in range(count):
            start = self.rng.choice(("", "", "  ", "    ", "- ", "é: "))
            made.append(start + self.words(13)[:84] + ".")
        return "\n".join(made)


def make_tools(seed):
    """Definitions as Anthropic has them: {"name", "description", "input_schema"}."""
    text = Text(f"{seed}/tools")
    tools = []
    for name in TOOLS:
        properties = {}
        for _ in range(4):
            properties[text.word() + "_" + text.word()] = {
                "type": text.rng.choice(("string", "number", "boolean")),
                "description": text.words(14)}
        properties["options"] = {
            "type": "object", "additionalProperties": False,
            "properties": {"depth": {"type": "integer", "minimum": 0, "default": 3},
                           "ratio": {"type": "number", "default": 1.0},
                           "kind": {"enum": ["file", "folder", None],
                                    "description": text.words(8)}}}
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                  "properties": properties, "required": list(properties)[:2]}
        tools.append({"name": name, "description": "", "input_schema": schema})
        room = TOOL_BYTES - len(str(tools[-1]))
        tools[-1]["description"] = text.lines(max(1, room // 84))
    return tools


def make_system(seed):
    text = Text(f"{seed}/system")
    return "You are a coding agent that works in a terminal.\n" + text.lines(SYSTEM_LINES)
