#!/usr/bin/env python3
"""Traces of coding agents' sessions and of other traffic, for `kvgate replay`: deterministic by
seed, in three shapes (messages: like Claude Code; chat: like opencode; responses: like Codex).

    agent_sessions.py --out TRACE.jsonl --shape messages --jitter git_status,reminders --turns 40

Sizes are those of a measured request (tools about 9,000 tokens, system 2,000; row V15 of the facts
about agents' caches). Each jitter is one documented way in which clients change what they have sent
before; JITTERS names its rows. Without any the client is clean: it only appends.
"""

import argparse
import copy
import json
import random
import sys
import time
import uuid

from session_text import Text, make_system, make_tools

JITTERS = {
    "tools_order": "G4, G13: tools in another order in each request",
    "key_order": "G4, G14: keys of schemas and of calls' arguments in another order",
    "timestamps": "V16: the time, to the second, in a line of the system prompt",
    "date_cwd": "V14: date and working directory at the end of the system prompt",
    "env_listing": "V8: a listing of files in the system prompt that grows",
    "reminders": "V9: a reminder that moves to the newest user message",
    "resume": "V5: a reminder leaves the first message for the newest one, once",
    "counters": "V7: token counters inside of old tool results",
    "git_status": "V6: git status as the last block of the system prompt",
    "billing": "V1: a billing header in front of the system prompt",
    "total_tokens": "V3: a trailing system message that counts tokens",
    "counter_marked": "V4: the same, and the last cache marker on it",
    "moim": "V16: a note that goes in front of the last assistant turn",
    "anchors": "V19: an empty block that holds a marker comes and goes",
    "claude_md": "V17: instructions with a new uuid in each run",
    "crlf": "line ends change between requests",
}
# What changes the prompt itself: no gateway can undo it.
GENUINE = {
    "reasoning": "V10: reasoning is left out once the next question is asked",
    "prune": "V12: old tool results are cut",
    "mode_switch": "V13: plan and build modes have different tools",
    "effort": "V18: another reasoning effort half way",
}
KINDS = ("agent", "one_shots", "one_shots_rare", "unique", "under_minimum", "bursts", "gaps")
MODELS = {"messages": ("anthropic", "claude-sonnet-5"), "chat": ("openai", "gpt-5.6-sol"),
          "responses": ("openai", "gpt-5.6-sol")}
START = 1_795_000_000  # seconds since 1970: all times follow from it
ENDPOINTS = {"messages": "messages", "chat": "chat_completions", "responses": "responses"}


