// ReplyScanner finds usage in one JSON document that is fed in pieces of any size. It keeps none of
// the text: its memory is this object, and a byte costs about as much as reading it.
//
// Known fields are found where the dialects put them: at the top, in "response" (events of
// Responses) and in "message" (message_start). Everything else is skipped by counting brackets, so
// a document is not validated. Keys are compared as spelled, because no provider escapes letters in
// its own field names. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "gateway/ledger/reply/usage.h"

namespace kvgate::ledger::reply {

// A text of at most N bytes; a longer one is cut.
template <size_t N>
struct ShortText {
  std::array<char, N> bytes{};
  uint8_t size = 0;
  std::string_view view() const { return {bytes.data(), size}; }
  void clear() { size = 0; }
  void Append(char c) {
    if (size < N) bytes[size++] = c;
  }
  // Returns false if the text is cut.
  bool Append(std::string_view text) {
    const size_t taken = std::min(text.size(), N - size);
    std::memcpy(bytes.data() + size, text.data(), taken);
    size = static_cast<uint8_t>(size + taken);
    return taken == text.size();
  }
};

struct ReplyFacts {
  ReportedUsage usage;
  ShortText<120> model;  // the one that answered
  ShortText<24> service_tier;
  ShortText<32> type;  // of the event
  bool error = false;  // the document has a non-null error
  // The provider's reason for a cache miss: the type of Anthropic's diagnostics.cache_miss_reason
  // ("pending" if that is null), or the reason of OpenAI's prompt_cache_diagnostics, or else its
  // type. Empty if the provider gives none.
  ShortText<40> provider_reason;
  // Thinking blocks that the provider dropped, as its input_transformations say.
  uint32_t num_thinking_dropped = 0;
};

class ReplyScanner {
 public:
  // Begins a new document.
  void Reset();
  void Feed(std::string_view piece);
  // Returns true if the document is an object and has ended.
  bool complete() const { return state_ == State::kDone; }
  // The facts found so far; reliable once the document is complete.
  const ReplyFacts& facts() const { return facts_; }

 private:
  // The objects in which keys are looked up.
  enum class Node : uint8_t {
    kTop,
    kResponse,
    kMessage,
    kUsage,
    kPromptDetails,
    kCompletionDetails,
    kInputDetails,
    kOutputDetails,
    kCacheCreation,
    kDiagnostics,       // Anthropic's
    kMissReason,        // its cache_miss_reason
    kCacheDiagnostics,  // OpenAI's prompt_cache_diagnostics
    kNone,
  };
  enum class State : uint8_t {
    kStart,
    kKeyOrEnd,
    kKey,
    kColon,
    kValue,
    kText,    // a string value
    kNumber,  // or a literal: true, false, null
    kNext,
    kSkip,  // inside a container without known keys
    kDone,
    kBroken,
  };
  enum class What : uint8_t {
    kNothing,
    kObject,
    kCount,
    kModel,
    kServiceTier,
    kType,
    kError,
    kReason,           // the reason in the provider's diagnostics
    kReasonType,       // the type, used if there is no reason
    kTransformations,  // a list of objects whose types are counted
  };
  struct Known;
  static const Known kKnown[];
  static std::span<const Known> KnownIn(Node node);

  const char* Structure(const char* at);
  const char* TextBytes(const char* at, const char* end);
  const char* NumberBytes(const char* at, const char* end);
  const char* SkipBytes(const char* at, const char* end);
  void BeginValue(char first);
  void LookUpKey();
  void EndScalar();
  void EndReason(bool text);
  void CountDropped(char c);
  void EndContainer();

  static constexpr size_t kDepthMax = 5;  // nesting of known objects: top, response, usage, details
  State state_ = State::kStart;
  std::array<Node, kDepthMax> nodes_{};
  uint8_t depth_ = 0;
  uint64_t skip_depth_ = 0;
  bool in_string_ = false;  // while skipping
  bool escaped_ = false;
  bool cut_ = false;  // the scalar is longer than its buffer
  bool has_reason_ = false;
  bool counts_dropped_ = false;  // while skipping a list of transformations
  uint8_t dropped_matched_ = 0;  // characters of the type's name seen so far
  What what_ = What::kNothing;
  Node child_ = Node::kNone;
  UsageField field_ = UsageField::kCount;
  ShortText<120> scalar_;  // key, short text, number or literal
  ReplyFacts facts_;
};

}  // namespace kvgate::ledger::reply
