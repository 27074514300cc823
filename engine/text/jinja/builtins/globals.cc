// The global functions, including those of transformers, and the methods of loops and cyclers,
// whose names contain a dot so that no template can use them directly.
#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "engine/text/jinja/builtins/builtins.h"
#include "engine/text/jinja/runtime/loop.h"

namespace kvgate::jinja::builtins {

using runtime::Arguments;
using runtime::Runtime;
using value::MakeFailed;
using value::Tag;
using value::Value;

namespace {

constexpr int64_t kRangeMax = 100'000;  // the limit of Jinja2's sandbox

Value MakeRange(Runtime& runtime, const Value&, const Arguments& arguments) {
  const size_t count = arguments.positional.size();
  if (!arguments.keywords.empty()) return runtime.Fail("range() takes no keyword arguments");
  if (count < 1 || count > 3) {
    return runtime.Fail(fmt::format("range expected 1 to 3 arguments, got {}", count));
  }
  int64_t bounds[3] = {0, 0, 1};
  for (size_t i = 0; i < count; ++i) {
    const auto bound = IntegerArgument(runtime, arguments.positional[i], 0);
    if (!bound) return MakeFailed();
    bounds[count == 1 ? 1 : i] = *bound;
  }
  if (bounds[2] == 0) return runtime.Fail("range() arg 3 must not be zero");
  Value value;
  value.tag = Tag::kRange;
  value.range = runtime.heap().New<value::Range>(bounds[0], bounds[1], bounds[2]);
  const int64_t size = value.range->size();
  if (size > kRangeMax || size < 0) {
    return runtime.Fail(
        fmt::format("Range too big. The sandbox blocks ranges larger than {}.", kRangeMax));
  }
  return value;
}

// dict(pairs or mapping, **more)
Value BuildDict(Runtime& runtime, const Arguments& arguments) {
  auto* dict = runtime.heap().New<value::Dict>();
  value::Heap& heap = runtime.heap();
  if (arguments.positional.size() > 1) return runtime.Fail("dict expected at most 1 argument");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Tag::kDict)) {
      for (const value::DictEntry& entry : source.dict->items()) {
        if (!runtime.Charge(1) || !runtime.ChargeKey(entry.key)) return MakeFailed();
        dict->Set(heap, entry.key, entry.value);
      }
    } else {
      const auto pairs = runtime.Iterate(source);
      if (!pairs) return MakeFailed();
      for (const Value& pair : *pairs) {
        const auto parts = runtime.Iterate(pair);
        if (!parts || !runtime.Charge(1)) return MakeFailed();
        if (parts->size() != 2) return runtime.Fail("dict() wants pairs");
        if (!value::IsHashable((*parts)[0])) {
          return runtime.Fail(fmt::format("unhashable type: '{}'", value::TypeName((*parts)[0])));
        }
        if (!runtime.ChargeKey((*parts)[0])) return MakeFailed();
        dict->Set(heap, (*parts)[0], (*parts)[1]);
      }
    }
  }
  for (const runtime::Keyword& keyword : arguments.keywords) {
    dict->Set(heap, value::MakeString(keyword.name), keyword.value);
  }
  return value::MakeDict(dict);
}

Value MakeDictValue(Runtime& runtime, const Value&, const Arguments& arguments) {
  return BuildDict(runtime, arguments);
}

Value MakeNamespace(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Value attributes = BuildDict(runtime, arguments);
  if (attributes.failed()) return attributes;
  Value value;
  value.tag = Tag::kNamespace;
  value.name_space = runtime.heap().New<value::Namespace>(attributes.dict);
  return value;
}

Value MakeCycler(Runtime& runtime, const Value&, const Arguments& arguments) {
  if (!arguments.keywords.empty()) return runtime.Fail("cycler() takes no keyword arguments");
  if (arguments.positional.empty()) return runtime.Fail("at least one item has to be provided");
  Value value;
  value.tag = Tag::kCycler;
  value.cycler =
      runtime.heap().New<value::Cycler>(value::MakeList(runtime.heap(), arguments.positional).list);
  return value;
}

