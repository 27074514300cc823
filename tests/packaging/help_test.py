#!/usr/bin/env python3
"""Man pages and completions say what the program says about itself, and can be read and run."""

import gzip
import re
import shutil
import subprocess
import sys
import unittest

import package_case
from package_case import BUILD, PackageCase

sys.path.insert(0, str(package_case.HERE.parent.parent / "packaging" / "help"))
sys.dont_write_bytecode = True

import help_model  # noqa: E402
import man_page  # noqa: E402
import server  # noqa: E402

MADE = BUILD / "packaging" / "help"
HELP = """Look at things
Usage: ./build/x/kvgate look [OPTIONS] thing

Positionals:
  thing TEXT REQUIRED         what `ls` lists

Options:
  -h,--help                   Print this help message and exit
  --as,--form TEXT:{text,json}=text
                              how
  --deep INT=4

A line of .its own.
"""


class ModelTest(unittest.TestCase):
    def test_a_help_is_read_with_its_flags_their_values_and_words(self):
        command = help_model.parse(("look",), HELP)
        self.assertEqual(command.summary, "Look at things")
        self.assertEqual(command.usage, "kvgate look [OPTIONS] thing")
        options = command.sections["Options"]
        self.assertEqual([item.names for item in options],
                         [["-h", "--help"], ["--as", "--form"], ["--deep"]])
        self.assertEqual(options[1].meaning, "how")
        self.assertEqual(options[1].choices, ["text", "json"])
        self.assertEqual((options[2].value, options[2].meaning), ("INT=4", ""))
        self.assertEqual(command.footer, ["A line of .its own."])
        with self.assertRaises(ValueError):
            help_model.parse((), "no such thing")

    def test_troff_takes_text_as_text(self):
        self.assertEqual(man_page.escape(".so x"), "\\&.so x")
        self.assertEqual(man_page.escape("a-b\\n"), "a\\-b\\en")
        self.assertEqual(man_page.escape("see `ls`"), "see \\fBls\\fR")


class HelpTest(PackageCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = help_model.read(server.binary_path())

    def page(self, name):
        return gzip.decompress((MADE / "man" / f"{name}.gz").read_bytes()).decode()

    def test_each_command_and_flag_stands_in_a_page(self):
        names = [command.path[0] for command in self.program.commands]
        self.assertIn("serve", names)
        main = self.page("kvgate.1")
        for name in names:
            self.assertIn(man_page.escape(f"kvgate-{name}"), main)
        for command in self.program.walk():
            page = self.page("-".join(["kvgate", *command.path[:1]]) + ".1")
            for entries in command.sections.values():
                for item in entries:
                    for name in item.names:
                        self.assertIn(f"\\fB{man_page.escape(name)}\\fR", page, command.name)
        self.assertIn("\\fBserver.listen\\fR", self.page("kvgate.toml.5"))

    def test_pages_are_troff_without_warnings(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        for file in sorted((MADE / "man").iterdir()):
            done = subprocess.run(["groff", "-k", "-man", "-Tutf8", "-rLL=100n", "-Wbreak", "-wmac",
                                   "-wsyntax", "-wescape", "-wnumber"], capture_output=True,
                                  input=gzip.decompress(file.read_bytes()), timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, b""), file)
            self.assertGreater(len(done.stdout), 500, file)

    def complete(self, *words):
        """What bash offers for the last word."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  'compopt() { :; }; _kvgate; printf "%s\\n" "${COMPREPLY[@]}"')
        said = self.run_tool("bash", "-euc", script, "bash", MADE / "kvgate.bash", *words,
                             cwd=self.folder)
        return set(said.split())

    def test_bash_completes_commands_flags_values_and_files(self):
        (self.folder / "a-model.gguf").touch()
        self.assertEqual(self.complete("kvgate", "ser"), {"serve"})
        self.assertLessEqual({"ls", "pin", "unpin", "export"}, self.complete("kvgate", "cache", ""))
        self.assertIn("--listen", self.complete("kvgate", "serve", "--"))
        self.assertNotIn("--listen", self.complete("kvgate", "cache", "ls", "--"))
        self.assertIn("--url", self.complete("kvgate", "cache", "--data-dir", "d", "ls", "--u"))
        self.assertEqual(self.complete("kvgate", "serve", "--model", "a-"), {"a-model.gguf"})
        self.assertEqual(self.complete("kvgate", "explain", "--mode", ""),
                         {"observe", "pin", "stabilize"})
        self.assertEqual(self.complete("kvgate", "plan", "--device", "cu"), {"cuda"})

    def test_zsh_reads_its_completion(self):
        if shutil.which("zsh") is None:
            self.skipTest("zsh is not installed")
        self.run_tool("zsh", "-n", MADE / "_kvgate")

    def test_zsh_has_a_function_for_each_command(self):
        text = (MADE / "_kvgate").read_text()
        self.assertTrue(text.startswith("#compdef kvgate\n"))
        defined = set(re.findall(r"^(_\w+)\(\) \{$", text, re.MULTILINE))
        self.assertLessEqual(set(re.findall(r"\) (_\w+) ;;$", text, re.MULTILINE)), defined)
        self.assertEqual(len(defined), len(list(self.program.walk())))


if __name__ == "__main__":
    unittest.main()
