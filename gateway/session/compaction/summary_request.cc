#include "gateway/session/compaction/summary_request.h"

#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

#include "gateway/session/summary/summary_call.h"
#include "gateway/session/transcript/bounded_json.h"
#include "gateway/session/transcript/raw_object.h"
#include "gateway/session/transcript/request_body.h"

namespace kvgate::session::compaction {

using summary::SummaryPrompt;
using transcript::Dump;
using transcript::Json;
using transcript::Kind;
using transcript::Member;
using transcript::MemberOf;
using transcript::Message;
using transcript::RawObject;

namespace {

constexpr std::string_view kSource = "session";

Error Nothing(Dialect dialect) {
  const bool is_messages = dialect == Dialect::kMessages;
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   is_messages
                       ? "compaction_nothing_to_summarize: there is nothing to be summarised."
                       : "There is nothing to be compacted: 'input' has no items.",
                   is_messages ? "messages" : "input");
}

// What comes before is kept by the gateway or by the upstream, and is summarised there.
Result<std::string> WriteChained(const SummaryRequest& args, const RawObject& body,
                                 const SummaryPrompt& prompt) {
  const std::string_view input = body.At("input");
  std::vector<Message> messages;
  if (input.starts_with('[')) {
    KVGATE_TRY(messages, transcript::ReadMessages(args.dialect, input, "input"));
  } else if (!input.empty()) {
    messages.push_back({.json = fmt::format(R"({{"role":"user","content":{}}})", input)});
  }
  const Json ask = {{"role", "user"}, {"content", prompt.Ask({.tokens_max = args.tokens_max})}};
  messages.push_back({.json = Dump(ask)});
  const std::vector<Member> members = {
      {.name = "input", .value = transcript::ToList(messages)},
      {.name = "max_output_tokens", .value = std::to_string(args.tokens_max)},
      {.name = "stream", .value = "false"},
      {.name = "stream_options"},
      {.name = "store", .value = "false"}};
  return transcript::WithMembers(args.body, members);
}

// A limit that its caller set holds for the summary, as at the provider; what may be thought is
// added to it again.
int64_t TokensMaxOf(const SummaryRequest& args, const RawObject& body,
                    const transcript::RequestBody& read) {
  if (args.dialect != Dialect::kMessages || read.output_tokens <= 0) return args.tokens_max;
  const std::optional<RawObject> thinking = RawObject::Read(body.At("thinking"));
  const int64_t budget = thinking ? thinking->IntegerAt("budget_tokens") : 0;
  return budget > 0 && budget < read.output_tokens ? read.output_tokens - budget
                                                   : read.output_tokens;
}

}  // namespace

Result<std::string> WriteRequest(const SummaryRequest& args) {
  const std::string asking = WithoutAsking(args.dialect, args.body);
  const std::optional<RawObject> body = RawObject::Read(asking);
  if (!body) return Nothing(args.dialect);
  const SummaryPrompt prompt = SummaryPrompt::OfWhole(args.instructions);
  if (!body->At("previous_response_id").empty()) {
    return WriteChained({.dialect = args.dialect, .body = asking, .tokens_max = args.tokens_max},
                        *body, prompt);
  }
  KVGATE_TRY(const transcript::RequestBody read, transcript::ReadBody(args.dialect, asking));
  if (read.messages.empty()) return Nothing(args.dialect);
  return summary::MakeCall({.dialect = args.dialect,
                            .body = asking,
                            .frame = read.frame,
                            .messages = read.messages,
                            .folded = read.messages,
                            .prompt = prompt,
                            .tokens_max = TokensMaxOf(args, *body, read),
                            .only_part = args.only_part})
      .body;
}

Result<log::Summary> ReadSummary(Dialect dialect, std::string_view answer) {
  return summary::ReadAnswer(dialect, answer, std::numeric_limits<int64_t>::max());
}

}  // namespace kvgate::session::compaction
