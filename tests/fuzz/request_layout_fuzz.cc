// Runs bodies through an Optimizer in all modes: none crashes it, observe edits none of them, the
// body sent is the original with the listed edits, what is JSON in UTF-8 stays JSON, and pin
// preserves its meaning.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "gateway/prompt/optimizer.h"

namespace {

using kvgate::dialect::form::Endpoint;
using kvgate::prompt::Mode;
using kvgate::prompt::OptimizeArgs;
using kvgate::prompt::Optimizer;
using kvgate::prompt::Prepared;
using kvgate::prompt::parse::Rule;
using nlohmann::json;

void Require(bool holds) {
  if (!holds) std::abort();
}

std::string Folded(std::string text) {
  for (size_t at; (at = text.find("\r\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

// Normalises what every reader treats as equal: newlines, tools as a set, arguments of calls as
// parsed.
json Meaning(const json& value, bool is_tools) {
  if (value.is_string()) return Folded(value.get<std::string>());
  if (value.is_array()) {
    json items = json::array();
    for (const json& item : value) items.push_back(Meaning(item, false));
    if (is_tools) std::sort(items.begin(), items.end());
    return items;
  }
  if (!value.is_object()) return value;
  json members = json::object();
  for (const auto& [key, member] : value.items()) {
    json inside;
    if (key == "arguments" && member.is_string()) {
      inside = json::parse(member.get<std::string>(), nullptr, false);
    }
    members[key] = inside.is_object() ? inside : Meaning(member, key == "tools");
  }
  return members;
}

// The planner's rules and the rule for kvgate's own field change the meaning; the others must not.
constexpr uint32_t kRulesOff = Bit(Rule::kCacheControl) | Bit(Rule::kBreakpoints) |
                               Bit(Rule::kPromptCacheKey) | Bit(Rule::kTtlDropped) |
                               Bit(Rule::kSourceField);

// `is_utf8`: the body and all before it are.
void Send(Optimizer& optimizer, OptimizeArgs args, std::string_view body, bool is_utf8) {
  args.body = body;
  ++args.now_us;
  const Prepared prepared = optimizer.Prepare(args);
  if (args.mode == Mode::kObserve) Require(!prepared.body && prepared.edits.empty());
  if (prepared.body) {
    const kvgate::prompt::parse::Span whole = {0, static_cast<uint32_t>(body.size())};
    Require(*prepared.body == kvgate::prompt::parse::ApplyEdits(body, prepared.edits, whole));
    const json before = json::parse(body, nullptr, false);
    if (is_utf8 && !before.is_discarded()) {
      const json after = json::parse(*prepared.body, nullptr, false);
      Require(!after.is_discarded());
      const bool keeps = args.mode == Mode::kPin && args.rules_off != 0;
      if (keeps) Require(Meaning(before, false) == Meaning(after, false));
    }
  }
  optimizer.Finish(prepared, {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  OptimizeArgs args;
  constexpr Endpoint kEndpoints[] = {Endpoint::kMessages, Endpoint::kChatCompletions,
                                     Endpoint::kResponses};
  args.endpoint = kEndpoints[data[0] % 3];
  args.mode = static_cast<Mode>(data[0] / 3 % 3);
  args.rules_off = (data[0] & 0x40) != 0 ? kRulesOff : 0;
  args.ttl_supported = (data[0] & 0x20) == 0;
  args.tenant = "t";
  args.session = (data[0] & 0x80) != 0 ? "s" : "";
  args.upstream = "u";
  args.provider = args.endpoint == Endpoint::kMessages ? "anthropic" : "openai";
  Optimizer optimizer(Optimizer::Options{});
  // The input holds several bodies of one conversation, separated by a byte that JSON does not
  // have.
  std::string_view rest = input.substr(1);
  bool is_utf8 = true;
  for (int i = 0; i < 4 && !rest.empty(); ++i) {
    const size_t end = std::min(rest.find('\0'), rest.size());
    const std::string body(rest.substr(0, end));
    is_utf8 = is_utf8 && kvgate::IsValidUtf8(body);
    Send(optimizer, args, body, is_utf8);
    // The same body is sent again in another spelling: keys sorted, no spaces.
    const json parsed = json::parse(body, nullptr, false);
    if (!parsed.is_discarded()) {
      Send(optimizer, args, parsed.dump(-1, ' ', true, json::error_handler_t::replace), is_utf8);
    }
    rest = end < rest.size() ? rest.substr(end + 1) : std::string_view();
  }
  return 0;
}
