#include <gtest/gtest.h>

#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja::builtins {
namespace {

// Jinja2 itself produced the expected texts on the right.
TEST(FiltersJsonTest, TojsonIsThatOfTransformers) {
  ExpectRendered({
      {"{{ d|tojson }} {{ s|tojson }} {{ '<&\\''|tojson }} {{ s|tojson(true) }} {{ "
       "'😀'|tojson(ensure_ascii=true) }}",
       "{\"b\": 1, \"a\": \"x\", \"é\": [1, {\"k\": null}]} \"Hello, Wörld ß!\" \"<&'\" \"Hello, "
       "W\\u00f6rld \\u00df!\" \"\\ud83d\\ude00\""},
      {"{{ [1.0, 1e20, 1e-7, none, true, 'a\\n\"\\\\\\x01\\x7f']|tojson }} {{ ('inf'|float)|tojson "
       "}}",
       "[1.0, 1e+20, 1e-07, null, true, \"a\\n\\\"\\\\\\u0001\177\"] Infinity"},
      {"{{ d|tojson(indent=2) }}",
       "{\n  \"b\": 1,\n  \"a\": \"x\",\n  \"é\": [\n    1,\n    {\n      \"k\": null\n    }\n  "
       "]\n}"},
      {"{{ l|tojson(indent=0) }}|{{ {}|tojson(indent=2) }}|{{ [[]]|tojson(indent='-') }}",
       "[\n3,\n1,\n2,\n2\n]|{}|[\n-[]\n]"},
      {"{{ {'b': 1, 'a': [1, 2]}|tojson(separators=(',', ':'), sort_keys=true) }}",
       "{\"a\":[1,2],\"b\":1}"},
      {"{{ {1: 2, none: 3, true: 4, 1.5: 6}|tojson }} {{ (1, 2)|tojson }}",
       "{\"1\": 4, \"null\": 3, \"1.5\": 6} [1, 2]"},
      {"{{ missing|tojson }}", kFails},
      {"{{ {(1, 2): 3}|tojson }}", kFails},
      {"{{ d.items()|tojson }}", kFails},
      {"{{ range(3)|tojson }}", kFails},
      {"{{ users|pprint }}",
       "[{'age': 30, 'name': 'Bob', 'tags': ['x', 'y']},\n {'age': 25, 'name': 'alice', 'tags': "
       "[]},\n {'age': 30, 'name': 'Carl', 'tags': ['z']}]"},
      {"{{ {'b': 1, 'a': 2}|pprint }} {{ s|pprint }}", "{'a': 2, 'b': 1} 'Hello, Wörld ß!'"},
  });
}

}  // namespace
}  // namespace kvgate::jinja::builtins
