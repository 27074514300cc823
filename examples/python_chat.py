#!/usr/bin/env python3
"""The gateway in a Python process, through ctypes alone: a streamed chat in a session.

    PYTHONPATH=sdk/python KVGATE_LIBRARY=build/release/lib/libkvgate.so.1 \\
        examples/python_chat.py [MODEL.gguf | http://SERVER] [DATA_DIR]
"""
from __future__ import annotations

import os
import sys
import threading

import kvgate


def open_client(arguments: list[str]) -> kvgate.Client:
    target = arguments[0] if arguments else ""
    if target.startswith(("http://", "https://")):
        return kvgate.connect(target, api_key=os.environ.get("KVGATE_API_KEY"))
    return kvgate.open(model=target or None, config_toml='[engine]\nkv_memory = "256MiB"\n',
                       data_dir=arguments[1] if len(arguments) > 1 else "kvgate-data",
                       needs_disk=True)


def main(arguments: list[str]) -> int:
    with open_client(arguments) as client:
        for line in ("My name is Ada.", "What is my name?"):
            print(f"> {line}")
            for event in client.chat([{"role": "user", "content": line}], session="python",
                                     max_tokens=24, temperature=0):
                if event.kind == "text":
                    print(event.text, end="", flush=True)
                elif event.kind == "usage":
                    print(f"\n  [{event.usage['prompt_tokens']} tokens of prompt, "
                          f"{event.usage.get('cached_tokens', 0)} from the cache]")
        kept = client.call("GET", "/kvgate/v1/sessions/python")
        print(f"kept: {kept['turns']} turns")

        # Another thread can end an answer.
        cancel = kvgate.Cancel()
        endless = client.chat([{"role": "user", "content": "Go on and on."}], max_tokens=4000,
                              ignore_eos=True, cancel=cancel)
        print(f"> Go on and on.\n{next(iter(endless)).text} …")
        threading.Thread(target=cancel.trigger).start()
        try:
            print(f"it ended by itself: {endless.text()[-40:]}")
        except kvgate.Error as error:
            print(f"cancelled: {error.status}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except kvgate.Error as failed:
        sys.exit(f"error: {failed}{' (' + failed.field + ')' if failed.field else ''}")
