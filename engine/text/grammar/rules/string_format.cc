#include "engine/text/grammar/rules/string_format.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kvgate::grammar::rules {
namespace {

// Years have four digits and no leading zero. February 29 is left out, because it does not exist in
// every year.
#define KVGATE_DATE                                                                         \
  "[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|" \
  "[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define KVGATE_TIME                                              \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?" \
  "(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])"
#define KVGATE_LABEL "[a-z][a-z0-9]{0,20}(?:-[a-z0-9]{1,20})?"
#define KVGATE_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

struct Format {
  std::string_view name;
  std::string_view pattern;
};

constexpr std::array kFormats = {
    Format{"date-time", "^" KVGATE_DATE "T" KVGATE_TIME "$"},
    Format{"date", "^" KVGATE_DATE "$"},
    Format{"time", "^" KVGATE_TIME "$"},
    Format{"duration",
           "^P(?:[0-9]{1,4}W|[0-9]{1,4}D(?:T[0-9]{1,2}H)?|T[0-9]{1,2}H(?:[0-9]{1,2}M)?|"
           "T[0-9]{1,2}M(?:[0-9]{1,2}S)?|T[0-9]{1,4}S|[0-9]{1,4}Y(?:[0-9]{1,2}M)?)$"},
    Format{"email",
           "^[a-z0-9]{1,20}(?:[._+-][a-z0-9]{1,20}){0,2}@(?:" KVGATE_LABEL "\\.){1,3}[a-z]{2,12}$"},
    Format{"hostname", "^" KVGATE_LABEL "(?:\\." KVGATE_LABEL "){0,3}$"},
    Format{"ipv4", "^" KVGATE_BYTE "(?:\\." KVGATE_BYTE "){3}$"},
    Format{"ipv6", "^[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}$"},
    Format{"uri", "^https?://" KVGATE_LABEL "(?:\\." KVGATE_LABEL
                  "){1,3}(?:/[A-Za-z0-9_~.-]+)*/?(?:\\?[A-Za-z0-9_=&-]+)?(?:#[A-Za-z0-9_-]+)?$"},
    Format{"uri-reference", "^/[A-Za-z0-9_~./-]*(?:\\?[A-Za-z0-9_=&-]+)?$"},
    Format{"base64", "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
    Format{"json-pointer", "^(?:/[A-Za-z0-9_-]*)*$"},
    Format{"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
};

#undef KVGATE_DATE
#undef KVGATE_TIME
#undef KVGATE_LABEL
#undef KVGATE_BYTE

// Other names for the formats above.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"idn-email", "email"}, {"idn-hostname", "hostname"},
    {"iri", "uri"},         {"iri-reference", "uri-reference"},
    {"url", "uri"},         {"byte", "base64"},
    {"uuid4", "uuid"}};
// Notes for people, and formats of numbers.
constexpr std::string_view kAnyText[] = {"password",       "binary",      "path",  "file-path",
                                         "directory-path", "json-string", "int32", "int64",
                                         "float",          "double"};

}  // namespace

std::optional<std::string_view> PatternOfFormat(std::string_view format) {
  if (std::find(std::begin(kAnyText), std::end(kAnyText), format) != std::end(kAnyText)) return "";
  for (const auto& [name, same] : kSynonyms) {
    if (name == format) format = same;
  }
  for (const Format& known : kFormats) {
    if (known.name == format) return known.pattern;
  }
  return std::nullopt;
}

std::string FormatNames() {
  std::string names;
  for (const Format& known : kFormats) {
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return names;
}

}  // namespace kvgate::grammar::rules
