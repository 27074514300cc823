// str() and repr() of values.
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "engine/text/jinja/runtime/loop.h"
#include "engine/text/jinja/runtime/runtime.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja {

using runtime::Runtime;
using value::Tag;
using value::TextBuilder;
using value::Value;

namespace {

void AppendEscaped(char32_t code, char quote, value::Origin origin, TextBuilder& out) {
  if (code == static_cast<char32_t>(quote) || code == '\\') {
    const char escaped[] = {'\\', static_cast<char>(code)};
    out.Append(std::string_view(escaped, 2), origin);
  } else if (code == '\n') {
    out.Append("\\n", origin);
  } else if (code == '\r') {
    out.Append("\\r", origin);
  } else if (code == '\t') {
    out.Append("\\t", origin);
  } else if (code < 0x100) {
    out.Append(fmt::format("\\x{:02x}", static_cast<uint32_t>(code)), origin);
  } else if (code < 0x10000) {
    out.Append(fmt::format("\\u{:04x}", static_cast<uint32_t>(code)), origin);
  } else {
    out.Append(fmt::format("\\U{:08x}", static_cast<uint32_t>(code)), origin);
  }
}

// Quotes a string as Python does: with double quotes only if it contains single quotes and no
// double ones.
void AppendQuoted(const value::String& text, TextBuilder& out) {
  const std::string_view all = text.view();
  const bool has_single = all.find('\'') != std::string_view::npos;
  const char quote = has_single && all.find('"') == std::string_view::npos ? '"' : '\'';
  const std::string_view quotes(&quote, 1);
  out.Append(quotes, text.origin());
  value::VisitRuns(text, [&](std::string_view part, value::Origin origin) {
    size_t plain = 0;
    for (size_t at = 0; at < part.size();) {
      const value::Decoded decoded = value::DecodeAt(part, at);
      const bool special = decoded.code == '\\' || decoded.code == static_cast<char32_t>(quote) ||
                           !value::IsPrintable(decoded.code);
      if (special) {
        out.Append(part.substr(plain, at - plain), origin);
        AppendEscaped(decoded.code, quote, origin, out);
        plain = at + decoded.size;
      }
      at += decoded.size;
    }
    out.Append(part.substr(plain), origin);
  });
  out.Append(quotes, text.origin());
}

class Printer {
 public:
  Printer(Runtime& runtime, TextBuilder& out)
      : runtime_(runtime), out_(out), walk_(runtime.StartWalk()) {}

  // Returns false if it failed.
  bool Print(const Value& value) {
    const bool whole = Repr(value);
    return runtime_.EndWalk(walk_) && whole;
  }

 private:
  bool Repr(const Value& value) {
    // 384 bytes of work: appending several short pieces per value costs more than visiting it.
    const size_t cost = 384 + (value.is_string() ? value.string->size : 0);
    if (!walk_.Enter(cost) || out_.heap().exhausted()) {
      return false;
    }
    --walk_.depth_left;
    const bool whole = ReprUnchecked(value);
    ++walk_.depth_left;
    return whole;
  }

  bool ReprUnchecked(const Value& value) {
    switch (value.tag) {
      case Tag::kUndefined:
        out_.Append("Undefined");
        return true;
      case Tag::kString:
        if (value.markup) out_.Append("Markup(");
        AppendQuoted(*value.string, out_);
        if (value.markup) out_.Append(")");
        return true;
      case Tag::kList:
        return ReprList(*value.list);
      case Tag::kDict:
        return ReprDict(*value.dict);
      case Tag::kNamespace:
        out_.Append("<Namespace ");
        if (!ReprDict(*value.name_space->attributes)) return false;
        out_.Append(">");
        return true;
      default:
        return runtime_.AppendText(value, out_);
    }
  }

