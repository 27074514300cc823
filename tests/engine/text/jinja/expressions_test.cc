#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(ExpressionsTest, NumbersFollowPython) {
  ExpectRendered({
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 4 / 2 }} {{ 7.5 // 2 "
       "}} {{ -7.5 % 2 }}",
       "3 -4 2 -2 3.5 2.0 3.0 0.5"},
      {"{{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 0 ** 0 }} {{ 2.0 ** 3 }}",
       "1024 0.5 4 64 1 8.0"},
      {"{{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1/3 }} {{ -0.0 }} {{ 1e400 }} {{ 100.0 "
       "}} {{ 1e22 }}",
       "1e+16 1000000000000000.0 0.0001 1e-05 0.3333333333333333 -0.0 inf 100.0 1e+22"},
      {"{{ 1 // 0 }}", kFails},
      {"{{ 1.0 / 0 }}", kFails},
      {"{{ 1 % 0 }}", kFails},
      {"{{ true + 1 }} {{ -true }} {{ +false }}", "2 -1 0"},
      {"{{ 'a' + 1 }}", kFails},
      {"{{ -'a' }}", kFails},
      {"{{ missing + 1 }}", kFails},
      {"{{ 0 ** -1 }}", kFails},
  });
}

TEST(ExpressionsTest, OperatorsBindAsInPython) {
  ExpectRendered({
      {"{{ 1 + 2 ~ 3 * 4 }} {{ 1 + 2 * 3 - 4 }} {{ not 1 == 2 }} {{ not none }}", kFails},
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 < 2 > 0 == false }}", "True False True"},
      {"{{ 1 in l }} {{ 9 not in l }} {{ 'a' in d }} {{ 'ell' in s }} {{ 1 in missing }}",
       "True True True True False"},
      {"{{ 1 if yes else 2 if e else 3 }} {{ 'y' if e }}|", "1 |"},
      {"{{ yes and n }} {{ e or [] or 'z' }} {{ 0 and x.y }} {{ 1 or x.y }}", "42 z 0 1"},
      {"{{ 'ab' * 3 }} {{ 3 * [1] }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'a' * -1 }}|",
       "ababab [1, 1, 1] [1, 2] (1, 2) |"},
      {"{{ 'a' 'b' ~ 1 ~ none }}", "ab1None"},
      {"{{ 1 in 5 }}", kFails},
      {"{{ 5 in 'abc' }}", kFails},
      {"{{ -n|abs }} {{ n|string + 'x' }} {{ not n is odd }}", "42 42x True"},
  });
}

TEST(ExpressionsTest, ComparisonsFollowPython) {
  ExpectRendered({
      {"{{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ [1] == (1,) }} {{ {1: 2} == {1.0: 2} }} "
       "{{ none == missing }} {{ missing == other }}",
       "True True False False True False True"},
      {"{{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1, 'a') < (1, 'b') }} {{ 'Z' < 'a' }} {{ 'é' > "
       "'z' }}",
       "True True True True True"},
      {"{{ 1 < 'a' }}", kFails},
      {"{{ none < 1 }}", kFails},
      {"{{ missing < 1 }}", kFails},
      {"{{ {} < {} }}", kFails},
  });
}

TEST(ExpressionsTest, SlicesAndItemsCountCharacters) {
  ExpectRendered({
      {"{{ s[1:5] }} {{ s[::-1] }} {{ s[-3:] }} {{ s[7] }} {{ s[100] }} {{ s[2:100:3] }} {{ "
       "s[5:1:-1] }} {{ s[-1] }} {{ s|length }}",
       "ello !ß dlröW ,olleH  ß! W  l,öd! ,oll ! 15"},
      {"{{ l[0:2] }} {{ l[-1] }} {{ l[9] }} {{ l['x'] }} {{ l[::2] }} {{ l[10:] }} {{ (1, 2, "
       "3)[1:] }}",
       "[3, 1] 2   [3, 2] [] (2, 3)"},
      {"{{ d['b'] }} {{ d.b }} {{ d['zz'] }} {{ d.zz }} {{ d['é'][1].k }}", "1 1   None"},
      {"{{ range(10)[2:8:3] }} {{ range(5)[-1] }} {{ range(5)[9] is defined }}",
       "range(2, 8, 3) 4 False"},
      {"{{ l[::0] }}", kFails},
      {"{{ l['a':] }}", kFails},
      {"{{ d[1:] }}", kFails},
      {"{{ missing[1:] }}", kFails},
      {"{{ n[0] is defined }}", "False"},
      {"{{ missing.x }}", kFails},
      {"{{ missing['x'] }}", kFails},
      {"{{ none.x }}|{{ d.b.c }}|", "||"},
      {"{{ d.b.c.d }}", kFails},
  });
}

