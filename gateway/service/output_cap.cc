#include "gateway/service/output_cap.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "gateway/dialect/form/json_text.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/service/prompts.h"

namespace kvgate::service {
namespace {

using dialect::form::Endpoint;
using prompt::parse::Edit;

constexpr size_t kShownBytesMax = 40;
constexpr auto kRule = prompt::parse::Rule::kOutputCap;

// A member of the body that limits the answer.
struct Member {
  std::string name;      // as the body spells it
  std::string_view key;  // the entry of kKnownNames that it matches
  prompt::parse::Span value;
};

// Returns the members that limit an answer; the first is the one to add if the body has none.
std::span<const std::string_view> LimitNames(const OutputCapArgs& args) {
  static constexpr std::string_view kChat[] = {"max_completion_tokens", "max_tokens"};
  static constexpr std::string_view kOne[] = {"max_tokens"};
  static constexpr std::string_view kResponses[] = {"max_output_tokens"};
  if (args.endpoint == Endpoint::kResponses) return kResponses;
  const bool is_openai = args.provider == "openai" || args.provider == "azure";
  // Chat of other providers may know only the older name and ignore the newer one.
  return args.endpoint == Endpoint::kChatCompletions && is_openai
             ? std::span<const std::string_view>(kChat)
             : kOne;
}

// What holds the limit of Gemini's bodies, and its spellings; the first is the one to add.
constexpr std::string_view kConfigNames[] = {"generationConfig", "generation_config"};
constexpr std::string_view kConfigLimits[] = {"maxOutputTokens", "max_output_tokens"};

// Every name that some server accepts as a limit in some dialect; llama.cpp, for example, prefers
// n_predict to max_tokens.
constexpr std::string_view kKnownNames[] = {
    "max_tokens",     "max_completion_tokens", "max_output_tokens",   "n_predict",
    "max_new_tokens", "num_predict",           "max_tokens_to_sample"};

// Servers written in Go match names in any case and by Unicode's case folding, which maps two
// non-ASCII letters to s and k.
std::string Folded(std::string_view name) {
  std::string folded;
  for (size_t i = 0; i < name.size(); ++i) {
    const std::string_view rest = name.substr(i);
    if (rest.starts_with("\u017f")) {
      folded += 's';
      i += std::string_view("\u017f").size() - 1;
    } else if (rest.starts_with("\u212a")) {
      folded += 'k';
      i += std::string_view("\u212a").size() - 1;
    } else {
      const char c = name[i];
      folded += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return folded;
}

Error Refused(std::string detail, std::string field) {
  return MakeError(ErrorCode::kInvalidArgument, "output_cap", std::move(detail), std::move(field));
}

// Collects the members with a known name, and the value of `thinking`.
class Reader {
 public:
  explicit Reader(const OutputCapArgs& args) : args_(args), scanner_(args.body) {}

  Result<void> Read() {
    const bool whole = args_.body.size() <= std::numeric_limits<uint32_t>::max() &&
                       scanner_.Object([&](const auto& name) { return Take(name.span); });
    end_ = scanner_.at();
    scanner_.SkipSpace();
    if (whole && scanner_.at() == args_.body.size()) return {};
    if (twice_.empty()) return UnreadableBound(args_.key, args_.limit);
    return Refused(fmt::format("Invalid value for '{}': it stands twice, and servers differ in "
                               "which one counts.",
                               twice_),
                   twice_);
  }

  // The offset at which a member can be added behind all others.
  uint32_t end() const { return end_ - 1; }
  bool is_empty() const { return is_empty_; }

  std::vector<Member> members;
  std::optional<prompt::parse::Span> thinking;  // the last one in the body

 private:
  bool Take(prompt::parse::Span name) {
    is_empty_ = false;
    const std::optional<prompt::parse::Span> value = scanner_.Value();
    if (!value) return false;
    std::string text;
    const prompt::parse::Span quoted = {.begin = name.begin - 1, .end = name.end + 1};
    if (!prompt::parse::DecodeString(quoted.In(args_.body), text)) return false;
    const std::string folded = Folded(text);
    const auto* known = std::find(std::begin(kKnownNames), std::end(kKnownNames), folded);
    if (text == "thinking") thinking = *value;
    if (known == std::end(kKnownNames)) return true;
    const bool is_twice = std::any_of(members.begin(), members.end(),
                                      [&](const Member& other) { return other.key == *known; });
    if (is_twice) {
      twice_ = std::move(text);
      return false;
    }
    members.push_back({std::move(text), *known, *value});
    return true;
  }

  const OutputCapArgs& args_;
  prompt::parse::JsonScanner scanner_;
  uint32_t end_ = 0;
  bool is_empty_ = true;
  std::string twice_;  // the name that occurs a second time
};

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
}

// REQUIRES: a number within the limit. Returns its integer part, at least 1.
int64_t WholeOf(std::string_view number) {
  double value = 1;
  std::from_chars(number.data(), number.data() + number.size(), value);
  return std::max(int64_t{1}, static_cast<int64_t>(value));
}

// Returns true above the limit, and for numbers that some servers read as "no limit": negative
// ones, and 0 unless the endpoint takes it as "process the prompt only".
bool Exceeds(std::string_view number, const OutputCapArgs& args) {
  const bool zero_is_prompt =
      args.endpoint == Endpoint::kMessages || args.endpoint == Endpoint::kCompletions;
  return dialect::form::IsNumberAbove(number, args.limit.most) || number.starts_with('-') ||
         (!zero_is_prompt && !dialect::form::IsNumberAbove(number, 0));
}

// Returns `thinking` with a budget below max_tokens, as Anthropic requires, or nothing if it
// already has one.
std::optional<std::string> BoundThinking(std::string_view thinking, int64_t max_tokens) {
  constexpr int64_t kBudgetMin = 1024;  // Anthropic refuses a smaller budget
  constexpr std::string_view kDigits = "0123456789";
  const size_t name = thinking.find("\"budget_tokens\"");
  if (name == std::string_view::npos) return std::nullopt;
  const size_t begin = thinking.find_first_of(kDigits, name);
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t end = std::min(thinking.find_first_not_of(kDigits, begin), thinking.size());
  const std::string_view budget = thinking.substr(begin, end - begin);
  if (!dialect::form::IsNumberAbove(budget, max_tokens - 1)) return std::nullopt;
  if (max_tokens <= kBudgetMin) return R"({"type":"disabled"})";
  return std::string(thinking).replace(begin, end - begin, std::to_string(max_tokens - 1));
}

Error NothingMayChange(const OutputCapArgs& args, std::string_view name, std::string_view value) {
  const std::string asks =
      value.empty() ? "this request does not name its bound"
                    : fmt::format("this request asks for {}", value.substr(0, kShownBytesMax));
  return Refused(fmt::format("{} value for '{}': answers to the key '{}' have at most {} tokens, "
                             "and {}. {}, so it has to name at most {} itself.",
                             value.empty() ? "Missing" : "Invalid", name, args.key, args.limit.most,
                             asks, args.fixed, args.limit.most),
                 std::string(name));
}

}  // namespace

dialect::form::OutputLimit OutputLimitOf(const config::KeyConfig* key,
                                         const upstream::wire::HeaderFields& fields) {
  constexpr uint32_t kCapBit = uint32_t{1} << static_cast<int>(kRule);
  if (key == nullptr || (RuleBits(key->rules_off) & kCapBit) != 0) return {};
  const bool is_long = upstream::wire::FindHeader(fields, "x-kvgate-intent") == "long-form";
  const int64_t usual = is_long ? 0 : key->default_max_tokens;
  const int64_t most = key->output_tokens_max > 0 ? key->output_tokens_max : usual;
  return {.fallback = usual > 0 && usual < most ? usual : most, .most = most};
}

bool HasAnswer(Endpoint endpoint) { return dialect::form::IsGeneration(endpoint); }

namespace {

// A member of an object in the body, by either of its names; nullopt if there is none. Fails if it
// stands twice, because servers differ in which one counts.
struct Inside {
  std::optional<prompt::parse::Span> value;
  std::string_view name;
  uint32_t end = 0;  // where a member can be added behind all others
  bool is_empty = true;
};
Result<Inside> FindIn(const OutputCapArgs& args, prompt::parse::Span object,
                      const std::string_view (&names)[2]) {
  Inside found;
  prompt::parse::JsonScanner scanner(args.body.substr(0, object.end), object.begin);
  bool is_twice = false;
  const bool whole = scanner.Object([&](const prompt::parse::JsonScanner::Name& name) {
    found.is_empty = false;
    const std::optional<prompt::parse::Span> value = scanner.Value();
    if (!value) return false;
    for (const std::string_view known : names) {
      if (!prompt::parse::NameIs(name.span.In(args.body), known)) continue;
      is_twice = is_twice || found.value.has_value();
      found.value = *value;
      found.name = known;
    }
    return true;
  });
  found.end = scanner.at() - 1;
  if (!whole) return UnreadableBound(args.key, args.limit);
  if (is_twice) {
    return Refused(fmt::format("Invalid value for '{}': it stands twice, and servers differ in "
                               "which one counts.",
                               found.name),
                   std::string(found.name));
  }
  return found;
}

// The same for Gemini's bodies, whose limit stands in the generation's configuration.
Result<std::vector<Edit>> CapConfig(const OutputCapArgs& args) {
  if (args.body.size() > std::numeric_limits<uint32_t>::max()) {
    return UnreadableBound(args.key, args.limit);
  }
  const prompt::parse::Span whole = {0, static_cast<uint32_t>(args.body.size())};
  KVGATE_TRY(const Inside config, FindIn(args, whole, kConfigNames));
  const std::string name = fmt::format("{}.{}", kConfigNames[0], kConfigLimits[0]);
  const std::string fallback = std::to_string(args.limit.fallback);
  const bool has_config = config.value && config.value->In(args.body) != "null";
  if (!has_config) {
    if (!args.fixed.empty()) return NothingMayChange(args, name, "");
    const std::string made = fmt::format("{{\"{}\":{}}}", kConfigLimits[0], fallback);
    if (config.value) return std::vector<Edit>{{kRule, *config.value, made, name}};
    const std::string member =
        fmt::format("{}\"{}\":{}", config.is_empty ? "" : ",", kConfigNames[0], made);
    return std::vector<Edit>{{kRule, {config.end, config.end}, member, name}};
  }
  if (config.value->In(args.body).front() != '{') return UnreadableBound(args.key, args.limit);
  KVGATE_TRY(const Inside limit, FindIn(args, *config.value, kConfigLimits));
  const std::string_view value = limit.value ? limit.value->In(args.body) : "null";
  if (value == "null") {
    if (!args.fixed.empty()) return NothingMayChange(args, name, "");
    if (limit.value) return std::vector<Edit>{{kRule, *limit.value, fallback, name}};
    const std::string member =
        fmt::format("{}\"{}\":{}", limit.is_empty ? "" : ",", kConfigLimits[0], fallback);
    return std::vector<Edit>{{kRule, {limit.end, limit.end}, member, name}};
  }
  if (!IsNumber(value)) {
    return Refused(fmt::format("Invalid value for '{}': it must be a number, because answers to "
                               "the key '{}' have at most {} tokens.",
                               name, args.key, args.limit.most),
                   name);
  }
  if (!Exceeds(value, args)) return std::vector<Edit>();
  if (!args.fixed.empty()) return NothingMayChange(args, name, value);
  return std::vector<Edit>{{kRule, *limit.value, std::to_string(args.limit.most), name}};
}

}  // namespace

Result<std::vector<Edit>> CapOutput(const OutputCapArgs& args) {
  if (args.endpoint == Endpoint::kGenerateContent) return CapConfig(args);
  Reader reader(args);
  KVGATE_TRY_VOID(reader.Read());
  const std::span<const std::string_view> names = LimitNames(args);
  std::vector<Edit> edits;
  bool is_bounded = false;
  // If only the older name is sure to be obeyed, the newer name's value is the caller's own limit.
  int64_t fallback = args.limit.fallback;
  const Member* null_one = nullptr;  // a member of this dialect whose value is null
  for (const Member& member : reader.members) {
    const std::string_view value = member.value.In(args.body);
    const bool is_own = std::find(names.begin(), names.end(), member.name) != names.end();
    if (value == "null") {
      if (member.name == names.front()) null_one = &member;
      continue;
    }
    if (!IsNumber(value)) {
      return Refused(fmt::format("Invalid value for '{}': it must be a number, because answers to "
                                 "the key '{}' have at most {} tokens.",
                                 member.name, args.key, args.limit.most),
                     member.name);
    }
    is_bounded = is_bounded || is_own;
    const bool exceeds = Exceeds(value, args);
    if (member.key == "max_completion_tokens") {
      fallback = exceeds ? args.limit.most : WholeOf(value);
    }
    if (!exceeds) continue;
    if (!args.fixed.empty()) return NothingMayChange(args, member.name, value);
    edits.push_back({kRule, member.value, std::to_string(args.limit.most), member.name});
  }
  if (reader.thinking && args.endpoint == Endpoint::kMessages && !edits.empty()) {
    auto bound = BoundThinking(reader.thinking->In(args.body), args.limit.most);
    if (bound) edits.push_back({kRule, *reader.thinking, std::move(*bound), "thinking"});
  }
  if (!is_bounded) {
    const std::string name(names.front());
    if (!args.fixed.empty()) return NothingMayChange(args, name, "");
    const std::string value = std::to_string(fallback);
    const prompt::parse::Span end = {.begin = reader.end(), .end = reader.end()};
    if (null_one != nullptr) {
      edits.push_back({kRule, null_one->value, value, name});
    } else {
      edits.push_back({kRule, end,
                       fmt::format("{}\"{}\":{}", reader.is_empty() ? "" : ",", name, value),
                       name});
    }
  }
  prompt::parse::SortEdits(edits);
  return edits;
}

Error UnreadableBound(std::string_view key, const dialect::form::OutputLimit& limit) {
  return Refused(fmt::format("Answers to the key '{}' have at most {} tokens, and this body does "
                             "not show how many it asks for: it must be one JSON object, plain or "
                             "in gzip, br or zstd.",
                             key, limit.most),
                 "");
}

}  // namespace kvgate::service
