// tojson as transformers defines it: json.dumps with ensure_ascii=False, keys in insertion order,
// no HTML escaping. And pprint.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json_escape.h"
#include "engine/text/jinja/builtins/builtins.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::builtins {

using runtime::Runtime;
using value::Dict;
using value::ListKind;
using value::MakeFailed;
using value::Origin;
using value::String;
using value::Tag;
using value::TextBuilder;
using value::Value;

namespace {

struct JsonStyle {
  bool ensure_ascii = false;
  bool indents = false;
  bool sort_keys = false;
  const String* indent = value::EmptyString();
  const String* item_separator = nullptr;
  const String* key_separator = nullptr;
};

class JsonPrinter {
 public:
  JsonPrinter(Runtime& runtime, const JsonStyle& style)
      : runtime_(runtime), style_(style), out_(runtime.heap()), walk_(runtime.StartWalk()) {}

  Value Run(const Value& value) {
    const bool whole = Write(value);
    if (!runtime_.EndWalk(walk_) || !whole) return MakeFailed();
    return runtime_.Finish(out_);
  }

 private:
  bool Write(const Value& value) {
    // 384 bytes of work: appending several short pieces per value costs more than visiting it.
    if (!walk_.Enter(384) || out_.heap().exhausted()) return false;
    switch (value.tag) {
      case Tag::kNone:
        out_.Append("null");
        return true;
      case Tag::kBool:
        out_.Append(value.boolean ? "true" : "false");
        return true;
      case Tag::kInt:
        return runtime_.AppendText(value, out_);
      case Tag::kFloat:
        out_.Append(FloatJson(value.number));
        return true;
      case Tag::kBigInteger:
        out_.Append(*value.string);
        return true;
      case Tag::kString:
        WriteString(*value.string);
        return true;
      case Tag::kDict:
        return Nested([&] { return WriteDict(*value.dict); });
      case Tag::kList:
        if (value.list->kind <= ListKind::kGroup) {
          return Nested([&] { return WriteList(*value.list); });
        }
        break;
      default:
        break;
    }
    std::string_view type = value::TypeName(value);
    if (const size_t dot = type.rfind('.'); dot != std::string_view::npos)
      type.remove_prefix(dot + 1);
    runtime_.Fail(fmt::format("Object of type {} is not JSON serializable", type));
    return false;
  }

  template <typename Body>
  bool Nested(const Body& body) {
    --walk_.depth_left;
    ++level_;
    const bool whole = body();
    --level_;
    ++walk_.depth_left;
    return whole;
  }

  static std::string FloatJson(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return FloatText(number);
  }

  void WriteString(const String& text) {
    out_.Append("\"", text.origin());
    value::VisitRuns(text, [&](std::string_view part, Origin origin) {
      size_t plain = 0;
      for (size_t at = 0; at < part.size();) {
        const auto byte = static_cast<unsigned char>(part[at]);
        const bool escapes =
            byte < 0x20 || byte == '"' || byte == '\\' || (byte >= 0x7F && style_.ensure_ascii);
        if (!escapes) {
          ++at;
          continue;
        }
        const value::Decoded decoded = value::DecodeAt(part, at);
        out_.Append(part.substr(plain, at - plain), origin);
        if (decoded.code == 0x7F) {
          out_.Append(part.substr(at, 1), origin);  // Python does not escape it
        } else {
          WriteEscape(decoded.code, origin);
        }
        at += decoded.size;
        plain = at;
      }
      out_.Append(part.substr(plain), origin);
    });
    out_.Append("\"", text.origin());
    walk_.work_left -= static_cast<int64_t>(text.size / 64);
  }

  void WriteEscape(char32_t code, Origin origin) {
    if (code < 0x80) {
      std::string escape;
      AppendJsonEscape(static_cast<char>(code), JsonShort::kAll, escape);
      out_.Append(escape, origin);
      return;
    }
    const auto write = [&](uint32_t unit) { out_.Append(fmt::format("\\u{:04x}", unit), origin); };
    if (code >= 0x10000) {
      write(0xD800 + ((code - 0x10000) >> 10));
      code = 0xDC00 + ((code - 0x10000) & 0x3FF);
    }
    write(code);
  }

  void NewLine(int level, Origin origin) {
    if (!style_.indents) return;
    out_.Append("\n", origin);
    for (int i = 0; i < level; ++i) out_.Append(style_.indent->view(), origin);
  }

