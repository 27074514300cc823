// RequestForm is a generation request as all dialects with turns mean it. Each dialect reads its
// body into the form and writes a body from it, so that twelve translations take four readers and
// four writers.
//
// Everything the caller wrote (texts, names, ids, schemas, numbers, base64) is a view of the
// original body; a `Literal` is JSON with its quotes and escapes unchanged. A reader refuses what
// no other dialect can express, a writer what its own dialect cannot. Both name the field as
// the caller spells it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"

namespace kvgate::dialect::translate {

using Literal = std::string_view;  // JSON; empty: absent

// A value and the path of the field that gave it.
struct Given {
  Literal value = {};
  std::string path = {};
  explicit operator bool() const { return !value.empty(); }
};

// The data of an image or a file: a URL, or a media type with base64.
struct Media {
  Literal url = {};                  // a JSON string; empty: the data follows here
  std::string_view media_type = {};  // "image/png"
  std::string_view base64 = {};      // the text between the quotes
  Literal filename = {};
  Literal detail = {};  // only in the OpenAI dialects
};

enum class BlockKind : uint8_t { kText, kImage, kFile, kThinking, kCall, kResult };

struct Block {
  BlockKind kind = BlockKind::kText;
  std::string path = {};            // path in the caller's body
  Literal text = {};                // kText, kThinking: a JSON string
  int ttl_seconds = 0;              // TTL of the caller's cache breakpoint on it; 0: none
  Media media = {};                 // kImage, kFile
  Literal id = {};                  // kCall, kResult: a JSON string
  Literal name = {};                // kCall: a JSON string
  std::string_view arguments = {};  // kCall: JSON text, or what a model wrote instead
  Literal arguments_literal = {};   // the same as a JSON string, if the caller sent one
  std::vector<Block> content = {};  // kResult: text, images, files
  bool is_error = false;            // kResult
  // kThinking: opaque data that its provider wants back, as a JSON string; empty: none.
  Literal signature = {};  // of a thinking block (Messages)
  Literal redacted = {};   // data of a redacted block (Messages)
  Literal encrypted = {};  // encrypted content of an item (Responses)
  Literal item_id = {};    // the item's id
};

enum class Role : uint8_t { kSystem, kDeveloper, kUser, kAssistant };

struct Turn {
  Role role = Role::kUser;
  std::string path = {};
  std::vector<Block> blocks = {};  // tool results are in user turns
};

struct ToolForm {
  std::string path = {};
  Literal name = {};
  Literal description = {};
  Literal schema = {};  // an object; empty: no arguments
  std::optional<bool> strict = {};
  int ttl_seconds = 0;
};

enum class ChoiceMode : uint8_t { kAuto, kNone, kRequired };

struct ChoiceForm {
  bool given = false;
  ChoiceMode mode = ChoiceMode::kAuto;
  std::vector<Literal> allowed = {};  // names; empty: all
  bool named = false;                 // only that one tool may be called, and must be
  std::optional<bool> parallel = {};
};

// A setting of the samplers that only the local engine has, by its name in Chat Completions.
struct Sampler {
  std::string_view name;
  Given given;
};

enum class OutputKind : uint8_t { kText, kObject, kSchema };

struct OutputForm {
  OutputKind kind = OutputKind::kText;
  std::string path = {};
  Literal name = {};
  Literal description = {};
  Literal schema = {};
  Literal strict = {};
};

struct RequestForm {
  Literal model = {};
  std::vector<ToolForm> tools = {};
  // Tools that the caller names differently from the target, which gets all tools as functions:
  // custom tools, and tools in namespaces.
  std::vector<form::Tool> client_tools = {};
  // The types of tools that a provider runs itself, of their calls and results, and of other
  // providers' sealed summaries. No other dialect has them, but clients send them with every
  // request.
  std::vector<std::string> left_out = {};
  bool lost_tools = false;  // left_out includes tools, which a choice may name
  ChoiceForm choice = {};
  std::vector<Turn> turns = {};  // includes system turns, in their original places
  Given max_tokens = {};
  Given temperature = {};
  Given top_p = {};
  std::vector<Sampler> samplers = {};
  std::vector<Literal> stop = {};
  std::string stop_path = {};
  bool stream = false;
  bool include_usage = false;  // only for streams of Chat Completions
  std::string effort = {};     // "low", "high" …; empty if not given
  bool thinking = false;       // the caller asks for thinking
  OutputForm output = {};
  // Hints, written if the target has a field for them (see README).
  Literal cache_key = {};
  Literal user = {};
  Literal metadata = {};
  Literal service_tier = {};
  Literal verbosity = {};
  std::deque<std::string> made = {};  // generated texts, which are in no body

  std::string_view Keep(std::string text) { return made.emplace_back(std::move(text)); }
  // Keeps the text as a JSON string.
  Literal Quote(std::string_view text);
};

// The features of the target that its dialect does not determine.
struct TargetTraits {
  bool breakpoints = false;        // the model takes prompt_cache_breakpoint
  bool ttl = true;                 // cache_control may have a ttl
  bool cache_key = true;           // the target accepts prompt_cache_key
  bool reasoning_content = false;  // Chat Completions: turns may carry reasoning
  bool plain_names = false;        // Chat Completions: uses max_tokens and no role "developer"
  bool samplers = false;           // Chat Completions: takes what Sampler says; the local engine
};

// An example: "messages[2].content: documents by URL cannot be said in the Chat Completions
// dialect."
Error CannotSay(const std::string& path, std::string_view what, std::string_view dialect);
// The error for a field of the wrong shape.
Error WrongShape(const std::string& path, std::string_view rule);

// Returns the text of a JSON string, and an empty one for anything else.
std::string Meant(Literal literal);

// Leaves a tool out and records its type.
void LeaveOutTool(std::string_view type, RequestForm& form);
// Runs when all fields are read. Returns kUnsupported if the choice asks for a tool that was left
// out.
Result<void> CheckChoice(const RequestForm& form, std::string_view dialect);
// Returns the unmodified text of the first user turn, which tells a caller's conversations apart.
std::string OpeningOf(const RequestForm& form);

// Returns the texts of blocks as one JSON string, with a line feed between them.
Literal JoinTexts(const std::vector<Block>& blocks, RequestForm& form);
bool IsTextOnly(const std::vector<Block>& blocks);
bool HasMark(const std::vector<Block>& blocks);
// Reorders the turns between two assistant turns: tool results come first, each as a user turn of
// its own, as every provider requires; the rest keeps its order.
std::vector<Turn> ResultsFirst(const std::vector<Turn>& turns);
// Prefixes of a provider's opaque data in the one field that a client of another dialect sends
// back. The prefix tells its owner and kind.
inline constexpr std::string_view kSealedThinking = "kvgate-thinking:";  // SIGNATURE:TEXT
inline constexpr std::string_view kSealedRedacted = "kvgate-redacted:";  // DATA
inline constexpr std::string_view kSealedItem = "kvgate-item:";          // ID:ENCRYPTED

}  // namespace kvgate::dialect::translate
