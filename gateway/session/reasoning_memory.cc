#include "gateway/session/reasoning_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "gateway/dialect/form/json_text.h"

namespace kvgate::session {
namespace {

using dialect::form::Message;
using dialect::form::ToolCall;
using jinja::value::Data;

// No chat template renders the reasoning of turns farther back than this.
constexpr size_t kTurnsMax = 256;
constexpr const char* kRole = "reasoning";

// Hashes fields together with their sizes, so that no two lists of fields give the same input.
class Fields {
 public:
  Fields& Text(std::string_view text) {
    hash_.Update(std::to_string(text.size())).Update(":").Update(text);
    return *this;
  }
  // Leaves out whitespace, because clients trim texts and join blocks as they like.
  Fields& Visible(std::string_view text) {
    std::string letters;
    letters.reserve(text.size());
    std::copy_if(text.begin(), text.end(), std::back_inserter(letters),
                 [](char c) { return c != ' ' && c != '\n' && c != '\r' && c != '\t'; });
    return Text(letters);
  }
  Fields& Arguments(std::string_view text) {
    const std::optional<Data> object = dialect::form::ParseObject(dialect::form::AsObject(text));
    if (!object) return Text(text);
    Value(*object);
    return *this;
  }
  PrefixDigest Finish() { return hash_.Finish(); }

 private:
  void Number(double number) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.17g", number);
    Text("n").Text(text);
  }
  // Numbers are compared as doubles, because a client's JSON parser may know no other type.
  void Value(const Data& data) {
    if (const auto* truth = std::get_if<bool>(&data.value())) {
      Text(*truth ? "true" : "false");
    } else if (const auto* whole = std::get_if<int64_t>(&data.value())) {
      Number(static_cast<double>(*whole));
    } else if (const auto* number = std::get_if<double>(&data.value())) {
      Number(*number);
    } else if (const auto* big = std::get_if<Data::BigInteger>(&data.value())) {
      Number(std::strtod(big->digits.c_str(), nullptr));
    } else if (const auto* text = std::get_if<std::string>(&data.value())) {
      Text("s").Text(*text);
    } else if (const auto* list = std::get_if<Data::List>(&data.value())) {
      Text("l").Text(std::to_string(list->size()));
      for (const Data& item : *list) Value(item);
    } else if (const auto* dict = std::get_if<Data::Dict>(&data.value())) {
      std::vector<const std::pair<std::string, Data>*> fields;
      for (const auto& field : *dict) fields.push_back(&field);
      std::sort(fields.begin(), fields.end(),
                [](const auto* a, const auto* b) { return a->first < b->first; });
      Text("d").Text(std::to_string(fields.size()));
      for (const auto* field : fields) {
        Text(field->first);
        Value(field->second);
      }
    } else {
      Text("null");
    }
  }

  Sha256 hash_;
};

std::string_view AsText(const PrefixDigest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

// Returns the digest of all visible content up to the end of `message`.
PrefixDigest Chain(const PrefixDigest& before, const Message& message) {
  Fields fields;
  fields.Text("kvgate reasoning 1").Text(AsText(before));
  fields.Text(message.role == "developer" ? "system" : message.role).Visible(message.content);
  for (const ToolCall& call : message.tool_calls) fields.Text(call.name).Arguments(call.arguments);
  return fields.Finish();
}

// Names a turn by its tool calls; returns an empty text if it has none. Models that number their
// calls anew in each conversation give the same name to several turns.
std::string NameOf(const Message& message) {
  if (message.tool_calls.empty()) return {};
  Fields fields;
  for (const ToolCall& call : message.tool_calls) {
    fields.Text(call.id).Text(call.name).Arguments(call.arguments);
  }
  return "reasoning-" + ToHex(fields.Finish().bytes);
}

// Returns the id of the turn that records that turns of this name differ in what precedes them.
std::string AmbiguityOf(const std::string& name) { return name + "-again"; }

std::optional<std::string> ReasoningOf(const Result<store::meta::Turn>& turn) {
  if (!turn || turn->items.size() != 1 || turn->items.front().role != kRole) return std::nullopt;
  return turn->items.front().payload;
}

void AppendOrLog(store::meta::TurnStore& turns, store::meta::Turn turn) {
  const Result<void> kept = turns.Append(std::move(turn));
  if (kept) return;
  KVGATE_LOG(kWarning, "service", "reasoning was not kept: {}", kept.error().ToString());
}

}  // namespace

bool ReasoningMemory::enabled() const { return turns_ != nullptr && turns_->enabled(); }

ReasoningMemory::Plan ReasoningMemory::MakePlan(const std::vector<Message>& messages) const {
  Plan plan;
  if (!enabled()) return plan;
  size_t num_turns = 0;
  for (const Message& message : messages) num_turns += message.role == "assistant" ? 1 : 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    plan.end = Chain(plan.end, message);
    if (message.role != "assistant" || num_turns-- > kTurnsMax || !message.reasoning.empty()) {
      continue;
    }
    plan.wanted.push_back({.message = i, .name = NameOf(message), .chain = plan.end});
  }
  return plan;
}

