// Canonical writes the parsed form of a segment as text in one spelling and derives its identities.
// Keys are sorted, numbers and escapes are normalised, CRLF becomes LF except in content that must
// not be touched, and an `arguments` string that holds a JSON object counts as that object. Two
// values with the same canonical text are equal as parsed. The text is for hashing and comparing
// only, never for sending. All functions are pure and may be called from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::parse {

// Facts that are equal for equal values.
struct CanonicalFacts {
  Identity same;
  Identity stable;
  Identity said;  // of a text's strings alone, as Segment::said
  bool is_volatile = false;
  bool has_volatile = false;
  bool is_tagged = false;  // a text of blocks in tags only
  uint32_t num_tokens = 0;
};

// `json` comes without cache breakpoints. Returns nullopt if it is no JSON value, or is nested
// deeper than kDepthMax.
std::optional<CanonicalFacts> ReadCanonical(std::string_view json, Content content);

// Selects the volatile spans that are left out of texts: none, all, or only those that programs
// write and that may keep an earlier value in turns already sent.
enum class Cut : uint8_t { kNone, kAll, kHeld };

struct CanonicalForm {
  bool newlines_folded = true;  // CRLF as LF
  Cut cut = Cut::kNone;
};
// Returns the canonical text, or nullopt as ReadCanonical does. If `texts` is given, the strings
// that are read as text are added to it uncut.
std::optional<std::string> CanonicalText(std::string_view json, Content content,
                                         const CanonicalForm& form,
                                         std::vector<std::string>* texts = nullptr);

// Hashes bytes as they are; the domains keep equal bytes of different meanings apart.
enum class Domain : uint64_t { kRaw = 1, kSame, kStable, kChain, kConversation, kTools, kShape };
Identity HashBytes(std::string_view bytes, Domain domain);
// Hashes two identities; their order matters.
Identity Chain(const Identity& front, const Identity& back, Domain domain = Domain::kChain);

inline constexpr int kDepthMax = 200;

}  // namespace kvgate::prompt::parse
