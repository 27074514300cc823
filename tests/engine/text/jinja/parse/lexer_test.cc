#include "engine/text/jinja/parse/lexer.h"

#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::parse {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(LexerTest, WhitespaceIsTrimmedAsTransformersAsksJinja2To) {
  ExpectRendered({
      {"  {% if true %}\n   x\n  {%- endif +%}\n  y\n{#- comment -#}   z  {{- ' a ' -}}   b",
       "   x\n  yz a b"},
      {"a\n  {% set x = 1 %}  \n  {{ x }}\n", "a\n  \n  1"},
      {"a {% set x = 1 %}\nb", "a b"},
      {"  {%+ set x = 1 %}\nb", "  b"},
      {"{% set x = 1 +%}\nb", "\nb"},
      {"a\n\n", "a\n"},
      {"a\n", "a"},
      {"\n\na", "\n\na"},
      {"{# c #}\nx\n  {# c #}\n  y", "x\n  y"},
      {"{{ 1 }}\n{{ 2 }}", "1\n2"},
      {"{% raw %}\n {{ x }} {% y %}\n{% endraw %}\nz", "\n {{ x }} {% y %}\nz"},
      {"a {%- raw -%}  {{ x }}  {%- endraw -%} z", "a{{ x }}z"},
      {"a\r\n{% if true %}\r\nb\r\n{% endif %}c", "a\nb\nc"},
      {"x{#", "x"},
      {"{ {a} %} }} #}", "{ {a} %} }} #}"},
  });
}

TEST(LexerTest, LiteralsAreReadAsPythonReadsThem) {
  ExpectRendered({
      {"{{ 'a' 'b' \"c\" }}{{ 'it''s' }}", "abcits"},
      {"{{ '\\n\\t\\x41\\u00e9\\101\\q\\\\\\'' }}", "\n\tAéA\\q\\'"},
      {"{{ 'a\\\nb' }}", "ab"},
      {"{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 00 }} {{ 1e3 }} {{ 1.5e-3 }} {{ 1_0.2_5 "
       "}}",
       "1000 31 5 15 0 1000.0 0.0015 10.25"},
      {"{{ 007 }}", kFails},
      {"{{ 1. }}", kFails},
      {"{{ 'a }}", kFails},
      {"{{ (1 }}", kFails},
      {"{{ 1) }}", kFails},
      {"{{ [1} }}", kFails},
      {"{{ a ? b }}", kFails},
      {"{{ {'a': {}} }}", "{'a': {}}"},
      {"{{ x.1 is defined }}{{ l.0 }}", kFails},
  });
}

}  // namespace
}  // namespace kvgate::jinja::parse
