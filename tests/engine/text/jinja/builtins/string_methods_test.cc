#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::builtins {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(StringMethodsTest, MethodsAreThoseOfPythonsStr) {
  ExpectRendered({
      {"{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ \"they're\".title() }} {{ s.swapcase() "
       "}} {{ 'aB'.capitalize() }} {{ 'ŉ'.upper() }} {{ 'ΑΣ ΑΣ.'.lower() }}",
       "HELLO, WÖRLD SS! hello, wörld ß! Hello, Wörld Ss! They'Re hELLO, wÖRLD SS! Ab ʼN ας ας."},
      {"{{ s.split() }} {{ s.split(', ') }} {{ 'a,b,,c'.split(',') }} {{ 'a b c'.split(' ', 1) }} "
       "{{ 'a b  c'.rsplit(None, 1) }} {{ '  a  b '.split() }} {{ ''.split() }} {{ ''.split(',') "
       "}} {{ 'a b c'.split(maxsplit=1) }}",
       "['Hello,', 'Wörld', 'ß!'] ['Hello', 'Wörld ß!'] ['a', 'b', '', 'c'] ['a', 'b c'] ['a b', "
       "'c'] ['a', 'b'] [] [''] ['a', 'b c']"},
      {"{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a=b=c'.partition('=') }} {{ "
       "'a=b=c'.rpartition('=') }} {{ 'a'.partition('=') }} {{ 'a'.rpartition('=') }}",
       "['one', '', '  two', 'three'] ['one\\n', '\\n', '  two\\r\\n', 'three'] ('a', '=', 'b=c') "
       "('a=b', '=', 'c') ('a', '', '') ('', '', 'a')"},
      {"{{ '  x '.strip() }}|{{ 'xxabcxx'.strip('x') }}|{{ 'xxabc'.lstrip('xa') }}|{{ "
       "'abc'.rstrip('c') }}|{{ '\\u3000x'.strip() }}|{{ 'x'.strip(none) }}",
       "x|abc|bc|ab|x|x"},
      {"{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'abc'.removeprefix('x') }} "
       "{{ 'a\\tb'.expandtabs(4) }}",
       "bc ab abc a   b"},
      {"{{ '5'.zfill(3) }} {{ '-5'.zfill(4) }} {{ 'a'.ljust(3, '*') }} {{ 'a'.rjust(3) }}|{{ "
       "'ab'.center(5, '*') }}|{{ 'abc'.center(6) }}|",
       "005 -005 a**   a|**ab*| abc  |"},
      {"{{ s.replace('l', 'L') }} {{ s.replace('l', '', 1) }} {{ 'ab'.replace('', '-') }} {{ ', "
       "'.join(['a', 'b']) }}",
       "HeLLo, WörLd ß! Helo, Wörld ß! -a-b- a, b"},
      {"{{ ', '.join([1]) }}", kFails},
      {"{{ 'a'.split('') }}", kFails},
      {"{{ 'a'.ljust(3, 'xy') }}", kFails},
      {"{{ 'a'.upper(1) }}", kFails},
      {"{{ 'a'.replace('b') }}", kFails},
      {"{{ 'a'.split(x=1) }}", kFails},
  });
}

}  // namespace
}  // namespace kvgate::jinja::builtins
