"""The demonstration behind scripts/run: first, second and post-restart request, then stay up."""

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import server  # noqa: E402

TOOL_NAMES = ("read_file write_file search_text list_folder run_command apply_patch fetch_page "
              "open_issue query_table plan_steps").split()
RULES = (
    "Before you change a file, read it, and keep its style.",
    "Quote paths exactly as the tool returned them.",
    "When a command fails, say what it printed before you try another.",
    "Ask before anything that cannot be undone.",
    "Prefer the smallest change that makes the test pass.",
    "Cite the line numbers of what you rely on.",
    "Do not repeat a search whose answer is already above.",
    "Keep answers short; the reader sees the diff.",
)


def agent_system_prompt(sections):
    """What coding agents send with every request: a role, rules, tools with their schemas."""
    rng = random.Random(2024)
    parts = ["You are a careful software agent working in a user's repository.\n"]
    for index in range(sections):
        tool = TOOL_NAMES[index % len(TOOL_NAMES)]
        parts.append(
            f"\n## Tool {index + 1}: {tool}_v{index}\n"
            f"Arguments: {{\"path\": string, \"limit\": integer (at most {rng.randint(10, 900)}), "
            f"\"mode\": one of \"fast\", \"exact\"}}.\n{rng.choice(RULES)} {rng.choice(RULES)}\n")
    return "".join(parts)


def ask(running, messages):
    reply = running.chat(messages, max_tokens=32, stream=True,
                         stream_options={"include_usage": True})
    if reply.status != 200 or not reply.done:
        raise server.ServerError(f"the gateway answered {reply.status}: {reply.body[:1000]!r}"
                                 f"{reply.events[-1:]} (--sections makes the prompt shorter)")
    return reply


def print_table(rows):
    print(f"\n{'request':<26}{'prompt':>8}{'memory':>8}{'disk':>8}{'computed':>10}"
          f"{'TTFT':>11}   logits hash")
    for name, reply in rows:
        prompt = reply.usage["prompt_tokens"]
        print(f"{name:<26}{prompt:>8}{reply.tier('device'):>8}{reply.tier('disk'):>8}"
              f"{prompt - reply.cached_tokens:>10}{reply.ttft_ms:>8.1f} ms"
              f"   {reply.explain['logits_hash']}")


# What the model that kvgate brings along was taught.
QUESTIONS = ("What is a KV cache?", "How do I start Claude Code with kvgate?",
             "What happens when the disk is full?")


def print_answers(running):
    """A few questions and what the model says to them."""
    print()
    for question in QUESTIONS:
        reply = running.chat([{"role": "user", "content": question}], max_tokens=80,
                             ignore_eos=False)
        if reply.status != 200:
            raise server.ServerError(f"the gateway answered {reply.status}: {reply.body[:1000]!r}")
        print(f"{question}\n  {reply.text}")


def problems(cold, memory, disk):
    """What the demonstration should have shown and did not."""
    if memory.answer != cold.answer:
        yield "the answer from memory differs from the cold one"
    if disk.answer != cold.answer:
        yield "the answer from disk differs from the cold one"
    if memory.tier("device") == 0:
        yield "the second request found nothing in memory"
    if disk.tier("disk") == 0:
        yield "after the restart nothing came from disk"


def stop_previous(pid_file):
    """Ends the gateway an earlier run left behind, if the id still is one."""
    try:
        pid = int(pid_file.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return
    words = command.split(b"\0")
    if b"serve" not in words or str(pid_file.parent / "data").encode() not in words:
        return  # the id is another process's by now
    print(f"stopping the gateway of an earlier run (process {pid})")
    os.kill(pid, signal.SIGTERM)
    for _ in range(300):
        try:
            os.kill(pid, 0)
            # A zombie of ours or of init has ended all the same.
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/run", description=__doc__)
    parser.add_argument("--model", type=Path,
                        help="a GGUF file; default: the model that kvgate brings along")
    parser.add_argument("--port", type=int, default=8080, help="0 picks one; default 8080")
    parser.add_argument("--data-dir", type=Path, default=ROOT / "build" / "run-data")
    parser.add_argument("--sections", type=int, default=24, help="length of the system prompt")
    return parser.parse_args()


# On a busy disk the engine computes what it could have loaded, and counts that.
RESTARTS_MAX = 3


def chose_to_compute(running):
    engine = running.stats()["engine"]
    return engine["restores_cut"] + engine["restores_skipped"] > 0


def start(running, pid_file):
    running.start(detach=True)
    pid_file.write_text(str(running.process.pid))


def demonstrate(running, messages, pid_file):
    """Prints the table; returns what was wrong."""
    name = running.model.name if running.model else "the model that kvgate brings along"
    print(f"starting the gateway on {name}", flush=True)
    start(running, pid_file)
    cold = ask(running, messages)
    memory = ask(running, messages)
    seconds = running.wait_on_disk()
    print(f"KV on disk {seconds:.2f} s after the second answer; kill -9, restart", flush=True)
    for _ in range(RESTARTS_MAX):
        running.kill()
        start(running, pid_file)
        disk = ask(running, messages)
        if disk.tier("disk") > 0 or not chose_to_compute(running):
            break
        print("the engine expected computing to be quicker than this disk; kill -9, restart once "
              "more", flush=True)
    if running.model is None:
        print_answers(running)
    print_table([("first (cold)", cold), ("second (memory)", memory),
                 ("after kill -9 (disk)", disk)])
    return list(problems(cold, memory, disk))


def main():
    options = parse_arguments()
    options.data_dir.mkdir(parents=True, exist_ok=True)
    pid_file, log = options.data_dir / "kvgate.pid", options.data_dir / "kvgate.log"
    stop_previous(pid_file)
    # A prompt of its own for each run: what an earlier run left on disk must not warm the cold one.
    messages = [{"role": "system", "content": f"Run {time.time_ns()}.\n"
                 + agent_system_prompt(options.sections)},
                {"role": "user", "content": "Where is the bug in the block table?"}]
    running = server.Server(options.model, options.data_dir / "data",
                            listen=f"127.0.0.1:{options.port}", log_path=str(log))
    try:
        wrong = demonstrate(running, messages, pid_file)
    except BaseException:
        running.kill()
        raise
    if wrong:
        running.kill()
        pid_file.unlink()
        for line in wrong:
            print(f"error: {line}", file=sys.stderr)
        return 1
    print(f"\nThe three answers are the same: text and logits, bit for bit.\n"
          f"kvgate listens on http://{running.address}/v1 "
          f"(process {running.process.pid}, log {log})\nTry it:\n"
          f"  curl -s http://{running.address}/v1/chat/completions "
          f"-H 'Content-Type: application/json' -H 'x-kvgate-explain: 1' "
          f"-d '{{\"model\":\"local\","
          f"\"messages\":[{{\"role\":\"user\",\"content\":\"What is a prefix?\"}}]}}'\n"
          f"Stop it:\n  kill {running.process.pid}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except server.ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
