#include "engine/text/jinja/builtins/formatting.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/utf8.h"
#include "engine/text/jinja/builtins/number_format.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::builtins {

using runtime::Runtime;
using value::MakeFailed;
using value::Part;
using value::String;
using value::Tag;
using value::TextBuilder;
using value::TypeName;
using value::Value;

namespace {

std::string_view SignOf(bool negative, char mode) {
  if (negative) return "-";
  return mode == '+' ? "+" : mode == ' ' ? " " : "";
}

uint64_t Magnitude(int64_t number) {
  return number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
}

// --- "%s" % x ---------------------------------------------------------------------------------

class Percent {
 public:
  Percent(Runtime& runtime, const Value& format, const Value& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments), out_(runtime.heap()) {
    const bool tuple =
        arguments.is(Tag::kList) && (arguments.list->kind == value::ListKind::kTuple ||
                                     arguments.list->kind == value::ListKind::kGroup);
    values_ = tuple ? std::span<const Value>(arguments.list->values()) : std::span(&arguments_, 1);
    // A value must be consumed, unless Python takes it for a mapping (anything with subscripts).
    const bool list = arguments.is(Tag::kList) && arguments.list->kind == value::ListKind::kList;
    needs_all_ = !list && !arguments.is(Tag::kDict) && !arguments.is(Tag::kRange) &&
                 !arguments.is(Tag::kUndefined);
  }

  Value Run() {
    const std::string_view text = format_.text();
    while (at_ < text.size()) {
      const size_t percent = std::min(text.find('%', at_), text.size());
      out_.Append(*Part(runtime_.heap(), *format_.string, at_, percent));
      at_ = percent + 1;
      if (percent < text.size() && !Conversion()) return MakeFailed();
      if (!runtime_.Charge(1)) return MakeFailed();
    }
    if (needs_all_ && next_ < values_.size()) {
      return runtime_.Fail("not all arguments converted during string formatting");
    }
    return runtime_.Finish(out_, format_.markup);
  }

 private:
  bool Fail(std::string message) { return runtime_.Fail(std::move(message)), false; }
  char Peek() const { return at_ < format_.string->size ? format_.text()[at_] : '\0'; }
  bool Next(Value& value) {
    if (next_ >= values_.size()) return Fail("not enough arguments for format string");
    value = values_[next_++];
    return true;
  }

  bool Named(Value& value) {
    const size_t end = format_.text().find(')', at_);
    if (end == std::string_view::npos) return Fail("incomplete format key");
    if (!arguments_.is(Tag::kDict)) return Fail("format requires a mapping");
    const std::string_view name = format_.text().substr(at_ + 1, end - at_ - 1);
    const Value* found = arguments_.dict->Find(name);
    if (found == nullptr) return Fail(fmt::format("KeyError: '{}'", name));
    value = *found;
    needs_all_ = false;
    at_ = end + 1;
    return true;
  }

  bool Number(int64_t& number) {
    if (Peek() == '*') {
      ++at_;
      Value value;
      if (!Next(value)) return false;
      if (!value.is_integer()) return Fail("* wants int");
      number = value.as_integer();
    } else {
      for (number = 0; Peek() >= '0' && Peek() <= '9'; ++at_) {
        number = std::min(number * 10 + (Peek() - '0'), kFormatWidthMax + 1);
      }
    }
    return std::abs(number) <= kFormatWidthMax || Fail("the width or precision is too large");
  }

  bool Conversion() {
    Value value;
    if (Peek() == '(' && !Named(value)) return false;
    FormatSpec spec;
    bool left = false;
    for (;; ++at_) {
      if (Peek() == '-') {
        left = true;
      } else if (Peek() == '+' || (Peek() == ' ' && spec.sign != '+')) {
        spec.sign = Peek();
      } else if (Peek() == '#') {
        spec.alternate = true;
      } else if (Peek() == '0') {
        spec.zero = true;
      } else if (Peek() != ' ') {
        break;
      }
    }
    if (!Number(spec.width)) return false;
    if (spec.width < 0) left = true;
    spec.width = std::abs(spec.width);
    if (Peek() == '.') {
      ++at_;
      if (!Number(spec.precision)) return false;
      spec.precision = std::max<int64_t>(spec.precision, 0);
    }
    while (Peek() == 'l' || Peek() == 'h' || Peek() == 'L') ++at_;
    const char type = Peek();
    if (type == '\0') return Fail("incomplete format");
    ++at_;
    if (type == '%') {
      out_.Append("%");
      return true;
    }
    if (value.missing() && !Next(value)) return false;
    spec.align = left ? '<' : '>';
    return Convert(type, value, spec);
  }