  bool WriteList(const value::List& list) {
    if (list.size == 0) {
      out_.Append("[]", list.origin);
      return true;
    }
    out_.Append("[", list.origin);
    for (size_t i = 0; i < list.size; ++i) {
      if (i > 0) out_.Append(style_.item_separator->view(), list.origin);
      NewLine(level_, list.origin);
      if (!Write(list.items[i])) return false;
    }
    NewLine(level_ - 1, list.origin);
    out_.Append("]", list.origin);
    return true;
  }

  bool WriteKey(const Value& key) {
    if (key.is_string()) {
      WriteString(*key.string);
      return true;
    }
    if (key.is_number() || key.is(Tag::kNone)) {
      out_.Append("\"");
      Write(key);
      out_.Append("\"");
      return true;
    }
    runtime_.Fail(
        fmt::format("keys must be str, int, float, bool or None, not {}", value::TypeName(key)));
    return false;
  }

  bool WriteDict(const Dict& dict) {
    if (dict.size == 0) {
      out_.Append("{}", dict.origin);
      return true;
    }
    std::vector<Value> keys;
    std::vector<Value> values;
    for (const value::DictEntry& entry : dict.items()) {
      keys.push_back(entry.key);
      values.push_back(entry.value);
    }
    if (style_.sort_keys && !runtime_.Sort(keys, values, false)) return false;
    out_.Append("{", dict.origin);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i > 0) out_.Append(style_.item_separator->view(), dict.origin);
      NewLine(level_, dict.origin);
      if (!WriteKey(keys[i])) return false;
      out_.Append(style_.key_separator->view(), dict.origin);
      if (!Write(values[i])) return false;
    }
    NewLine(level_ - 1, dict.origin);
    out_.Append("}", dict.origin);
    return true;
  }

  Runtime& runtime_;
  JsonStyle style_;
  TextBuilder out_;
  value::ValueWalk walk_;
  int level_ = 0;
};

bool ReadStyle(Runtime& runtime, const runtime::Arguments& arguments, JsonStyle& style) {
  const Value& ascii = arguments.positional[0];
  const Value& indent = arguments.positional[1];
  const Value& separators = arguments.positional[2];
  const Value& sort_keys = arguments.positional[3];
  style.ensure_ascii = !ascii.missing() && value::IsTrue(ascii);
  style.sort_keys = !sort_keys.missing() && value::IsTrue(sort_keys);
  style.indents = IsGiven(indent);
  if (indent.is_string()) {
    style.indent = indent.string;
  } else if (style.indents) {
    const auto blanks = IntegerArgument(runtime, indent, 0);
    if (!blanks || !runtime.Charge(std::max<int64_t>(*blanks, 0) / 8)) return false;
    TextBuilder builder(runtime.heap());
    builder.Repeat(" ", *blanks);
    style.indent = builder.Build();
  }
  style.item_separator = runtime.MakeText(style.indents ? "," : ", ").string;
  style.key_separator = runtime.MakeText(": ").string;
  if (!IsGiven(separators)) return true;
  const auto pair = runtime.Iterate(separators);
  if (!pair) return false;
  if (pair->size() != 2 || !(*pair)[0].is_string() || !(*pair)[1].is_string()) {
    runtime.Fail("separators must be a pair of strings");
    return false;
  }
  style.item_separator = (*pair)[0].string;
  style.key_separator = (*pair)[1].string;
  return true;
}

Value ToJson(Runtime& runtime, const Value& value, const runtime::Arguments& arguments) {
  JsonStyle style;
  if (!ReadStyle(runtime, arguments, style)) return MakeFailed();
  return JsonPrinter(runtime, style).Run(value);
}

// --- pprint -----------------------------------------------------------------------------------

// Python's pprint with 80 columns. A value that fits on a line is its repr() with sorted keys;
// otherwise it is written one item per line, aligned after the bracket.
class PrettyPrinter {
 public:
  explicit PrettyPrinter(Runtime& runtime)
      : runtime_(runtime), out_(runtime.heap()), walk_(runtime.StartWalk()) {}

  Value Run(const Value& value) {
    Value sorted = Sorted(value);
    const bool whole = !sorted.failed() && Write(sorted, 0, 0);
    if (!runtime_.EndWalk(walk_) || !whole) return MakeFailed();
    return runtime_.Finish(out_);
  }

 private:
  static constexpr int64_t kColumns = 80;

