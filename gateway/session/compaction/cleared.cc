#include "gateway/session/compaction/cleared.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/digest.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::compaction {

using transcript::ElementsOf;
using transcript::RawObject;

namespace {

// What stands in the place of a cleared result; a model is to know that there was one.
constexpr std::string_view kClearedResult = R"("[Old tool result content cleared]")";
constexpr std::string_view kClearedInput = "{}";

// A part of the body, and what takes its place.
struct Change {
  std::string_view part;
  std::string_view replacement;
};

// Returns the body with these changes, which are in no order.
std::string Changed(std::string_view body, std::vector<Change> changes) {
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.part.data() < b.part.data(); });
  std::string out;
  out.reserve(body.size());
  const char* at = body.data();
  for (const Change& change : changes) {
    out.append(at, change.part.data());
    out += change.replacement;
    at = change.part.data() + change.part.size();
  }
  out.append(at, body.data() + body.size());
  return out;
}

struct Block {
  RawObject object;
  std::string type;
  std::string_view json;
};
struct Turn {
  std::string role;
  std::string_view content;   // the list
  std::vector<Block> blocks;  // none if the content is a text
};

std::vector<Turn> TurnsOf(std::string_view body) {
  std::vector<Turn> turns;
  const std::optional<RawObject> object = RawObject::Read(body);
  if (!object) return turns;
  for (const std::string_view element : ElementsOf(object->At("messages"))) {
    const std::optional<RawObject> message = RawObject::Read(element);
    if (!message) continue;
    Turn turn{.role = message->StringAt("role"), .content = message->At("content"), .blocks = {}};
    for (const std::string_view json : ElementsOf(turn.content)) {
      std::optional<RawObject> block = RawObject::Read(json);
      if (!block) continue;
      std::string type = block->StringAt("type");
      turn.blocks.push_back({.object = *std::move(block), .type = std::move(type), .json = json});
    }
    turns.push_back(std::move(turn));
  }
  return turns;
}

// --- Thinking

bool IsThinking(const Block& block) {
  return block.type == "thinking" || block.type == "redacted_thinking";
}

// True for what a user says, which begins a turn of the model's; results of tools go on with it.
bool IsSaidByUser(const Turn& turn) {
  return turn.role == "user" &&
         (turn.blocks.empty() ||
          std::any_of(turn.blocks.begin(), turn.blocks.end(),
                      [](const Block& b) { return b.type != "tool_result"; }));
}

// The message's content without its thinking; empty if it has none, or nothing else.
std::string WithoutThinking(const Turn& turn) {
  std::string list;
  for (const Block& block : turn.blocks) {
    if (IsThinking(block)) continue;
    list += list.empty() ? '[' : ',';
    list += block.json;
  }
  const bool has_thinking = std::any_of(turn.blocks.begin(), turn.blocks.end(), IsThinking);
  if (!has_thinking || list.empty()) return {};
  return list + ']';
}

// --- Tool uses

struct ToolUse {
  std::string id;
  std::string name;
  std::string_view input;
  std::string_view result;  // its content; empty: none has come
};

std::vector<ToolUse> ToolUsesOf(const std::vector<Turn>& turns) {
  std::vector<ToolUse> uses;
  std::unordered_map<std::string, size_t> places;
  for (const Turn& turn : turns) {
    for (const Block& block : turn.blocks) {
      if (block.type == "tool_use") {
        places[block.object.StringAt("id")] = uses.size();
        uses.push_back({.id = block.object.StringAt("id"),
                        .name = block.object.StringAt("name"),
                        .input = block.object.At("input"),
                        .result = {}});
      } else if (block.type == "tool_result") {
        const auto place = places.find(block.object.StringAt("tool_use_id"));
        if (place != places.end()) uses[place->second].result = block.object.At("content");
      }
    }
  }
  return uses;
}

class ToolUseClearing {
 public:
  explicit ToolUseClearing(const ClearToolUsesArgs& args)
      : args_(args), uses_(ToolUsesOf(TurnsOf(args.body))) {}

  std::optional<Cleared> Run() {
    if (!Exceeds(0)) return std::nullopt;
    const std::vector<uint64_t> marks = Marks();
    size_t before = uses_.size();
    while (before > 0 && !args_.marks.Has(args_.tenant, marks[before - 1])) --before;
    size_t end = before;
    const auto keep = static_cast<size_t>(std::max<int64_t>(args_.edit.keep, 0));
    const size_t most = uses_.size() > keep ? uses_.size() - keep : 0;
    const bool is_due = before == 0 || Exceeds(before);
    const int64_t tokens_min = args_.edit.tokens_min;
    if (most > before && is_due &&
        (tokens_min == 0 || TokensOf(BytesOf(before, most)) >= tokens_min)) {
      end = most;
    }
    std::vector<Change> changes;
    const int64_t num_cleared = Clear(end, changes);
    if (num_cleared == 0) return std::nullopt;
    args_.marks.Add(args_.tenant, marks[end - 1]);
    return Cleared{.body = Changed(args_.body, std::move(changes)), .num_cleared = num_cleared};
  }

