#include "gateway/session/responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/dialect/responses/prompt_builder.h"
#include "gateway/session/log/kept_turn.h"

namespace kvgate::session {
namespace {

using dialect::form::Message;
using dialect::responses::ResponsesItem;

const ResponsesItem* FindItem(const std::vector<ResponsesItem>& items, std::string_view id) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.id == id; });
  return found == items.end() ? nullptr : &*found;
}

uint64_t BytesOf(const std::vector<ResponsesItem>& items) {
  uint64_t bytes = 0;
  for (const ResponsesItem& item : items) bytes += item.json.size() + 1;
  return bytes;
}

}  // namespace

bool Responses::Draft::needs_store() const {
  return !decoded.previous_response_id.empty() || !decoded.conversation.empty() ||
         std::any_of(turn->input.begin(), turn->input.end(),
                     [](const ResponsesItem& item) { return item.is_reference; });
}

Result<void> Responses::FindContext(Draft& draft) {
  const dialect::responses::ResponsesRequest& decoded = draft.decoded;
  ResponseTurn& turn = *draft.turn;
  std::vector<log::LoggedTurn> turns;
  if (!decoded.previous_response_id.empty()) {
    KVGATE_TRY(turns, responses_.Context(turn.tenant, decoded.previous_response_id));
  } else if (!decoded.conversation.empty()) {
    turn.conversation = decoded.conversation;
    if (draft.use == Use::kCreate) {
      KVGATE_TRY(turn.lock, conversations_.Lock({.tenant = turn.tenant,
                                                 .id = turn.conversation,
                                                 .request_id = turn.request_id}));
    }
    Result<std::vector<log::LoggedTurn>> found =
        conversations_.Context(turn.tenant, turn.conversation);
    if (!found) {
      Error error = found.error();
      error.field = "conversation";
      return error;
    }
    turns = *std::move(found);
  }
  draft.history = log::HistoryOf(turns);
  turn.parent = draft.history.head;
  turn.session->turn.depth = draft.history.depth + 1;
  std::vector<transcript::Message> messages = draft.history.kept;
  messages.insert(messages.end(), draft.history.messages.begin(), draft.history.messages.end());
  KVGATE_TRY(draft.context, dialect::responses::ParseItems(transcript::ToList(messages)));
  return FindSession(turn);
}

// The key of a chain of responses is the id of the first one.
Result<void> Responses::FindSession(ResponseTurn& turn) const {
  SessionTurn& session = *turn.session;
  session.ask.key = turn.conversation;
  if (turn.parent.empty() || !turn.conversation.empty()) return {};
  KVGATE_TRY(const log::SessionLog::Root root,
             sessions_.session_log().Find({.tenant = turn.tenant, .key = turn.previous}));
  session.ask.key = root.key;
  return {};
}

// References are replaced by copies of their items, because the originals may be deleted later.
Result<void> Responses::Resolve(Draft& draft) const {
  ResponseTurn& turn = *draft.turn;
  for (size_t i = 0; i < turn.input.size(); ++i) {
    ResponsesItem& item = turn.input[i];
    if (!item.is_reference) continue;
    if (const ResponsesItem* known = FindItem(draft.context, item.id); known != nullptr) {
      item = *known;
      continue;
    }
    Result<ResponsesItem> found = responses_.FindItem(turn.tenant, item.id);
    if (!found) {
      Error error = found.error();
      error.field = fmt::format("input[{}].id", i);
      return error;
    }
    item = std::move(*found);
  }
  return {};
}

Result<Responses::Draft> Responses::Decode(const BeginArgs& args) const {
  KVGATE_TRY(dialect::responses::ResponsesRequest decoded,
             dialect::responses::DecodeResponses({.body = args.body, .request_id = args.request_id},
                                                 limits_));
  Draft draft{.decoded = std::move(decoded), .use = args.use};
  draft.turn->tenant = args.tenant;
  draft.turn->request_id = args.request_id;
  draft.turn->truncates = draft.decoded.truncates;
  draft.turn->previous = draft.decoded.previous_response_id;
  draft.turn->session->tenant = args.tenant;
  draft.turn->session->is_kept = true;
  draft.turn->session->prompt = args.prompt;
  draft.turn->session->turn.prompt = args.prompt;
  draft.turn->input = std::move(draft.decoded.input);
  draft.turn->shape = std::move(draft.decoded.shape);
  draft.turn->shape.stored = draft.decoded.store && responses_.keeps();
  return draft;
}

Result<void> Responses::DecodeRendered(std::string_view body, Draft& draft) const {
  KVGATE_TRY(draft.rendered, dialect::responses::DecodeResponses(
                                 {.body = body, .request_id = draft.turn->request_id}, limits_));
  return {};
}

Result<void> Responses::Load(Draft& draft) {
  KVGATE_TRY_VOID(FindContext(draft));
  return Resolve(draft);
}

Result<std::optional<std::string>> Responses::Window(Draft& draft,
                                                     const Sessions::ComposeArgs& args) const {
  ResponseTurn& turn = *draft.turn;
  const log::History& history = draft.history;
  if (history.head.empty()) return std::optional<std::string>();
  const std::string input = dialect::responses::ToArray(turn.input);
  const std::string plain = transcript::WithMembers(
      args.body, std::vector<transcript::Member>{{.name = "previous_response_id"},
                                                 {.name = "conversation"},
                                                 {.name = "input", .value = input}});
  SessionTurn& session = *turn.session;
  KVGATE_TRY(session.request, transcript::ReadBody(Dialect::kResponses, plain));
  // Everything stays in its order, instructions of the list included.
  session.request.frame.head.clear();
  KVGATE_TRY(session.request.messages,
             transcript::ReadMessages(Dialect::kResponses, input, "input"));
  Composed composed;
  composed.frame = session.request.frame;
  composed.kept = history.kept;
  composed.old = history.messages;
  composed.input = session.request.messages;
  composed.history = history;
  Sessions::ComposeArgs windowed = args;
  windowed.body = plain;
  windowed.keeps_all = draft.decoded.keeps_all;
  KVGATE_TRY(std::string body, sessions_.FitWindow(session, composed, windowed));
  if (session.fold) session.received = plain;
  const bool is_less = session.turn.compaction || history.is_compacted();
  return is_less ? std::optional(std::move(body)) : std::nullopt;
}

