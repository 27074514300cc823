#include "engine/text/jinja/template.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.h"
#include "engine/text/jinja/evaluator.h"
#include "engine/text/jinja/parse/lexer.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja {

using value::Data;
using value::Origin;
using value::Value;

namespace {

// The number of values in a tree and the bytes of its text.
struct Weight {
  int64_t values = 0;
  size_t bytes = 0;

  void Add(const Data& data) {
    ++values;
    if (const auto* text = std::get_if<std::string>(&data.value())) {
      bytes += text->size();
    } else if (const auto* borrowed = std::get_if<Data::Borrowed>(&data.value())) {
      bytes += borrowed->text.size();
    } else if (const auto* marked = std::get_if<Data::Marked>(&data.value())) {
      bytes += marked->text.size();
    } else if (const auto* list = std::get_if<Data::List>(&data.value())) {
      for (const Data& item : *list) Add(item);
    } else if (const auto* dict = std::get_if<Data::Dict>(&data.value())) {
      for (const auto& [key, value] : *dict) {
        bytes += key.size();
        Add(value);
      }
    }
  }
};

// Loads Data into a heap as Values. Texts are borrowed, not copied.
class Loader {
 public:
  Loader(value::Heap& heap, Origin origin) : heap_(heap), origin_(origin) {}

  Value Load(const Data& data) {
    const Origin origin = data.trusted() ? Origin::kTemplate : origin_;
    return std::visit([&](const auto& value) { return Make(value, origin); }, data.value());
  }

 private:
  Value Text(std::string_view text, Origin origin) {
    return value::MakeString(value::BorrowString(heap_, text, origin));
  }
  Value Make(std::monostate, Origin) { return value::MakeNone(); }
  Value Make(bool value, Origin) { return value::MakeBool(value); }
  Value Make(int64_t value, Origin) { return value::MakeInt(value); }
  Value Make(double value, Origin) { return value::MakeFloat(value); }
  Value Make(const std::string& value, Origin origin) { return Text(value, origin); }
  Value Make(const Data::Borrowed& value, Origin origin) { return Text(value.text, origin); }
  Value Make(const Data::Marked& value, Origin origin) {
    value::TextBuilder builder(heap_);
    size_t begin = 0;
    for (const Data::Part& own : value.own) {
      builder.Append(value.text.substr(begin, own.begin - begin), origin);
      builder.Append(value.text.substr(own.begin, own.end - own.begin));
      begin = own.end;
    }
    builder.Append(value.text.substr(begin), origin);
    return value::MakeString(builder.Build());
  }
  Value Make(const Data::BigInteger& value, Origin origin) {
    Value number = Text(value.digits, origin);
    number.tag = value::Tag::kBigInteger;
    return number;
  }
  Value Make(const Data::List& list, Origin origin) {
    Value value = value::MakeList(heap_, {});
    value.list->origin = origin;
    value.list->items = heap_.NewArray<Value>(list.size());
    for (const Data& item : list) value.list->items[value.list->size++] = Load(item);
    return value;
  }
  Value Make(const Data::Dict& dict, Origin origin) {
    auto* entries = heap_.New<value::Dict>();
    entries->origin = origin;
    for (const auto& [key, value] : dict) entries->Set(heap_, Text(key, origin), Load(value));
    return value::MakeDict(entries);
  }

  value::Heap& heap_;
  Origin origin_;
};

}  // namespace

struct Template::Compiled {
  std::string source;
  value::Heap heap{SIZE_MAX};  // holds the literals
  parse::ParsedTemplate parsed;
};

Template::Template(std::unique_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
Template::~Template() = default;

syntax::Outcome<std::unique_ptr<const Template>> Template::Parse(std::string_view source) {
  if (source.size() > syntax::kSourceBytesMax) {
    return tl::unexpected(
        syntax::Failure{.kind = syntax::Failure::Kind::kLimit,
                        .line = 1,
                        .column = 1,
                        .message = fmt::format("the template has {} bytes, at most {}",
                                               source.size(), syntax::kSourceBytesMax)});
  }
  if (const size_t bad = ValidUtf8Bytes(source); bad < source.size()) {
    return tl::unexpected(parse::MakeFailure(syntax::Failure::Kind::kSyntax, source, bad,
                                             "the template is not UTF-8"));
  }
  auto compiled = std::make_unique<Compiled>();
  compiled->source = parse::NormalizeSource(source);
  auto parsed = parse::Parse(compiled->source, compiled->heap);
  if (!parsed) return tl::unexpected(std::move(parsed).error());
  compiled->parsed = std::move(*parsed);
  return std::unique_ptr<const Template>(new Template(std::move(compiled)));
}

syntax::Outcome<Template::Rendering> Template::Render(const Input& input) const {
  Weight weight;
  for (const Variable& variable : input.variables) weight.Add(*variable.value);
  Evaluator evaluator({.limits = input.limits,
                       .input_values = weight.values,
                       .input_bytes = weight.bytes,
                       .now = input.now},
                      compiled_->parsed);
  for (const Variable& variable : input.variables) {
    if (!Mentions(variable.name)) continue;
    Loader loader(evaluator.heap(), variable.origin);
    evaluator.Define(variable.name, loader.Load(*variable.value));
  }
  const value::String* text = evaluator.Run();
  if (text == nullptr) return tl::unexpected(evaluator.TakeFailure(compiled_->source));
  Rendering rendering;
  rendering.text = text->view();
  size_t at = 0;
  value::VisitRuns(*text, [&](std::string_view part, Origin origin) {
    if (origin != Origin::kTemplate) {
      rendering.inputs.push_back({.begin = at, .end = at + part.size(), .origin = origin});
    }
    at += part.size();
  });
  return rendering;
}

bool Template::Mentions(std::string_view name) const {
  const parse::SymbolTable& symbols = compiled_->parsed.symbols;
  return symbols.Find(name) < symbols.size();
}

std::optional<std::tm> ParseTime(std::string_view text) {
  std::tm time{};
  std::string copy(text);
  constexpr size_t kDateBytes = 10;  // ISO 8601 has a T behind the date
  if (copy.size() > kDateBytes && copy[kDateBytes] == 'T') copy[kDateBytes] = ' ';
  int used = 0;
  const int fields =
      std::sscanf(copy.c_str(), "%4d-%2d-%2d %2d:%2d:%2d%n", &time.tm_year, &time.tm_mon,
                  &time.tm_mday, &time.tm_hour, &time.tm_min, &time.tm_sec, &used);
  if (fields != 6 || static_cast<size_t>(used) != copy.size()) return std::nullopt;
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  time.tm_isdst = -1;
  // timegm fills in the day of the week and of the year, and normalises invalid dates, which shows
  // below.
  std::tm checked = time;
  if (::timegm(&checked) == -1 && checked.tm_year != 69) return std::nullopt;
  if (checked.tm_mday != time.tm_mday || checked.tm_mon != time.tm_mon ||
      checked.tm_hour != time.tm_hour || checked.tm_min != time.tm_min ||
      checked.tm_sec != time.tm_sec) {
    return std::nullopt;
  }
  return checked;
}

}  // namespace kvgate::jinja
