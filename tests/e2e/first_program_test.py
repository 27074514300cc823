#!/usr/bin/env python3
"""docs/first_program.md as its reader follows it: each block is written to the file that is named
before it, each command is run, and what the guide says of their output is so."""

import os
import re
import subprocess
import unittest

import sdk_build
from case import Case

GUIDE = sdk_build.ROOT / "docs/first_program.md"
BLOCK = re.compile(r"(?:`([\w./]+)`[^`]*?:\n\n)?```(\w+)\n(.*?)```", re.S)
COMMAND_SECONDS_MAX = 300


class FirstProgramTest(Case):
    def setUp(self):
        super().setUp()
        sdk_build.need_library(self)

    def follow(self, environment):
        """Does all that the guide says; returns what each program printed, in order."""
        place = self.folder / "first_program"
        place.mkdir()
        printed = []
        for name, language, text in BLOCK.findall(GUIDE.read_text()):
            if language == "sh":
                for command in text.splitlines():
                    made = subprocess.run(command, shell=True, cwd=place, env=environment,
                                          capture_output=True, text=True,
                                          timeout=COMMAND_SECONDS_MAX)
                    self.assertEqual(made.returncode, 0, f"{command}:\n{made.stdout}{made.stderr}")
                    if command.startswith("./"):
                        printed.append((command, made.stdout))
            else:
                self.assertTrue(name, f"no file is named for:\n{text}")
                with open(place / name, "a") as file:  # what is added to a file goes to its end
                    file.write(text)
        return printed

    def test_the_guide_is_true(self):
        prefix = sdk_build.package(self.folder)
        printed = self.follow({**os.environ, **sdk_build.compiler_environment(),
                               "CMAKE_PREFIX_PATH": str(prefix)})
        self.assertEqual([command for command, _ in printed],
                         ["./build/first", "./build/session", "./build/session", "./build/pin",
                          "./build/pin"])
        said = [text for _, text in printed]
        self.assertGreater(len(said[0].strip()), 20)
        self.assertIn("2 turns are kept", said[1])
        self.assertIn("4 turns are kept", said[2])
        turns = re.findall(r"(\d+) tokens of prompt, (\d+) from the cache", said[1] + said[2])
        tokens = [int(prompt) for prompt, _ in turns]
        self.assertEqual(tokens, sorted(set(tokens)))
        self.assertGreater(int(turns[-1][1]), tokens[0])
        cold, warm = [re.search(r"(\d+) tokens: (\d+) from the cache, (\d+) computed\n(.*)", text,
                                re.S).groups() for text in said[3:]]
        self.assertEqual((cold[0], cold[3]), (warm[0], warm[3]))
        self.assertGreater(int(cold[2]), 1000)
        self.assertLess(int(warm[2]), 64)


if __name__ == "__main__":
    unittest.main()
