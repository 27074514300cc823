#include "gateway/service/explicit_cache/explicit_caching.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "base/digest.h"
#include "gateway/dialect/gemini/cached_content.h"
#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::service::explicit_cache {

using prompt::parse::Edit;
using prompt::parse::JsonScanner;
using prompt::parse::Span;

namespace {

namespace gemini = dialect::gemini;

constexpr auto kRule = prompt::parse::Rule::kExplicitCache;
constexpr int64_t kSecondUs = 1'000'000;
// Another request may have what the provider missed; what it cannot do it will hardly do soon.
constexpr int64_t kBusyUs = 60 * kSecondUs;
constexpr int64_t kRefusedUs = 3600 * kSecondUs;

// A member of the body that a cache holds, in both of its spellings.
struct Known {
  std::string_view name;
  std::string_view snake;
};
constexpr std::array<Known, 3> kHeld = {{{"systemInstruction", "system_instruction"},
                                         {"tools", "tools"},
                                         {"toolConfig", "tool_config"}}};
constexpr Known kName = {"cachedContent", "cached_content"};

bool Spells(std::string_view raw, const Known& known) {
  return prompt::parse::NameIs(raw, known.name) || prompt::parse::NameIs(raw, known.snake);
}

struct Member {
  JsonScanner::Name name;
  Span value;
};

// The members of a body, and what they are.
struct Parts {
  std::array<std::optional<Member>, kHeld.size()> held;
  std::string_view Value(size_t i, std::string_view body) const {
    return held[i] ? held[i]->value.In(body) : std::string_view();
  }
};

// nullopt: the body is not understood, or a cache has no place in it.
std::optional<Parts> Find(std::string_view body) {
  if (body.size() > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  Parts parts;
  JsonScanner scanner(body);
  const bool is_whole = scanner.Object([&](const JsonScanner::Name& name) {
    const std::optional<Span> value = scanner.Value();
    if (!value) return false;
    const std::string_view raw = name.span.In(body);
    if (Spells(raw, kName)) return false;
    if (value->In(body) == "null") return true;
    for (size_t i = 0; i < kHeld.size(); ++i) {
      if (!Spells(raw, kHeld[i])) continue;
      if (parts.held[i]) return false;  // it stands twice
      parts.held[i] = Member{.name = name, .value = *value};
    }
    return true;
  });
  if (!is_whole || (!parts.held[0] && !parts.held[1])) return std::nullopt;
  return parts;
}

// The first member becomes the name, the others are cut out.
std::vector<Edit> EditsOf(const Parts& parts, std::string_view body, std::string_view name) {
  const Member* first = nullptr;
  for (const auto& member : parts.held) {
    if (member && (first == nullptr || member->value.begin < first->value.begin)) first = &*member;
  }
  std::vector<Edit> edits;
  for (size_t i = 0; i < kHeld.size(); ++i) {
    if (!parts.held[i]) continue;
    const Member& member = *parts.held[i];
    Edit edit{.rule = kRule, .span = {}, .bytes = {}, .path = std::string(kHeld[i].name)};
    if (&member == first) {
      edit.span = {member.name.span.begin - 1, member.value.end};
      edit.bytes = fmt::format("\"{}\":\"{}\"", kName.name, name);
    } else {
      edit.span = prompt::parse::MemberSpan(body, member.name, member.value.end, /*first=*/false);
    }
    edits.push_back(std::move(edit));
  }
  prompt::parse::SortEdits(edits);
  return edits;
}

PrefixDigest KeyOf(const ExplicitCaching::Args& args, const Parts& parts) {
  Sha256& hash = ThreadSha256();
  const auto add = [&](std::string_view text) {
    hash.Update(fmt::format("{}:", text.size())).Update(text);
  };
  for (const std::string_view text :
       {args.tenant, args.upstream, args.provider, args.credential, args.model}) {
    add(text);
  }
  for (size_t i = 0; i < kHeld.size(); ++i) add(parts.Value(i, args.body));
  return hash.Finish();
}

}  // namespace

std::optional<CacheUse> ExplicitCaching::Decide(const Args& args) {
  const ledger::PriceRow* const row = prices_.Find(args.provider, args.model);
  if (row == nullptr || !row->factors || row->factors->rent_hour <= 0) return std::nullopt;
  const std::optional<Parts> parts = Find(args.body);
  if (!parts) return std::nullopt;
  int64_t num_bytes = 0;
  for (size_t i = 0; i < kHeld.size(); ++i) {
    num_bytes += static_cast<int64_t>(parts->Value(i, args.body).size());
  }
  // Behind so long a conversation the provider's own cache may have more than the prefix, and it is
  // not known whether it looks for that behind a name.
  const auto body_bytes = static_cast<int64_t>(args.body.size());
  if (body_bytes > 2 * num_bytes) return std::nullopt;
  CacheUse use{.key = KeyOf(args, *parts),
               .name = {},
               .body_bytes = body_bytes};
  prompt::planner::ExplicitCaches::Decision decision = caches_.Decide(
      {.key = use.key, .num_bytes = num_bytes, .row = *row, .now_us = args.now_us});
  if (decision.ttl_seconds > 0) {
    const bool prolongs = !decision.name.empty();
    use.order = CacheOrder{
        .caching = this,
        .key = use.key,
        .prolongs = prolongs,
        .path = prolongs ? gemini::ProlongedPath(decision.name)
                         : std::string(gemini::kCachedContentsPath),
        .body = prolongs ? gemini::ProlongedBody(decision.ttl_seconds)
                         : gemini::MakeCachedContent(
                               {.system_instruction = parts->Value(0, args.body),
                                .tools = parts->Value(1, args.body),
                                .tool_config = parts->Value(2, args.body)},
                               args.model, decision.ttl_seconds),
        .ttl_seconds = decision.ttl_seconds};
  }
  use.name = std::move(decision.name);
  if (!use.name.empty()) use.edits = EditsOf(*parts, args.body, use.name);
  return use;
}

void ExplicitCaching::NoteAnswer(const CacheUse& use, const Answer& answer) {
  caches_.NoteAnswer({.key = use.key,
                      .had_name = !use.name.empty(),
                      .body_bytes = use.body_bytes,
                      .input_tokens = answer.input_tokens,
                      .cached_tokens = answer.cached_tokens,
                      .now_us = answer.now_us});
}

Result<int64_t> ExplicitCaching::NoteOutcome(const CacheOrder& order, int status,
                                             std::string_view body, int64_t now_us) {
  Result<gemini::CachedContent> made = gemini::ReadCachedContent(body);
  if (status >= 200 && status < 300 && made) {
    Count(order.prolongs ? "prolonged" : "made");
    caches_.NoteKept(order.key, std::move(made->name), made->num_tokens,
                     now_us + order.ttl_seconds * kSecondUs);
    return made->num_tokens;
  }
  Count("refused");
  const bool is_final = status >= 400 && status < 500 && status != 408;
  caches_.NoteRefused(order.key, now_us + (is_final ? kRefusedUs : kBusyUs));
  return MakeError(ErrorCode::kUnavailable, "explicit_cache",
                   status == 0 ? std::string("no answer came")
                               : fmt::format("it was answered with {}", status));
}

void ExplicitCaching::NoteLost(const CacheUse& use) {
  Count("lost");
  caches_.NoteLost(use.key, use.name);
}

void ExplicitCaching::Count(std::string_view event) {
  if (metrics_ != nullptr) metrics_->explicit_caches.With({event}).Add();
}

}  // namespace kvgate::service::explicit_cache
