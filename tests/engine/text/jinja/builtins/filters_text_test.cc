#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::builtins {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(FiltersTextTest, TextIsChangedAsInJinja2) {
  ExpectRendered({
      {"{{ s|upper }} {{ s|lower }} {{ s|title }} {{ s|capitalize }} {{ 'a-b (c) {d'|title }} {{ "
       "'ß'|upper }} {{ 'ΑΣ'|lower }}",
       "HELLO, WÖRLD SS! hello, wörld ß! Hello, Wörld SS! Hello, wörld ß! A-B (C) {D SS ας"},
      {"{{ s|replace('l', 'L', 1) }} {{ s|replace('l', '') }} {{ 'aa'|replace('', '-') }} {{ "
       "12|replace(1, 'x') }}",
       "HeLlo, Wörld ß! Heo, Wörd ß! -a-a- x2"},
      {"{{ '  x '|trim }}|{{ 'xxabx'|trim('x') }}|", "x|ab|"},
      {"{{ '<a href=\"x\">&\\''|e }} {{ '<'|e|e }} {{ '<'|e|forceescape }} {{ '<'|safe|e }}",
       "&lt;a href=&#34;x&#34;&gt;&amp;&#39; &lt; &amp;lt; <"},
      {"{{ ('<'|safe) + '<' }} {{ '<' + ('<'|e) }} {{ ('<'|e) ~ '<' }} {{ ('<'|safe) is escaped }}",
       "<&lt; &lt;&lt; &lt;< True"},
      {"{{ '<b>hi</b> <!-- c -->  <i>x</i>&amp;&lt;'|striptags }}", "hi x&<"},
      {"{{ 'a b&c/é'|urlencode }} {{ {'a': 1, 'b': 'x y'}|urlencode }} {{ [('k', '/')]|urlencode "
       "}}",
       "a%20b%26c/%C3%A9 a=1&b=x+y k=%2F"},
      {"{{ {'a': 1, 'b': none, 'c': '<'}|xmlattr }}|{{ {'a': 1}|xmlattr(false) }}",
       " a=\"1\" c=\"&lt;\"|a=\"1\""},
      {"{{ {'a b': 1}|xmlattr }}", kFails},
      {"{{ '%s %s'|format(1, 2) }} {{ '%(x)s'|format(x=3) }}", "1 2 3"},
      {"{{ '%s'|format(1, 2) }}", kFails},
  });
}

}  // namespace
}  // namespace kvgate::jinja::builtins
