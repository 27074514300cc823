// Canonical: the parsed form of a segment as text of one spelling, and its identities: keys sorted,
// numbers and escapes in one spelling, CRLF as LF except in what is never touched; an `arguments`
// string that holds a JSON object is that object. Two values with one canonical text are equal as
// parsed. The text is for hashing and comparing only. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt {

// What is the same for equal values.
struct CanonicalFacts {
  Identity same;
  Identity stable;
  Identity said;  // of a text: of its strings alone, as Segment::said
  bool is_volatile = false;
  bool has_volatile = false;
  uint32_t num_tokens = 0;
};

// `json` without markers. Nothing: no JSON value, or nested deeper than kDepthMax.
std::optional<CanonicalFacts> ReadCanonical(std::string_view json, Content content);

// Which volatile spans are left out of texts: none, all, or those that only programs write and
// that may keep an earlier value in turns that were sent before.
enum class Cut : uint8_t { kNone, kAll, kHeld };

struct CanonicalForm {
  bool newlines_folded = true;  // CRLF as LF
  Cut cut = Cut::kNone;
};
// The text itself. Nothing: as above. `texts`, where given: the strings that are read, whole.
std::optional<std::string> CanonicalText(std::string_view json, Content content,
                                         const CanonicalForm& form,
                                         std::vector<std::string>* texts = nullptr);

// Of bytes as they are; domains keep equal bytes of different meanings apart.
enum class Domain : uint64_t { kRaw = 1, kSame, kStable, kChain, kConversation, kTools, kShape };
Identity HashBytes(std::string_view bytes, Domain domain);
// Of two identities in their order.
Identity Chain(const Identity& front, const Identity& back, Domain domain = Domain::kChain);

inline constexpr int kDepthMax = 200;

}  // namespace kvgate::prompt
