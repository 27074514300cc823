#include "gateway/proxy/handler/prompts/prompt_step.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "gateway/local/local.h"
#include "gateway/session/prompts/named_prompts.h"
#include "gateway/session/prompts/prompt_values.h"
#include "gateway/session/prompts/remembered_prompt.h"
#include "gateway/session/session_ask.h"

namespace kvgate::proxy::handler::prompts {

using request::RequestContext;
using request::Task;
using session::log::TurnPrompt;
using session::prompts::BodyView;
using session::prompts::kPromptHeader;
using session::prompts::kValuesHeader;
using session::prompts::NamedPrompts;
using session::prompts::PromptChoice;
using session::prompts::PromptLibrary;
using session::prompts::PromptName;

namespace {

constexpr std::string_view kSource = "proxy";
constexpr std::string_view kRecognise = "recognise";

Error Wrong(std::string_view field, std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, std::string(kSource), std::move(why),
                   std::string(field));
}

}  // namespace

bool PromptStep::IsWanted(const RequestContext& request) {
  return !request.Header(kPromptHeader).empty() || !request.Header(kValuesHeader).empty();
}

bool PromptStep::is_session() const {
  return !request_.Header(session::kKeyHeader).empty() &&
         request_.Header(session::kModeHeader) != kRecognise;
}

Task<bool> PromptStep::Begin() {
  const Result<void> taken = co_await Take();
  if (taken) co_return true;
  Error error = taken.error();
  co_await request_.Refuse(std::move(error));
  co_return false;
}

Result<PromptName> PromptStep::Ask() const {
  const std::string_view name = request_.Header(kPromptHeader);
  if (name.empty()) {
    return Wrong(kPromptHeader, fmt::format("{} gives values to a prompt, and {} names none.",
                                            kValuesHeader, kPromptHeader));
  }
  if (!dialect_) {
    return MakeError(ErrorCode::kUnsupported, std::string(kSource),
                     "Requests of this path have no messages, so no prompt can stand in front.",
                     std::string(kPromptHeader));
  }
  if (is_session()) {
    KVGATE_TRY_VOID(session::CheckKey(request_.Header(session::kKeyHeader), session::kKeyHeader));
  }
  return session::prompts::ReadPromptName(name);
}

Task<Result<BodyView>> PromptStep::View() {
  const Result<void> scanned = co_await request_.Scan();
  if (!scanned) co_return scanned.error();
  if (request_.body().is_encoded() && !request_.body().is_decoded()) {
    co_return MakeError(ErrorCode::kUnsupported, std::string(kSource),
                        "The body cannot be read in its Content-Encoding, so no prompt can be put "
                        "into it.",
                        "content-encoding");
  }
  Result<BodyView> view = BodyView();
  std::function<void()> read = [&] {
    view = session::prompts::ViewOf(*dialect_, request_.body().text());
  };
  co_await request_.work().RunSized(request_.body().text().size(), std::move(read));
  co_return view;
}

// The work may outlive this request on a disk that hangs, so it owns what it uses.
Task<Result<std::optional<TurnPrompt>>> PromptStep::Remembered(const BodyView& view) {
  using Found = Result<std::optional<TurnPrompt>>;
  session::Sessions* const sessions = request_.environment().options.sessions;
  std::string key;
  if (is_session()) {
    key = request_.Header(session::kKeyHeader);
  } else if (session::log::IsMintedKey(view.continues)) {
    key = view.continues;
  }
  if (key.empty() || sessions == nullptr) co_return Found(std::nullopt);
  auto found = std::make_shared<Found>(std::nullopt);
  std::function<void()> work = [sessions, tenant = tenant_, key, found] {
    *found =
        session::prompts::RememberedPrompt(sessions->session_log(), {.tenant = tenant, .key = key});
  };
  const Result<void> ran =
      co_await request_.work().RunOnDisk(request_.work().pools().store, std::move(work));
  if (!ran) co_return ran.error();
  // What is wrong with the id, whoever goes on from it says.
  const bool is_unknown = !*found && found->error().code == ErrorCode::kNotFound;
  if (is_unknown) co_return Found(std::nullopt);
  co_return std::move(*found);
}

