#!/usr/bin/env python3
"""The reference of the SDK is made of its headers without a warning, and names all that is public.
"""

import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HEADERS = ROOT / "sdk/include"


def made(folder, headers=HEADERS):
    """Makes the reference of these headers in a folder; returns how doxygen ended."""
    config = (ROOT / "docs/api/Doxyfile").read_text()
    config += (f"\nOUTPUT_DIRECTORY = {folder}\nINPUT = {headers} docs/api/main.md\n"
               f"STRIP_FROM_PATH = {headers}\n")
    return subprocess.run(["doxygen", "-"], input=config, cwd=ROOT, capture_output=True, text=True,
                          timeout=300)


def is_said(element):
    return any("".join(part.itertext()).strip()
               for name in ("briefdescription", "detaileddescription")
               for part in element.findall(name))


def documented(folder):
    """The names that the reference has something to say of: functions, types, members of types."""
    names = set()
    for path in Path(folder, "xml").glob("*.xml"):
        for compound in ElementTree.parse(path).getroot().findall("compounddef"):
            name = compound.findtext("compoundname").replace("::v1", "")
            if is_said(compound):
                names.add(name)
            for member in compound.iter("memberdef"):
                if is_said(member):
                    within = compound.get("kind") in ("class", "struct")
                    names.add(f"{name if within else ''}::{member.findtext('name')}".lstrip(":"))
    return names


def public_names():
    """What the headers declare for their users, read without doxygen."""
    names = set(re.findall(r"KVGATE_API [\w \*]*?(kvgate_\w+)\(",
                           (HEADERS / "kvgate.h").read_text()))
    for path in (HEADERS / "kvgate").glob("*.h"):
        text = re.sub(r"namespace detail \{.*?\n\}  // namespace detail", "", path.read_text(),
                      flags=re.S)
        types = re.findall(r"^(?:class|struct) (?:\[\[\w+\]\] )?(\w+)(?: : [^{]*)? \{", text, re.M)
        names |= {f"kvgate::{name}" for name in types}
        names |= set(re.findall(r"^inline [\w:]+ (\w+)\(", text, re.M))
        names |= set(re.findall(r"^enum class (\w+)", text, re.M))
    return names


@unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed (the API reference)")
class ApiReferenceTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kvgate-api-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def test_all_that_is_public_is_documented_without_a_warning(self):
        ended = made(self.folder)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""), ended.stdout)
        self.assertTrue((self.folder / "html/index.html").exists())
        wanted = public_names()
        self.assertGreater(len(wanted), 50)
        for one in ("kvgate_chat", "kvgate::Client", "kvgate::Result", "Quote", "Status"):
            self.assertIn(one, wanted)
        found = documented(self.folder)
        self.assertEqual(sorted(wanted - found), [])
        for member in ("Client::Open", "Stream::Collect", "Session::Fork", "ChatRequest::seed"):
            self.assertIn(f"kvgate::{member}", found)
        self.assertEqual([name for name in found if "detail" in name], [])

    def test_a_function_or_class_without_a_comment_is_an_error(self):
        headers = self.folder / "include"
        shutil.copytree(HEADERS, headers)
        for path, begin in (("kvgate.h", "/* Begins a chat completion."),
                            ("kvgate/client.h", "// The answer to one prompt, as plain text.\n"),
                            ("kvgate/toolbox.h", "// Tools with the functions behind them")):
            text = (HEADERS / path).read_text()
            comment = re.search(r"/\*.*?\*/\n" if begin.startswith("/*") else r"//[^\n]*\n",
                                text[text.index(begin):], re.S).group(0)
            (headers / path).write_text(text.replace(comment, ""))
        ended = made(self.folder / "out", headers)
        self.assertNotEqual(ended.returncode, 0)
        for name in ("kvgate_chat(", "Generate(", "kvgate::v1::Toolbox "):
            self.assertRegex(ended.stderr, re.escape(name) + ".*is not documented")


if __name__ == "__main__":
    unittest.main()
