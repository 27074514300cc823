#include "gateway/session/prompts/prompt_choice.h"

#include <fmt/format.h>

#include <utility>

#include "gateway/dialect/form/errors.h"
#include "gateway/session/prompts/prompt_values.h"
#include "gateway/session/session_ask.h"

namespace kvgate::session::prompts {
namespace {

constexpr std::string_view kSource = "session.prompts";

Error Differs(std::string_view field, std::string why) {
  return MakeError(ErrorCode::kUnavailable, std::string(dialect::form::kSessionSource),
                   std::move(why), std::string(field));
}

Error Unknown(const ChoiceArgs& args, const PromptName& id) {
  std::string versions;
  for (const PromptVersion& version : args.library.VersionsOf(id.name)) {
    versions += (versions.empty() ? "" : ", ") + version.id.version;
    if (versions.size() > 200) {
      versions += ", …";
      break;
    }
  }
  return MakeError(ErrorCode::kNotFound, std::string(kSource),
                   versions.empty()
                       ? fmt::format("There is no prompt '{}' ({}).", id.name, kPromptHeader)
                       : fmt::format("The prompt '{}' has no version '{}' ({}); it has {}.",
                                     id.name, id.version, kPromptHeader, versions),
                   std::string(kPromptHeader));
}

// The conversation goes on with what it began with.
bool GoesOn(const ChoiceArgs& args) {
  if (!args.remembered || args.remembered->name != args.ask.name) return false;
  return args.ask.version.empty() || args.ask.version == args.remembered->version;
}

}  // namespace

Result<PromptChoice> ChoosePrompt(const ChoiceArgs& args) {
  const bool goes_on = GoesOn(args);
  if (args.remembered && !args.remembered->is_none() && !goes_on && !args.may_differ) {
    const std::string label =
        LabelOf({.name = args.remembered->name, .version = args.remembered->version});
    return Differs(
        kPromptHeader,
        fmt::format("This conversation began with the prompt {} and goes on with it, not "
                    "with {}. Begin another one, or send {}: append to go on with that "
                    "in this one.",
                    label, LabelOf(args.ask), kModeHeader));
  }
  PromptName id = args.ask;
  if (goes_on) id.version = args.remembered->version;
  if (id.version.empty()) {
    const PromptVersion* const begun =
        args.beginnings.Choose(args.library, id.name, args.conversation);
    if (begun == nullptr) return Unknown(args, id);
    id = begun->id;
  }
  const PromptVersion* const version = args.library.Find(id);
  if (version == nullptr) {
    if (!goes_on || !args.is_session || !args.is_plain || !args.values.empty())
      return Unknown(args, id);
    return PromptChoice{.prompt = *args.remembered, .is_gone = true};
  }
  const bool keeps_values = goes_on && args.values.empty();
  KVGATE_TRY(const Values values,
             ReadValues(keeps_values ? std::string_view(args.remembered->values) : args.values));
  KVGATE_TRY(std::string arranged, ArrangeValues(version->variables, values));
  if (goes_on && args.is_session && !args.may_differ && arranged != args.remembered->values) {
    return Differs(kValuesHeader,
                   fmt::format("The session began with other values of its prompt's variables, and "
                               "goes on with them. Leave {} out, or send {}: append.",
                               kValuesHeader, kModeHeader));
  }
  return PromptChoice{.prompt = {.name = std::move(id.name),
                                 .version = std::move(id.version),
                                 .values = std::move(arranged)},
                      .text = version->text};
}

}  // namespace kvgate::session::prompts