  // Sorts the keys of dicts if they can be ordered.
  Value Sorted(const Value& value) {
    if (!walk_.Enter() || !runtime_.Charge(1)) return MakeFailed();
    --walk_.depth_left;
    Value sorted = value;
    if (value.is(Tag::kDict)) {
      sorted = SortedDict(*value.dict);
    } else if (value.is(Tag::kList) && value.list->kind <= ListKind::kGroup) {
      sorted = value::MakeList(runtime_.heap(), value.list->values(), value.list->kind);
      sorted.list->origin = value.list->origin;
      for (Value& item : sorted.list->values()) {
        item = Sorted(item);
        if (item.failed()) return item;
      }
    }
    ++walk_.depth_left;
    return sorted;
  }

  Value SortedDict(const Dict& dict) {
    std::vector<Value> keys;
    std::vector<Value> values;
    bool strings = true;
    bool numbers = true;
    for (const value::DictEntry& entry : dict.items()) {
      keys.push_back(entry.key);
      values.push_back(Sorted(entry.value));
      if (values.back().failed()) return MakeFailed();
      strings = strings && entry.key.is_string();
      numbers = numbers && entry.key.is_number();
    }
    if ((strings || numbers) && !runtime_.Sort(keys, values, false)) return MakeFailed();
    auto* sorted = runtime_.heap().New<Dict>();
    sorted->origin = dict.origin;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!runtime_.ChargeKey(keys[i])) return MakeFailed();
      sorted->Set(runtime_.heap(), keys[i], values[i]);
    }
    return value::MakeDict(sorted);
  }

  // `indent`: column where the value begins; `allowance`: columns needed for closing brackets after
  // it.
  bool Write(const Value& value, int64_t indent, int64_t allowance) {
    if (!walk_.Enter() || !runtime_.Charge(1)) return false;
    TextBuilder repr(runtime_.heap());
    if (!runtime_.AppendRepr(value, repr)) return false;
    const String* line = repr.Build();
    const bool nested =
        value.is(Tag::kDict) || (value.is(Tag::kList) && value.list->kind <= ListKind::kGroup);
    if (!nested || line->length() <= kColumns - indent - allowance) {
      out_.Append(*line);
      return true;
    }
    --walk_.depth_left;
    const bool whole = value.is(Tag::kDict) ? WriteDict(*value.dict, indent, allowance)
                                            : WriteList(*value.list, indent, allowance);
    ++walk_.depth_left;
    return whole;
  }

  void NextLine(int64_t indent, Origin origin) {
    out_.Append(",\n", origin);
    out_.Repeat(" ", indent, origin);
  }

  bool WriteList(const value::List& list, int64_t indent, int64_t allowance) {
    const bool tuple = list.kind != ListKind::kList;
    const bool lone = tuple && list.size == 1;
    out_.Append(tuple ? "(" : "[", list.origin);
    for (size_t i = 0; i < list.size; ++i) {
      if (i > 0) NextLine(indent + 1, list.origin);
      const bool last = i + 1 == list.size;
      if (!Write(list.items[i], indent + 1, last ? allowance + (lone ? 2 : 1) : 1)) return false;
    }
    out_.Append(lone ? ",)" : tuple ? ")" : "]", list.origin);
    return true;
  }

  bool WriteDict(const Dict& dict, int64_t indent, int64_t allowance) {
    out_.Append("{", dict.origin);
    for (size_t i = 0; i < dict.size; ++i) {
      if (i > 0) NextLine(indent + 1, dict.origin);
      TextBuilder repr(runtime_.heap());
      if (!runtime_.AppendRepr(dict.entries[i].key, repr)) return false;
      const String* key = repr.Build();
      out_.Append(*key);
      out_.Append(": ", dict.origin);
      const bool last = i + 1 == dict.size;
      if (!Write(dict.entries[i].value, indent + key->length() + 3, last ? allowance + 1 : 1)) {
        return false;
      }
    }
    out_.Append("}", dict.origin);
    return true;
  }

  Runtime& runtime_;
  TextBuilder out_;
  value::ValueWalk walk_;
};

Value PrettyPrint(Runtime& runtime, const Value& value, const runtime::Arguments&) {
  return PrettyPrinter(runtime).Run(value);
}

constexpr runtime::FunctionSpec kFilters[] = {
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", ToJson},
    {"pprint", "", PrettyPrint},
};

}  // namespace

std::span<const runtime::FunctionSpec> JsonFilters() { return kFilters; }

}  // namespace kvgate::jinja::builtins
