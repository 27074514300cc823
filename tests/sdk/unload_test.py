#!/usr/bin/env python3
"""Loads the shared library, opens a gateway, asks it, closes it and unloads the library, again and
again in one process: no thread, no descriptor and no memory is left.

Usage: unload_test.py LIBRARY KVGATE
A hundred times with KVGATE_TEST_FULL, else some.
"""
import _ctypes
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TIMES = 100 if os.environ.get("KVGATE_TEST_FULL") else 12
# What one round may leave in the mean: allocators keep some of what was freed.
BYTES_A_ROUND_MAX = 300_000


class OpenOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_char_p) for name in
        ("config_file", "config_toml", "model", "data_dir", "api_key")] + [
            ("needs_disk", ctypes.c_int32), ("while_loading", ctypes.c_void_p),
            ("user", ctypes.c_void_p)]


def once(library_path, model, data_dir):
    library = ctypes.CDLL(library_path)
    library.kvgate_response_body.restype = ctypes.c_char_p
    library.kvgate_error_message.restype = ctypes.c_char_p
    options = OpenOptions(struct_size=ctypes.sizeof(OpenOptions), model=model, data_dir=data_dir,
                          config_toml=b"[engine]\ndevice=\"cpu\"\nthreads=1\nkv_memory=\"16MiB\"\n",
                          needs_disk=1)
    client, error, answer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    status = library.kvgate_open(ctypes.byref(options), ctypes.byref(client), ctypes.byref(error))
    assert status == 0, library.kvgate_error_message(error)
    body = json.dumps({"model": "local", "max_tokens": 4,
                       "messages": [{"role": "user", "content": "Hello"}]}).encode()
    status = library.kvgate_call(client, b"POST", b"/v1/chat/completions", body,
                                 ctypes.c_size_t(len(body)), None, ctypes.byref(answer),
                                 ctypes.byref(error))
    assert status == 0, library.kvgate_error_message(error)
    assert b"choices" in library.kvgate_response_body(answer, None)
    library.kvgate_response_free(answer)
    library.kvgate_close(client)
    _ctypes.dlclose(library._handle)


def count(folder):
    return len(os.listdir(f"/proc/self/{folder}"))


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    library, kvgate = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "tiny.gguf"
        subprocess.run([kvgate, "make-model", "--layers", "1", "--hidden", "64", "--heads", "2",
                        "--kv-heads", "1", "--ffn", "64", "--vocab", "512", "--context", "256",
                        "--out", str(model)], check=True, stdout=subprocess.DEVNULL)
        data = str(Path(folder) / "data").encode()
        threads = count("task")
        for _ in range(3):  # memory and descriptors that are made once and stay
            once(library, str(model).encode(), data)
        files, before = count("fd"), resident_bytes()
        for _ in range(TIMES):
            once(library, str(model).encode(), data)
        grown = (resident_bytes() - before) / TIMES
        for _ in range(500):  # a thread that has nothing left to do may not have ended yet
            if count("task") == threads:
                break
            time.sleep(0.01)
        print(f"{TIMES} times: {count('task')} threads, {count('fd')} descriptors, "
              f"{grown / 1000:.0f} kB a round")
        assert count("task") == threads, f"{threads} threads before, {count('task')} after"
        assert count("fd") == files, f"{files} descriptors before, {count('fd')} after"
        assert grown <= BYTES_A_ROUND_MAX, f"{grown:.0f} bytes of memory are left by each round"


if __name__ == "__main__":
    main()
