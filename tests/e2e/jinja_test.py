#!/usr/bin/env python3
"""`kvgate render` against Jinja2 itself, on random templates: the same text, or both fail."""

import datetime
import json
import re
import subprocess
import unittest

import server
from case import FULL, Case
from jinja_templates import DATA, Generator

try:
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    jinja2 = None

# Addresses of objects, and what is computed with numbers past 64 bits, are not compared.
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def reference_environment():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=[jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    now = datetime.datetime(2026, 3, 14, 9, 26, 53)
    environment.globals["strftime_now"] = now.strftime
    return environment


@unittest.skipIf(jinja2 is None, "jinja2 is not installed (python3-jinja2)")
class JinjaTest(Case):
    def setUp(self):
        super().setUp()
        self.environment = reference_environment()
        self.input_file = self.folder / "input.json"
        self.input_file.write_text(json.dumps({**DATA, "now": "2026-03-14 09:26:53"}))

    def reference(self, source):
        """The text, or None where Jinja2 raises."""
        data = {"tools": None, "documents": None, "add_generation_prompt": False}
        try:
            return self.environment.from_string(source).render(**data, **DATA)
        except Exception:  # pylint: disable=broad-except
            return None

    def rendered(self, source):
        path = self.folder / "template.jinja"
        path.write_bytes(source.encode())
        made = subprocess.run([server.binary_path(), "render", "--template", path, self.input_file],
                              capture_output=True, timeout=60)
        self.assertIn(made.returncode, (0, 1, 2), made.stderr)
        if made.returncode != 0:
            self.assertRegex(made.stderr.decode(), r"template\.jinja:\d+:\d+: ")
            return None
        return made.stdout.decode()

    def test_random_templates_render_as_in_jinja2_or_fail_in_both(self):
        num_rendered = 0
        for seed in range(4000 if FULL else 400):
            source = Generator(seed).template()
            expected = self.reference(source)
            if expected is not None and ADDRESS.search(expected):
                continue
            num_rendered += expected is not None
            self.assertEqual(self.rendered(source), expected, f"seed {seed}: {source!r}")
        self.assertGreater(num_rendered, 100)


if __name__ == "__main__":
    unittest.main()
