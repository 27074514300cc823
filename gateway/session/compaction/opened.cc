#include "gateway/session/compaction/opened.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/session/summary/summary_text.h"
#include "gateway/session/transcript/raw_object.h"
#include "gateway/session/transcript/request_body.h"
#include "gateway/session/transcript/spoken.h"

namespace kvgate::session::compaction {

using prompt::parse::JsonScanner;
using prompt::parse::Span;
using transcript::Kind;
using transcript::Message;
using transcript::RawObject;

namespace {

constexpr std::string_view kSource = "session";
constexpr size_t kNewestBytesMax = size_t{32} << 10;
constexpr std::string_view kForeign =
    "is a compaction that only the provider that made it can read, and this request goes to "
    "another one. Send the conversation to a model of that provider, leave the item out, or begin "
    "anew.";

Error Wrong(std::string field, std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(why), std::move(field));
}

// The error of a provider of Messages, by its name.
Error Named(std::string_view name, std::string field, std::string_view why) {
  return Wrong(std::move(field), fmt::format("{}: {}", name, why));
}

Error At(std::string field, const Error& error) { return Wrong(std::move(field), error.detail); }

bool IsEmptyList(std::string_view list) { return list.empty() || list == "[]" || list == "\"\""; }

std::string Rewritten(const OpenArgs& args, const std::vector<Message>& messages) {
  const std::string_view name = args.dialect == Dialect::kResponses ? "input" : "messages";
  const transcript::Member list{.name = name, .value = transcript::ToList(messages)};
  return transcript::WithMembers(args.body, std::span(&list, 1));
}

// --- Responses

bool IsCompactionItem(const Message& message) {
  const std::optional<RawObject> item = RawObject::Read(message.json);
  return item && dialect::form::IsCompaction(item->StringAt("type"));
}

// What stays of the items in front: the system's words, and the user's if they are not covered.
std::vector<Message> FrontOf(std::span<const Message> items, Covers covers) {
  std::vector<Message> front;
  std::copy_if(items.begin(), items.end(), std::back_inserter(front), [&](const Message& item) {
    return item.kind == Kind::kSystem ||
           (item.kind == Kind::kUser && covers == Covers::kBesidesUser);
  });
  return front;
}

// Of several, the newest stands for all; one of another provider's behind ours is that provider's.
Result<std::optional<std::string>> OpenItems(const OpenArgs& args, std::vector<Message> items) {
  const auto newest = std::find_if(items.rbegin(), items.rend(), IsCompactionItem);
  if (newest == items.rend()) return std::optional<std::string>();
  const auto index = static_cast<size_t>(std::distance(newest, items.rend())) - 1;
  const std::string field = fmt::format("input[{}]", index);
  const std::optional<RawObject> item = RawObject::Read(newest->json);
  const std::string sealed = item->StringAt("encrypted_content");
  if (!IsOurs(sealed)) {
    const bool is_readable = !IsEmptyList(item->At("content")) || !IsEmptyList(item->At("summary"));
    if (!args.is_native && !is_readable) {
      return Wrong(field + ".encrypted_content", fmt::format("'{}' {}", field, kForeign));
    }
    return std::optional<std::string>();
  }
  const Result<SealedSummary> summary = args.open(sealed);
  if (!summary) return At(field + ".encrypted_content", summary.error());
  std::vector<Message> messages =
      FrontOf(std::span<const Message>(items).first(index), summary->covers);
  std::vector<Message> rest(
      std::make_move_iterator(items.begin() + static_cast<ptrdiff_t>(index) + 1),
      std::make_move_iterator(items.end()));
  summary::PutInFront(args.dialect, summary->text, rest);
  messages.insert(messages.end(), std::make_move_iterator(rest.begin()),
                  std::make_move_iterator(rest.end()));
  return std::optional(Rewritten(args, messages));
}

// --- Messages

struct Block {
  std::string content = {};                   // readable; empty: it is not, or it failed
  std::string sealed = {};                    // of a gateway's, or of a provider's own; empty: none
  bool is_signed = false;                     // made on demand: it stands in front of everything
  std::vector<std::string_view> behind = {};  // blocks of the same message
  size_t index = 0;                           // in its message
};

// Returns the last compaction of a message that has not failed.
std::optional<Block> BlockIn(const Message& message) {
  const std::optional<RawObject> object = RawObject::Read(message.json);
  if (!object) return std::nullopt;
  const std::string_view list = object->At("content");
  std::optional<Block> found;
  size_t index = 0;
  JsonScanner scanner(list);
  const bool is_read = list.starts_with('[') && scanner.List([&] {
    const std::optional<Span> value = scanner.Value();
    if (!value) return false;
    const std::string_view json = value->In(list);
    const std::optional<RawObject> block = RawObject::Read(json);
    if (block && block->StringAt("type") == "compaction") {
      Block now{.content = block->StringAt("content"),
                .sealed = block->StringAt("signature"),
                .is_signed = !block->At("signature").empty(),
                .index = index};
      if (now.sealed.empty()) now.sealed = block->StringAt("encrypted_content");
      if (!now.content.empty() || !now.sealed.empty()) found = std::move(now);
    } else if (found) {
      found->behind.push_back(json);
    }
    ++index;
    return true;
  });
  return is_read ? found : std::nullopt;
}

// The message with only these blocks of its content.
Message WithBlocks(const Message& message, std::span<const std::string_view> blocks) {
  std::string list = "[";
  for (const std::string_view block : blocks) {
    if (list.size() > 1) list += ',';
    list += block;
  }
  list += ']';
  const transcript::Member content{.name = "content", .value = std::move(list)};
  return {.kind = message.kind,
          .json = transcript::WithMembers(message.json, std::span(&content, 1))};
}

// Returns the summary that the block holds; nullopt if it stays for its provider.
Result<std::optional<std::string>> SummaryOf(const OpenArgs& args, const Block& block,
                                             const std::string& field) {
  if (!IsOurs(block.sealed)) {
    if (args.is_native) return std::optional<std::string>();
    if (!block.content.empty()) return std::optional(block.content);
    return Wrong(field, fmt::format("'{}' {}", field, kForeign));
  }
  const Result<SealedSummary> summary = args.open(block.sealed);
  if (!summary) {
    return Named("compaction_block_signature_invalid", field, summary.error().detail);
  }
  if (!block.content.empty() && block.content != summary->text) {
    return Named("compaction_block_content_mismatch", field,
                 "its content is not what was signed. Send the block byte for byte.");
  }
  return std::optional(summary->text);
}

Result<std::optional<std::string>> OpenBlocks(const OpenArgs& args, std::vector<Message> messages) {
  std::optional<Block> block;
  size_t at = messages.size();
  while (!block && at > 0) block = BlockIn(messages[--at]);
  if (!block) return std::optional<std::string>();
  const std::string field = fmt::format("messages[{}].content[{}]", at, block->index);
  KVGATE_TRY(const std::optional<std::string> summary, SummaryOf(args, *block, field));
  if (!summary) return std::optional<std::string>();
  if (block->is_signed && (at > 0 || block->index > 0)) {
    return Named("compaction_block_misplaced", field,
                 "the block must come first, exactly once, and what it stands for must be left "
                 "out.");
  }
  std::vector<Message> rest;
  if (!block->behind.empty()) rest.push_back(WithBlocks(messages[at], block->behind));
  rest.insert(rest.end(),
              std::make_move_iterator(messages.begin() + static_cast<ptrdiff_t>(at) + 1),
              std::make_move_iterator(messages.end()));
  summary::PutInFront(args.dialect, *summary, rest);
  return std::optional(Rewritten(args, rest));
}

std::vector<Message> MessagesOf(Dialect dialect, std::string_view body) {
  const Result<transcript::RequestBody> read = transcript::ReadBody(dialect, body);
  if (!read) return {};
  std::vector<Message> messages = read->frame.head;
  messages.insert(messages.end(), read->messages.begin(), read->messages.end());
  return messages;
}

}  // namespace

