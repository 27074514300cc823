#include "engine/text/jinja/parse/parser.h"

#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::parse {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(ParserTest, WhatIsNoTemplateIsRefused) {
  ExpectRendered({
      {"{% if x %}", kFails},
      {"{% endif %}", kFails},
      {"{% for x in y %}{% endif %}", kFails},
      {"{{ }}", kFails},
      {"{{ 1 2 }}", kFails},
      {"{% set %}", kFails},
      {"{% set 1 = 2 %}", kFails},
      {"{% set x.y.z = 2 %}", kFails},
      {"{% for x y %}{% endfor %}", kFails},
      {"{% nosuch %}", kFails},
      {"{% %}", kFails},
      {"{{ x. }}", kFails},
      {"{{ x['a' }}", kFails},
      {"{{ f(a=1, 2) }}", kFails},
      {"{{ f(**a, *b) }}", kFails},
      {"{{ f(a=1, a=2) }}", kFails},
      {"{% macro %}{% endmacro %}", kFails},
      {"{% call x %}{% endcall %}", kFails},
      {"{{ x if }}", kFails},
      {"{{ x is }}", kFails},
      {"{{ x| }}", kFails},
      {"{{ {1} }}", kFails},
      {"{% with x %}{% endwith %}", kFails},
      {"{% block a-b %}{% endblock %}", kFails},
      {"{% include 'x' %}", kFails},
      {"{% extends 'x' %}", kFails},
      {"{% import 'x' as y %}", kFails},
      {"{% else %}", kFails},
      {"{{ 'a' if 'b' else }}", kFails},
      {"{% if %}{% endif %}", kFails},
      {"{{ x !y }}", kFails},
      {"{% raw %}x", kFails},
      {"{# c", kFails},
  });
}

TEST(ParserTest, OddButValidTemplatesAreRead) {
  ExpectRendered({
      {"{% if x: %}{% endif %}{% for i in l: %}{{ i }}{% endfor %}", "3122"},
      {"{{ (1, 2), }} {{ 1, }}", "((1, 2),) (1,)"},
      {"{{ [1, 2,] }}{{ {'a': 1,} }}{{ dict(a=1,) }}", "[1, 2]{'a': 1}{'a': 1}"},
      {"{{ (d)['b'] }}", "1"},
      {"{{ f.real.real }}{{ 'a'.upper().lower() }}{{ [1][0] }}{{ (l|first) }}", "3.5a13"},
      {"{% if not x and not e or n %}y{% endif %}", "y"},
      {"{{ n is not none and n is number }}", "True"},
      {"{{ 'x' is eq 'x' and true }}", "True"},
      {"{%if n%}a{%else%}b{%endif%}", "a"},
      {"{{n}}{{-n-}}{{- n -}}", "424242"},
      {"{% set x = 1, 2 %}{{ x }}", "(1, 2)"},
      {"{% for i in 1, 2 %}{{ i }}{% endfor %}", "12"},
      {"{% for i in [1] if true recursive %}{{ i }}{% endfor %}", "1"},
      {"{{ {'a': 1}['a'] }} {{ 'a,b'.split(',')[0] }}", "1 a"},
  });
}

}  // namespace
}  // namespace kvgate::jinja::parse
