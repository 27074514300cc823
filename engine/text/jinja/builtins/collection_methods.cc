// The non-mutating methods of lists, tuples and dicts. Mutating ones exist in Python, but
// transformers' sandbox refuses to call them: see runtime::Runtime::Attribute.
#include <fmt/format.h>

#include "engine/text/jinja/builtins/builtins.h"

namespace kvgate::jinja::builtins {

using runtime::Arguments;
using runtime::FunctionSpec;
using runtime::Runtime;
using value::ListKind;
using value::MakeFailed;
using value::Value;

namespace {

Value ListCount(Runtime& runtime, const Value& self, const Arguments& arguments) {
  int64_t count = 0;
  for (const Value& item : self.list->values()) {
    const auto equal = runtime.Equals(item, arguments.positional[0]);
    if (!equal || !runtime.Charge(1)) return MakeFailed();
    count += *equal ? 1 : 0;
  }
  return value::MakeInt(count);
}

Value ListIndex(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto size = static_cast<int64_t>(self.list->size);
  const auto start = IntegerArgument(runtime, arguments.positional[1], 0);
  const auto stop = IntegerArgument(runtime, arguments.positional[2], size);
  if (!start || !stop) return MakeFailed();
  const auto clamp = [&](int64_t i) { return i < 0 ? std::max<int64_t>(i + size, 0) : i; };
  for (int64_t i = clamp(*start); i < std::min(clamp(*stop), size); ++i) {
    const auto equal = runtime.Equals(self.list->items[i], arguments.positional[0]);
    if (!equal || !runtime.Charge(1)) return MakeFailed();
    if (*equal) return value::MakeInt(i);
  }
  return runtime.Fail("the value is not in the list");
}

Value ListCopy(Runtime& runtime, const Value& self, const Arguments&) {
  if (!runtime.Charge(static_cast<int64_t>(self.list->size / 8))) return MakeFailed();
  return value::MakeList(runtime.heap(), self.list->values());
}

Value DictGet(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value& key = arguments.positional[0];
  if (!value::IsHashable(key))
    return runtime.Fail(fmt::format("unhashable type: '{}'", value::TypeName(key)));
  if (!runtime.ChargeKey(key)) return MakeFailed();
  const Value* found = self.dict->Find(key);
  if (found != nullptr) return *found;
  return arguments.positional[1].missing() ? value::MakeNone() : arguments.positional[1];
}

Value View(Runtime& runtime, const Value& self, ListKind kind) {
  const value::Dict& dict = *self.dict;
  if (!runtime.Charge(static_cast<int64_t>(dict.size / 4))) return MakeFailed();
  std::vector<Value> items;
  items.reserve(dict.size);
  for (const value::DictEntry& entry : dict.items()) {
    if (kind == ListKind::kDictItems) {
      const Value pair[] = {entry.key, entry.value};
      items.push_back(value::MakeList(runtime.heap(), pair, ListKind::kTuple));
      items.back().list->origin = dict.origin;
    } else {
      items.push_back(kind == ListKind::kDictKeys ? entry.key : entry.value);
    }
  }
  Value view = value::MakeList(runtime.heap(), items, kind);
  view.list->origin = dict.origin;
  return view;
}

Value DictCopy(Runtime& runtime, const Value& self, const Arguments&) {
  auto* copy = runtime.heap().New<value::Dict>();
  for (const value::DictEntry& entry : self.dict->items()) {
    if (!runtime.Charge(1) || !runtime.ChargeKey(entry.key)) return MakeFailed();
    copy->Set(runtime.heap(), entry.key, entry.value);
  }
  return value::MakeDict(copy);
}

Value DictFromKeys(Runtime& runtime, const Value&, const Arguments& arguments) {
  const auto keys = runtime.Iterate(arguments.positional[0]);
  if (!keys) return MakeFailed();
  const Value value =
      arguments.positional[1].missing() ? value::MakeNone() : arguments.positional[1];
  auto* dict = runtime.heap().New<value::Dict>();
  for (const Value& key : *keys) {
    if (!value::IsHashable(key))
      return runtime.Fail(fmt::format("unhashable type: '{}'", value::TypeName(key)));
    if (!runtime.Charge(1) || !runtime.ChargeKey(key)) return MakeFailed();
    dict->Set(runtime.heap(), key, value);
  }
  return value::MakeDict(dict);
}

constexpr FunctionSpec kListMethods[] = {
    {"count", "value", ListCount},
    {"index", "value start? stop?", ListIndex},
    {"copy", "", ListCopy},
};

constexpr FunctionSpec kDictMethods[] = {
    {"get", "key default?", DictGet},
    {"items", "",
     [](Runtime& r, const Value& self, const Arguments&) {
       return View(r, self, ListKind::kDictItems);
     }},
    {"keys", "",
     [](Runtime& r, const Value& self, const Arguments&) {
       return View(r, self, ListKind::kDictKeys);
     }},
    {"values", "",
     [](Runtime& r, const Value& self, const Arguments&) {
       return View(r, self, ListKind::kDictValues);
     }},
    {"copy", "", DictCopy},
    {"fromkeys", "iterable value?", DictFromKeys},
};

}  // namespace

std::span<const FunctionSpec> ListMethods() { return kListMethods; }
std::span<const FunctionSpec> DictMethods() { return kDictMethods; }

}  // namespace kvgate::jinja::builtins
