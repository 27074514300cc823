#include "sdk/src/chat_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

namespace kvgate::sdk {

using transport::Failure;

namespace {

namespace dom = simdjson::dom;

// A line of an answer that is longer cannot be one of ours.
constexpr size_t kLineBytesMax = size_t{64} << 20;

std::string_view TextOf(dom::element element, const char* name) {
  std::string_view text;
  if (element[name].get(text) != simdjson::SUCCESS) return {};
  return text;
}

int64_t CountOf(dom::element element, const char* name) {
  int64_t count = -1;
  return element[name].get(count) == simdjson::SUCCESS ? count : -1;
}

int IndexOf(dom::element element) {
  return static_cast<int>(std::max<int64_t>(CountOf(element, "index"), 0));
}

bool Find(dom::element element, const char* name, dom::element& found) {
  return element[name].get(found) == simdjson::SUCCESS && !found.is_null();
}

// A content is a text, or parts of which some have one.
std::string ContentOf(dom::element message) {
  dom::element content;
  if (!Find(message, "content", content)) return "";
  std::string_view text;
  if (content.get(text) == simdjson::SUCCESS) return std::string(text);
  std::string joined;
  dom::array parts;
  if (content.get(parts) != simdjson::SUCCESS) return "";
  for (const dom::element part : parts) joined += TextOf(part, "text");
  return joined;
}

// The names under which reasoning comes.
std::string_view ReasoningOf(dom::element message) {
  for (const char* name : {"reasoning_content", "reasoning"}) {
    const std::string_view text = TextOf(message, name);
    if (!text.empty()) return text;
  }
  return {};
}

ChatEvent UsageOf(dom::element usage) {
  ChatEvent event{.kind = KVGATE_EVENT_USAGE,
                  .prompt_tokens = CountOf(usage, "prompt_tokens"),
                  .output_tokens = CountOf(usage, "completion_tokens")};
  dom::element details;
  if (Find(usage, "prompt_tokens_details", details)) {
    event.cached_tokens = CountOf(details, "cached_tokens");
    for (const char* name : {"cache_write_tokens", "cache_creation_tokens"}) {
      if (event.cache_write_tokens < 0) event.cache_write_tokens = CountOf(details, name);
    }
  }
  if (Find(usage, "completion_tokens_details", details)) {
    event.reasoning_tokens = CountOf(details, "reasoning_tokens");
  }
  return event;
}

Failure Unreadable(std::string_view what) {
  return {.status = KVGATE_UNAVAILABLE,
          .message = "the answer cannot be understood: " + std::string(what)};
}

}  // namespace

struct ChatReader::Parser {
  dom::parser json;
};

ChatReader::ChatReader() : parser_(std::make_unique<Parser>()) {}
ChatReader::~ChatReader() = default;

std::optional<Failure> ChatReader::Push(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      if (line_.size() + bytes.size() > kLineBytesMax) return Unreadable("a line has no end");
      line_ += bytes;
      return std::nullopt;
    }
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    std::string joined;
    if (!line_.empty()) {
      joined = std::exchange(line_, {});
      joined += line;
      line = joined;
    }
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (auto failure = ReadLine(line)) return failure;
  }
  return std::nullopt;
}

std::optional<Failure> ChatReader::ReadLine(std::string_view line) {
  constexpr std::string_view kData = "data:";
  if (!line.starts_with(kData)) return std::nullopt;  // a comment, an empty line, another field
  line.remove_prefix(kData.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (line == "[DONE]") {
    is_done_ = true;
    return std::nullopt;
  }
  return line.empty() ? std::nullopt : ReadChunk(line);
}

std::optional<Failure> ChatReader::End() {
  if (is_done_) return std::nullopt;
  return Failure{.status = KVGATE_UNAVAILABLE, .message = "the answer ended before its end"};
}

ChatReader::Call& ChatReader::CallOf(int choice, int index) {
  const auto found = std::find_if(calls_.begin(), calls_.end(), [&](const Call& call) {
    return call.choice == choice && call.index == index;
  });
  return found != calls_.end() ? *found
                               : calls_.emplace_back(Call{.choice = choice, .index = index});
}

void ChatReader::EndCalls(int choice) {
  for (Call& call : calls_) {
    if (call.choice != choice) continue;
    events_.push_back({.kind = KVGATE_EVENT_TOOL_CALL,
                       .choice = choice,
                       .text = call.arguments.empty() ? "{}" : std::move(call.arguments),
                       .tool_index = call.index,
                       .tool_id = std::move(call.id),
                       .tool_name = std::move(call.name)});
  }
  std::erase_if(calls_, [choice](const Call& call) { return call.choice == choice; });
}

void ChatReader::Finish(int choice, std::string_view reason) {
  EndCalls(choice);
  events_.push_back({.kind = KVGATE_EVENT_FINISH, .choice = choice, .text = std::string(reason)});
}

std::optional<Failure> ChatReader::ReadChunk(std::string_view json) {
  dom::element chunk;
  if (parser_->json.parse(json.data(), json.size()).get(chunk) != simdjson::SUCCESS) {
    return Unreadable("an event is no JSON");
  }
  dom::element found;
  if (Find(chunk, "error", found)) return transport::StreamFailure(json);
  dom::array choices;
  if (chunk["choices"].get(choices) == simdjson::SUCCESS) {
    for (const dom::element choice : choices) {
      const int index = IndexOf(choice);
      dom::element delta;
      // A whole answer has a message where a stream has deltas.
      if (Find(choice, "delta", delta) || Find(choice, "message", delta)) {
        if (const std::string_view text = ReasoningOf(delta); !text.empty()) {
          events_.push_back(
              {.kind = KVGATE_EVENT_REASONING, .choice = index, .text = std::string(text)});
        }
        std::string text = ContentOf(delta);
        if (text.empty()) text = TextOf(delta, "refusal");
        if (!text.empty()) {
          events_.push_back({.choice = index, .text = std::move(text)});
        }
        dom::array calls;
        if (delta["tool_calls"].get(calls) == simdjson::SUCCESS) {
          int position = 0;
          for (const dom::element part : calls) {
            const int64_t said = CountOf(part, "index");
            Call& call = CallOf(index, said < 0 ? position : static_cast<int>(said));
            ++position;
            if (call.id.empty()) call.id = TextOf(part, "id");
            dom::element function;
            if (!Find(part, "function", function)) continue;
            if (call.name.empty()) call.name = TextOf(function, "name");
            const std::string_view arguments = TextOf(function, "arguments");
            call.arguments += arguments;
            events_.push_back({.kind = KVGATE_EVENT_TOOL_DELTA,
                               .choice = index,
                               .text = std::string(arguments),
                               .tool_index = call.index,
                               .tool_id = call.id,
                               .tool_name = call.name});
          }
        }
      }
      if (const std::string_view reason = TextOf(choice, "finish_reason"); !reason.empty()) {
        Finish(index, reason);
      }
    }
  }
  if (Find(chunk, "usage", found)) events_.push_back(UsageOf(found));
  if (Find(chunk, "kvgate", found)) {
    events_.push_back({.kind = KVGATE_EVENT_EXPLAIN, .text = simdjson::minify(found)});
  }
  return std::nullopt;
}

std::optional<Failure> ChatReader::ReadWhole(std::string_view body) {
  is_done_ = true;
  return ReadChunk(body);
}

std::optional<ChatEvent> ChatReader::Next() {
  if (events_.empty()) return std::nullopt;
  ChatEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

}  // namespace kvgate::sdk