  bool Convert(char type, const Value& value, FormatSpec& spec) {
    switch (type) {
      case 's':
      case 'r':
      case 'a':
        return Text(type, value, spec);
      case 'c':
        return Character(value, spec);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return Integer(type, value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (value.is(Tag::kUndefined)) return runtime_.FailUndefined(value), false;
        if (!value.is_number()) {
          return Fail(fmt::format("must be real number, not {}", TypeName(value)));
        }
        spec.type = type;
        Padded(SignOf(std::signbit(value.as_double()), spec.sign),
               FloatDigits(std::abs(value.as_double()), spec), spec);
        return true;
      default:
        return Fail(fmt::format("unsupported format character '{}'", type));
    }
  }

  void Padded(std::string_view sign, std::string_view body, FormatSpec& spec) {
    if (spec.zero && spec.align == '>') {
      spec.align = '=';
      spec.fill = "0";
    }
    out_.Append(Pad(sign, body, spec, '>'));
  }

  bool Text(char type, const Value& value, const FormatSpec& spec) {
    const String* text = nullptr;
    if (type == 's') {
      text = runtime_.ToText(value);
    } else {
      TextBuilder repr(runtime_.heap());
      if (runtime_.AppendRepr(value, repr)) text = repr.Build();
    }
    if (text == nullptr) return false;
    if (spec.precision >= 0 && spec.precision < text->length()) {
      text = Part(runtime_.heap(), *text, 0, text->OffsetOf(spec.precision));
    }
    const int64_t missing = std::max<int64_t>(spec.width - text->length(), 0);
    if (spec.align == '>') out_.Repeat(" ", missing);
    out_.Append(*text);
    if (spec.align == '<') out_.Repeat(" ", missing);
    return true;
  }

  bool Character(const Value& value, FormatSpec& spec) {
    std::string text;
    if (value.is_string() && value.string->length() == 1) {
      text = value.text();
    } else if (value.is_integer() && value.as_integer() >= 0 && value.as_integer() < 0x110000) {
      AppendUtf8(static_cast<char32_t>(value.as_integer()), text);
    } else {
      return Fail("%c requires int or char");
    }
    spec.zero = false;
    Padded("", text, spec);
    return true;
  }

  bool Integer(char type, const Value& value, FormatSpec& spec) {
    if (value.is(Tag::kUndefined)) return runtime_.FailUndefined(value), false;
    int64_t number = 0;
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (value.is_integer()) {
      number = value.as_integer();
    } else if (value.is(Tag::kFloat) && decimal && std::abs(value.number) < 9.2e18) {
      number = static_cast<int64_t>(value.number);
    } else {
      return Fail(
          fmt::format("%{} format: a real number is required, not {}", type, TypeName(value)));
    }
    spec.type = decimal ? 'd' : type;
    std::string digits = IntegerDigits(Magnitude(number), {.type = spec.type});
    if (spec.precision > static_cast<int64_t>(digits.size())) {
      digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
    }
    std::string sign(SignOf(number < 0, spec.sign));
    if (spec.alternate && !decimal) sign += type == 'o' ? "0o" : type == 'x' ? "0x" : "0X";
    Padded(sign, digits, spec);
    return true;
  }

  Runtime& runtime_;
  Value format_;
  Value arguments_;
  TextBuilder out_;
  std::span<const Value> values_;
  bool needs_all_;
  size_t at_ = 0;
  size_t next_ = 0;
};

// --- "{}".format(x) ---------------------------------------------------------------------------

class Brace {
 public:
  Brace(Runtime& runtime, const Value& format, const runtime::Arguments& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments), out_(runtime.heap()) {}

  Value Run() {
    if (!Expand(*format_.string, 2, out_)) return MakeFailed();
    return runtime_.Finish(out_, format_.markup);
  }

 private:
  bool Fail(std::string message) { return runtime_.Fail(std::move(message)), false; }

