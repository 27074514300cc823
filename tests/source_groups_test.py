#!/usr/bin/env python3
"""Shows which sources cmake/source_groups.py compiles together, and which it keeps apart."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parent.parent / "cmake" / "source_groups.py"


class SourceGroupsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def groups(self, *texts):
        """Sources 0.cc, 1.cc ... with these texts: the numbers that are compiled together."""
        sources = []
        for number, text in enumerate(texts):
            sources.append(self.root / f"{number}.cc")
            sources[-1].write_text(text)
        out = self.root / "build" / "groups"
        ran = subprocess.run([sys.executable, SCRIPT, self.root, out, *sources],
                             capture_output=True, text=True, check=True)
        groups = []
        for compiled in map(pathlib.Path, ran.stdout.strip().split(";")):
            if compiled in sources:
                groups.append([int(compiled.stem)])
                continue
            lines = compiled.read_text().splitlines()
            groups.append([int(line.removeprefix('#include "').removesuffix('.cc"'))
                           for line in lines])
        return groups

    def apart(self, one, other):
        self.assertEqual(self.groups(one, other), [[0], [1]])

    def together(self, one, other):
        self.assertEqual(self.groups(one, other), [[0, 1]])

    def test_what_two_sources_define_for_themselves_keeps_them_apart(self):
        for own in ("int Twice(int x) { return 2 * x; }", "constexpr int Twice[] = {1, 2};",
                    "struct Twice { int x; };", "enum class Twice { kA };", "using Twice = int;",
                    "template <class T> T Twice(T x) { return x; }", "int Twice;"):
            source = f"namespace a {{\nnamespace {{\n{own}\n}}  // namespace\n}}  // namespace a\n"
            self.apart(source, source.replace("1, 2", "1, 3").replace("= int;", "= long;"))
        self.apart("static int Twice(int x) { return x; }", "static int Twice(int x) { return x; }")
        self.apart("#define TWICE 2\n", "#define TWICE 3\n")

    def test_a_word_that_means_something_else_in_the_other_source_keeps_them_apart(self):
        own = "namespace { int Twice(int x) { return 2 * x; } }"
        self.apart(own, "int f(const A& a) { return a.Twice(); }")
        self.apart("int f(const A& a) { return a.Twice(); }", own)
        self.apart("namespace a { using nlohmann::json; }", "int f() { int json; return json; }")
        self.apart("using namespace std::chrono;", "int f() { return 1; }")

    def test_the_same_alias_and_the_same_opened_namespace_keep_nobody_apart(self):
        self.together("using testing::Not;\nint f();", "using testing::Not;\nint g();")
        self.together("namespace fs = std::filesystem;", "namespace fs = std::filesystem;")
        self.together("using namespace std::chrono;\n", "using namespace std::chrono;\n")

    def test_comments_strings_and_what_functions_define_within_do_not_count(self):
        own = "namespace { int Twice(int x) { int y = 2 * x; return y; } }"
        self.together(own, '// Twice is not here.\nconst char* f() { int y; return "Twice {"; }')
        self.together("class A { static int Make(); };", "class B { static int Make(); };")

    def test_groups_have_at_most_eight_sources_and_64_kB(self):
        self.assertEqual([len(group) for group in self.groups(*["int f();"] * 17)], [8, 8, 1])
        large = "int f" + "x" * 40_000 + "();"
        self.assertEqual(self.groups(large, large, "int g();"), [[0, 2], [1]])

    def test_an_equal_group_is_not_written_again(self):
        self.groups("int f();", "int g();")
        unit = next(self.root.glob("build/groups/*.cc"))
        before = unit.stat().st_mtime_ns
        self.groups("int f2();", "int g();")
        self.assertEqual(unit.stat().st_mtime_ns, before)


if __name__ == "__main__":
    unittest.main()