session::prompts::Conversation PromptStep::ConversationOf(const BodyView& view) const {
  session::prompts::Conversation conversation{.tenant = tenant_};
  const std::string_view key = request_.Header(session::kKeyHeader);
  if (!key.empty()) {
    conversation.opening = fmt::format("session {}", key);
    // Its key says that it goes on, wherever it is kept.
    if (!is_session()) conversation.answered = conversation.opening;
  } else if (!view.continues.empty()) {
    conversation.opening = fmt::format("id {}", view.continues);
  } else {
    conversation.opening = "text " + view.opening;
    conversation.answered = view.answered;
  }
  return conversation;
}

Result<void> PromptStep::CheckKept(const PromptLibrary& library, const PromptName& ask,
                                   const BodyView& view) const {
  const bool is_foreign = !view.continues.empty() && !session::log::IsMintedKey(view.continues);
  if (!is_foreign || is_session() || !ask.version.empty()) return {};
  if (library.VersionsOf(ask.name).size() < 2) return {};
  return Wrong(kPromptHeader,
               fmt::format("'{}' is kept by its provider, so it is not known here with which "
                           "version of '{}' it began: name that, as {}: NAME@VERSION. The answers "
                           "say it in a header of that name.",
                           view.continues.substr(0, 64), ask.name, kPromptHeader));
}

Task<Result<void>> PromptStep::Take() {
  tenant_ = local::TenantOf(request_.caller().credential());
  const Result<PromptName> ask = Ask();
  if (!ask) co_return ask.error();
  NamedPrompts* const named = request_.environment().options.named_prompts;
  if (named == nullptr) co_return Wrong(kPromptHeader, "There are no prompts here.");
  const std::shared_ptr<const PromptLibrary> library = named->library();
  const Result<BodyView> view = co_await View();
  if (!view) co_return view.error();
  const Result<void> kept = CheckKept(*library, *ask, *view);
  if (!kept) co_return kept.error();
  Result<std::optional<TurnPrompt>> remembered = co_await Remembered(*view);
  if (!remembered) co_return remembered.error();
  const std::string_view mode = request_.Header(session::kModeHeader);
  Result<PromptChoice> choice = session::prompts::ChoosePrompt(
      {.library = *library,
       .beginnings = named->beginnings(),
       .ask = *ask,
       .values = request_.Header(kValuesHeader),
       .remembered = *std::move(remembered),
       .conversation = ConversationOf(*view),
       .is_session = is_session(),
       .is_plain = !view->has_system && view->answered.empty() && mode != "transcript",
       .may_differ = mode == "append"});
  if (!choice) co_return choice.error();
  request::NotePrompt(std::move(choice->prompt), request_.notes());
  if (choice->is_gone) co_return Result<void>();
  const std::string values = session::prompts::ValuesBlock(request_.notes().prompt->values);
  const TurnPrompt& prompt = *request_.notes().prompt;
  const bool is_shared =
      named->uses().Note(tenant_, {.name = prompt.name, .version = prompt.version},
                         request_.scan().model, WallClock::NowUs());
  Result<std::string> body = std::string();
  std::function<void()> write = [&] {
    body = session::prompts::WithPrompt({.dialect = *dialect_,
                                         .body = request_.body().text(),
                                         .text = choice->text,
                                         .values = values,
                                         .is_shared = is_shared});
  };
  co_await request_.work().RunSized(request_.body().text().size(), std::move(write));
  if (!body) co_return body.error();
  const Result<void> replaced = request_.ReplaceBody(*std::move(body));
  co_return replaced;
}

}  // namespace kvgate::proxy::handler::prompts
