// Responses: the life of a response around its generation: what it goes on from, what is kept of
// it, and what is asked of it later by its id.
// Thread-safe; may wait for the disk, so it is called on workers. Nothing is shared between
// tenants.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/reply_encoder.h"
#include "gateway/protocol/responses.h"
#include "gateway/session/answer_hook.h"
#include "gateway/service/conversation_store.h"
#include "gateway/session/response_store.h"
#include "store/meta/turn_store.h"

namespace kvgate::service {

// A response that is being made. Its conversation is nobody else's until it is let go of.
struct ResponseTurn {
  protocol::CompletionRequest request;
  protocol::ResponseShape shape;
  bool truncates = false;
  std::string tenant;
  std::string request_id;
  std::string parent;        // the turn that it goes on from; empty: none
  std::string conversation;  // empty: none
  std::vector<protocol::ResponsesItem> input;
  std::shared_ptr<void> lock;

  // After an error of the engine's: leaves out the oldest turns where that may help and the caller
  // allows it. False: it does not.
  bool Shorten(const Error& error, protocol::CompletionRequest& shortened) const;
};

class Responses {
 public:
  // `turns` may be null: nothing is kept. It outlives this.
  Responses(store::TurnStore* turns, const protocol::DecodeLimits& limits)
      : limits_(limits), responses_(turns), conversations_(turns) {}

  enum class Use : uint8_t { kCreate, kCount };
  struct BeginArgs {
    std::string_view body;
    std::string tenant;
    std::string request_id;
    Use use = Use::kCreate;
  };
  // A turn in the making.
  struct Draft {
    protocol::ResponsesRequest decoded;
    Use use = Use::kCreate;
    std::shared_ptr<ResponseTurn> turn = std::make_shared<ResponseTurn>();
    std::vector<protocol::ResponsesItem> context = {};
    // It goes on from, or names, what is stored.
    bool needs_store() const;
  };
  // Begin in three steps, of which Load alone may wait for the disk.
  Result<Draft> Decode(const BeginArgs& args) const;
  Result<void> Load(Draft& draft);
  Result<std::shared_ptr<ResponseTurn>> Compose(Draft draft) const;
  // Decodes, finds what it goes on from, and builds the prompt.
  Result<std::shared_ptr<ResponseTurn>> Begin(const BeginArgs& args);
  // Keeps the answer: by its id, and in its conversation.
  AnswerHook KeepAnswer(std::shared_ptr<ResponseTurn> turn, protocol::ReplyOptions options);

  // What is asked by id; JSON bodies. kNotFound.
  Result<std::string> Get(std::string_view tenant, std::string_view id) const {
    return responses_.Get(tenant, id);
  }
  Result<std::string> Delete(std::string_view tenant, std::string_view id);
  Result<std::string> ListInput(std::string_view tenant, std::string_view id,
                                const protocol::PageArgs& page) const;
  // kUnsupported: only responses in the background can be cancelled so, and none is.
  Result<std::string> Cancel(std::string_view tenant, std::string_view id) const;

  ConversationStore& conversations() { return conversations_; }
  const protocol::DecodeLimits& limits() const { return limits_; }

 private:
  Result<std::vector<protocol::ResponsesItem>> FindContext(Draft& draft);
  Result<void> Resolve(Draft& draft) const;

  const protocol::DecodeLimits limits_;
  ResponseStore responses_;
  ConversationStore conversations_;
};

}  // namespace kvgate::service