std::vector<ReasoningMemory::Found> ReasoningMemory::Find(std::string_view tenant,
                                                          const std::vector<Wanted>& wanted) const {
  std::vector<Found> all;
  for (const Wanted& one : wanted) {
    std::optional<std::string> found = FindOne(tenant, one);
    if (found) all.push_back({.message = one.message, .reasoning = std::move(*found)});
  }
  return all;
}

std::optional<std::string> ReasoningMemory::FindOne(std::string_view tenant,
                                                    const Wanted& wanted) const {
  if (wanted.name.empty()) return ReasoningOf(turns_->FindByContent(tenant, wanted.chain));
  const Result<store::meta::Turn> named = turns_->Get(tenant, wanted.name);
  // Ids and content together tell apart turns of which each alone is the same.
  if (named && named->content == wanted.chain) return ReasoningOf(named);
  std::optional<std::string> found = ReasoningOf(turns_->FindByContent(tenant, wanted.chain));
  if (found || !named) return found;
  const bool is_ambiguous = turns_->Get(tenant, AmbiguityOf(wanted.name)).has_value();
  return is_ambiguous ? std::nullopt : ReasoningOf(named);
}

void ReasoningMemory::Apply(std::vector<Found> found, std::vector<Message>& messages) {
  for (Found& one : found) messages[one.message].reasoning = std::move(one.reasoning);
}

PrefixDigest ReasoningMemory::Restore(std::string_view tenant,
                                      std::vector<Message>& messages) const {
  const Plan plan = MakePlan(messages);
  Apply(Find(tenant, plan.wanted), messages);
  return plan.end;
}

void ReasoningMemory::Keep(const KeepArgs& args) const {
  if (args.message.reasoning.empty() || !enabled()) return;
  store::meta::Turn turn;
  turn.id = "reasoning-" + args.id;
  turn.tenant = args.tenant;
  turn.items = {{.role = kRole, .payload = args.message.reasoning}};
  turn.content = Chain(args.before, args.message);
  std::string name = NameOf(args.message);
  if (name.empty()) return AppendOrLog(*turns_, std::move(turn));
  const std::lock_guard lock(names_mutex_);
  const Result<store::meta::Turn> other = turns_->Get(args.tenant, name);
  const bool is_marked = turns_->Get(args.tenant, AmbiguityOf(name)).has_value();
  if (other && other->content != turn.content && !is_marked) {
    AppendOrLog(*turns_, {.id = AmbiguityOf(name),
                          .parent = {},
                          .tenant = args.tenant,
                          .session = {},
                          .items = {{.role = "ambiguous", .payload = {}}},
                          .tokens = {},
                          .content = {}});
  }
  // A turn without the name is found by its content only.
  if (!other && !is_marked) turn.id = std::move(name);
  AppendOrLog(*turns_, std::move(turn));
}

}  // namespace kvgate::session