TEST(ExpressionsTest, AttributesComeBeforeItemsAndItemsBeforeAttributes) {
  ExpectRendered({
      {"{{ {'items': 1}.items() }} {{ {'items': 1}['items'] }} {{ d.get('b') }} {{ d['get'] is "
       "callable }}",
       "dict_items([('items', 1)]) 1 1 True"},
      {"{{ l.append is defined }} {{ d.pop is defined }} {{ l.append }}|{{ s.__class__ }}|{{ "
       "d.update }}",
       "False False ||"},
      {"{{ l.append(1) }}", kFails},
      {"{{ d.update({}) }}", kFails},
      {"{{ d.pop('a') }}", kFails},
      {"{{ s.__class__.x }}", kFails},
      {"{{ n.real }} {{ f.real }} {{ l.count(2) }} {{ l.index(2) }} {{ (1, 2).index(2) }}",
       "42 3.5 2 2 1"},
      {"{{ l.index(99) }}", kFails},
      {"{{ [d, d.copy() == d, d.values()|list, d.keys()|list] }}",
       "[{'b': 1, 'a': 'x', 'é': [1, {'k': None}]}, True, [1, 'x', [1, {'k': None}]], ['b', 'a', "
       "'é']]"},
      {"{{ {1: 'a', 'b': 2, none: 3, (1, 2): 4} }}", "{1: 'a', 'b': 2, None: 3, (1, 2): 4}"},
      {"{{ {[1]: 2} }}", kFails},
      {"{{ dict(a=1, **{'b': 2}) }} {{ dict([('x', 1)], y=2) }} {{ dict(d)['b'] }}",
       "{'a': 1, 'b': 2} {'x': 1, 'y': 2} 1"},
  });
}

TEST(ExpressionsTest, ValuesPrintAsInPython) {
  ExpectRendered({
      {"{{ [1, [2, (3,)], {'a': 'b\\'c'}, \"d\\\"'e\", none, true, 1.5] }} {{ (1,) }} {{ () }} {{ "
       "{} }} {{ none }} {{ true }}",
       "[1, [2, (3,)], {'a': \"b'c\"}, 'd\"\\'e', None, True, 1.5] (1,) () {} None True"},
      {"{{ ['é', '\\n', '\\x00', '\\u200b', '\\\\'] }}",
       "['é', '\\n', '\\x00', '\\u200b', '\\\\']"},
      {"{{ range(3) }} {{ range(1, 10, 2) }} {{ d.items() }} {{ d.keys() }} {{ missing }}|",
       "range(0, 3) range(1, 10, 2) dict_items([('b', 1), ('a', 'x'), ('é', [1, {'k': None}])]) "
       "dict_keys(['b', 'a', 'é']) |"},
      {"{{ [missing, 'x'|safe] }}", "[Undefined, Markup('x')]"},
  });
}

TEST(ExpressionsTest, WhatIsNotKnownFailsOnlyWhereItMustBe) {
  ExpectRendered({
      {"{{ 'a'|nosuch }}", kFails},
      {"{{ 'a' is nosuch }}", kFails},
      {"{% if false %}{{ 'a'|nosuch }}{{ 1 is nosuch }}{% endif %}ok", "ok"},
      {"{{ ('a'|nosuch) if false else 'b' }}", "b"},
      {"{{ 'a'|nosuch if true else 'b' }}", kFails},
      {"{% if true %}{{ 'a'|nosuch }}{% endif %}", kFails},
      {"{% if true %}{% for i in [] %}{{ i|nosuch }}{% endfor %}{% endif %}", kFails},
  });
}

TEST(ExpressionsTest, GlobalsAreThoseOfTransformers) {
  ExpectRendered({
      {"{{ range(5)|list }} {{ range(10, 0, -3)|list }} {{ 3 in range(5) }} {{ range(0) is "
       "sequence }}",
       "[0, 1, 2, 3, 4] [10, 7, 4, 1] True True"},
      {"{{ range(100001) }}", kFails},
      {"{{ range(1, 2, 0) }}", kFails},
      {"{{ range('a') }}", kFails},
      {"{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ "
       "c.reset() }}{{ c.current }}",
       "ababNonea"},
      {"{{ cycler() }}", kFails},
      {"{% set j = joiner('|') %}{{ j() }}x{{ j() }}y{% set k = joiner() %}{{ k() }}{{ k() }}",
       "x|y, "},
      {"{{ strftime_now('%Y-%m-%d %B %-d') }}", "2026-03-14 March 14"},
      {"{{ raise_exception('x') }}", kFails},
  });
}

}  // namespace
}  // namespace kvgate::jinja
