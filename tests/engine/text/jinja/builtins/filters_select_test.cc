#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::builtins {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(FiltersSelectTest, FiltersAndTestsAreAppliedByName) {
  ExpectRendered({
      {"{{ users|selectattr('tags')|map(attribute='name')|join('|') }} {{ users|rejectattr('age', "
       "'gt', 26)|map(attribute='name')|list }}",
       "Bob|Carl ['alice']"},
      {"{{ l|select('odd')|list }} {{ l|reject('even')|list }} {{ [0, 1, none]|select|list }} {{ "
       "[0, 1]|reject|list }}",
       "[3, 1] [3, 1] [1] [0]"},
      {"{{ ['a', 'b']|map('upper')|list }} {{ ['a']|map('replace', 'a', 'x')|list }} {{ [1, "
       "2]|map('default', 3)|list }}",
       "['A', 'B'] ['x'] [1, 2]"},
      {"{{ users|map(attribute='tags.0', default='none')|list }} {{ users|map(attribute='zz')|list "
       "}} {{ users|map(attribute='zz')|first is defined }}",
       "['x', 'none', 'z'] [Undefined, Undefined, Undefined] False"},
      {"{{ l|map('nosuch')|list }}", kFails},
      {"{{ l|select('nosuch')|list }}", kFails},
      {"{{ l|map|list }}", kFails},
      {"{{ users|selectattr|list }}", kFails},
      {"{{ missing|default('D') }} {{ none|default('D') }} {{ ''|d('D', true) }} {{ "
       "missing|default }}|",
       "D None D |"},
      {"{{ missing.x|default('D') }}", kFails},
      {"{{ s|attr('nosuch') is defined }} {{ d|attr('b') is defined }}", "False False"},
      {"{% set g = l|select('odd') %}{{ g|list }}{{ g|list }} {{ true if l|select('gt', 9) else "
       "false }}",
       "[3, 1][] True"},
  });
}

}  // namespace
}  // namespace kvgate::jinja::builtins