Result<std::shared_ptr<ResponseTurn>> Responses::Compose(Draft draft) const {
  const std::shared_ptr<ResponseTurn> turn = std::move(draft.turn);
  if (turn->shape.stored) {
    KVGATE_TRY_VOID(responses_.CheckInput(BytesOf(turn->input) + turn->shape.echo.size()));
  }
  dialect::responses::ResponsesRequest& rendered = draft.rendered ? *draft.rendered : draft.decoded;
  dialect::responses::PromptBuilder prompt(limits_);
  prompt.AddInstructions(std::move(rendered.instructions));
  if (draft.rendered) {
    KVGATE_TRY_VOID(prompt.Add(rendered.input, "input"));
  } else {
    KVGATE_TRY_VOID(prompt.Add(
        draft.context, turn->conversation.empty() ? "previous_response_id" : "conversation"));
    KVGATE_TRY_VOID(prompt.Add(turn->input, "input"));
  }
  std::vector<Message> messages = prompt.Take();
  if (messages.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "service.responses",
                     "Invalid value for 'input': it must have at least one item, as the "
                     "conversation has none.",
                     "input");
  }
  turn->request = std::move(rendered.request);
  turn->request.prompt = std::move(messages);
  prompt.TakeTools(turn->request);
  return turn;
}

Result<std::shared_ptr<ResponseTurn>> Responses::Begin(const BeginArgs& args) {
  KVGATE_TRY(Draft draft, Decode(args));
  KVGATE_TRY_VOID(Load(draft));
  return Compose(std::move(draft));
}

AnswerHook Responses::KeepAnswer(std::shared_ptr<ResponseTurn> turn,
                                 dialect::reply::ReplyOptions options) {
  const auto shared = std::make_shared<const dialect::reply::ReplyOptions>(std::move(options));
  return [this, turn = std::move(turn), shared](const Answer& answer) -> Result<void> {
    const dialect::form::CompletionStats& stats = answer.finish.stats;
    const std::vector<ResponsesItem> output =
        dialect::responses::EncodeOutput(*shared, answer.choices.front(), answer.finish.reason);
    SessionTurn& session = *turn->session;
    session.turn.model = shared->model;
    session.turn.kv_block = stats.last_stored_block;
    session.turn.tokens = {.input = stats.num_prompt_tokens,
                           .cached = stats.num_cached_tokens,
                           .output = stats.num_output_tokens};
    const std::string id = dialect::reply::ReplyId(*shared);
    if (turn->shape.stored) {
      KVGATE_TRY_VOID(responses_.Put(
          {.id = id,
           .tenant = turn->tenant,
           .parent = turn->parent,
           .input = dialect::responses::ToArray(turn->input),
           .response = dialect::responses::EncodeResponse(*shared, answer.finish, output),
           .note = log::ToNote(session.turn),
           .tokens = session.turn.tokens,
           .follows_events = !session.turn.compaction}));
    }
    Result<void> added;
    if (!turn->conversation.empty()) {
      std::vector<ResponsesItem> items = turn->input;
      items.insert(items.end(), output.begin(), output.end());
      added = conversations_.Append(
          {.tenant = turn->tenant, .id = turn->conversation, .request_id = turn->request_id}, items,
          ConversationStore::Answered{.note = log::ToNote(session.turn),
                                      .tokens = session.turn.tokens});
    }
    // The response is reported as failed, so it must not stay available to be continued.
    if (!added && turn->shape.stored) {
      [[maybe_unused]] const auto taken_back = responses_.Delete(turn->tenant, id);
    }
    if (added) SetStored(id, output, *turn);
    return added;
  };
}

// What its session may fold from now on.
void Responses::SetStored(const std::string& id, const std::vector<ResponsesItem>& output,
                          ResponseTurn& turn) {
  SessionTurn& session = *turn.session;
  if (turn.conversation.empty() && !turn.shape.stored) return;
  Result<std::vector<transcript::Message>> answer =
      transcript::ReadMessages(Dialect::kResponses, dialect::responses::ToArray(output), "output");
  if (!answer) return;
  if (turn.conversation.empty()) session.turn.id = id;
  if (session.ask.key.empty()) session.ask.key = id;
  session.turn.answer = *std::move(answer);
  session.is_stored.store(true);
}

Result<std::string> Responses::Delete(std::string_view tenant, std::string_view id) {
  KVGATE_TRY_VOID(responses_.Delete(tenant, id));
  return dialect::responses::EncodeDeleted(id, "response");
}

Result<std::string> Responses::ListInput(std::string_view tenant, std::string_view id,
                                         const dialect::responses::PageArgs& page) const {
  KVGATE_TRY(const std::vector<ResponsesItem> items, responses_.Input(tenant, id));
  return dialect::responses::EncodeItemPage(items, page);
}

Result<std::string> Responses::Cancel(std::string_view tenant, std::string_view id) const {
  KVGATE_TRY([[maybe_unused]] const std::string response, responses_.Get(tenant, id));
  return MakeError(ErrorCode::kInvalidArgument, "service.responses",
                   "Cannot cancel a synchronous response: only one with background=true can be, "
                   "and the local engine makes none.");
}

}  // namespace kvgate::session
