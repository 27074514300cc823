#include "engine/text/jinja/syntax/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::syntax {
namespace {

// Measured: at most 1.7.
constexpr double kTimesMax = 3;

// Returns the CPU time of this thread, because a busy machine says nothing about the template.
double CpuMs() {
  std::timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// Returns the CPU time of a template that uses up all its steps with the cheapest there are, as
// this machine and build run it: no template may need many times as long.
double CheapestBombMs() {
  const double started = CpuMs();
  EXPECT_FALSE(
      TryRender("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}"
                "{% endfor %}",
                {}));
  return CpuMs() - started;
}

void ExpectEnds(const std::string& source, const value::Data::Dict& variables = {}) {
  static const double cheapest_ms =
      std::min({CheapestBombMs(), CheapestBombMs(), CheapestBombMs()});
  const double started = CpuMs();
  const auto rendered = TryRender(source, variables);
  const double elapsed = CpuMs() - started;
  ASSERT_FALSE(rendered) << source.substr(0, 200) << " gave " << rendered->text.size();
  EXPECT_LE(elapsed, kTimesMax * cheapest_ms) << source.substr(0, 200) << rendered.error().message;
}

TEST(LimitsTimingTest, ATemplateBombEndsWithAnErrorSoon) {
  for (const char* source : {
           "{{ 'x' * 10**9 }}",
           "{{ 'x' * 10**18 }}",
           "{{ [0] * 10**9 }}",
           "{{ range(10**9) }}",
           "{{ 'x'|center(10**9) }}",
           "{{ 'x'.ljust(10**12) }}",
           "{{ 'x'.zfill(10**10) }}",
           "{{ 'x'|indent(10**9) }}",
           "{{ '%1000000000d' % 1 }}",
           "{{ '{:1000000000}'.format(1) }}",
           "{{ '%.*f' % (10**9, 1.5) }}",
           "{{ [1]|tojson(indent=10**9) }}",
           "{{ [1]|batch(10**9, 0)|list }}",
           "{{ [1]|slice(10**9)|list }}",
           "{{ 'a\tb'.expandtabs(10**10) }}",
           "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
           "{% endfor %}{{ ns.x }}",
           "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
           "{% endfor %}{{ ns.x }}",
           "{% set ns = namespace(x=['ab']) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}"
           "{% endfor %}{{ ns.x }}",
           "{% set ns = namespace(x=['ab']) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}"
           "{% endfor %}{{ ns.x|tojson }}",
           "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}"
           "{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
           "{% set n = namespace(x=(1,)) %}{% for i in range(60) %}{% set n.x = (n.x, n.x) %}"
           "{% endfor %}{{ {n.x: 1} }}",
           "{% set n = namespace(x=[]) %}{% for i in range(50000) %}{% set n.x = [n.x] %}"
           "{% endfor %}{{ n.x }}",
           "{% set n = namespace(x=()) %}{% for i in range(50000) %}{% set n.x = (n.x,) %}"
           "{% endfor %}{{ {n.x: 1} }}",
           "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
           "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
           "{% for i in range(99999) if range(99999)|sum < 0 %}{% endfor %}",
           "{% for i in range(99999) %}{% set x = range(99999)|list|sort(reverse=true) %}{% endfor "
           "%}",
           "{% set l = range(99999)|list %}{% for i in l %}{% if -1 in l %}{% endif %}{% endfor %}",
           "{% set s = 'x' * 999999 %}{% for i in range(99999) %}{% if 'y' in s %}{% endif %}"
           "{% endfor %}",
           "{% set s = 'x' * 999999 %}{% for i in range(99999) %}{% set t = s|replace('y', 'z') %}"
           "{% endfor %}",
           "{% set s = 'x' * 999999 %}{% for i in range(99999) %}{% set t = s|upper %}{% endfor %}",
           "{% set s = 'x ' * 499999 %}{% for i in range(99999) %}{% set t = s.split() %}{% endfor "
           "%}",
           "{% set s = 'x' * 999999 %}{% for i in range(99999) %}{{ s[i:] }}{% endfor %}",
           "{% set s = '\u00e9' * 499999 %}{% for i in range(99999) %}{% set c = s[i] %}{% endfor "
           "%}",
           "{% set s = 'x' * 999999 %}{% for i in range(99999) %}{% set d = {s: i} %}{% endfor %}",
           "{% set s = ' ' * 999999 ~ 'x' %}{% for i in range(99999) %}{% set t = s|trim %}"
           "{% endfor %}",
           "{% set s = 'a ' * 99999 %}{% for i in range(999) %}{% set t = s|wordwrap(3) %}{% "
           "endfor %}",
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
           "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
           "{{ m(60) }}",
           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{% macro a() %}{{ caller() }}{% endmacro %}{% macro b() %}{% call a() %}{{ b() }}"
           "{% endcall %}{% endmacro %}{{ b() }}",
           "{% set x = 'ab' * 9999 %}{{ ((x|list)|map('replace', 'a', x)|join)|length }}",
       }) {
    ExpectEnds(source);
  }
}

TEST(LimitsTimingTest, DeepSourceIsRefusedWithoutAStackOverflow) {
  const auto repeat = [](std::string_view text, size_t count) {
    std::string repeated;
    for (size_t i = 0; i < count; ++i) repeated += text;
    return repeated;
  };
  for (const std::string& source :
       {"{{ " + repeat("(", 100'000) + "1" + repeat(")", 100'000) + " }}",
        "{{ " + repeat("[", 9'000) + repeat("]", 9'000) + " }}",
        "{{ " + repeat("not ", 100'000) + "1 }}", "{{ " + repeat("-", 100'000) + "1 }}",
        "{{ " + repeat("1 + ", 100'000) + "1 }}", "{{ x" + repeat(".x", 100'000) + " }}",
        "{{ x" + repeat("()", 100'000) + " }}", "{{ x" + repeat("|e", 100'000) + " }}",
        "{{ " + repeat("1 if x else ", 50'000) + "1 }}", repeat("{% if x %}", 50'000),
        repeat("{% for x in y %}", 50'000), repeat("{% macro m() %}", 50'000),
        repeat("{% if x %}{% elif y %}", 50'000)}) {
    ExpectEnds(source);
  }
  const auto large = Template::Parse(std::string(kSourceBytesMax + 1, 'x'));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().kind, Failure::Kind::kLimit);
}

TEST(LimitsTest, WhatARealTemplateNeedsIsAllowed) {
  EXPECT_EQ(Render("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% else %}end{% endif %}{% endmacro %}"
                   "{{ m(100) }}"),
            "end");
  std::string sum = "{{ 1";
  for (int i = 0; i < 500; ++i) sum += " + 1";
  EXPECT_EQ(Render(sum + " }}"), "501");
  std::string elifs = "{% if x == 0 %}0";
  for (int i = 1; i < 1000; ++i) elifs += "{% elif x == " + std::to_string(i) + " %}y";
  EXPECT_EQ(Render(elifs + "{% endif %}", {{"x", 999}}), "y");
}

TEST(LimitsTest, ALongConversationIsNoBomb) {
  value::Data::List messages;
  for (int i = 0; i < 5000; ++i) {
    messages.push_back(value::Data::Dict{{"role", i % 2 ? "assistant" : "user"},
                                         {"content", std::string(400, 'x')}});
  }
  const auto rendered = TryRender(
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('no') }}{% endif %}{{ '<' ~ m['role'] ~ '>' + m['content']|trim }}"
      "{% endfor %}",
      {{"messages", std::move(messages)}});
  ASSERT_TRUE(rendered) << rendered.error().ToString("");
  EXPECT_GT(rendered->text.size(), 2'000'000u);
}

}  // namespace
}  // namespace kvgate::jinja::syntax
