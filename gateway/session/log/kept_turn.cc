#include "gateway/session/log/kept_turn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "gateway/dialect/responses/responses.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::log {

using store::meta::Turn;
using transcript::Kind;
using transcript::RawObject;

namespace {

void Append(std::vector<dialect::responses::ResponsesItem> more,
            std::vector<dialect::responses::ResponsesItem>& items) {
  items.insert(items.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

constexpr std::array kRoles = {kInputRole, kResponseRole, kItemsRole, kRemovedRole, kMetadataRole};

Result<std::vector<Message>> MessagesOf(std::string_view list) {
  if (list.empty()) return std::vector<Message>();
  return transcript::ReadMessages(Dialect::kResponses, list, "items");
}

// Items that were added together end in an answer if the assistant has the last word.
void SplitAnswer(std::vector<Message> items, LoggedTurn& turn) {
  const auto last = std::find_if(items.rbegin(), items.rend(), [](const Message& message) {
    return message.kind != Kind::kAssistant;
  });
  const auto end = last == items.rend() ? items.end() : last.base();
  turn.input.assign(std::make_move_iterator(items.begin()), std::make_move_iterator(end));
  turn.answer.assign(std::make_move_iterator(end), std::make_move_iterator(items.end()));
}

Result<void> ReadResponse(std::string_view response, LoggedTurn& turn) {
  const std::optional<RawObject> object = RawObject::Read(response);
  if (!object) return MakeError(ErrorCode::kDataLoss, "session.log", "it is no response object");
  turn.model = object->StringAt("model");
  KVGATE_TRY(turn.answer, MessagesOf(object->At("output")));
  Frame frame;
  const std::string_view system = object->At("instructions");
  const std::string_view tools = object->At("tools");
  if (!system.empty() && system != "null") frame.system = system;
  if (!tools.empty() && tools != "null" && tools != "[]") frame.tools = tools;
  turn.frame = std::move(frame);
  return {};
}

Result<LoggedTurn> Read(const Turn& stored) {
  LoggedTurn turn{.depth = 0, .removes = std::string(PayloadOf(stored, kRemovedRole))};
  KVGATE_TRY(turn.input, MessagesOf(PayloadOf(stored, kInputRole)));
  if (const std::string_view items = PayloadOf(stored, kItemsRole); !items.empty()) {
    KVGATE_TRY(std::vector<Message> messages, MessagesOf(items));
    SplitAnswer(std::move(messages), turn);
  }
  if (const std::string_view response = PayloadOf(stored, kResponseRole); !response.empty()) {
    KVGATE_TRY_VOID(ReadResponse(response, turn));
  }
  if (const std::string_view note = PayloadOf(stored, kNoteRole); !note.empty()) {
    KVGATE_TRY_VOID(ReadNote(Dialect::kResponses, note, turn));
  }
  return turn;
}

bool HasId(const Message& message, const std::string& id) {
  const std::optional<RawObject> object = RawObject::Read(message.json);
  return object && object->StringAt("id") == id;
}

// The events before entry `end` count the messages of that turn; one of them is gone.
void CountWithout(const std::string& turn, size_t message, std::span<LoggedTurn> turns) {
  for (LoggedTurn& other : turns) {
    if (!other.compaction) continue;
    Compaction& event = *other.compaction;
    const std::string& from = event.from_turn.empty() ? other.id : event.from_turn;
    if (from == turn && event.from_message > message) --event.from_message;
  }
}

}  // namespace

std::string_view PayloadOf(const store::meta::Turn& turn, std::string_view role) {
  for (const store::meta::TurnItem& item : turn.items) {
    if (item.role == role) return item.payload;
  }
  return "";
}

Result<void> AddTurnItems(const store::meta::Turn& turn,
                          std::vector<dialect::responses::ResponsesItem>& items) {
  for (const std::string_view role : {kInputRole, kItemsRole}) {
    const std::string_view payload = PayloadOf(turn, role);
    if (payload.empty()) continue;
    KVGATE_TRY(std::vector<dialect::responses::ResponsesItem> more,
               dialect::responses::ParseItems(payload));
    Append(std::move(more), items);
  }
  if (const std::string_view response = PayloadOf(turn, kResponseRole); !response.empty()) {
    KVGATE_TRY(std::vector<dialect::responses::ResponsesItem> more,
               dialect::responses::OutputOf(response));
    Append(std::move(more), items);
  }
  if (const std::string_view id = PayloadOf(turn, kRemovedRole); !id.empty()) {
    std::erase_if(items,
                  [&](const dialect::responses::ResponsesItem& item) { return item.id == id; });
  }
  return {};
}

bool IsKept(const Turn& turn) {
  return !turn.items.empty() &&
         std::find(kRoles.begin(), kRoles.end(), turn.items.front().role) != kRoles.end();
}

Result<LoggedTurn> FromKept(const Turn& stored) {
  Result<LoggedTurn> turn = Read(stored);
  if (!turn) {
    return MakeError(ErrorCode::kDataLoss, "session.log",
                     fmt::format("the turn '{}' is not of a stored response's form: {}", stored.id,
                                 turn.error().detail));
  }
  turn->id = stored.id;
  turn->parent = stored.parent;
  turn->created_us = stored.created_us;
  turn->tokens = stored.tokens;
  return turn;
}

void ApplyRemovals(std::span<LoggedTurn> turns) {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].removes.empty()) continue;
    for (LoggedTurn& turn : turns.first(i)) {
      size_t number = 0;
      for (std::vector<Message>* list : {&turn.input, &turn.answer}) {
        for (auto message = list->begin(); message != list->end();) {
          if (!HasId(*message, turns[i].removes)) {
            ++message;
            ++number;
            continue;
          }
          message = list->erase(message);
          CountWithout(turn.id, number, turns.first(i));
        }
      }
    }
  }
}

}  // namespace kvgate::session::log
