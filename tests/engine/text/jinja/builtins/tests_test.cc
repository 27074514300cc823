#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::builtins {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(TestsTest, TestsAnswerAsInJinja2) {
  ExpectRendered({
      {"{{ x is defined }} {{ n is defined }} {{ x is undefined }} {{ d.zz is defined }} {{ none "
       "is none }} {{ none is defined }}",
       "False True True False True True"},
      {"{{ n is number }} {{ f is float }} {{ n is integer }} {{ yes is integer }} {{ yes is "
       "number }} {{ yes is boolean }} {{ yes is true }} {{ 1 is true }} {{ false is false }}",
       "True True True False True True True False True"},
      {"{{ s is string }} {{ d is mapping }} {{ l is iterable }} {{ s is iterable }} {{ 5 is "
       "iterable }} {{ l is sequence }} {{ d is sequence }} {{ d.items() is sequence }} {{ "
       "range(2) is sequence }} {{ l|map('abs') is sequence }}",
       "True True True True False True True False True False"},
      {"{{ n is even }} {{ n is odd }} {{ n is divisibleby 7 }} {{ n is divisibleby(5) }} {{ n is "
       "not divisibleby 2 }}",
       "True False True False False"},
      {"{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 1 is lower }}", "True True False"},
      {"{{ 3 is in l }} {{ 'a' is in 'abc' }} {{ n is eq 42 }} {{ n is ne 42 }} {{ n is gt 1 }} {{ "
       "n is lessthan 1 }} {{ n is ge(42) }} {{ s is equalto s }}",
       "True True True False True False True True"},
      {"{{ 1 is sameas 1 }} {{ 1 is sameas true }} {{ none is sameas none }} {{ l is sameas l }} "
       "{{ [] is sameas [] }}",
       "True False True True False"},
      {"{{ 'upper' is filter }} {{ 'x' is filter }} {{ 'odd' is test }} {{ range is callable }} {{ "
       "n is callable }} {{ s.upper is callable }}",
       "True False True True False True"},
      {"{{ 'a' is odd }}", kFails},
      {"{{ n is divisibleby }}", kFails},
      {"{{ n is odd is even }}", kFails},
  });
}

}  // namespace
}  // namespace kvgate::jinja::builtins
