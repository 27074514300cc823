#include "engine/text/jinja/builtins/formatting.h"

#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::builtins {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(FormattingTest, FormatsAreThoseOfPython) {
  ExpectRendered({
      {"{{ '%s is %05.2f and %d %x %-5s| %5s %%' % ('a', 3.14159, 42, 255, 'ab', 'cd') }} {{ "
       "'%(a)s' % {'a': 1} }}",
       "a is 03.14 and 42 ff ab   |    cd % 1"},
      {"{{ '%+d % d %05d %#x %o %X %c %r %.2s %*d' % (1, 2, -3, 255, 8, 255, 'x', 'q', 'abc', 4, "
       "7) }}",
       "+1  2 -0003 0xff 10 FF x 'q' ab    7"},
      {"{{ '%e %g %G %.3g %.0f' % (12345.678, 0.00001, 1e20, 1234567.0, 2.5) }}",
       "1.234568e+04 1e-05 1E+20 1.23e+06 2"},
      {"{{ '%s' % none }} {{ '%s' % [1] }} {{ '%s %s' % (1, [2]) }} {{ 'x' % [] }} {{ 'x' % {} }}",
       "None [1] 1 [2] x x"},
      {"{{ 'x' % missing }} {{ 'x' % range(3) }} {{ 'x' % [1] }}", "x x x"},
      {"{{ 'x' % 1 }}", kFails},
      {"{{ 'x' % d.items() }}", kFails},
      {"{{ '%s' % (1, 2) }}", kFails},
      {"{{ '%s %s' % 1 }}", kFails},
      {"{{ '%d' % 'a' }}", kFails},
      {"{{ '%q' % 1 }}", kFails},
      {"{{ '%' % 1 }}", kFails},
      {"{{ '%(a)s' % 1 }}", kFails},
      {"{{ '%(z)s' % {} }}", kFails},
      {"{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}{x}'.format(1, 2, x=3) }} {{ '{{}}'.format() }}",
       "1 a 213 {}"},
      {"{{ '{0:>5}|{0:<5}|{0:^5}|{0:*^5}|{1:05d}|{1:+}|{1:,}|{1:_}|{1:b}|{1:#x}'.format('ab', "
       "12345) }}",
       "   ab|ab   | ab  |*ab**|12345|+12345|12,345|12_345|11000000111001|0x3039"},
      {"{{ '{:.2f} {:8.3f} {:e} {:g} {:%} {:,.1f} {}'.format(2.5, 3.14159, 1234.5, 0.1, 0.25, "
       "12345.67, 1.0) }}",
       "2.50    3.142 1.234500e+03 0.1 25.000000% 12,345.7 1.0"},
      {"{{ '{x!r} {x!s:>4} {d[b]} {d.a} {l[1]}'.format(x='q', d=d, l=l) }} {{ '{:{}}|'.format('a', "
       "4) }}",
       "'q'    q 1 x 1 a   |"},
      {"{{ '{:.2}|{:5}|{!r}'.format('abc', true, 'x') }}", "ab|    1|'x'"},
      {"{{ '{} {1}'.format(1, 2) }}", kFails},
      {"{{ '{}'.format() }}", kFails},
      {"{{ '{'.format() }}", kFails},
      {"{{ '}'.format() }}", kFails},
      {"{{ '{:d}'.format('a') }}", kFails},
      {"{{ '{:q}'.format(1) }}", kFails},
      {"{{ '{x}'.format() }}", kFails},
      {"{{ '{:.2}'.format(1) }}", kFails},
  });
}

}  // namespace
}  // namespace kvgate::jinja::builtins
