// Responses handles a response around its generation: what it continues from, what is kept of it,
// and later requests by its id. It is thread-safe and may wait for the disk, so it is called on
// workers. Tenants share nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/decode_limits.h"
#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/dialect/responses/responses.h"
#include "gateway/session/answer_hook.h"
#include "gateway/session/conversation_store.h"
#include "gateway/session/response_store.h"
#include "gateway/session/sessions.h"
#include "store/meta/turn_store.h"

namespace kvgate::session {

// A response that is being made. It holds the lock of its conversation until it is released.
struct ResponseTurn {
  dialect::form::CompletionRequest request;
  dialect::reply::ResponseShape shape;
  bool truncates = false;  // the oldest turns may be left out
  std::string tenant;
  std::string request_id;
  std::string parent;        // the entry that it continues; empty: none
  std::string previous;      // the response that was named to continue from; empty: none
  std::string conversation;  // its id; empty: none
  std::vector<dialect::responses::ResponsesItem> input;
  std::shared_ptr<void> lock;
  // As a turn of its session, which begins with it or goes on.
  std::shared_ptr<SessionTurn> session = std::make_shared<SessionTurn>();
};

class Responses {
 public:
  // `turns` may be null, in which case nothing is kept. `sessions` are those of the same store;
  // null: it has its own, which no one else can name. Both must outlive this object.
  Responses(store::meta::TurnStore* turns, const dialect::form::DecodeLimits& limits,
            Sessions* sessions = nullptr)
      : limits_(limits),
        own_(sessions == nullptr ? std::make_unique<Sessions>(Sessions::Options{.turns = turns})
                                 : nullptr),
        sessions_(sessions == nullptr ? *own_ : *sessions),
        responses_(turns, sessions_.session_log()),
        conversations_(turns, sessions_) {}

  enum class Use : uint8_t { kCreate, kCount };
  struct BeginArgs {
    std::string_view body;
    std::string tenant;
    std::string request_id;
    Use use = Use::kCreate;
    std::optional<log::TurnPrompt> prompt = {};  // that the request names
  };
  // A response whose context may not be loaded yet.
  struct Draft {
    dialect::responses::ResponsesRequest decoded;
    Use use = Use::kCreate;
    std::shared_ptr<ResponseTurn> turn = std::make_shared<ResponseTurn>();
    log::History history = {};                                    // of what it goes on from
    std::vector<dialect::responses::ResponsesItem> context = {};  // the items of that
    // Rendered instead, with all of its items; what is kept and shown stays `decoded`.
    std::optional<dialect::responses::ResponsesRequest> rendered = {};
    // Returns true if it continues from or refers to stored items.
    bool needs_store() const;
  };
  // Begin in three steps, of which only Load may wait for the disk. Between the last two, Window
  // may be called, and then DecodeRendered with its body.
  Result<Draft> Decode(const BeginArgs& args) const;
  Result<void> Load(Draft& draft);
  Result<std::shared_ptr<ResponseTurn>> Compose(Draft draft) const;
  // Decodes what is rendered instead of a draft.
  Result<void> DecodeRendered(std::string_view body, Draft& draft) const;
  // Applies the window of its session to what a draft goes on from. Returns the whole body that is
  // to be rendered; nullopt if nothing is left out, so that all is to be rendered as it is. `args`
  // has the body as received. Fails as ApplyWindow does.
  Result<std::optional<std::string>> Window(Draft& draft, const Sessions::ComposeArgs& args) const;
  const Sessions& sessions() const { return sessions_; }
  // Decodes the body, finds what it continues from, and builds the prompt.
  Result<std::shared_ptr<ResponseTurn>> Begin(const BeginArgs& args);
  // Returns a hook that keeps the answer by its id and in its conversation.
  AnswerHook KeepAnswer(std::shared_ptr<ResponseTurn> turn, dialect::reply::ReplyOptions options);

  // Requests by id; the results are JSON bodies. They return kNotFound for an unknown id.
  Result<std::string> Get(std::string_view tenant, std::string_view id) const {
    return responses_.Get(tenant, id);
  }
  Result<std::string> Delete(std::string_view tenant, std::string_view id);
  Result<std::string> ListInput(std::string_view tenant, std::string_view id,
                                const dialect::responses::PageArgs& page) const;
  // Returns kUnsupported: only background responses can be cancelled, and the engine makes none.
  Result<std::string> Cancel(std::string_view tenant, std::string_view id) const;

  ConversationStore& conversations() { return conversations_; }
  const dialect::form::DecodeLimits& limits() const { return limits_; }

 private:
  Result<void> FindContext(Draft& draft);
  Result<void> FindSession(ResponseTurn& turn) const;
  static void SetStored(const std::string& id,
                        const std::vector<dialect::responses::ResponsesItem>& output,
                        ResponseTurn& turn);
  Result<void> Resolve(Draft& draft) const;

  const dialect::form::DecodeLimits limits_;
  const std::unique_ptr<Sessions> own_;
  Sessions& sessions_;
  ResponseStore responses_;
  ConversationStore conversations_;
};

}  // namespace kvgate::session
