#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::builtins {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(FiltersNumberTest, NumbersAreMadeAsInPython) {
  ExpectRendered({
      {"{{ '42'|int }} {{ '42.9'|int }} {{ 'x'|int(7) }} {{ '0x1F'|int(base=16) }} {{ ' 1_0 '|int "
       "}} {{ 3.9|int }} {{ true|int }} {{ none|int }} {{ '-5'|int }} {{ '1e3'|int }}",
       "42 42 7 31 10 3 1 0 -5 1000"},
      {"{{ '3.5'|float }} {{ 'z'|float }} {{ 2|float }} {{ ' 1e2 '|float }} {{ 'inf'|float }} {{ "
       "'nan'|float }} {{ none|float(1.5) }}",
       "3.5 0.0 2.0 100.0 inf nan 1.5"},
      {"{{ 2.567|round(2) }} {{ 2.5|round }} {{ 3.5|round|int }} {{ 42.55|round(1, 'floor') }} {{ "
       "42.1|round(0, 'ceil') }} {{ 1234567.891|round(-3) }} {{ 5|round }} {{ 2.675|round(2) }} {{ "
       "15|round(-1) }} {{ 25|round(-1) }}",
       "2.57 2.0 4 42.5 43.0 1235000.0 5 2.67 20 20"},
      {"{{ 1|round(0, 'x') }}", kFails},
      {"{{ -3|abs }} {{ -3.5|abs }}", "3 3.5"},
      {"{{ 'a'|abs }}", kFails},
      {"{{ l|sum }} {{ users|sum(attribute='age') }} {{ [1.5, 2]|sum(start=10) }} {{ []|sum }}",
       "8 85 13.5 0"},
      {"{{ ['a']|sum }}", kFails},
      {"{{ 10|filesizeformat }} {{ 123456|filesizeformat }} {{ 123456|filesizeformat(true) }} {{ "
       "1|filesizeformat }}",
       "10 Bytes 123.5 kB 120.6 KiB 1 Byte"},
  });
}

}  // namespace
}  // namespace kvgate::jinja::builtins