  // A field's specification may contain fields, but theirs may not.
  bool Expand(const String& format, int levels, TextBuilder& out) {
    if (levels == 0) return Fail("Max string recursion exceeded");
    const std::string_view text = format.view();
    size_t at = 0;
    while (at < text.size()) {
      if (!runtime_.Charge(1)) return false;
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.Append(*Part(runtime_.heap(), format, at, brace));
      if (brace == text.size()) break;
      const char c = text[brace];
      at = brace + 1;
      if (at < text.size() && text[at] == c) {
        out.Append(std::string_view(&c, 1));
        ++at;
        continue;
      }
      if (c == '}') return Fail("Single '}' encountered in format string");
      size_t end = at;
      for (int depth = 1; end < text.size(); ++end) {
        if (text[end] == '{') ++depth;
        if (text[end] == '}' && --depth == 0) break;
      }
      if (end >= text.size()) {
        return Fail(at >= text.size() ? "Single '{' encountered in format string"
                                      : "expected '}' before end of string");
      }
      if (!Field(*Part(runtime_.heap(), format, at, end), levels, out)) return false;
      at = end + 1;
    }
    return true;
  }

  bool Field(const String& field, int levels, TextBuilder& out) {
    const std::string_view text = field.view();
    size_t end = 0;
    for (bool inside = false; end < text.size(); ++end) {
      if (text[end] == '[') inside = true;
      if (text[end] == ']') inside = false;
      if (!inside && (text[end] == '!' || text[end] == ':')) break;
    }
    Value value;
    if (!Lookup(text.substr(0, end), value)) return false;
    char conversion = '\0';
    if (end < text.size() && text[end] == '!') {
      if (end + 1 >= text.size()) return Fail("end of string while looking for conversion");
      conversion = text[end + 1];
      end += 2;
      if (end < text.size() && text[end] != ':') return Fail("expected ':' after conversion");
    }
    const String* spec = value::EmptyString();
    if (end < text.size()) {
      TextBuilder expanded(runtime_.heap());
      if (!Expand(*Part(runtime_.heap(), field, end + 1, text.size()), levels - 1, expanded)) {
        return false;
      }
      spec = expanded.Build();
    }
    return Convert(conversion, value) && Format(value, spec->view(), out);
  }

  bool Convert(char conversion, Value& value) {
    if (conversion == '\0') return true;
    if (conversion == 's') {
      const String* text = runtime_.ToText(value);
      if (text == nullptr) return false;
      value = value::MakeString(text);
      return true;
    }
    if (conversion != 'r' && conversion != 'a') {
      return Fail(fmt::format("Unknown conversion specifier {}", conversion));
    }
    TextBuilder repr(runtime_.heap());
    if (!runtime_.AppendRepr(value, repr)) return false;
    value = value::MakeString(repr.Build());
    return true;
  }

