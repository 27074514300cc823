#!/usr/bin/env python3
"""Shows that each tidy rule finds what it is for, and leaves good code alone."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import tidy
import tidy_tables

README = "# folder\n"


class TidyTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for table in ("TESTS_WITHOUT_SOURCE", "SOURCES_WITHOUT_TEST", "TESTED_ELSEWHERE",
                      "FOLDERS_WITHOUT_README", "NAMESPACES_OF_OTHERS", "CLASSES_IN_MANY_SOURCES",
                      "CLASSES_OF_MANY_METHODS"):
            patch = mock.patch.dict(getattr(tidy_tables, table), clear=True)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, path, text):
        file = Path(self.folder.name, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def found(self, *rules):
        tree = tidy.Tree(self.folder.name)
        return [f"{f.path}:{f.line}: {f.what}" for rule in rules for f in rule(tree)]

    def assert_found(self, rule, *expected):
        """Exactly these findings, each given by its beginning."""
        found = sorted(self.found(rule))
        self.assertEqual(len(found), len(expected), found)
        for line, start in zip(found, sorted(expected)):
            self.assertTrue(line.startswith(start), f"{line!r} does not start with {start!r}")

    def test_includes_upward_and_sideways_are_found_and_downward_ones_are_not(self):
        self.write("engine/a.cc", '#include "gateway/b.h"\n#include "kernels/c.h"\n')
        self.write("store/a.cc", '#include "engine/b.h"\n#include "base/result.h"\n')
        self.write("kernels/cpu/a.cc", '\n#include "kernels/reference/b.h"\n')
        self.write("base/a.cc", '#include "store/b.h"\n')
        self.write("gateway/prompt/a.cc", '#include "base/result.h"\n#include "b.h"\n')
        self.write("gateway/ledger/a.cc", '#include "gateway/prompt/planner/plan.h"\n')
        self.write("gateway/unknown/a.cc", '#include "gateway/prompt/planner/plan.h"\n')
        self.write("tests/store/a_test.cc", '#include "store/a.h"\n#include "engine/b.h"\n')
        self.write("examples/a.cc", '#include "sdk/src/b.h"\n#include "beside.h"\n')
        self.write("examples/beside.h", "#include <kvgate/client.h>\n")
        self.assert_found(tidy.check_include_direction,
                          'examples/a.cc:1: "sdk/src/b.h": examples include',
                          "engine/a.cc:1: engine must not include gateway (",
                          "store/a.cc:1: store must not include engine (",
                          "kernels/cpu/a.cc:2: kernels/cpu must not include",
                          "base/a.cc:1: base must not include store",
                          'gateway/prompt/a.cc:2: "b.h": includes are rooted',
                          "gateway/ledger/a.cc:1: gateway/ledger must not include gateway/prompt",
                          "gateway/unknown/a.cc:1: its folder is no part of the tree",
                          "tests/store/a_test.cc:2: store must not include engine (")

    def test_folders_that_include_each_other_are_found(self):
        self.write("engine/kv/a.h", '#include "engine/kv/pool/b.h"\n')
        self.write("engine/kv/pool/b.h", '#include "engine/kv/list/c.h"\n')
        self.write("engine/kv/list/c.h", '#include "engine/kv/d.h"\n#include "base/e.h"\n')
        self.write("base/e.h", "#pragma once\n")
        self.assert_found(tidy.check_circles,
                          "engine/kv/list/c.h:1: folders in a circle: engine/kv -> engine/kv/pool")

    def test_crowded_folders_are_found(self):
        for i in range(31):
            self.write(f"store/{i}.h", "")
            self.write(f"tests/store/{i}.h", "")
        self.assert_found(tidy.check_folder_size, "store:1: 31 files in a folder, at most 30")

    def test_two_types_of_one_name_in_one_namespace_are_found(self):
        self.write("engine/a.h", "namespace kvgate::kv {\nclass Block {\n  struct Entry {};\n};\n"
                                 "template <typename T>\nstruct Run : Base<T> {\n};\n}\n")
        self.write("engine/b.h", "namespace kvgate {\nclass Block;\nnamespace kv {\n\n"
                                 "struct Block {};\n}\nenum class Run : int { kA };\n}\n")
        self.write("store/c.cc", "namespace kvgate::kv {\nnamespace {\nstruct Block {};\n}\n"
                                 "struct Block Make() { return {}; }\n"
                                 "template <>\nstruct Run<int> {};\n}\n")
        self.write("store/d.cc", "namespace kvgate::kv {\nvoid F() {\n  struct Block {};\n}\n"
                                 "union alignas(16) [[maybe_unused]] Run {};\n}\n")
        self.write("tests/store/c_test.cc", "namespace kvgate::kv {\nstruct Block {};\n}\n")
        self.assert_found(tidy.check_one_definition,
                          "engine/b.h:5: kvgate::kv::Block is defined in engine/a.h too",
                          "store/d.cc:5: kvgate::kv::Run is defined in engine/a.h too")

    def test_code_outside_its_folders_namespace_is_found_and_a_declaration_is_not(self):
        self.write("base/a.h", "namespace kvgate {\nint F();\n}\n")
        self.write("engine/text/chat/a.cc", "namespace kvgate::chat {\nint f() {}\n}\n")
        self.write("engine/kv/a.cc", "namespace kvgate::engine {\nint f() {}\n}\n")
        self.write("gateway/http/socket/a.h",
                   "namespace kvgate::proxy {\nclass A;\nint F(int);\n}\n"
                   "namespace kvgate::http {\nstruct B {};\n}\n"
                   "namespace CLI {\nstruct C {};\n}\n")
        self.write("kernels/cpu/a.cc",
                   "namespace kvgate::kernels::cpu {\nnamespace HWY_NAMESPACE {\nint f() {}\n}\n}\n"
                   "namespace {\nint g() {}\n}\n")
        self.write("tests/engine/kv/a_test.cc", "namespace kvgate::tier {\n}\n")
        self.write("tests/engine/kv/helper.h", "namespace kvgate::test {\nstruct A {};\n}\n")
        self.write("tests/fuzz/a_test.cc", "namespace kvgate::tier {\nstruct A {};\n}\n")
        self.write("tests/engine/whole/a_test.cc", "namespace kvgate::engine {\n}\n")
        self.assert_found(tidy.check_namespaces,
                          "engine/kv/a.cc:1: namespace kvgate::engine: the code of engine/kv",
                          "gateway/http/socket/a.h:5: namespace kvgate::http: the code of",
                          "tests/engine/kv/a_test.cc:1: namespace kvgate::tier: the code of")

    def test_a_named_file_may_define_what_another_room_declares(self):
        self.write("store/kv/a.cc", "namespace kvgate::store {\nint f() {}\n}\n")
        others = {"store/kv/a.cc": ("kvgate::store", "x"), "store/kv/b.cc": ("kvgate::store", "x")}
        with mock.patch.dict(tidy.NAMESPACES_OF_OTHERS, others):
            self.assert_found(tidy.check_namespaces,
                              "tests/tidy_tables.py:1: the exception for store/kv/b.cc")

    def test_a_class_of_more_than_25_methods_is_found_and_constructors_do_not_count(self):
        methods = "".join(f"  int F{i}(std::function<int(int)> f = {{}}) const;\n"
                          for i in range(20))
        few = ("  int G() { return f(1); }\n  virtual bool H() const = 0;\n private:\n"
               "  static void I();\n  template <typename T>\n  T J(T t);\n"
               "  [[nodiscard]] int K() noexcept;\n")
        none = ("  explicit C(int a) : a_(a), b_{a} {}\n  ~C();\n  bool operator==(const C&);\n"
                "  using L = int(int);\n  friend int M(C);\n  std::function<int(int)> n;\n"
                "  int a_ = f(1);\n  int b_{};\n  struct Inner {\n    int N();\n  };\n")
        head = "namespace kvgate::store {\nclass C final : public B<int> {\n public:\n"
        self.write("store/good.h", head + methods + few + none + "};\n}\n")
        self.write("tests/store/b.h", head + methods + few + "  int O();\n};\n}\n")
        self.assert_found(tidy.check_class_size)
        self.write("store/bad.h", head + methods + few + none + "  int O();\n};\n}\n")
        self.assert_found(tidy.check_class_size,
                          "store/bad.h:2: kvgate::store::C has 26 methods, at most 25")

    def test_the_bound_of_a_large_class_only_shrinks(self):
        methods = "".join(f"  int F{i}();\n" for i in range(30))
        self.write("store/a.h", "namespace kvgate::store {\nstruct C {\n" + methods + "};\n}\n")
        table = tidy.CLASSES_OF_MANY_METHODS
        with mock.patch.dict(table, {"kvgate::store::C": (30, "x")}):
            self.assert_found(tidy.check_class_size)
        with mock.patch.dict(table, {"kvgate::store::C": (29, "x")}):
            self.assert_found(tidy.check_class_size, "store/a.h:2: kvgate::store::C has 30 methods")
        with mock.patch.dict(table, {"kvgate::store::C": (31, "x"), "kvgate::Gone": (26, "x")}):
            self.assert_found(tidy.check_class_size,
                              "tests/tidy_tables.py:1: kvgate::Gone has 0 methods",
                              "tests/tidy_tables.py:1: kvgate::store::C has 30 methods: lower")

    def test_a_class_that_is_defined_in_two_sources_is_found(self):
        self.write("store/kv/a.h", "namespace kvgate::store::kv {\nclass A {\n  int F();\n};\n"
                                   "class B {\n  struct In {\n    int F();\n  };\n};\n}\n")
        self.write("store/kv/a.cc", "namespace kvgate::store::kv {\nint A::F() {}\nB::In::F() {}\n"
                                    "struct Own {\n  int F();\n};\nint Own::F() {}\n}\n")
        self.write("store/kv/b.cc", "namespace kvgate::store::kv {\nnamespace {\nstruct Own {};\n"
                                    "int Own::F() {}\n}\nint G(A a) { return A::F(); }\n}\n")
        self.assert_found(tidy.check_class_sources)
        self.write("store/c.cc", "namespace kvgate::store {\nstd::vector<int> kv::A::G() {}\n}\n")
        self.assert_found(tidy.check_class_sources, "store/kv/a.cc:1: kvgate::store::kv::A is "
                                                    "defined in store/c.cc, store/kv/a.cc")
        with mock.patch.dict(tidy.CLASSES_IN_MANY_SOURCES,
                             {"kvgate::store::kv::A": "x", "kvgate::store::kv::B": "x"}):
            self.assert_found(tidy.check_class_sources, "tests/tidy_tables.py:1: the exception for "
                                                        "kvgate::store::kv::B is not needed")

    def test_third_party_headers_stay_in_their_folders(self):
        self.write("gateway/a.cc", "#include <boost/asio.hpp>\n#include <rocksdb/db.h>\n")
        self.write("store/rocks_a.cc", "#include <rocksdb/db.h>\n")
        self.write("store/b.cc", "#include <rocksdb/db.h>\n#include <hwy/highway.h>\n")
        self.write("engine/c.cc", "#include <immintrin.h>\n#include <cuda_runtime.h>\n")
        self.write("tests/store/d_test.cc", "#include <rocksdb/db.h>\n")
        self.write("engine/e.cu", "\n")
        self.assert_found(tidy.check_third_party,
                          "gateway/a.cc:2: RocksDB only", "store/b.cc:1: RocksDB only",
                          "store/b.cc:2: Highway only", "engine/c.cc:1: intrinsics only",
                          "engine/c.cc:2: CUDA only", "engine/e.cu:1: CUDA sources")

    def test_the_mirror_has_no_gap_on_either_side(self):
        self.write("store/a.cc", "")
        self.write("store/b.cc", "")
        self.write("store/only_header.h", "")
        self.write("tests/store/a_test.cc", "")
        self.write("tests/store/only_header_test.cc", "")
        self.write("tests/store/gone_test.cc", "")
        self.assert_found(tidy.check_mirror, "store/b.cc:1: has no test",
                          "tests/store/gone_test.cc:1: mirrors no file")

    def test_a_source_may_be_tested_elsewhere_by_a_test_that_exists(self):
        self.write("store/a.cc", "")
        with mock.patch.dict(tidy.TESTED_ELSEWHERE, {"store/a.cc": "tests/store/b_test.cc"}):
            self.assert_found(tidy.check_mirror, "store/a.cc:1: has no test")
            self.write("store/b.cc", "")
            self.write("tests/store/b_test.cc", "")
            self.assert_found(tidy.check_mirror)

    def test_an_exception_that_is_no_longer_needed_is_found(self):
        self.write("store/a.cc", "")
        self.write("tests/store/a_test.cc", "")
        with mock.patch.dict(tidy.SOURCES_WITHOUT_TEST, {"store/a.cc": "x", "store/gone.cc": "x"}):
            self.assert_found(tidy.check_mirror,
                              "tests/tidy_tables.py:1: the exception for store/a.cc",
                              "tests/tidy_tables.py:1: the exception for store/gone.cc")

    def test_long_lines_and_trailing_spaces_are_found_but_not_in_tables(self):
        self.write("a.cc", "x" * 100 + "\n" + "é" * 100 + "\n" + "x" * 101 + "\ny \n")
        self.write("b.md", "|" + "x" * 200 + "\n" + "y" * 101 + "\n")
        self.assert_found(tidy.check_columns, "a.cc:3: 101 columns", "a.cc:4: space at the end",
                          "b.md:2: 101 columns")

    def test_long_files_are_found(self):
        self.write("a.cc", "\n" * 700)
        self.write("b.cc", "\n" * 701)
        self.assert_found(tidy.check_file_length, "b.cc:700: 701 lines")

    def test_long_functions_are_found_in_each_of_their_forms(self):
        body = "  x();\n" * 69
        self.write("plain.cc", "namespace a {\n// f() {\nint f() {\n" + body + "}\n}\n")
        self.write("member.cc",
                   "struct A : B<int> {\n  A() : a_{1}, b_(2) {\n" + body + "  }\n};\n")
        self.write("test.cc", "TEST(A, B) {\n" + body + "}\n")
        self.write("template.cc", "template <typename T>\nauto f(T x) -> int {\n" + body + "}\n")
        self.write("lambda.cc", "const auto f = [](int x) {\n" + body + "};\n")
        self.write("typed.cc", "auto f = [](int x) -> int {\n" + body + "};\n")
        self.write("good.cc", "int f() {\n" + body[:-7] + "}\nint g() {\n" + body[:-7] + "}\n")
        self.assert_found(tidy.check_function_length, "plain.cc:3: function of 71 lines",
                          "member.cc:2: function of 71 lines", "test.cc:1: function of 71 lines",
                          "template.cc:1: function of 72 lines",
                          "lambda.cc:1: function of 71 lines",
                          "typed.cc:1: function of 71 lines")

    def test_literals_and_directives_do_not_confuse_the_scan(self):
        body = "  x();\n" * 40
        tricky = ('int f() {\n  g("{", \'{\', R"({{")", 1\'000\'000);  // {\n  /* { */\n'
                  "#if A\n  if (a) {\n#else\n  if (b) {\n#endif\n  }\n" + body + "}\n")
        self.write("a.cc", tricky + tricky)
        self.write("table.cc", "const T kTable[] = {\n" + "  {f(1)},\n" * 100 + "};\n")
        self.write("enum.cc", "enum class A : int {\n" + "  b = f(1),\n" * 100 + "};\n")
        self.assert_found(tidy.check_function_length)

    def test_a_brace_that_never_closes_is_found(self):
        self.write("a.cc", "int f() {\n  if (x) {\n}\n")
        self.assert_found(tidy.check_function_length, "a.cc:1: the braces that open here")

    def test_long_python_functions_are_found(self):
        self.write("a.py", "def f():\n" + "    x()\n" * 70)
        self.write("b.py", "def f():\n" + "    x()\n" * 69)
        self.assert_found(tidy.check_function_length, "a.py:1: function of 71 lines")

    def test_headers_are_guarded_and_come_first_in_their_source(self):
        self.write("store/a.h", "// a\n#pragma once\n")
        self.write("store/b.h", "// #pragma once\n")
        self.write("store/a.cc", "// a\n#include <string>\n#include \"store/a.h\"\n")
        self.write("store/b.cc", "#include \"store/b.h\"\n")
        self.assert_found(tidy.check_headers, "store/b.h:1: a header needs",
                          "store/a.cc:2: the first include must be its own header")

    def test_stray_marks_are_found_as_words_only(self):
        self.write("a.cc", "// TO" "DO: later\nmkdtemp(\"kvgate.XX" "XXXX\");\n")
        self.assert_found(tidy.check_stray_marks, "a.cc:1: stray")

    def test_paths_of_one_machine_are_found_and_urls_are_not(self):
        self.write("a.py", 'open("/ho' 'me/me/x")\nget("http://host/ho' 'me/x")\n')
        self.assert_found(tidy.check_machine_paths, "a.py:1: a path of one machine")

    def test_temporary_places_of_ones_own_making_are_found(self):
        self.write("tests/a_test.cc", 'auto a = testing::TempDir() + "x";\nTempFolder b;\n')
        self.write("tests/base/temp_folder.h", "fs::temp_directory_path()\n")
        self.write("store/b.cc", "fs::temp_directory_path()\n")
        self.assert_found(tidy.check_temporary_places, "tests/a_test.cc:1: a temporary place")

    def test_large_files_are_found(self):
        self.write("a.bin", "x" * (300 * 1024 + 1))
        self.write("build/b.bin", "x" * (300 * 1024 + 1))
        self.assert_found(tidy.check_blobs, "a.bin:1: 307201 bytes")

    def test_folders_need_a_short_readme(self):
        self.write("store/a.cc", "")
        self.write("engine/a.cc", "")
        self.write("engine/README.md", "x\n" * 61)
        self.write("tests/store/a_test.cc", "")
        self.assert_found(tidy.check_readmes, "store:1: has sources and no README.md",
                          "engine/README.md:60: 61 lines")

    def test_the_pictures_of_readmes_are_true(self):
        self.write("engine/pool.h", "class BlockPool {\n  void Acquire();\n};\n")
        self.write("engine/README.md", "BlockTree\n```mermaid\nA->>B: BlockPool::Acquire\n```\n")
        self.write("store/README.md",
                   "x\n```mermaid\nA->>B: BlockPool::Release, BlockTree of the Store\n```\n")
        self.assert_found(tidy.check_pictures,
                          "store/README.md:2: a picture names BlockPool::Release",
                          "store/README.md:2: a picture names BlockTree")

    def test_code_in_comments_is_found_and_an_example_is_not(self):
        self.write("a.cc", "// Use: f(1);\n// and then rest.\n\n// g(2);\n// return 3;\n")
        self.assert_found(tidy.check_commented_code, "a.cc:5: code that is commented out")

    def test_scripts_are_executable_and_strict(self):
        self.write("a", "#!/usr/bin/env bash\nset -euo pipefail\n")
        os.chmod(self.write("b", "#!/usr/bin/env bash\nset -e\n"), 0o755)
        os.chmod(self.write("c", "#!/usr/bin/env bash\nset -euo pipefail\n"), 0o755)
        self.assert_found(tidy.check_scripts, "a:1: starts with #! and is not executable",
                          "b:1: a bash script needs")

    def test_the_program_fails_on_a_finding_and_passes_without(self):
        self.write("README.md", README)
        with mock.patch("sys.argv", ["tidy.py", self.folder.name]):
            self.assertEqual(tidy.main(), 0)
            self.write("a.cc", "// TO" "DO\n")
            self.assertEqual(tidy.main(), 1)


if __name__ == "__main__":
    unittest.main()
