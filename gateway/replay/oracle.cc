#include "gateway/replay/oracle.h"

#include <simdjson.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/digest.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/replay/rendering.h"

namespace kvgate::replay {
namespace {

using Element = simdjson::dom::element;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;

constexpr int64_t kMicroseconds = 1'000'000;

PrefixHash HashOf(std::string_view text) {
  PrefixChain chain;
  chain.Add(text);
  return chain.hash();
}

std::string WithoutCarriageReturns(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i];
  }
  return out;
}

void AppendNormal(Element value, std::string& out);

// Appends an object with its members sorted by name.
void AppendObject(Object object, std::string& out) {
  std::vector<std::pair<std::string_view, Element>> fields;
  for (const auto field : object) fields.emplace_back(field.key, field.value);
  std::stable_sort(fields.begin(), fields.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  out += '{';
  for (const auto& [name, value] : fields) {
    if (out.back() != '{') out += ',';
    dialect::form::AppendJsonString(name, out);
    out += ':';
    AppendNormal(value, out);
  }
  out += '}';
}

// Appends a text; one that holds a JSON object (a call's arguments) is replaced by the sorted
// object.
void AppendText(std::string_view text, std::string& out) {
  if (text.starts_with('{') && text.ends_with('}')) {
    simdjson::dom::parser parser;
    const simdjson::padded_string padded(text);
    Object object;
    if (parser.parse(padded).get_object().get(object) == simdjson::SUCCESS) {
      std::string inner;
      AppendObject(object, inner);
      dialect::form::AppendJsonString(inner, out);
      return;
    }
  }
  dialect::form::AppendJsonString(WithoutCarriageReturns(text), out);
}

void AppendNormal(Element value, std::string& out) {
  Object object;
  Array array;
  std::string_view text;
  if (value.get_object().get(object) == simdjson::SUCCESS) {
    AppendObject(object, out);
  } else if (value.get_array().get(array) == simdjson::SUCCESS) {
    out += '[';
    bool first = true;
    for (const Element element : array) {
      if (!std::exchange(first, false)) out += ',';
      AppendNormal(element, out);
    }
    out += ']';
  } else if (value.get_string().get(text) == simdjson::SUCCESS) {
    AppendText(text, out);
  } else {
    out += simdjson::minify(value);
  }
}

Result<std::string> NormalBody(std::string_view body) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(body);
  Object object;
  if (parser.parse(padded).get_object().get(object) != simdjson::SUCCESS) {
    return MakeError(ErrorCode::kInvalidArgument, "replay", "the body is no JSON object");
  }
  std::string out;
  out.reserve(body.size());
  AppendObject(object, out);
  return out;
}

// Cuts an item's JSON behind each line end and each quote; a tool is one piece.
std::vector<std::string_view> PiecesOf(const Item& item) {
  if (item.part == Part::kTools) return {item.text};
  std::vector<std::string_view> pieces;
  size_t begin = 0;
  for (size_t i = 0; i < item.text.size(); ++i) {
    const bool line_end = i > begin && item.text[i] == 'n' && item.text[i - 1] == '\\';
    const bool cuts = line_end || item.text[i] == '"' || item.text[i] == '\n';
    if (!cuts && i + 1 < item.text.size()) continue;
    pieces.push_back(std::string_view(item.text).substr(begin, i + 1 - begin));
    begin = i + 1;
  }
  return pieces;
}

// Returns true if a cached prefix can end behind tools and system prompt. OpenAI's breakpoints
// stand in messages, and `instructions` is not a message.
bool CanShare(const Rendering& prompt, const ledger::CacheRules& rules) {
  if (rules.breakpoints != ledger::BreakpointSyntax::kBreakpoint) return true;
  const auto first = std::find_if(prompt.items.begin(), prompt.items.end(),
                                  [](const Item& item) { return item.part == Part::kMessages; });
  if (first == prompt.items.begin()) return false;
  const Item& last = *std::prev(first);
  return last.part == Part::kSystem && last.unmarkable.empty();
}

std::string_view TextAt(Element value, std::string_view path) {
  std::string_view text;
  return value.at_pointer(path).get_string().get(text) == simdjson::SUCCESS ? text
                                                                            : std::string_view();
}

}  // namespace

