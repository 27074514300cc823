// Filters from text to text.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "engine/text/jinja/builtins/builtins.h"
#include "engine/text/jinja/builtins/formatting.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::builtins {

using runtime::Arguments;
using runtime::Runtime;
using value::MakeFailed;
using value::MakeString;
using value::String;
using value::Tag;
using value::TextBuilder;
using value::Value;

namespace {

// Returns str(value), keeping markup, or failed.
Value SoftText(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value;
  const String* text = runtime.ToText(value);
  return text == nullptr ? MakeFailed() : MakeString(text);
}

Value Upper(Runtime& runtime, const Value& value, const Arguments&) {
  const Value text = SoftText(runtime, value);
  return text.failed() ? text : UpperText(runtime, text);
}

Value Lower(Runtime& runtime, const Value& value, const Arguments&) {
  const Value text = SoftText(runtime, value);
  return text.failed() ? text : LowerText(runtime, text);
}

Value Capitalize(Runtime& runtime, const Value& value, const Arguments&) {
  const Value text = SoftText(runtime, value);
  return text.failed() ? text : CapitalizeText(runtime, text);
}

// A word begins after a blank, a hyphen or an opening bracket.
Value Title(Runtime& runtime, const Value& value, const Arguments&) {
  const Value text = SoftText(runtime, value);
  if (text.failed() || !runtime.ChargeBytes(16 * text.string->size)) return MakeFailed();
  TextBuilder out(runtime.heap());
  bool starts = true;
  value::VisitRuns(*text.string, [&](std::string_view part, value::Origin origin) {
    for (size_t at = 0; at < part.size();) {
      const value::Decoded decoded = value::DecodeAt(part, at);
      at += decoded.size;
      const char32_t code = decoded.code;
      const bool separates = value::IsSpace(code) || code == '-' || code == '(' || code == '{' ||
                             code == '[' || code == '<';
      const value::CaseMapping mapping = separates ? value::CaseMapping{code, 0, 0}
                                         : starts  ? value::ToUpper(code)
                                                   : value::ToLower(code);
      for (const char32_t mapped : mapping) {
        if (mapped != 0 || code == 0) out.AppendCharacter(mapped, origin);
        if (code == 0) break;
      }
      starts = separates;
    }
  });
  return runtime.Finish(out, text.markup);
}

Value Trim(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value text = SoftText(runtime, value);
  if (text.failed()) return text;
  const String* chars = nullptr;
  if (IsGiven(arguments.positional[0])) {
    chars = StringArgument(runtime, arguments.positional[0], nullptr);
    if (chars == nullptr) return MakeFailed();
  }
  return StripText(runtime, text, chars, true, true);
}

Value Replace(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const String* text = runtime.ToText(value);
  if (text == nullptr) return MakeFailed();
  const String* from = runtime.ToText(arguments.positional[0]);
  if (from == nullptr) return MakeFailed();
  const String* to = runtime.ToText(arguments.positional[1]);
  if (to == nullptr) return MakeFailed();
  const Value& wanted = arguments.positional[2];
  const auto count = IntegerArgument(runtime, IsGiven(wanted) ? wanted : Value(), -1);
  if (!count) return MakeFailed();
  return ReplaceText(runtime, MakeString(text), *from, *to, *count);
}

Value ToString(Runtime& runtime, const Value& value, const Arguments&) {
  return SoftText(runtime, value);
}

Value Format(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value text = SoftText(runtime, value);
  if (text.failed()) return text;
  if (!arguments.positional.empty() && !arguments.keywords.empty()) {
    return runtime.Fail("can't handle positional and keyword arguments at the same time");
  }
  if (arguments.keywords.empty()) {
    return PercentFormat(
        runtime, text,
        value::MakeList(runtime.heap(), arguments.positional, value::ListKind::kTuple));
  }
  auto* dict = runtime.heap().New<value::Dict>();
  for (const runtime::Keyword& keyword : arguments.keywords) {
    dict->Set(runtime.heap(), MakeString(keyword.name), keyword.value);
  }
  return PercentFormat(runtime, text, value::MakeDict(dict));
}

Value Safe(Runtime& runtime, const Value& value, const Arguments&) {
  Value text = SoftText(runtime, value);
  if (text.is_string()) text.markup = true;
  return text;
}

Value Escape(Runtime& runtime, const Value& value, const Arguments&) {
  return EscapeHtml(runtime, value);
}

Value ForceEscape(Runtime& runtime, const Value& value, const Arguments&) {
  Value text = SoftText(runtime, value);
  if (text.failed()) return text;
  text.markup = false;
  return EscapeHtml(runtime, text);
}

// Removes comments and tags, collapses white space, and decodes the common entities.
Value StripTags(Runtime& runtime, const Value& value, const Arguments&) {
  Value text = SoftText(runtime, value);
  if (text.failed() || !runtime.ChargeBytes(8 * text.string->size)) return MakeFailed();
  text.markup = false;
  const auto cut = [&](std::string_view open, std::string_view close) {
    TextBuilder out(runtime.heap());
    const std::string_view all = text.text();
    size_t at = 0;
    for (;;) {
      const size_t begin = all.find(open, at);
      const size_t end = begin == std::string_view::npos ? begin : all.find(close, begin);
      if (end == std::string_view::npos) break;
      out.Append(*value::Part(runtime.heap(), *text.string, at, begin));
      at = end + close.size();
    }
    out.Append(*value::Part(runtime.heap(), *text.string, at, all.size()));
    text = MakeString(out.Build());
  };
  cut("<!--", "-->");
  cut("<", ">");
  TextBuilder out(runtime.heap());
  bool blank = false;
  value::VisitRuns(*text.string, [&](std::string_view part, value::Origin origin) {
    for (size_t at = 0; at < part.size();) {
      const value::Decoded decoded = value::DecodeAt(part, at);
      if (value::IsSpace(decoded.code)) {
        blank = true;
      } else {
        if (std::exchange(blank, false) && out.size() > 0) out.Append(" ", origin);
        out.Append(part.substr(at, decoded.size), origin);
      }
      at += decoded.size;
    }
  });
  text = MakeString(out.Build());
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"},  {"&gt;", ">"},        {"&#34;", "\""}, {"&quot;", "\""},
      {"&#39;", "'"}, {"&nbsp;", "\u00A0"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities) {
    text = ReplaceText(runtime, text, *runtime.MakeText(entity).string,
                       *MakeString(runtime.heap(), character, text.string->origin()).string, -1);
    if (text.failed()) break;
  }
  return text;
}

void AppendUrlQuoted(const String& text, bool for_query, TextBuilder& out) {
  value::VisitRuns(text, [&](std::string_view part, value::Origin origin) {
    for (const char c : part) {
      const auto byte = static_cast<unsigned char>(c);
      const bool plain = std::isalnum(byte) != 0 || c == '_' || c == '.' || c == '-' || c == '~' ||
                         (c == '/' && !for_query);
      if (plain) {
        out.Append(std::string_view(&c, 1), origin);
      } else if (c == ' ' && for_query) {
        out.Append("+", origin);
      } else {
        out.Append(fmt::format("%{:02X}", byte), origin);
      }
    }
  });
}

Value UrlEncode(Runtime& runtime, const Value& value, const Arguments&) {
  TextBuilder out(runtime.heap());
  if (value.is_string() || !value::IsIterable(value)) {
    const String* text = runtime.ToText(value);
    if (text == nullptr || !runtime.ChargeBytes(8 * text->size)) return MakeFailed();
    AppendUrlQuoted(*text, false, out);
    return runtime.Finish(out);
  }
  std::vector<std::pair<Value, Value>> pairs;
  if (value.is(Tag::kDict)) {
    for (const value::DictEntry& entry : value.dict->items())
      pairs.emplace_back(entry.key, entry.value);
  } else {
    const auto items = runtime.Iterate(value);
    if (!items) return MakeFailed();
    for (const Value& item : *items) {
      const auto pair = runtime.Iterate(item);
      if (!pair) return MakeFailed();
      if (pair->size() != 2) return runtime.Fail("urlencode wants pairs");
      pairs.emplace_back((*pair)[0], (*pair)[1]);
    }
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    const String* key = runtime.ToText(pairs[i].first);
    const String* text = key == nullptr ? nullptr : runtime.ToText(pairs[i].second);
    if (text == nullptr || !runtime.ChargeBytes(8 * (key->size + text->size))) return MakeFailed();
    if (i > 0) out.Append("&");
    AppendUrlQuoted(*key, true, out);
    out.Append("=");
    AppendUrlQuoted(*text, true, out);
  }
  return runtime.Finish(out);
}

Value XmlAttributes(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!value.is(Tag::kDict)) return runtime.Fail("xmlattr wants a mapping");
  TextBuilder out(runtime.heap());
  const Value& autospace = arguments.positional[0];
  for (const value::DictEntry& entry : value.dict->items()) {
    if (entry.value.is(Tag::kNone) || entry.value.is(Tag::kUndefined)) continue;
    if (!entry.key.is_string()) return runtime.Fail("xmlattr wants names that are strings");
    if (entry.key.text().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      return runtime.Fail("Invalid character in attribute name");
    }
    const Value name = EscapeHtml(runtime, entry.key);
    const Value escaped = EscapeHtml(runtime, entry.value);
    if (name.failed() || escaped.failed()) return MakeFailed();
    if (out.size() > 0 || autospace.missing() || value::IsTrue(autospace)) out.Append(" ");
    out.Append(*name.string);
    out.Append("=\"");
    out.Append(*escaped.string);
    out.Append("\"");
  }
  return runtime.Finish(out);
}

constexpr runtime::FunctionSpec kFilters[] = {
    {"upper", "", Upper},
    {"lower", "", Lower},
    {"capitalize", "", Capitalize},
    {"title", "", Title},
    {"trim", "chars?", Trim},
    {"replace", "old new count?", Replace},
    {"string", "", ToString},
    {"format", "*", Format},
    {"safe", "", Safe},
    {"escape", "", Escape},
    {"e", "", Escape},
    {"forceescape", "", ForceEscape},
    {"striptags", "", StripTags},
    {"urlencode", "", UrlEncode},
    {"xmlattr", "autospace?", XmlAttributes},
};

}  // namespace

std::span<const runtime::FunctionSpec> TextFilters() { return kFilters; }

}  // namespace kvgate::jinja::builtins