  bool ReprList(const value::List& list) {
    constexpr std::pair<std::string_view, std::string_view> kBrackets[] = {{"[", "]"},
                                                                           {"(", ")"},
                                                                           {"(", ")"},
                                                                           {"dict_keys([", "])"},
                                                                           {"dict_values([", "])"},
                                                                           {"dict_items([", "])"}};
    if (list.kind == value::ListKind::kIterator) {
      out_.Append(fmt::format("<{} object>", list.type));
      return true;
    }
    const auto& [open, close] = kBrackets[static_cast<size_t>(list.kind)];
    out_.Append(open, list.origin);
    for (size_t i = 0; i < list.size; ++i) {
      if (i > 0) out_.Append(", ", list.origin);
      if (!Repr(list.items[i])) return false;
    }
    const bool is_tuple =
        list.kind == value::ListKind::kTuple || list.kind == value::ListKind::kGroup;
    if (is_tuple && list.size == 1) out_.Append(",", list.origin);
    out_.Append(close, list.origin);
    return true;
  }

  bool ReprDict(const value::Dict& dict) {
    out_.Append("{", dict.origin);
    for (size_t i = 0; i < dict.size; ++i) {
      if (i > 0) out_.Append(", ", dict.origin);
      if (!Repr(dict.entries[i].key)) return false;
      out_.Append(": ", dict.origin);
      if (!Repr(dict.entries[i].value)) return false;
    }
    out_.Append("}", dict.origin);
    return true;
  }

  Runtime& runtime_;
  TextBuilder& out_;
  value::ValueWalk walk_;
};

std::string RangeText(const value::Range& range) {
  if (range.step == 1) return fmt::format("range({}, {})", range.start, range.stop);
  return fmt::format("range({}, {}, {})", range.start, range.stop, range.step);
}

}  // namespace

std::string FloatText(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto [end, code] =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific);
  const std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  const size_t e = shortest.find('e');
  int exponent = 0;
  const size_t digits = shortest[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(shortest.data() + digits, shortest.data() + shortest.size(), exponent);
  // Python uses an exponent below 1e-04 and from 1e+16 on.
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  char plain[48];
  const auto [plain_end, plain_code] =
      std::to_chars(plain, plain + sizeof(plain), number, std::chars_format::fixed);
  std::string text(plain, plain_end);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

bool Runtime::AppendRepr(const Value& value, TextBuilder& out) {
  return Printer(*this, out).Print(value);
}

bool Runtime::AppendText(const Value& value, TextBuilder& out) {
  switch (value.tag) {
    case Tag::kFailed:
      return false;
    case Tag::kMissing:
    case Tag::kUndefined:
      return true;
    case Tag::kNone:
      out.Append("None");
      return true;
    case Tag::kBool:
      out.Append(value.boolean ? "True" : "False");
      return true;
    case Tag::kInt: {
      char digits[24];
      const auto [end, code] = std::to_chars(digits, digits + sizeof(digits), value.integer);
      out.Append(std::string_view(digits, static_cast<size_t>(end - digits)));
      return true;
    }
    case Tag::kFloat:
      out.Append(FloatText(value.number));
      return true;
    case Tag::kString:
    case Tag::kBigInteger:
      out.Append(*value.string);
      return true;
    case Tag::kList:
    case Tag::kDict:
    case Tag::kNamespace:
      return AppendRepr(value, out);
    case Tag::kRange:
      out.Append(RangeText(*value.range));
      return true;
    case Tag::kLoop: {
      const Value length = LoopAttribute(*this, *value.loop, "length");
      if (length.failed()) return false;
      out.Append(fmt::format("<LoopContext {}/{}>", value.loop->index0 + 1, length.integer));
      return true;
    }
    case Tag::kMacro:
      out.Append(value.macro->definition->name.empty()
                     ? "<Macro anonymous>"
                     : fmt::format("<Macro '{}'>", value.macro->definition->name));
      return true;
    case Tag::kFunction:
      out.Append(fmt::format("<function {}>", value.function->name));
      return true;
    case Tag::kMethod:
      out.Append(fmt::format("<built-in method {}>", value.method->function->name));
      return true;
    case Tag::kCycler:
    case Tag::kJoiner:
      out.Append(fmt::format("<{} object>", value::TypeName(value)));
      return true;
  }
  return true;
}

}  // namespace kvgate::jinja