Value CyclerNext(Runtime&, const Value& self, const Arguments&) {
  value::Cycler& cycler = *self.cycler;
  const Value current = cycler.items->items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items->size;
  return current;
}

Value CyclerReset(Runtime&, const Value& self, const Arguments&) {
  self.cycler->position = 0;
  return value::MakeNone();
}

Value MakeJoiner(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Value& separator = arguments.positional[0];
  Value value;
  value.tag = Tag::kJoiner;
  value.joiner = runtime.heap().New<value::Joiner>();
  value.joiner->separator = separator.missing() ? runtime.MakeText(", ") : separator;
  return value;
}

Value LoopCycle(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.keywords.empty()) {
    return runtime.Fail("no items for cycling given");
  }
  const auto index = static_cast<size_t>(self.loop->index0);
  return arguments.positional[index % arguments.positional.size()];
}

Value LoopChanged(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (!arguments.keywords.empty()) return runtime.Fail("changed() takes no keyword arguments");
  runtime::Loop& loop = *self.loop;
  const Value now = value::MakeList(runtime.heap(), arguments.positional, value::ListKind::kTuple);
  if (loop.last_changed != nullptr) {
    Value before = now;
    before.list = const_cast<value::List*>(loop.last_changed);
    const auto equal = runtime.Equals(before, now);
    if (!equal) return MakeFailed();
    if (*equal) return value::MakeBool(false);
  }
  loop.last_changed = now.list;
  return value::MakeBool(true);
}

Value RaiseException(Runtime& runtime, const Value&, const Arguments& arguments) {
  const value::String* message = runtime.ToText(arguments.positional[0]);
  if (message == nullptr) return MakeFailed();
  return runtime.Fail(std::string(message->view()), syntax::Failure::Kind::kRaised);
}

Value StrftimeNow(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Value& format = arguments.positional[0];
  if (!format.is_string()) return runtime.Fail("strftime_now wants a format");
  if (format.string->size > 4096) return runtime.Fail("the format of strftime_now is too long");
  std::tm now{};
  if (runtime.now()) {
    now = *runtime.now();
  } else {
    const std::time_t clock = std::time(nullptr);
    ::localtime_r(&clock, &now);
  }
  // strftime has no %f (microseconds). The final '|' distinguishes an empty result from a full
  // buffer.
  std::string pattern;
  for (size_t at = 0; at < format.text().size(); ++at) {
    const std::string_view two = format.text().substr(at, 2);
    pattern += two == "%f" ? "000000" : two[0] == '%' ? two : two.substr(0, 1);
    if (two[0] == '%') ++at;
  }
  pattern += '|';
  std::string text(pattern.size() * 32 + 64, '\0');
  const size_t size = std::strftime(text.data(), text.size(), pattern.c_str(), &now);
  if (size == 0) return runtime.Fail("strftime_now cannot write that format");
  return runtime.MakeText(std::string_view(text).substr(0, size - 1));
}

constexpr runtime::FunctionSpec kGlobals[] = {
    {"range", "*", MakeRange},
    {"dict", "*", MakeDictValue},
    {"namespace", "*", MakeNamespace},
    {"cycler", "*", MakeCycler},
    {"joiner", "sep?", MakeJoiner},
    {"raise_exception", "message", RaiseException},
    {"strftime_now", "format", StrftimeNow},
    {"cycler.next", "", CyclerNext},
    {"cycler.reset", "", CyclerReset},
    {"loop.cycle", "*", LoopCycle},
    {"loop.changed", "*", LoopChanged},
};

}  // namespace

std::span<const runtime::FunctionSpec> Globals() { return kGlobals; }

}  // namespace kvgate::jinja::builtins
