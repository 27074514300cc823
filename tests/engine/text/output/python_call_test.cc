#include "engine/text/output/python_call.h"

#include <gtest/gtest.h>

namespace kvgate::output {
namespace {

std::string Read(std::string_view code, std::span<const ToolShape> tools = {}) {
  const auto call = ReadPythonCall(code, tools);
  return call ? call->name + call->arguments : "none";
}

TEST(PythonCallTest, KeywordsBecomeAnObject) {
  EXPECT_EQ(Read("brave_search.call(query=\"a (b), c\", n=3)"),
            R"(brave_search{"query": "a (b), c", "n": 3})");
  EXPECT_EQ(Read("f.call()"), "f{}");
  EXPECT_EQ(Read("f.call(a='it\\'s', b=True, c=None, d=[1, \"x\"])"),
            R"(f{"a": "it's", "b": true, "c": null, "d": [1, "x"]})");
}

TEST(PythonCallTest, OtherCodeIsForTheToolThatRunsCode) {
  const std::vector<ToolShape> tools = {{.name = "python", .text_arguments = {}}};
  EXPECT_EQ(Read("print(\"x\")\n", tools), R"(python{"code": "print(\"x\")\n"})");
  EXPECT_EQ(Read("print(\"x\")"), "none");
}

TEST(PythonCallTest, LiteralsBecomeJson) {
  const auto json = [](std::string_view literal) { return PythonToJson(literal).value_or("none"); };
  EXPECT_EQ(json("'a\\'b\\n\"\\x41\\u00e9'"), "\"a'b\\n\\\"A\u00e9\"");
  EXPECT_EQ(json("'\\ud83d\\ude00' \"two\""), "\"\U0001F600two\"");
  EXPECT_EQ(json("'''it's \"so\"'''"), R"("it's \"so\"")");
  EXPECT_EQ(json("[1, 'a', (True, None,), {'k': [1.5], 2: false}]"),
            R"([1, "a", [true, null], {"k": [1.5], "2": false}])");
  EXPECT_EQ(json("1_000"), "1000");
  EXPECT_EQ(json("+5."), "5.0");
  for (const char* bad : {"", "name", "[1", "{'a'}", "'open", "1 2", "nan", "f(1)"}) {
    EXPECT_EQ(json(bad), "none") << bad;
  }
}

TEST(PythonCallTest, ArgumentsEndWhereTheirParenthesisDoes) {
  const auto read = [](std::string_view text) {
    PythonArguments arguments;
    std::string json;
    for (size_t i = 0; i < text.size(); ++i) {
      const ScanStatus status = arguments.Step(text[i], json);
      if (status == ScanStatus::kDone) return json + "@" + std::string(text.substr(i + 1));
      if (status == ScanStatus::kFailed) return json + "!";
    }
    return json;
  };
  EXPECT_EQ(read("a='x), y=\\'', b=[1, (2)], c=\"\"\"q\"))\"\"\") rest"),
            R"x({"a": "x), y='", "b": [1, [2]], "c": "q\"))"}@ rest)x");
  EXPECT_EQ(read("a='', b='')"), R"({"a": "", "b": ""}@)");
  EXPECT_EQ(read("a=some words)"), R"({"a": "some words"}@)");
  EXPECT_EQ(read("'positional')"), "!");
  EXPECT_EQ(read("a=1, b="), R"({"a": 1)");
}

TEST(PythonCallTest, WhatIsCutShortIsNoCall) {
  for (const char* code : {"f.call(", "f.call(a", "f.call(a=", "f.call(a=\"x", "f.call(a=1", "f",
                           "f.call(a=1) + 2", ".call()", ""}) {
    EXPECT_EQ(Read(code), "none") << code;
  }
}

}  // namespace
}  // namespace kvgate::output
