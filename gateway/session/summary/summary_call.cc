#include "gateway/session/summary/summary_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/session/answer/answer_reader.h"
#include "gateway/session/summary/summary_text.h"
#include "gateway/session/transcript/raw_object.h"
#include "gateway/session/transcript/spoken.h"

namespace kvgate::session::summary {

using dialect::form::JsonWriter;
using transcript::Kind;
using transcript::RawObject;
using Member = transcript::Member;

namespace {

constexpr std::string_view kSource = "session";
constexpr size_t kKeptFromBytes = 80;

// An answer of a given form cannot be a summary.
bool HasForm(const RawObject& body) {
  for (const char* name : {"response_format", "output_format", "output_config"}) {
    const std::string_view value = body.At(name);
    const std::optional<RawObject> object = RawObject::Read(value);
    if (name == std::string_view("output_config")) {
      if (object && !object->At("format").empty()) return true;
    } else if (object && object->StringAt("type") != "text") {
      return true;
    }
  }
  const std::optional<RawObject> text = RawObject::Read(body.At("text"));
  const std::optional<RawObject> format =
      text ? RawObject::Read(text->At("format")) : std::optional<RawObject>();
  return format && format->StringAt("type") != "text";
}

std::string_view LimitNameOf(Dialect dialect, const RawObject& body) {
  if (dialect == Dialect::kMessages) return "max_tokens";
  if (dialect == Dialect::kResponses) return "max_output_tokens";
  return body.At("max_tokens").empty() ? "max_completion_tokens" : "max_tokens";
}

// What the model may think counts against the limit too.
int64_t LimitOf(const CallArgs& args, const RawObject& body) {
  const std::optional<RawObject> thinking = RawObject::Read(body.At("thinking"));
  const int64_t budget = thinking ? thinking->IntegerAt("budget_tokens") : 0;
  return args.tokens_max + std::max<int64_t>(0, budget);
}

Message Asking(Dialect dialect, std::string_view text) {
  std::string json;
  JsonWriter writer(json);
  writer.BeginObject().Key("role").String("user").Key("content");
  // As a block, a text can carry a cache breakpoint.
  if (dialect == Dialect::kMessages) {
    writer.BeginArray().BeginObject().Key("type").String("text").Key("text").String(text);
    writer.EndObject().EndArray();
  } else {
    writer.String(text);
  }
  writer.EndObject();
  return {.kind = Kind::kUser, .json = std::move(json)};
}

std::string Quoted(std::string_view text) {
  std::string json;
  JsonWriter(json).String(text);
  return json;
}

// How the first message that stays begins, in one line.
std::string BeginningOf(std::string_view text) {
  std::string out(text.substr(0, Utf8CutBefore(text, std::min(text.size(), kKeptFromBytes))));
  for (char& c : out) {
    if (c == '\n' || c == '\r' || c == '"') c = ' ';
  }
  return out;
}

// The messages without an answer at their end whose calls have no results yet. It is newer than all
// that is folded, and what is in front of it has been sent as it is.
std::span<const Message> WithoutOpenCall(std::span<const Message> messages) {
  const auto spoken = std::find_if(messages.rbegin(), messages.rend(), [](const Message& message) {
    return message.kind != Kind::kAssistant;
  });
  const std::span<const Message> answer =
      messages.last(static_cast<size_t>(std::distance(messages.rbegin(), spoken)));
  const bool is_open = std::any_of(answer.begin(), answer.end(), transcript::CallsTool);
  return is_open ? messages.first(messages.size() - answer.size()) : messages;
}

Call MakeWhole(const CallArgs& args, std::span<const Message> sent, const RawObject& body) {
  std::vector<Message> messages(sent.begin(), sent.end());
  messages.push_back(Asking(args.dialect, args.prompt.Ask({.tokens_max = args.tokens_max,
                                                           .kept_from = BeginningOf(args.kept_from),
                                                           .part = {}})));
  const std::string whole =
      transcript::WriteBody(args.dialect, args.body, {.frame = args.frame, .messages = messages});
  std::vector<Member> members = {
      {.name = LimitNameOf(args.dialect, body), .value = std::to_string(LimitOf(args, body))},
      {.name = "stream", .value = "false"},
      {.name = "stream_options"},
      {.name = "stop"},
      {.name = "stop_sequences"}};
  if (args.dialect == Dialect::kResponses) members.push_back({.name = "store", .value = "false"});
  return {.body = transcript::WithMembers(whole, members), .is_whole = true};
}

Call MakePart(const CallArgs& args, const RawObject& body) {
  const Message ask =
      Asking(args.dialect, args.prompt.Ask({.tokens_max = args.tokens_max,
                                            .kept_from = BeginningOf(args.kept_from),
                                            .part = transcript::ToPlainText(args.folded)}));
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  const std::string model = args.model.empty() ? std::string(body.At("model")) : Quoted(args.model);
  if (!model.empty()) json.Key("model").Raw(model);
  json.Key(LimitNameOf(args.dialect, body)).Integer(args.tokens_max);
  if (args.dialect == Dialect::kResponses) json.Key("store").Bool(false);
  json.Key(args.dialect == Dialect::kResponses ? "input" : "messages");
  json.BeginArray().Raw(ask.json).EndArray().EndObject();
  return {.body = std::move(out), .is_whole = false};
}

Error Unusable(std::string why) {
  return MakeError(ErrorCode::kUnavailable, kSource, std::move(why));
}

}  // namespace

bool ForcesCall(const RawObject& body) {
  const std::string_view choice = body.At("tool_choice");
  if (choice.empty()) return false;
  const std::optional<RawObject> object = RawObject::Read(choice);
  const std::string named = object ? object->StringAt("type") : std::string(choice);
  return named != "auto" && named != "none" && named != "\"auto\"" && named != "\"none\"";
}

Call MakeCall(const CallArgs& args) {
  const std::optional<RawObject> read = RawObject::Read(args.body);
  const RawObject body = read ? *read : RawObject();
  const std::span<const Message> sent = WithoutOpenCall(args.messages);
  const bool is_part =
      args.only_part || sent.empty() || !args.model.empty() || ForcesCall(body) || HasForm(body);
  return is_part ? MakePart(args, body) : MakeWhole(args, sent, body);
}

Result<log::Summary> ReadAnswer(Dialect dialect, std::string_view body, int64_t tokens_max) {
  const auto reader = answer::MakeAnswerReader(dialect);
  if (!reader->OnBody(body)) return Unusable("the answer is not complete");
  const answer::RecordedAnswer answer = reader->Take();
  log::Summary summary;
  std::string text;
  for (const Message& message : answer.messages) {
    if (transcript::CallsTool(message)) return Unusable("the answer calls a tool");
    text += transcript::TextOf(message);
  }
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return Unusable("the answer is empty");
  text = text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
  summary.text = CutToTokens(text, answer.tokens.output, tokens_max);
  summary.tokens = answer.tokens;
  if (const std::optional<RawObject> object = RawObject::Read(body)) {
    summary.model = object->StringAt("model");
    // What the ledger says of the call (x-kvgate-explain).
    const std::optional<RawObject> said = RawObject::Read(object->At("kvgate"));
    const std::optional<RawObject> cost = said ? RawObject::Read(said->At("cost")) : std::nullopt;
    if (cost) summary.nanodollars = cost->IntegerAt("nanodollars");
  }
  return summary;
}

}  // namespace kvgate::session::summary