Result<std::optional<std::string>> OpenBody(const OpenArgs& args) {
  const bool is_responses = args.dialect == Dialect::kResponses;
  if (!is_responses && args.dialect != Dialect::kMessages) return std::optional<std::string>();
  const std::optional<RawObject> body = RawObject::Read(args.body);
  const std::string_view list =
      body ? body->At(is_responses ? "input" : "messages") : std::string_view();
  if (!list.starts_with('[')) return std::optional<std::string>();
  Result<std::vector<Message>> messages =
      transcript::ReadMessages(args.dialect, list, is_responses ? "input" : "messages");
  // Who answers the request says what is wrong with it.
  if (!messages) return std::optional<std::string>();
  return is_responses ? OpenItems(args, *std::move(messages))
                      : OpenBlocks(args, *std::move(messages));
}

std::string WithNewest(Dialect dialect, std::string_view body, std::string_view summary) {
  std::string out(summary);
  const std::vector<Message> messages = MessagesOf(dialect, body);
  if (messages.empty() || messages.back().kind != Kind::kUser) return out;
  const std::string text = transcript::TextOf(messages.back());
  if (text.empty()) return out;
  out += "\n\n## The newest message, word for word\n";
  out += text.substr(0, Utf8CutBefore(text, std::min(text.size(), kNewestBytesMax)));
  return out;
}

std::string InPlace(Dialect dialect, std::string_view body, std::string_view summary) {
  const std::vector<Message> messages = MessagesOf(dialect, body);
  std::vector<Message> out = FrontOf(messages, Covers::kAll);
  std::vector<Message> rest;
  summary::PutInFront(dialect, summary, rest);
  out.insert(out.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
  return Rewritten({.dialect = dialect, .body = body, .open = {}}, out);
}

}  // namespace kvgate::session::compaction
