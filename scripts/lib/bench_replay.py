"""scripts/bench replay: what the modes make of agents' sessions and of other traffic.

Made-up traces (tests/support/agent_sessions.py: 40 turns, each documented jitter by itself and many
at once) are sent as they came, in `pin` and in `stabilize`, and held against the best possible
(`kvgate replay`), at caches simulated by the providers' rules. Bounds: stabilize reads at least
97 % of the oracle's tokens, pin never less than direct, no bill above direct for agents, and at
most 1.02 of direct for other traffic once 20 requests have taught.
"""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import agent_sessions  # noqa: E402
import replay_runner  # noqa: E402

MANY = ["tools_order", "key_order", "timestamps", "reminders", "git_status", "billing"]
OTHER_PROVIDERS = {"chat": ("deepseek", "xai", "moonshot", "raw"), "messages": ("moonshot", "raw")}
OTHER_KINDS = ("one_shots", "one_shots_rare", "unique", "under_minimum", "bursts", "gaps")
ORACLE_SHARE = 0.97
OTHER_COST = 1.02
ROUNDING = 1e-6
HEAD = f"{'':46} {'hits':^31}   {'bill / direct':^15}   {'/ oracle':>8}\n" \
       f"{'':46} {'direct':>7} {'pin':>7} {'stab.':>7} {'oracle':>7}   {'pin':>7} {'stab.':>7}   " \
       f"{'stab.':>8}"


def judge(found, is_agent, oracle_share):
    """The bounds that are not met, by name."""
    misses = []
    direct, oracle = found["direct"], found["oracle"]
    for name in ("pin", "stabilize"):
        column = found[name]
        if column["refused"]:
            misses.append(f"{name}: {column['refused']} refused ({column['refusal']})")
        # A backend that hashes raw bytes is nobody's in particular: it has no prices.
        most = (1 if is_agent else OTHER_COST) + ROUNDING
        if column["cost_ratio"] is not None and column["cost_ratio"] > most:
            misses.append(f"{name}: bill")
        if is_agent and column["cached_tokens"] < direct["cached_tokens"]:
            misses.append(f"{name}: below direct")
    if found["stabilize"]["cached_tokens"] < oracle_share * oracle["cached_tokens"]:
        misses.append("stabilize: below the oracle")
    return misses


def row(title, found, misses):
    hits = " ".join(f"{100 * found[name]['hit_rate']:6.1f}%"
                    for name in ("direct", "pin", "stabilize", "oracle"))
    costs = " ".join("      -" if found[name]["cost_ratio"] is None
                     else f"{found[name]['cost_ratio']:7.3f}" for name in ("pin", "stabilize"))
    share = found["stabilize"]["oracle_ratio"]
    shown = "       -" if share is None else f"{share:8.3f}"
    return f"{title:46} {hits}   {costs}   {shown}  {'; '.join(misses)}".rstrip()


def title_of(jitter):
    return "clean" if not jitter else "many at once" if len(jitter) > 1 else jitter[0]


def cases(turns):
    """(title, options, arguments, whether it is an agent's, its least share of the oracle)"""
    for shape in agent_sessions.MODELS:
        _, model = agent_sessions.MODELS[shape]
        for jitter in ([], *([name] for name in agent_sessions.JITTERS), MANY):
            options = agent_sessions.Options(shape, jitter=jitter, turns=turns)
            yield f"{shape} {model}: {title_of(jitter)}", options, (), True, ORACLE_SHARE
        for name in agent_sessions.GENUINE:
            options = agent_sessions.Options(shape, jitter=[name], turns=turns)
            yield f"{shape}: {name} (the prompt itself)", options, (), True, 0
        for other in OTHER_PROVIDERS.get(shape, ()):
            for jitter in ([], ["date_cwd"], MANY):
                options = agent_sessions.Options(shape, jitter=jitter, turns=turns, provider=other)
                yield f"{shape} {other}: {title_of(jitter)}", options, (), True, 0
    options = agent_sessions.Options("responses", turns=turns, model="gpt-5.5")
    yield "responses gpt-5.5: clean", options, (), True, ORACLE_SHARE
    for markers in ("none", "automatic"):
        options = agent_sessions.Options(markers=markers, turns=turns)
        yield f"messages, client's markers: {markers}", options, (), True, ORACLE_SHARE
    for shape in ("messages", "chat"):
        for kind in OTHER_KINDS:
            options = agent_sessions.Options(shape, kind, turns=turns, markers="none")
            yield f"{shape}: {kind}", options, ("--warmup", "20"), False, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--only", default="", help="cases whose title has this in it")
    given = parser.parse_args()
    binary = Path(os.environ["KVGATE_BIN"])
    print(HEAD, flush=True)
    num_missed = num_cases = 0
    for title, options, arguments, is_agent, share in cases(given.turns):
        if given.only not in title:
            continue
        found = replay_runner.replayed(binary, options, arguments=arguments)
        misses = judge(found, is_agent, share)
        num_cases, num_missed = num_cases + 1, num_missed + bool(misses)
        print(row(title, found, misses), flush=True)
    print(f"{num_cases} cases, {num_missed} with a bound that is not met")
    return 1 if num_missed else 0


if __name__ == "__main__":
    sys.exit(main())
