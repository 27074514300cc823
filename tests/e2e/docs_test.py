#!/usr/bin/env python3
"""README.md and docs/ are true: links lead somewhere, every configuration passes, and the commands
of every block run as they stand. A block that cannot run here says why in a comment before it; its
commands and options exist all the same."""

import os
import re
import shlex
import subprocess
import unittest

import server
from case import ROOT, Case

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDE = "first_program.md"  # first_program_test.py follows it
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n)?```(\w+)\n(.*?)```", re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ADDRESS = "127.0.0.1:8080"
COMMAND_SECONDS_MAX = 120


def blocks(page, language):
    """(is run, text) of a page's blocks."""
    return [(not reason, text) for reason, of, text in BLOCK.findall(page.read_text())
            if of == language]


def anchors(path):
    """Those of a page's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"(?m)^#+ (.+)$", path.read_text()):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def kvgate_commands(text):
    """The commands of a block that call kvgate, as lists of words."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    for line in lines:
        for part in re.split(r"&&|\|(?!\|)|;", line):
            words = shlex.split(part, comments=True) if part.count("'") % 2 == 0 else part.split()
            if words[:1] == ["kvgate"]:
                yield words[1:]


class DocsTest(Case):
    def test_links_lead_somewhere(self):
        count = 0
        for page in PAGES:
            for target in LINK.findall(page.read_text()):
                if target.startswith(("http://", "https://")):
                    continue
                count += 1
                path, _, anchor = target.partition("#")
                to = (page.parent / path).resolve() if path else page
                self.assertTrue(to.exists(), f"{page.name}: {target}")
                if anchor:
                    self.assertIn(anchor, anchors(to), f"{page.name}: {target}")
        self.assertGreater(count, 30)

    def test_the_readme_leads_to_every_page(self):
        linked = set(LINK.findall((ROOT / "README.md").read_text()))
        linked = {target.partition("#")[0] for target in linked}
        for page in PAGES[1:]:
            if page.name != "README.md":
                self.assertIn(f"docs/{page.name}", linked)
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), 150)

    def test_every_configuration_passes(self):
        count = 0
        for page in PAGES:
            for _, text in blocks(page, "toml"):
                # What a part refers to stands elsewhere in the page.
                for name in re.findall(r'"(second|openai|anthropic)(?:/|")', text):
                    if f'name = "{name}"' not in text and "[[route]]" in text:
                        text += (f'\n[[upstream]]\nname = "{name}"\n'
                                 'base_url = "https://127.0.0.1:1"\n')
                for name in re.findall(r'(?m)^file = "([^"]+)"', text):
                    (self.folder / name).parent.mkdir(exist_ok=True)
                    (self.folder / name).write_text("Be kind.")
                path = self.folder / "kvgate.toml"
                path.write_text(text)
                checked = subprocess.run([server.binary_path(), "config", "check", path],
                                         capture_output=True, text=True, timeout=60)
                self.assertEqual(checked.returncode, 0, f"{page.name}:\n{text}{checked.stderr}")
                count += 1
        self.assertGreater(count, 2)

    def test_commands_run_as_they_stand(self):
        running = server.Server(None, self.folder / "data/kvgate",
                                ["--set", "engine.kv_memory=192MiB"])
        self.addCleanup(running.__exit__)
        running.start()
        home = self.folder / "home"
        home.mkdir()
        environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(self.folder / "data"),
                       "PATH": f"{server.binary_path().parent}:{os.environ['PATH']}"}
        count = 0
        for page in PAGES:
            if page.name == GUIDE:
                continue
            for is_run, text in blocks(page, "sh"):
                if not is_run:
                    continue
                place = self.folder / f"place-{count}"
                place.mkdir()
                script = "set -euo pipefail\n" + text.replace(ADDRESS, running.address).replace(
                    "curl -s ", "curl -sS --fail-with-body ")
                ran = subprocess.run(["bash", "-c", script], cwd=place, env=environment,
                                     capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                     timeout=COMMAND_SECONDS_MAX)
                self.assertEqual(ran.returncode, 0,
                                 f"{page.name}:\n{text}\n{ran.stdout}{ran.stderr}")
                count += 1
        self.assertGreater(count, 5)

    def test_commands_and_options_exist(self):
        helps = {}

        def help_of(words):
            """The help of the command that the words begin with, and how many words name it."""
            for length in (2, 1):
                name = tuple(words[:length])
                if name not in helps:
                    asked = subprocess.run([server.binary_path(), *name, "--help"], timeout=60,
                                           capture_output=True, text=True)
                    helps[name] = asked.stdout if asked.returncode == 0 else None
                if helps[name] and f"kvgate {' '.join(name)} " in helps[name]:
                    return helps[name], length
            self.fail(f"kvgate {' '.join(words)}: there is no such command")
            return None

        count = 0
        for page in PAGES:
            texts = [text for _, text in blocks(page, "sh")]
            # And those in the middle of a sentence.
            texts += [re.sub(r"\s+", " ", text)
                      for text in re.findall(r"`(kvgate [a-z][^`]*)`", page.read_text())]
            for words in (words for text in texts for words in kvgate_commands(text)):
                if "|" in " ".join(words) or words[0].startswith("-") or words[0] == "COMMAND":
                    continue
                text, _ = help_of([word for word in words if re.fullmatch(r"[a-z-]+", word)
                                   and not word.startswith("-")][:2])
                for option in words:
                    if option.startswith("--") and option != "--" and option != "--help":
                        self.assertIn(option.split("=")[0].split("|")[0], text,
                                      f"{page.name}: kvgate {' '.join(words)}")
                count += 1
        self.assertGreater(count, 20)


if __name__ == "__main__":
    unittest.main()