def shuffled_keys(value, rng):
    """The same value; its objects' members in another order."""
    if isinstance(value, list):
        return [shuffled_keys(item, rng) for item in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    rng.shuffle(names)
    return {name: shuffled_keys(value[name], rng) for name in names}


def crlf(value):
    if isinstance(value, list):
        return [crlf(item) for item in value]
    if isinstance(value, dict):
        return {key: crlf(item) for key, item in value.items()}
    return value.replace("\n", "\r\n") if isinstance(value, str) else value


class Session:
    """One conversation. Its steps are the same for all shapes and jitters of a seed."""

    def __init__(self, shape="messages", seed=1, turns=40, jitter=(), markers="rolling",
                 model=None, run=0, task=0):
        self.shape, self.seed, self.turns = shape, seed, turns
        self.jitter, self.markers = set(jitter), markers
        self.model = model or MODELS[shape][1]
        unknown = self.jitter - set(JITTERS) - set(GENUINE)
        if unknown:
            raise ValueError(f"no such jitter: {', '.join(sorted(unknown))}")
        self.tools = make_tools(f"{seed}")
        self.system = make_system(f"{seed}")
        self.text = Text(f"{seed}/{run}/{task}")
        self.rng = random.Random(f"jitter {seed}/{run}/{task}")
        self.session_id = str(uuid.UUID(int=self.rng.getrandbits(128)))
        self.now = START
        self.question = f"{self.text.lines(3)}\nPlease begin with file {run}-{task}."
        self.steps = [self._step(number) for number in range(turns)]

    def _step(self, number):
        """What is added after request `number`: a call and its result, or an answer and a
        question."""
        text = self.text
        if number % 8 == 7:
            return {"answer": text.lines(6), "question": text.lines(3)}
        name = self.tools[number * 7 % len(self.tools)]["name"]
        result = text.lines(text.rng.choice((6, 20, 60, 90)))
        return {"reasoning": text.lines(4), "answer": text.lines(1), "name": name,
                "id": f"{text.rng.getrandbits(64):016x}", "result": result,
                "input": {"path": f"src/{text.word()}.cc", "limit": text.rng.randrange(5000),
                          "query": text.words(6), "options": {"case": True, "depth": 3}}}

    def output_tokens(self, number):
        step = self.steps[number]
        return len(json.dumps([step["answer"], step.get("reasoning"), step.get("input")])) // 4

    # --- the parts that jitter -------------------------------------------------------------------

    def has(self, *names):
        return bool(self.jitter & set(names))

    def request_rng(self, number):
        return random.Random(f"{self.session_id}/{number}")

    def clock(self, form):
        return time.strftime(form, time.gmtime(self.now))

    def tools_of(self, number):
        tools = copy.deepcopy(self.tools)
        rng = self.request_rng(number)
        if self.has("mode_switch") and number // 10 % 2:
            tools = [tool for tool in tools if not tool["name"].startswith(("write", "edit"))]
        if self.has("tools_order"):
            rng.shuffle(tools)
        if self.has("key_order"):
            tools = [shuffled_keys(tool, rng) for tool in tools]
        return tools

    def system_texts(self, number):
        """The system prompt's blocks."""
        text = self.system
        rng = self.request_rng(number)
        if self.has("timestamps"):
            text += f"\nCurrent time: {self.clock('%Y-%m-%d %H:%M:%S')}\nBe brief."
        if self.has("env_listing"):
            files = "\n".join(f"  src/module_{at}/file_{at * 7 % 100}.cc"
                              for at in range(200 + number))
            text += f"\n<env>\n{files}\n</env>\nAnswer in English."
        if self.has("date_cwd"):
            folder = ("app", "app/src", "app/tests")[number // 3 % 3]
            text += (f"\nToday's date: {self.clock('%a %b %d %Y %H:%M')}"
                     f"\nWorking directory: /srv/dev/{folder}")
        blocks = [text]
        if self.has("billing"):
            version, hash_ = f"2.1.177.{rng.getrandbits(12):03x}", f"{rng.getrandbits(20):05x}"
            blocks.insert(0, f"x-anthropic-billing-header: cc_version={version}; "
                             f"cc_entrypoint=sdk-cli; cch={hash_};")
        if self.has("git_status"):
            changed = "\n".join(f" M src/module_{at}.cc" for at in range(number % 9 + 1))
            blocks.append("gitStatus: This is the git status at the start of the conversation."
                          f"\nCurrent branch: main\n\nStatus:\n{changed}\n\nRecent commits:\n"
                          f"{rng.getrandbits(28):07x} Fix a bound\n")
        return blocks

    def arguments(self, step, number):
        return shuffled_keys(step["input"], self.request_rng(number + 1000)) \
            if self.has("key_order") else step["input"]

    def result_text(self, at, number):
        """The result of step `at` in request `number`."""
        result = self.steps[at]["result"]
        if self.has("prune") and number >= 20 and at < 12:
            return "[Old tool result content cleared]"
        if self.has("counters") and number - at <= 3:
            result += f"\n<system-reminder>Token usage: {41_000 + number * 977}/200000; " \
                      f"{159_000 - number * 977} remaining</system-reminder>"
        return result

    def first_question(self, number):
        """The texts of the first user message."""
        texts = [self.question]
        if self.has("claude_md"):
            note = Text(f"{self.seed}/claude_md").lines(40)
            texts.insert(0, f"<system-reminder>\n# claudeMd\n<!-- run {self.session_id} -->\n"
                            f"{note}\n</system-reminder>")
        if self.has("resume") and number < self.turns // 2:
            texts.insert(0, self.skills())
        return texts

    def skills(self):
        return "<system-reminder>\nThe following skills are available:\n" \
               f"{Text(f'{self.seed}/skills').lines(30)}\n</system-reminder>"

    PLAN = "<system-reminder>\nYour operational mode has changed from plan to build.\n" \
           "You may use all of the tools.\n</system-reminder>"

    def user_texts(self, at, number):
        """The texts of the user message after step `at` (-1: the first)."""
        texts = self.first_question(number) if at < 0 else [self.steps[at]["question"]]
        asked = [step for step in range(-1, number) if step < 0 or "question" in self.steps[step]]
        if self.has("reminders") and at == asked[-1]:
            texts.append(self.PLAN)
        resumed = self.turns // 2
        if self.has("resume") and number >= resumed and \
                at == [step for step in asked if step < resumed][-1]:
            texts.append(self.skills())
        return texts

    def keeps_reasoning(self, at, number):
        """Whether step `at` still has its reasoning in request `number`."""
        if not self.has("reasoning"):
            return True
        return all("question" not in self.steps[later] for later in range(at, number))

    def effort(self, number):
        return "low" if self.has("effort") and number >= self.turns // 2 else "medium"

    # --- the three shapes ------------------------------------------------------------------------

    def body(self, number):
        """The body of request `number` as a text."""
        made = {"messages": self._messages, "chat": self._chat,
                "responses": self._responses}[self.shape](number)
        if self.has("crlf") and number % 2:
            made = crlf(made)
        return json.dumps(made, ensure_ascii=False, separators=(",", ":"))

    def _messages(self, number):
        def text_block(text):
            return {"type": "text", "text": text}

        system = [text_block(text) for text in self.system_texts(number)]
        messages = [{"role": "user",
                     "content": [text_block(text) for text in self.user_texts(-1, number)]}]
        for at in range(number):
            step = self.steps[at]
            content = [text_block(step["answer"])]
            if "question" in step:
                follow = [text_block(text) for text in self.user_texts(at, number)]
            else:
                call = "toolu_" + step["id"]
                content.append({"type": "tool_use", "id": call, "name": step["name"],
                                "input": self.arguments(step, number)})
                follow = [{"type": "tool_result", "tool_use_id": call,
                           "content": [text_block(self.result_text(at, number))]}]
            messages.append({"role": "assistant", "content": content})
            messages.append({"role": "user", "content": follow})
        if self.has("moim") and len(messages) > 2:
            messages.insert(-2, {"role": "user", "content": [text_block(
                f"<info-msg>It is currently {self.clock('%Y-%m-%d %H:%M')}</info-msg>")]})
        if self.has("anchors") and number % 3 == 1:
            messages[-1]["content"].append(text_block(" "))
        if self.markers == "rolling":
            self._mark(system, messages)
        if self.has("total_tokens", "counter_marked"):
            self._count(messages, number)
        body = {"model": self.model, "max_tokens": 32000, "tools": self.tools_of(number),
                "system": system, "messages": messages,
                "metadata": {"user_id": f"user_1_session_{self.session_id}"}, "stream": True}
        if self.markers == "automatic":
            body["cache_control"] = {"type": "ephemeral"}
        if self.has("effort"):
            body["output_config"] = {"effort": self.effort(number)}
        return body

    @staticmethod
    def _mark(system, messages):
        """As Claude Code does: the system prompt, and the newest two user turns."""
        marker = {"cache_control": {"type": "ephemeral"}}
        system[-1].update(marker)
        for message in [m for m in messages if m["role"] == "user"][-2:]:
            message["content"][-1].update(marker)

    def _count(self, messages, number):
        text = {"type": "text",
                "text": f"<total_tokens>{190_000 - number * 977} tokens left</total_tokens>"}
        if self.has("counter_marked") and self.markers == "rolling":
            marker = messages[-1]["content"][-1].pop("cache_control")
            text["cache_control"] = marker
        messages.append({"role": "system", "content": [text]})

    def _chat(self, number):
        messages = [{"role": "system", "content": "\n".join(self.system_texts(number))}]

        def ask(at):
            texts = self.user_texts(at, number)
            parts = [{"type": "text", "text": text} for text in texts]
            messages.append({"role": "user", "content": texts[0] if len(texts) == 1 else parts})

        ask(-1)
        for at in range(number):
            step = self.steps[at]
            turn = {"role": "assistant", "content": step["answer"]}
            messages.append(turn)
            if "question" in step:
                ask(at)
                continue
            if self.has("reasoning") and self.keeps_reasoning(at, number):
                turn["reasoning_content"] = step["reasoning"]
            turn["tool_calls"] = [{"id": "call_" + step["id"], "type": "function",
                                   "function": {"name": step["name"], "arguments": json.dumps(
                                       self.arguments(step, number))}}]
            messages.append({"role": "tool", "tool_call_id": "call_" + step["id"],
                             "content": self.result_text(at, number)})
        if self.has("moim") and len(messages) > 3:
            messages.insert(-2, {"role": "user", "content":
                                 f"<info-msg>It is currently {self.clock('%Y-%m-%d %H:%M')}"
                                 "</info-msg>"})
        if self.has("total_tokens", "counter_marked"):
            messages.append({"role": "system", "content":
                             f"<total_tokens>{190_000 - number * 977} tokens left</total_tokens>"})
        body = {"model": self.model, "messages": messages, "stream": True,
                "stream_options": {"include_usage": True},
                "tools": [{"type": "function", "function": self._function(tool)}
                          for tool in self.tools_of(number)]}
        if self.has("effort"):
            body["reasoning_effort"] = self.effort(number)
        return body

    @staticmethod
    def _function(tool):
        return {{"input_schema": "parameters"}.get(name, name): value
                for name, value in tool.items()}

    def _responses(self, number):
        def message(texts):
            return {"type": "message", "role": "user",
                    "content": [{"type": "input_text", "text": text} for text in texts]}

        items = [message(self.user_texts(-1, number))]
        for at in range(number):
            step = self.steps[at]
            if "question" in step:
                items.append({"type": "message", "role": "assistant", "content":
                              [{"type": "output_text", "text": step["answer"]}]})
                items.append(message(self.user_texts(at, number)))
                continue
            if self.keeps_reasoning(at, number):
                items.append({"type": "reasoning", "id": "rs_" + step["id"], "summary": [],
                              "encrypted_content": step["id"] * 40})
            items.append({"type": "function_call", "call_id": "call_" + step["id"],
                          "name": step["name"],
                          "arguments": json.dumps(self.arguments(step, number))})
            items.append({"type": "function_call_output", "call_id": "call_" + step["id"],
                          "output": self.result_text(at, number)})
        if self.has("moim") and len(items) > 3:
            items.insert(-3, message([f"<info-msg>It is currently "
                                      f"{self.clock('%Y-%m-%d %H:%M')}</info-msg>"]))
        if self.has("total_tokens", "counter_marked"):
            items.append({"type": "message", "role": "system", "content": [
                {"type": "input_text",
                 "text": f"<total_tokens>{190_000 - number * 977} tokens left</total_tokens>"}]})
        tools = [{"type": "function", **self._function(tool)} for tool in self.tools_of(number)]
        return {"model": self.model, "instructions": "\n".join(self.system_texts(number)),
                "input": items, "tools": tools, "store": False, "stream": True,
                "reasoning": {"effort": self.effort(number)}}


def line_of(session, number, body=None, provider=None):
    """One line of a trace."""
    shape = session.shape
    provider = provider or MODELS[shape][0]
    return {"time": session.now, "tenant": "tenant-1",
            "conversation": session.session_id, "endpoint": ENDPOINTS[shape],
            "upstream": provider, "provider": provider, "ttft_ms": 2000,
            "total_ms": 9000, "status": 200,
            "usage": {"output_tokens": session.output_tokens(number)},
            "body": session.body(number) if body is None else body}


def agent(options, gap=20, **more):
    """One session; several short runs where the jitter is about them."""
    runs = 5 if "claude_md" in options.jitter else 1
    now = START
    for run in range(runs):
        session = Session(options.shape, options.seed, options.turns // runs, options.jitter,
                          options.markers, options.model, run, **more)
        for number in range(session.turns):
            now += gap + session.rng.randrange(10)
            session.now = now
            yield line_of(session, number, provider=options.provider)


def gaps(options):
    """A session whose user comes back after eight minutes, more than five minutes hold."""
    yield from agent(options, gap=480)


def bursts(options):
    """Sub-agents that begin at once with the same tools and system prompt."""
    for burst in range(5):
        sessions = [Session(options.shape, options.seed, 4, options.jitter, options.markers,
                            options.model, run=burst, task=task) for task in range(8)]
        for number in range(4):
            for index, session in enumerate(sessions):
                session.now = START + burst * 120 + number * 15 + index * 0.02
                yield line_of(session, number, provider=options.provider)


def one_shots(options, gap=20, system_lines=90, question_lines=(10, 80), own_system=False):
    """Questions without history: one shape, all different behind it."""
    for number in range(options.turns + 20):
        session = Session(options.shape, options.seed, 1, (), "none", options.model, task=number)
        session.tools = []
        session.now = START + number * gap
        system = Text(f"{options.seed}/system/{number if own_system else 0}")
        session.system = system.lines(system_lines)
        session.question = session.text.lines(session.text.rng.randrange(*question_lines))
        body = json.loads(session.body(0))
        del body["tools"]
        body.pop("metadata", None)
        yield line_of(session, 0, json.dumps(body, ensure_ascii=False, separators=(",", ":")),
                      provider=options.provider)


def make(options):
    kinds = {"agent": agent, "gaps": gaps, "bursts": bursts, "one_shots": one_shots,
             "one_shots_rare": lambda o: one_shots(o, gap=4000),
             "unique": lambda o: one_shots(o, own_system=True),
             "under_minimum": lambda o: one_shots(o, system_lines=8, question_lines=(2, 9))}
    return kinds[options.kind](options)


class Options:
    """What `make` goes by; main reads it from the command line."""

    def __init__(self, shape="messages", kind="agent", jitter=(), turns=40, seed=1,
                 markers="rolling", model=None, provider=None):
        self.shape, self.kind, self.jitter, self.turns = shape, kind, list(jitter), turns
        self.seed, self.markers, self.model, self.provider = seed, markers, model, provider


def write(path, options):
    """Returns the number of requests."""
    count = 0
    with open(path, "w", encoding="utf-8") as out:
        for line in make(options):
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--shape", choices=sorted(MODELS), default="messages")
    parser.add_argument("--kind", choices=KINDS, default="agent")
    parser.add_argument("--jitter", default="", help="names with commas; 'list' prints them")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markers", choices=("rolling", "automatic", "none"), default="rolling")
    parser.add_argument("--model")
    parser.add_argument("--provider")
    given = parser.parse_args()
    if given.jitter == "list":
        for name, what in {**JITTERS, **GENUINE}.items():
            print(f"{name:16} {what}")
        return 0
    options = Options(given.shape, given.kind, filter(None, given.jitter.split(",")), given.turns,
                      given.seed, given.markers, given.model, given.provider)
    print(f"{write(given.out, options)} requests", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
