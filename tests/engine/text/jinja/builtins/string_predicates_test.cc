#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::builtins {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(StringPredicatesTest, AnswersAreThoseOfPythonsStr) {
  ExpectRendered({
      {"{{ s.startswith('He') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith('!') }} {{ "
       "s.startswith('W', 7) }} {{ s.endswith('o', 0, 5) }} {{ s.startswith('') }}",
       "True True True True True True"},
      {"{{ s.find('l') }} {{ s.rfind('l') }} {{ s.count('l') }} {{ s.index('W') }} {{ s.find('zz') "
       "}} {{ s.find('ß') }} {{ s.find('l', 4) }} {{ s.find('', 99) }} {{ s.count('') }} {{ "
       "s.rfind('', 1, 3) }}",
       "2 10 3 7 -1 13 10 -1 16 3"},
      {"{{ s.index('zz') }}", kFails},
      {"{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ "
       "'AB1'.isupper() }} {{ 'ab'.islower() }} {{ 'Ab Cd'.istitle() }} {{ '½'.isnumeric() }} {{ "
       "'²'.isdigit() }} {{ '²'.isdecimal() }} {{ 'é'.isidentifier() }} {{ ''.isalpha() }} {{ "
       "''.isascii() }} {{ '\\n'.isprintable() }}",
       "True True True True True True True True True False True False True False"},
      {"{{ s.startswith(1) }}", kFails},
      {"{{ s.find(1) }}", kFails},
  });
}

}  // namespace
}  // namespace kvgate::jinja::builtins
