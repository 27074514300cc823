#include "gateway/session/reasoning_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

#include <kvgate/digest.h>
#include <kvgate/log.h>

#include "gateway/protocol/form/json_text.h"

namespace kvgate::service {
namespace {

using jinja::Data;
using protocol::Message;
using protocol::ToolCall;

// Turns farther back than that are rendered without their reasoning by every template there is.
constexpr size_t kTurnsMax = 256;
constexpr const char* kRole = "reasoning";

// Fields with their sizes, so that no two lists of fields read alike.
class Fields {
 public:
  Fields& Text(std::string_view text) {
    hash_.Update(std::to_string(text.size())).Update(":").Update(text);
    return *this;
  }
  // Without blanks: clients trim, and join blocks as they like.
  Fields& Visible(std::string_view text) {
    std::string letters;
    letters.reserve(text.size());
    std::copy_if(text.begin(), text.end(), std::back_inserter(letters),
                 [](char c) { return c != ' ' && c != '\n' && c != '\r' && c != '\t'; });
    return Text(letters);
  }
  Fields& Arguments(std::string_view text) {
    const std::optional<Data> object = protocol::ParseObject(protocol::AsObject(text));
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
  // Numbers as a client's own reader has them, which may know doubles alone.
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

// What was visible up to a message's end.
PrefixDigest Chain(const PrefixDigest& before, const Message& message) {
  Fields fields;
  fields.Text("kvgate reasoning 1").Text(AsText(before));
  fields.Text(message.role == "developer" ? "system" : message.role).Visible(message.content);
  for (const ToolCall& call : message.tool_calls) fields.Text(call.name).Arguments(call.arguments);
  return fields.Finish();
}

// The turn's name by its calls; empty where it has none.
std::string NameOf(const Message& message) {
  if (message.tool_calls.empty()) return {};
  Fields fields;
  for (const ToolCall& call : message.tool_calls) {
    fields.Text(call.id).Text(call.name).Arguments(call.arguments);
  }
  return "reasoning-" + ToHex(fields.Finish().bytes);
}

std::optional<std::string> ReasoningOf(const Result<store::Turn>& turn) {
  if (!turn || turn->items.size() != 1 || turn->items.front().role != kRole) return std::nullopt;
  return turn->items.front().payload;
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
    std::optional<std::string> found;
    if (!one.name.empty()) found = ReasoningOf(turns_->Get(tenant, one.name));
    if (!found) found = ReasoningOf(turns_->FindByContent(tenant, one.chain));
    if (found) all.push_back({.message = one.message, .reasoning = std::move(*found)});
  }
  return all;
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
  store::Turn turn;
  turn.id = NameOf(args.message);
  turn.tenant = args.tenant;
  turn.items = {{.role = kRole, .payload = args.message.reasoning}};
  turn.content = Chain(args.before, args.message);
  // Of a model that writes its own ids the newest turn of that name counts.
  if (turn.id.empty() || turns_->Get(args.tenant, turn.id)) turn.id = "reasoning-" + args.id;
  const Result<void> kept = turns_->Append(std::move(turn));
  if (!kept) {
    KVGATE_LOG(kWarning, "service", "reasoning was not kept: {}", kept.error().ToString());
  }
}

}  // namespace kvgate::service
