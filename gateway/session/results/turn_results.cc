#include "gateway/session/results/turn_results.h"

#include <algorithm>

#include "gateway/session/results/read_tool.h"
#include "gateway/session/results/stub.h"

namespace kvgate::session::results {

namespace {

// The tools of the session's newest turn.
std::string_view ToolsOf(std::span<const log::LoggedTurn> stored) {
  for (auto turn = stored.rbegin(); turn != stored.rend(); ++turn) {
    if (turn->frame) return turn->frame->tools;
  }
  return {};
}

std::optional<std::string> TextIn(const log::LoggedTurn& turn, std::string_view id) {
  const auto found = std::find_if(turn.results.begin(), turn.results.end(),
                                  [&](const log::KeptResult& one) { return one.id == id; });
  return found == turn.results.end() ? std::nullopt : std::optional(found->text);
}

}  // namespace

bool TakeResults(const TakeArgs& args) {
  const std::string_view known = ToolsOf(args.stored);
  const bool has_tool = HasReadTool(known);
  const bool stubs = args.stubs.value_or(has_tool || args.settings.stubs);
  transcript::RequestBody& request = args.request;
  if (stubs) StubResults(request.dialect, args.settings.bytes_max, request.messages, args.kept);
  if (!stubs && !has_tool) return false;
  std::string& tools = request.frame.tools;
  // A request without tools has those of the session.
  if (!tools.empty() || !has_tool) {
    tools = WithReadTool(request.dialect, tools.empty() ? known : tools);
  }
  return true;
}

std::string BodyOf(const transcript::RequestBody& request, std::string_view body) {
  std::vector<transcript::Member> members;
  if (!request.frame.tools.empty()) {
    members.push_back({.name = "tools", .value = request.frame.tools});
  }
  if (request.dialect == Dialect::kResponses)
    members.push_back({.name = "store", .value = "false"});
  return transcript::WriteBody(request.dialect, transcript::WithMembers(body, members),
                               {.frame = request.frame, .messages = request.messages});
}

Result<std::optional<std::string>> FindResult(const log::SessionLog& log,
                                              const log::SessionLog::Place& place,
                                              const log::LoggedTurn& turn, std::string_view id) {
  if (auto text = TextIn(turn, id)) return text;
  if (turn.parent.empty()) return std::optional<std::string>();
  KVGATE_TRY(const log::SessionLog::Root root, log.Find(place));
  KVGATE_TRY(const std::vector<log::LoggedTurn> branch,
             log.Load(place, root, turn.parent, log::SessionLog::Reach::kThere));
  for (auto one = branch.rbegin(); one != branch.rend(); ++one) {
    if (auto text = TextIn(*one, id)) return text;
  }
  return std::optional<std::string>();
}

}  // namespace kvgate::session::results