 private:
  bool IsClearable(const ToolUse& use) const {
    return !use.result.empty() && !args_.edit.excluded.contains(use.name);
  }
  bool ClearsInput(const ToolUse& use) const {
    const std::set<std::string>& tools = args_.edit.input_tools;
    return args_.edit.clears_inputs && !use.input.empty() &&
           (tools.empty() || tools.contains(use.name));
  }
  // The bytes that are lost where the uses from `begin` to `end` are cleared.
  int64_t BytesOf(size_t begin, size_t end) const {
    int64_t bytes = 0;
    for (size_t i = begin; i < end; ++i) {
      if (!IsClearable(uses_[i])) continue;
      bytes += static_cast<int64_t>(uses_[i].result.size()) -
               static_cast<int64_t>(kClearedResult.size());
      if (ClearsInput(uses_[i])) {
        bytes += static_cast<int64_t>(uses_[i].input.size()) -
                 static_cast<int64_t>(kClearedInput.size());
      }
    }
    return bytes;
  }
  // As many tokens as those bytes have in this prompt.
  int64_t TokensOf(int64_t bytes) const {
    return bytes * args_.num_tokens / std::max<int64_t>(std::ssize(args_.body), 1);
  }
  // True if the prompt whose first `end` uses are cleared exceeds the trigger.
  bool Exceeds(size_t end) const {
    if (args_.edit.unit == ToolUseEdit::Unit::kToolUses) {
      return static_cast<int64_t>(uses_.size() - end) > args_.edit.trigger;
    }
    return args_.num_tokens - TokensOf(BytesOf(0, end)) > args_.edit.trigger;
  }
  // For each use, what stands for the conversation up to it and for what this edit clears of it.
  std::vector<uint64_t> Marks() const {
    std::vector<uint64_t> marks;
    std::string names;
    for (const std::string& name : args_.edit.excluded) names += name + '\n';
    names += args_.edit.clears_inputs ? "\n+" : "\n-";
    for (const std::string& name : args_.edit.input_tools) names += name + '\n';
    uint64_t mark = SecretHash(names);
    for (const ToolUse& use : uses_) {
      mark = Xxh3(std::as_bytes(std::span(use.id)), mark).first;
      marks.push_back(mark);
    }
    return marks;
  }
  int64_t Clear(size_t end, std::vector<Change>& changes) const {
    int64_t num_cleared = 0;
    for (size_t i = 0; i < end; ++i) {
      if (!IsClearable(uses_[i])) continue;
      ++num_cleared;
      changes.push_back({.part = uses_[i].result, .replacement = kClearedResult});
      if (ClearsInput(uses_[i])) {
        changes.push_back({.part = uses_[i].input, .replacement = kClearedInput});
      }
    }
    return num_cleared;
  }

  const ClearToolUsesArgs& args_;
  const std::vector<ToolUse> uses_;
};

}  // namespace

std::optional<Cleared> ClearThinking(std::string_view body, const ThinkingEdit& edit) {
  if (!edit.keep) return std::nullopt;
  const std::vector<Turn> turns = TurnsOf(body);
  // From the end: whose turn a message is part of is known by what stands in front of it.
  std::vector<std::string> contents;  // they outlive the changes
  contents.reserve(turns.size());
  std::vector<Change> changes;
  int64_t num_kept = 0;
  int64_t num_cleared = 0;
  bool thinks = false;
  for (size_t i = turns.size(); i-- > 0;) {
    const Turn& turn = turns[i];
    if (IsSaidByUser(turn)) {
      thinks = false;
      continue;
    }
    if (!std::any_of(turn.blocks.begin(), turn.blocks.end(), IsThinking)) continue;
    const bool is_new_turn = !std::exchange(thinks, true);
    if (num_kept + (is_new_turn ? 1 : 0) <= *edit.keep && num_cleared == 0) {
      num_kept += is_new_turn ? 1 : 0;
      continue;
    }
    std::string content = WithoutThinking(turn);
    num_cleared += is_new_turn ? 1 : 0;
    if (content.empty()) continue;
    contents.push_back(std::move(content));
    changes.push_back({.part = turn.content, .replacement = contents.back()});
  }
  if (changes.empty()) return std::nullopt;
  return Cleared{.body = Changed(body, std::move(changes)), .num_cleared = num_cleared};
}

std::optional<Cleared> ClearToolUses(const ClearToolUsesArgs& args) {
  return ToolUseClearing(args).Run();
}

}  // namespace kvgate::session::compaction
