// ReplyScanner: finds usage in one JSON document that is fed in pieces of any size. It keeps
// nothing of the text: memory is this object, and a byte costs about the same as reading it.
//
// Known fields are looked for where the dialects put them: at the top, in "response" (events of
// Responses) and in "message" (message_start). Everything else is skipped by counting brackets,
// so a document is not validated. Keys are compared as they are spelled: no provider escapes
// letters in its own field names. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "gateway/ledger/usage.h"

namespace kvgate::ledger {

// At most N bytes; longer text is cut.
template <size_t N>
struct ShortText {
  std::array<char, N> bytes{};
  uint8_t size = 0;
  std::string_view view() const { return {bytes.data(), size}; }
  void clear() { size = 0; }
  void Append(char c) {
    if (size < N) bytes[size++] = c;
  }
};

struct ReplyFacts {
  ReportedUsage usage;
  ShortText<120> model;  // that answered
  ShortText<24> service_tier;
  ShortText<32> type;  // of an event
  bool error = false;  // the document has an error that is not null
  // Why the provider says that its cache missed: the type of Anthropic's
  // diagnostics.cache_miss_reason ("pending" where that is null), the reason of OpenAI's
  // prompt_cache_diagnostics, or its type where it has no reason. Empty: it says nothing.
  ShortText<40> provider_reason;
};

class ReplyScanner {
 public:
  // Begins a new document.
  void Reset();
  void Feed(std::string_view piece);
  // The document is an object and has ended.
  bool complete() const { return state_ == State::kDone; }
  // What was found so far; meant to be used once it is complete.
  const ReplyFacts& facts() const { return facts_; }

 private:
  // Where a key means something.
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
    kSkip,  // inside a container that says nothing
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
    kReason,      // of the provider's diagnostics
    kReasonType,  // stands in for it
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
  void EndContainer();

  static constexpr size_t kDepthMax = 5;  // of known objects: top, response, usage, details
  State state_ = State::kStart;
  std::array<Node, kDepthMax> nodes_{};
  uint8_t depth_ = 0;
  uint64_t skip_depth_ = 0;
  bool in_string_ = false;  // while skipping
  bool escaped_ = false;
  bool cut_ = false;  // the scalar is longer than what is kept
  bool has_reason_ = false;
  What what_ = What::kNothing;
  Node child_ = Node::kNone;
  UsageField field_ = UsageField::kCount;
  ShortText<120> scalar_;  // key, short text, number or literal
  ReplyFacts facts_;
};

}  // namespace kvgate::ledger
