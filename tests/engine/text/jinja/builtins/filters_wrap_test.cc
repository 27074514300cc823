#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::builtins {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(FiltersWrapTest, TextIsLaidOutAsInJinja2) {
  ExpectRendered({
      {"{{ lines|indent }}", "one\n\n      two\n    three"},
      {"{{ lines|indent(2, true, true) }}", "  one\n  \n    two\n  three"},
      {"{{ lines|indent('> ', first=true) }}", "> one\n\n>   two\n> three"},
      {"{{ 5|indent }}", kFails},
      {"{{ 'x'|center(7) }}|{{ 'ab'|center(5) }}|", "   x   |  ab |"},
      {"{{ s|truncate(5) }} {{ s|truncate(8, true, '', 0) }} {{ s|truncate(6, leeway=0) }} {{ "
       "s|truncate(300) }}",
       "He... Hello, W Hel... Hello, Wörld ß!"},
      {"{{ s|truncate(1) }}", kFails},
      {"{{ s|wordcount }} {{ 'a_b, c-d'|wordcount }}", "3 3"},
      {"{{ 'The quick well-known fox -- jumps'|wordwrap(8) }}",
       "The\nquick\nwell-\nknown\nfox --\njumps"},
      {"{{ 'abcdefghij kl'|wordwrap(4) }}", "abcd\nefgh\nij\nkl"},
      {"{{ 'abcdefghij kl'|wordwrap(4, false) }}", "abcdefghij\nkl"},
      {"{{ lines|wordwrap(2, wrapstring='/') }}", "on/e//  /tw/o/th/re/e"},
  });
}

}  // namespace
}  // namespace kvgate::jinja::builtins