  bool First(std::string_view name, Value& value) {
    const bool digits =
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits) {  // a number, or empty for the next argument
      if (name.empty() ? numbered_ : automatic_) {
        return Fail(
            "cannot switch between manual field specification and automatic field "
            "numbering");
      }
      size_t index = next_;
      if (name.empty()) {
        automatic_ = true;
        ++next_;
      } else {
        numbered_ = true;
        const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), index);
        if (code != std::errc()) return Fail("Too many decimal digits in format string");
      }
      if (index >= arguments_.positional.size()) {
        return Fail(
            fmt::format("Replacement index {} out of range for positional args tuple", index));
      }
      value = arguments_.positional[index];
      return true;
    }
    for (const runtime::Keyword& keyword : arguments_.keywords) {
      if (keyword.name->view() != name) continue;
      value = keyword.value;
      return true;
    }
    return Fail(fmt::format("KeyError: '{}'", name));
  }

  bool Lookup(std::string_view path, Value& value) {
    size_t at = std::min(path.find_first_of(".["), path.size());
    if (!First(path.substr(0, at), value)) return false;
    while (at < path.size()) {
      const bool attribute = path[at] == '.';
      size_t end = attribute ? path.find_first_of(".[", at + 1) : path.find(']', at);
      if (!attribute && end == std::string_view::npos) return Fail("Missing ']' in format string");
      end = std::min(end, path.size());
      const std::string_view name = path.substr(at + 1, end - at - 1);
      if (name.empty()) return Fail("Empty attribute in format string");
      int64_t index = 0;
      const auto [rest, code] = std::from_chars(name.data(), name.data() + name.size(), index);
      const bool number = code == std::errc() && rest == name.data() + name.size() && index >= 0;
      const Value key = number && !attribute ? value::MakeInt(index) : runtime_.MakeText(name);
      value = attribute ? runtime_.Attribute(value, key) : runtime_.Item(value, key);
      if (value.failed()) return false;
      at = attribute ? end : end + 1;
      if (at < path.size() && path[at] != '.' && path[at] != '[') {
        return Fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return true;
  }

  bool Format(const Value& value, std::string_view text, TextBuilder& out) {
    if (text.empty()) return runtime_.AppendText(value, out);
    FormatSpec spec;
    if (!ParseFormatSpec(text, spec)) return Fail("Invalid format specifier");
    const auto bad_type = [&] {
      return Fail(fmt::format("Unknown format code '{}' for object of type '{}'", spec.type,
                              TypeName(value)));
    };
    constexpr std::string_view kFloatTypes = "eEfFgG%";
    if (value.is_string()) return FormatText(*value.string, spec, out);
    if (value.is(Tag::kFloat) || (value.is_integer() && spec.type != '\0' &&
                                  kFloatTypes.find(spec.type) != std::string_view::npos)) {
      if (spec.type != '\0' && spec.type != 'n' &&
          kFloatTypes.find(spec.type) == std::string_view::npos) {
        return bad_type();
      }
      const double number = value.as_double();
      out.Append(Pad(SignOf(std::signbit(number), spec.sign), FloatDigits(std::abs(number), spec),
                     spec, '>'));
      return true;
    }
    if (!value.is_integer()) {
      return Fail(
          fmt::format("unsupported format string passed to {}.__format__", TypeName(value)));
    }
    if (spec.type != '\0' && std::string_view("dboxXn").find(spec.type) == std::string_view::npos) {
      return bad_type();
    }
    if (spec.precision >= 0) return Fail("Precision not allowed in integer format specifier");
    const int64_t number = value.as_integer();
    std::string digits = IntegerDigits(Magnitude(number), spec);
    std::string sign(SignOf(number < 0, spec.sign));
    if (spec.alternate && digits.size() > 2 && digits[0] == '0' && digits[1] > '9') {
      sign += digits.substr(0, 2);
      digits.erase(0, 2);
    }
    out.Append(Pad(sign, digits, spec, '>'));
    return true;
  }

  bool FormatText(const String& text, const FormatSpec& spec, TextBuilder& out) {
    if (spec.type != '\0' && spec.type != 's') {
      return Fail(fmt::format("Unknown format code '{}' for object of type 'str'", spec.type));
    }
    if (spec.sign != '-') return Fail("Sign not allowed in string format specifier");
    if (spec.grouping != '\0')
      return Fail(fmt::format("Cannot specify '{}' with 's'.", spec.grouping));
    char align = spec.align == '\0' ? '<' : spec.align;
    if (align == '=' && spec.zero) align = '<';
    if (align == '=') return Fail("'=' alignment not allowed in string format specifier");
    const String* part = &text;
    if (spec.precision >= 0 && spec.precision < text.length()) {
      part = Part(runtime_.heap(), text, 0, text.OffsetOf(spec.precision));
    }
    const int64_t missing = std::max<int64_t>(spec.width - part->length(), 0);
    const int64_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    out.Repeat(spec.fill, before);
    out.Append(*part);
    out.Repeat(spec.fill, missing - before);
    return true;
  }

  Runtime& runtime_;
  Value format_;
  runtime::Arguments arguments_;
  TextBuilder out_;
  bool automatic_ = false;
  bool numbered_ = false;
  size_t next_ = 0;
};

}  // namespace

Value PercentFormat(Runtime& runtime, const Value& format, const Value& arguments) {
  return Percent(runtime, format, arguments).Run();
}

Value BraceFormat(Runtime& runtime, const Value& format, const runtime::Arguments& arguments) {
  return Brace(runtime, format, arguments).Run();
}

Value EscapeHtml(Runtime& runtime, const Value& value) {
  if (value.is_string() && value.markup) return value;
  const String* text = runtime.ToText(value);
  if (text == nullptr) return MakeFailed();
  TextBuilder out(runtime.heap());
  value::VisitRuns(*text, [&](std::string_view part, value::Origin origin) {
    for (size_t at = 0; at < part.size();) {
      const size_t special = std::min(part.find_first_of("&<>'\"", at), part.size());
      out.Append(part.substr(at, special - at), origin);
      if (special == part.size()) break;
      const char c = part[special];
      out.Append(c == '&'   ? "&amp;"
                 : c == '<' ? "&lt;"
                 : c == '>' ? "&gt;"
                 : c == '"' ? "&#34;"
                            : "&#39;",
                 origin);
      at = special + 1;
    }
  });
  return runtime.Finish(out, true);
}

}  // namespace kvgate::jinja::builtins
