#include "gateway/session/responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/protocol/prompt_builder.h"

namespace kvgate::session {
namespace {

using protocol::form::Message;
using protocol::form::ResponsesItem;

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

Result<std::vector<ResponsesItem>> Responses::FindContext(Draft& draft) {
  const protocol::ResponsesRequest& decoded = draft.decoded;
  ResponseTurn& turn = *draft.turn;
  if (!decoded.previous_response_id.empty()) {
    turn.parent = decoded.previous_response_id;
    return responses_.Context(turn.tenant, turn.parent);
  }
  if (decoded.conversation.empty()) return std::vector<ResponsesItem>();
  turn.conversation = decoded.conversation;
  if (draft.use == Use::kCreate) {
    KVGATE_TRY(turn.lock, conversations_.Lock(turn.tenant, turn.conversation));
  }
  Result<Conversation> conversation = conversations_.Load(turn.tenant, turn.conversation);
  if (!conversation) {
    Error error = conversation.error();
    error.field = "conversation";
    return error;
  }
  turn.parent = std::move(conversation->tip);
  return std::move(conversation->items);
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
  KVGATE_TRY(
      protocol::ResponsesRequest decoded,
      protocol::DecodeResponses({.body = args.body, .request_id = args.request_id}, limits_));
  Draft draft{.decoded = std::move(decoded), .use = args.use};
  draft.turn->tenant = args.tenant;
  draft.turn->request_id = args.request_id;
  draft.turn->truncates = draft.decoded.truncates;
  draft.turn->input = std::move(draft.decoded.input);
  draft.turn->shape = std::move(draft.decoded.shape);
  draft.turn->shape.stored = draft.decoded.store && responses_.keeps();
  return draft;
}

Result<void> Responses::DecodeRendered(std::string_view body, Draft& draft) const {
  KVGATE_TRY(draft.rendered, protocol::DecodeResponses(
                                 {.body = body, .request_id = draft.turn->request_id}, limits_));
  return {};
}

Result<void> Responses::Load(Draft& draft) {
  KVGATE_TRY(draft.context, FindContext(draft));
  return Resolve(draft);
}

Result<std::shared_ptr<ResponseTurn>> Responses::Compose(Draft draft) const {
  const std::shared_ptr<ResponseTurn> turn = std::move(draft.turn);
  if (turn->shape.stored) {
    KVGATE_TRY_VOID(responses_.CheckInput(BytesOf(turn->input) + turn->shape.echo.size()));
  }
  protocol::ResponsesRequest& rendered = draft.rendered ? *draft.rendered : draft.decoded;
  protocol::PromptBuilder prompt(limits_);
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
                                 protocol::ReplyOptions options) {
  const auto shared = std::make_shared<const protocol::ReplyOptions>(std::move(options));
  return [this, turn = std::move(turn), shared](const Answer& answer) -> Result<void> {
    const protocol::form::CompletionStats& stats = answer.finish.stats;
    const std::vector<ResponsesItem> output =
        protocol::EncodeOutput(*shared, answer.choices.front(), answer.finish.reason);
    if (turn->shape.stored) {
      KVGATE_TRY_VOID(
          responses_.Put({.id = protocol::ReplyId(*shared),
                          .tenant = turn->tenant,
                          .parent = turn->parent,
                          .input = protocol::form::ToArray(turn->input),
                          .response = protocol::EncodeResponse(*shared, answer.finish, output),
                          .tokens = {.input = stats.num_prompt_tokens,
                                     .cached = stats.num_cached_tokens,
                                     .output = stats.num_output_tokens}}));
    }
    if (turn->conversation.empty()) return {};
    std::vector<ResponsesItem> items = turn->input;
    items.insert(items.end(), output.begin(), output.end());
    const Result<void> added = conversations_.Append(
        {.tenant = turn->tenant, .id = turn->conversation, .request_id = turn->request_id}, items);
    // The response is reported as failed, so it must not stay available to be continued.
    if (!added && turn->shape.stored) {
      [[maybe_unused]] const auto taken_back =
          responses_.Delete(turn->tenant, protocol::ReplyId(*shared));
    }
    return added;
  };
}

Result<std::string> Responses::Delete(std::string_view tenant, std::string_view id) {
  KVGATE_TRY_VOID(responses_.Delete(tenant, id));
  return protocol::EncodeDeleted(id, "response");
}

Result<std::string> Responses::ListInput(std::string_view tenant, std::string_view id,
                                         const protocol::form::PageArgs& page) const {
  KVGATE_TRY(const std::vector<ResponsesItem> items, responses_.Input(tenant, id));
  return protocol::form::EncodeItemPage(items, page);
}

Result<std::string> Responses::Cancel(std::string_view tenant, std::string_view id) const {
  KVGATE_TRY([[maybe_unused]] const std::string response, responses_.Get(tenant, id));
  return MakeError(ErrorCode::kInvalidArgument, "service.responses",
                   "Cannot cancel a synchronous response: only one with background=true can be, "
                   "and the local engine makes none.");
}

}  // namespace kvgate::session
