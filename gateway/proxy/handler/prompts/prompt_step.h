// PromptStep: the part of a request's life that is its named prompt's. It stands in front of
// everything else: it chooses the version, puts it into the body, and notes it. It knows no
// provider.
#pragma once

#include <optional>
#include <string>

#include "gateway/dialect/form/completion.h"
#include "gateway/proxy/request/request_context.h"
#include "gateway/session/prompts/prompt_choice.h"
#include "gateway/session/prompts/prompt_place.h"

namespace kvgate::proxy::handler::prompts {

class PromptStep {
 public:
  using Dialect = dialect::form::Dialect;
  // `dialect` is that of the route; nullopt: its requests have no messages.
  PromptStep(request::RequestContext& request, std::optional<Dialect> dialect)
      : request_(request), dialect_(dialect) {}

  // True if the request names a prompt, so that Begin is to be called.
  static bool IsWanted(const request::RequestContext& request);

  // Returns false if the request has been refused, and answered so.
  request::Task<bool> Begin();

 private:
  request::Task<Result<void>> Take();
  // Reads the headers.
  Result<session::prompts::PromptName> Ask() const;
  // Reads the body once it can be read.
  request::Task<Result<session::prompts::BodyView>> View();
  // What its session, its chain of responses or its conversation began with.
  request::Task<Result<std::optional<session::log::TurnPrompt>>> Remembered(
      const session::prompts::BodyView& view);
  // What a version is drawn for.
  session::prompts::Conversation ConversationOf(const session::prompts::BodyView& view) const;
  // An error if the conversation is kept by an upstream, so that nobody here knows what it began
  // with, and there are several versions.
  Result<void> CheckKept(const session::prompts::PromptLibrary& library,
                         const session::prompts::PromptName& ask,
                         const session::prompts::BodyView& view) const;
  bool is_session() const;

  request::RequestContext& request_;
  const std::optional<Dialect> dialect_;
  std::string tenant_;
};

}  // namespace kvgate::proxy::handler::prompts
