#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::builtins {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(FiltersSequenceTest, SequencesAreHandledAsInJinja2) {
  ExpectRendered({
      {"{{ l|first }} {{ l|last }} {{ []|first is defined }} {{ 'ab'|first }} {{ 'aé'|last }} {{ "
       "d|first }}",
       "3 2 False a é b"},
      {"{{ l|length }} {{ d|count }} {{ missing|length }}", "4 3 0"},
      {"{{ 5|length }}", kFails},
      {"{{ l|sort }} {{ ls|sort }} {{ ls|sort(reverse=true) }} {{ ls|sort(case_sensitive=true) }}",
       "[1, 2, 2, 3] ['A', 'a', 'b', 'c'] ['c', 'b', 'A', 'a'] ['A', 'a', 'b', 'c']"},
      {"{{ users|sort(attribute='age,name')|map(attribute='name')|list }} {{ users|sort(false, "
       "false, 'tags.0')|length }}",
       kFails},
      {"{{ [1, 'a']|sort }}", kFails},
      {"{{ d|dictsort }} {{ {'b': 1, 'A': 2}|dictsort(true) }} {{ {'b': 1, 'A': "
       "2}|dictsort(by='value', reverse=true) }}",
       "[('a', 'x'), ('b', 1), ('é', [1, {'k': None}])] [('A', 2), ('b', 1)] [('A', 2), ('b', 1)]"},
      {"{{ l|unique|list }} {{ ['a', 'A', 'b']|unique|list }} {{ ['a', 'A']|unique(true)|list }}",
       "[3, 1, 2] ['a', 'b'] ['a', 'A']"},
      {"{{ l|max }} {{ l|min }} {{ ls|max }} {{ users|max(attribute='age') }} {{ []|max is defined "
       "}}",
       "3 1 c {'name': 'Bob', 'age': 30, 'tags': ['x', 'y']} False"},
      {"{{ users|groupby('age') }} {% for a, us in users|groupby('age') %}{{ a }}:{{ "
       "us|map(attribute='name')|join(',') }};{% endfor %}",
       "[(25, [{'name': 'alice', 'age': 25, 'tags': []}]), (30, [{'name': 'Bob', 'age': 30, "
       "'tags': ['x', 'y']}, {'name': 'Carl', 'age': 30, 'tags': ['z']}])] 25:alice;30:Bob,Carl;"},
      {"{% for g in users|groupby('zz', default='q') %}{{ g.grouper }}{{ g.list|length }}{% endfor "
       "%}",
       "q3"},
      {"{{ l|batch(3, '-')|list }} {{ l|batch(2)|list }} {{ l|slice(3)|list }} {{ l|slice(3, "
       "'x')|list }}",
       "[[3, 1, 2], [2, '-', '-']] [[3, 1], [2, 2]] [[3, 1], [2], [2]] [[3, 1], [2, 'x'], [2, "
       "'x']]"},
      {"{{ l|join(', ') }} {{ l|join }} {{ users|join('/', attribute='name') }} {{ 'abc'|join('-') "
       "}}",
       "3, 1, 2, 2 3122 Bob/alice/Carl a-b-c"},
      {"{{ l|reverse|list }} {{ 'añb'|reverse }} {{ d|reverse|list }} {{ "
       "l|map('string')|reverse|list }}",
       "[2, 2, 1, 3] bña ['é', 'a', 'b'] ['2', '2', '1', '3']"},
      {"{{ d|items|list }} {{ missing|items|list }}",
       "[('b', 1), ('a', 'x'), ('é', [1, {'k': None}])] []"},
      {"{{ l|items|list }}", kFails},
      {"{{ l|list }} {{ 'ab'|list }} {{ d|list }}", "[3, 1, 2, 2] ['a', 'b'] ['b', 'a', 'é']"},
      {"{{ 5|list }}", kFails},
      {"{{ l|map('string')|last }}", kFails},
  });
}

}  // namespace
}  // namespace kvgate::jinja::builtins
