#include "engine/reply/python_call.h"

#include <gtest/gtest.h>

namespace kvgate::reply {
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

TEST(PythonCallTest, WhatIsCutShortIsNoCall) {
  for (const char* code : {"f.call(", "f.call(a", "f.call(a=", "f.call(a=\"x", "f.call(a=1", "f",
                           "f.call(a=1) + 2", ".call()", ""}) {
    EXPECT_EQ(Read(code), "none") << code;
  }
}

}  // namespace
}  // namespace kvgate::reply
