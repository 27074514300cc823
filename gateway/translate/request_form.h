// RequestForm: a generation's request as all three dialects mean it. Each dialect's file reads its
// body into it and writes a body from it, so that six translations are three readers and three
// writers.
//
// Whatever the caller wrote (texts, names, ids, schemas, numbers, base64) is a view of the bytes of
// the body that it came from; `Literal`s are JSON with quotes and escapes as they stand there.
// What neither other dialect can say, a reader refuses; what one cannot, its writer does. Both name
// the field as the caller spells it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"

namespace kvgate::translate {

using Literal = std::string_view;  // JSON; empty: absent

// A value and the field that it was given by.
struct Given {
  Literal value = {};
  std::string path = {};
  explicit operator bool() const { return !value.empty(); }
};

// Where an image or a file is.
struct Media {
  Literal url = {};                  // a JSON string; or, instead
  std::string_view media_type = {};  // "image/png", and
  std::string_view base64 = {};      // what stands between the quotes
  Literal filename = {};
  Literal detail = {};  // a hint of the OpenAI dialects
};

enum class BlockKind : uint8_t { kText, kImage, kFile, kThinking, kCall, kResult };

struct Block {
  BlockKind kind = BlockKind::kText;
  std::string path = {};            // in the caller's body
  Literal text = {};                // kText, kThinking: a JSON string
  int ttl_seconds = 0;              // of the caller's cache marker on it; 0: it has none
  Media media = {};                 // kImage, kFile
  Literal id = {};                  // kCall, kResult: a JSON string
  Literal name = {};                // kCall: a JSON string
  std::string_view arguments = {};  // kCall: JSON text, or what a model wrote for it
  Literal arguments_literal = {};   // … as a JSON string, where the caller has it as one
  std::vector<Block> content = {};  // kResult: text, images, files
  bool is_error = false;            // kResult
  // kThinking: what its provider wants back unread, as a JSON string; empty: nothing.
  Literal signature = {};  // of a thinking block (Messages)
  Literal redacted = {};   // the data of a redacted one (Messages)
  Literal encrypted = {};  // an item's encrypted content (Responses), and
  Literal item_id = {};    // its id
};

enum class Role : uint8_t { kSystem, kDeveloper, kUser, kAssistant };

struct Turn {
  Role role = Role::kUser;
  std::string path = {};
  std::vector<Block> blocks = {};  // results stand in turns of the user
};

struct ToolForm {
  std::string path = {};
  Literal name = {};
  Literal description = {};
  Literal schema = {};  // an object; empty: takes no arguments
  std::optional<bool> strict = {};
  int ttl_seconds = 0;
};

enum class ChoiceMode : uint8_t { kAuto, kNone, kRequired };

struct ChoiceForm {
  bool given = false;
  ChoiceMode mode = ChoiceMode::kAuto;
  std::vector<Literal> allowed = {};  // names; empty: all
  bool named = false;                 // exactly that one tool is to be called
  std::optional<bool> parallel = {};
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
  // Those that the caller names otherwise than the target, which gets all of them as functions:
  // custom tools, and tools in namespaces.
  std::vector<protocol::Tool> client_tools = {};
  // Tools that a provider runs itself, what they did, and others' sealed summaries, by their types:
  // no other dialect has them, and clients send them with every request.
  std::vector<std::string> left_out = {};
  bool lost_tools = false;  // some of them are tools, which a choice may ask for
  ChoiceForm choice = {};
  std::vector<Turn> turns = {};  // system turns in their places, the first ones included
  Given max_tokens = {};
  Given temperature = {};
  Given top_p = {};
  std::vector<Literal> stop = {};
  std::string stop_path = {};
  bool stream = false;
  bool include_usage = false;  // of a stream of Chat Completions
  std::string effort = {};     // "low", "high" …; empty: not given
  bool thinking = false;       // the caller asks for it
  OutputForm output = {};
  // Hints; each goes where the target has a place for it (README).
  Literal cache_key = {};
  Literal user = {};
  Literal metadata = {};
  Literal service_tier = {};
  Literal verbosity = {};
  std::deque<std::string> made = {};  // texts that stand in no body

  std::string_view Keep(std::string text) { return made.emplace_back(std::move(text)); }
};

// What the target can be told beyond its dialect.
struct TargetTraits {
  bool breakpoints = false;        // the model takes prompt_cache_breakpoint
  bool ttl = true;                 // cache_control may have a ttl
  bool cache_key = true;           // prompt_cache_key is known there
  bool reasoning_content = false;  // Chat Completions: turns may carry their reasoning
  bool plain_names = false;        // … it has max_tokens and no role "developer"
};

// "messages[2].content: documents by URL cannot be said in the Chat Completions dialect."
Error CannotSay(const std::string& path, std::string_view what, std::string_view dialect);
// A field of the wrong shape.
Error WrongShape(const std::string& path, std::string_view rule);

// Leaves a tool out, noted by its type.
void LeaveOutTool(std::string_view type, RequestForm& form);
// Once all is read: a choice that asks for a tool that was left out. kUnsupported.
Result<void> CheckChoice(const RequestForm& form, std::string_view dialect);
// The text of the user's first turn, as it stands: it tells one caller's conversations apart.
std::string OpeningOf(const RequestForm& form);

// Texts of blocks as one JSON string, with a line feed between them.
Literal JoinTexts(const std::vector<Block>& blocks, RequestForm& form);
bool IsTextOnly(const std::vector<Block>& blocks);
bool HasMark(const std::vector<Block>& blocks);
// Of turns that nobody else spoke between: results come first, as every provider wants them, the
// rest stays in its order.
std::vector<Turn> ResultsFirst(const std::vector<Turn>& turns);
// What its provider wants back unread, in the one field that a client of another dialect sends
// back; the prefix says whose it is.
inline constexpr std::string_view kSealedThinking = "kvgate-thinking:";  // SIGNATURE:TEXT
inline constexpr std::string_view kSealedRedacted = "kvgate-redacted:";  // DATA
inline constexpr std::string_view kSealedItem = "kvgate-item:";          // ID:ENCRYPTED

}  // namespace kvgate::translate