std::string ConversationOf(const TraceRequest& request) {
  if (!request.conversation.empty()) return request.conversation;
  for (const std::string_view name : {"x-kvgate-session", "session_id"}) {
    if (!request.Header(name).empty()) return std::string(request.Header(name));
  }
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(request.body);
  Element root;
  if (parser.parse(padded).get(root) != simdjson::SUCCESS) return {};
  for (const std::string_view path : {"/metadata/user_id", "/prompt_cache_key"}) {
    if (!TextAt(root, path).empty()) return std::string(TextAt(root, path));
  }
  const Result<Rendering> prompt = Render(request.endpoint, request.body);
  if (!prompt) return {};
  for (const Item& item : prompt->items) {
    if (item.part == Part::kMessages) return ToHex(HashOf(prompt->model + item.text));
  }
  return {};
}

void Oracle::Keep(Piece& piece, int32_t count, int64_t sent_us) {
  piece.count = std::max(piece.count, count);
  piece.used_us = std::max(piece.used_us, sent_us);
}

// Makes readable what was sent before and whose answer has begun by `now_us`.
void Oracle::Settle(int64_t now_us) {
  while (!coming_.empty() && coming_.front().time_us <= now_us) {
    const Coming& next = coming_.front();
    Pieces& own = conversations_[next.conversation];
    Pieces& shared = tenants_[next.tenant];
    for (const auto& sent : next.counts) {
      const auto& [count, is_shared] = sent.second;
      Keep(own[sent.first], count, next.sent_us);
      if (is_shared) Keep(shared[sent.first], count, next.sent_us);
    }
    coming_.pop_front();
  }
}

Result<Oracle::Answer> Oracle::Ask(const TraceRequest& request, std::string_view provider) {
  KVGATE_TRY(const std::string body, NormalBody(request.body));
  KVGATE_TRY(Rendering prompt, Render(request.endpoint, body));
  if (provider == "anthropic") prompt.DropBillingHeader();
  const ledger::PriceRow* row = prices_.Find(provider, prompt.model);
  const ledger::CacheRules rules = row == nullptr ? ledger::CacheRules() : row->rules;
  const bool pays = row != nullptr && row->prices && row->prices->cache_write != row->prices->input;
  Settle(request.time_us);

  // A provider keeps the caches of tenants and models apart.
  const std::string scope = request.tenant + '\n' + std::string(provider) + '\n' + prompt.model;
  Coming coming{.time_us = request.time_us + request.ttft_us,
                .sent_us = request.time_us,
                .conversation = scope + '\n' + ConversationOf(request),
                .tenant = scope,
                .counts = {}};
  Pieces& own = conversations_[coming.conversation];
  Pieces& shared = tenants_[scope];
  const auto is_kept = [&](const Piece& piece) {
    return rules.ttl_seconds == 0 ||
           request.time_us < piece.used_us + rules.ttl_seconds * kMicroseconds;
  };
  const bool shares = CanShare(prompt, rules);
  int64_t total = 0;
  int64_t cached = 0;
  int64_t written_bytes = 0;
  for (const Item& item : prompt.items) {
    size_t seen_bytes = 0;
    for (const std::string_view text : PiecesOf(item)) {
      const PrefixHash hash = HashOf(text);
      const bool is_shared = shares && item.part != Part::kMessages;
      auto& [count, marked] = coming.counts[hash];
      ++count;
      marked |= is_shared;
      for (Pieces* pieces : {&own, &shared}) {
        const auto found = pieces->find(hash);
        if (found == pieces->end() || (pieces == &shared && !is_shared)) continue;
        Piece& piece = found->second;
        if (!is_kept(piece)) piece.written = 0;
        if (!is_kept(piece) || piece.count < count) continue;
        seen_bytes += text.size();
        if (piece.written < count) {
          piece.written = count;
          written_bytes += static_cast<int64_t>(text.size());
        }
        break;
      }
    }
    total += item.num_tokens();
    cached += seen_bytes == item.text.size() ? item.num_tokens()
                                             : static_cast<int64_t>(seen_bytes) / kTokenBytes;
  }
  const auto after = std::upper_bound(
      coming_.begin(), coming_.end(), coming.time_us,
      [](int64_t time_us, const Coming& other) { return time_us < other.time_us; });
  coming_.insert(after, std::move(coming));
  if (rules.increment_tokens > 1) cached -= cached % rules.increment_tokens;
  if (cached < rules.minimum_tokens) return Answer{.usage = {.uncached_tokens = total}};
  return Answer{.usage = {.uncached_tokens = total - cached, .cache_read_tokens = cached},
                .written_tokens = pays ? written_bytes / kTokenBytes : 0};
}

}  // namespace kvgate::replay
