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
#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/form/decode_limits.h"
#include "gateway/protocol/reply_encoder.h"
#include "gateway/protocol/responses.h"
#include "gateway/session/answer_hook.h"
#include "gateway/session/conversation_store.h"
#include "gateway/session/response_store.h"
#include "store/meta/turn_store.h"

namespace kvgate::session {

// A response that is being made. It holds the lock of its conversation until it is released.
struct ResponseTurn {
  protocol::form::CompletionRequest request;
  protocol::ResponseShape shape;
  bool truncates = false;  // the oldest turns may be left out
  std::string tenant;
  std::string request_id;
  std::string parent;        // the turn that it continues; empty: none
  std::string conversation;  // its id; empty: none
  std::vector<protocol::form::ResponsesItem> input;
  std::shared_ptr<void> lock;
};

class Responses {
 public:
  // `turns` may be null, in which case nothing is kept. It must outlive this object.
  Responses(store::meta::TurnStore* turns, const protocol::form::DecodeLimits& limits)
      : limits_(limits), responses_(turns), conversations_(turns) {}

  enum class Use : uint8_t { kCreate, kCount };
  struct BeginArgs {
    std::string_view body;
    std::string tenant;
    std::string request_id;
    Use use = Use::kCreate;
  };
  // A response whose context may not be loaded yet.
  struct Draft {
    protocol::ResponsesRequest decoded;
    Use use = Use::kCreate;
    std::shared_ptr<ResponseTurn> turn = std::make_shared<ResponseTurn>();
    std::vector<protocol::form::ResponsesItem> context = {};
    // Rendered instead, with all of its items; what is kept and shown stays `decoded`.
    std::optional<protocol::ResponsesRequest> rendered = {};
    // Returns true if it continues from or refers to stored items.
    bool needs_store() const;
  };
  // Begin in three steps, of which only Load may wait for the disk.
  Result<Draft> Decode(const BeginArgs& args) const;
  Result<void> Load(Draft& draft);
  Result<std::shared_ptr<ResponseTurn>> Compose(Draft draft) const;
  // Decodes what is rendered instead of a draft.
  Result<void> DecodeRendered(std::string_view body, Draft& draft) const;
  // Decodes the body, finds what it continues from, and builds the prompt.
  Result<std::shared_ptr<ResponseTurn>> Begin(const BeginArgs& args);
  // Returns a hook that keeps the answer by its id and in its conversation.
  AnswerHook KeepAnswer(std::shared_ptr<ResponseTurn> turn, protocol::ReplyOptions options);

  // Requests by id; the results are JSON bodies. They return kNotFound for an unknown id.
  Result<std::string> Get(std::string_view tenant, std::string_view id) const {
    return responses_.Get(tenant, id);
  }
  Result<std::string> Delete(std::string_view tenant, std::string_view id);
  Result<std::string> ListInput(std::string_view tenant, std::string_view id,
                                const protocol::form::PageArgs& page) const;
  // Returns kUnsupported: only background responses can be cancelled, and the engine makes none.
  Result<std::string> Cancel(std::string_view tenant, std::string_view id) const;

  ConversationStore& conversations() { return conversations_; }
  const protocol::form::DecodeLimits& limits() const { return limits_; }

 private:
  Result<std::vector<protocol::form::ResponsesItem>> FindContext(Draft& draft);
  Result<void> Resolve(Draft& draft) const;

  const protocol::form::DecodeLimits limits_;
  ResponseStore responses_;
  ConversationStore conversations_;
};

}  // namespace kvgate::session
