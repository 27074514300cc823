#include "engine/text/jinja/evaluator.h"

#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(EvaluatorTest, LoopsKnowWhereTheyAre) {
  ExpectRendered({
      {"{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }} "
       "{% endfor %}",
       "1043 2132 3221 4310 "},
      {"{% for i in l %}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
       "TrueFalse4 FalseFalse4 FalseFalse4 FalseTrue4 "},
      {"{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}",
       "<3>1 3<1>2 1<2>2 2<2> "},
      {"{% for i in l %}{{ loop.cycle('a', 'b', 'c') }}{{ loop.changed(i) }} {% endfor %}",
       "aTrue bTrue cTrue aFalse "},
      {"{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% else %}none{% "
       "endfor %}",
       "1/3:3 2/3:2 3/3:2 "},
      {"{% for i in l if i > 9 %}x{% else %}none{% endfor %}{% for i in missing %}x{% else "
       "%}empty{% endfor %}",
       "noneempty"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
       "b=1;a=x;é=[1, {'k': None}];baé"},
      {"{% for c in 'añb' %}{{ c }}.{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b "
       "}}{{ c }}{% endfor %}",
       "a.ñ.b.123"},
      {"{% for n in tree recursive %}{{ n.v }}{{ loop.depth }}{{ loop.depth0 }}{% if n.c %}({{ "
       "loop(n.c) }}){% endif %}{% endfor %}",
       "110(221321(432))"},
      {"{% for i in l %}{% for j in [1] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
       "11121314"},
      {"{% for i in 5 %}{% endfor %}", kFails},
      {"{% for a, b in [[1]] %}{% endfor %}", kFails},
      {"{{ loop.index }}", kFails},
      {"{% for i in l %}{{ loop(l) }}{% endfor %}", kFails},
  });
}

TEST(EvaluatorTest, BreakAndContinueLeaveTheLoop) {
  ExpectRendered({
      {"{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break "
       "%}{% endif %}{{ i }}{% endfor %}",
       "0134"},
      {"{% for i in l %}{% break %}{% else %}else runs{% endfor %}", "else runs"},
      {"{% for i in l %}{% continue %}{% else %}else runs{% endfor %}", "else runs"},
      {"{% for i in l %}{% filter upper %}a{% if i == 1 %}{% break %}{% endif %}b{% endfilter %}{% "
       "endfor %}",
       "AB"},
      {"{% break %}", kFails},
      {"{% macro m() %}{% break %}{% endmacro %}", kFails},
      {"{% for i in l %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}", kFails},
  });
}

TEST(EvaluatorTest, AScopeHidesWhatItSetsAndLetsNothingOut) {
  ExpectRendered({
      {"{% set x = 1 %}{% for i in l %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
       "14 12 13 13 1"},
      {"{% for i in l %}{% if loop.first %}{% set y = 5 %}{% endif %}{{ y }}.{% endfor %}{{ y }}",
       "5...."},
      {"{% if true %}{% set x = 1 %}{% endif %}{{ x }}", "1"},
      {"{% if false %}{% set n = 1 %}{% endif %}{{ n }}", "42"},
      {"{% set x %}{% set z = 1 %}{{ z }}{% endset %}{{ x }}{{ z }}", "1"},
      {"{% filter upper %}{% set z = 'a' %}{{ z }}{% endfilter %}{{ z }}", "A"},
      {"{% with a = 1, b = n %}{{ a }}{{ b }}{% set n = 7 %}{{ n }}{% endwith %}{{ a }}{{ n }}",
       "142742"},
      {"{% with n = 1, m = n %}{{ m }}{% endwith %}", "42"},
      {"{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x "
       "}} {{ ns }} {{ ns['x'] }} {{ ns.y is defined }}",
       "8 <Namespace {'x': 8}> 8 False"},
      {"{% set q = 1 %}{% set q.x = 1 %}", kFails},
      {"{% macro m() %}{{ z }}{% endmacro %}{% set z = 5 %}{{ m() }}", "5"},
      {"{% macro m() %}{{ n }}{% endmacro %}{{ m() }}|{% set n = 5 %}{{ m() }}", "|5"},
      {"{% for i in [1] %}{{ n }}{% endfor %}|{% set n = 1 %}{{ n }}", "|1"},
      {"{{ n }}{% for i in [1] %}{{ n }}{% endfor %}{% set n = 1 %}{{ n }}", "42421"},
      {"{% set a, b = 1, [2] %}{{ a }}{{ b }}", "1[2]"},
      {"{% set a, b = [1] %}", kFails},
      {"{% set (c, q) = 'xy' %}{{ c }}{{ q }}", "xy"},
      {"{% for i in [1] %}{% set loop = 1 %}{% endfor %}", kFails},
      {"{% block a %}x{{ n }}{% endblock %}{% block a %}{% endblock %}", kFails},
      {"{% block a %}x{{ n }}{% endblock %}{% for i in l %}{% block c scoped %}{{ i }}{% endblock "
       "%}{% endfor %}",
       "x423122"},
  });
}

TEST(EvaluatorTest, MacrosBindTheirArguments) {
  ExpectRendered({
      {"{% macro m(a, b=a) %}{{ a }}-{{ b }}-{{ varargs }}-{{ kwargs }}{% endmacro %}{{ m(1) }} {{ "
       "m(1, 2, 3, x=4) }} {{ m(b=3) }} {{ m() }}",
       "1-1-()-{} 1-2-(3,)-{'x': 4} -3-()-{} --()-{}"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", kFails},
      {"{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", kFails},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", kFails},
      {"{% macro m(a=1, b) %}{% endmacro %}", kFails},
      {"{% macro m(a, a) %}{% endmacro %}", kFails},
      {"{% macro m(a, b=1) %}{% endmacro %}{{ m.name }} {{ m.arguments }} {{ m.catch_kwargs }} {{ "
       "m.caller }} {{ m }}",
       "m ('a', 'b') False False <Macro 'm'>"},
      {"{% macro m(a) %}[{{ caller(a, 2) }}]{% endmacro %}{% call(x, y=5) m('q') %}{{ x }}{{ y "
       "}}{% endcall %}",
       "[q2]"},
      {"{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}",
       "FalseTrue"},
      {"{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", kFails},
      {"{% macro o() %}{% macro i(x) %}{{ x }}{{ n }}{% endmacro %}{{ i(1) }}{% endmacro %}{{ o() "
       "}}",
       "142"},
      {"{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3}) }}", "123"},
      {"{% macro m(x=n) %}{{ x }}{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}", "1"},
      {"{{ missing() }}", kFails},
      {"{{ n() }}", kFails},
  });
}

TEST(EvaluatorTest, BlocksCaptureWhatIsWritten) {
  ExpectRendered({
      {"{% set x %}  block {{ n }} {% endset %}[{{ x }}]", "[  block 42 ]"},
      {"{% set y | upper | trim %} abc {% endset %}[{{ y }}]", "[ABC]"},
      {"{% filter upper|replace('A', '4') %}banana{% endfilter %}", "B4N4N4"},
      {"{% if x %}a{% elif n == 42 %}b{% else %}c{% endif %}", "b"},
      {"{% print 1, n %}", "142"},
      {"{% autoescape false %}<{% endautoescape %}", "<"},
  });
}

}  // namespace
}  // namespace kvgate::jinja
