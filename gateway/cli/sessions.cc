// `kvgate sessions ls|show|memory|fork|compact|undo|export|import|rm|purge`: works through the
// server that holds the data directory, else on the directory itself.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/cli/terminal/figures.h"
#include "gateway/local/prefix_service.h"
#include "gateway/runtime/data_tier.h"
#include "gateway/runtime/settings.h"
#include "gateway/session/memory/memory_admin.h"
#include "gateway/session/session_admin.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPath = "/kvgate/v1/sessions";

struct SessionFlags {
  ConfigFlags config;
  server::TargetFlags target;
  std::string key;
  std::string to;    // fork: the new session's key
  std::string turn;  // fork: the last turn that it takes over
  std::string file;  // export, import
  bool json = false;
  std::vector<std::string> set = {};     // memory: NAME=VALUE
  std::vector<std::string> remove = {};  // memory: names
  bool clear = false;                    // memory
  std::string retrieval = {};            // memory: "on", "off", "default"
};

// The server that has the sessions, or the sessions of a directory that this process opened.
struct SessionTarget {
  store::ServerAddress server;
  session::SessionAdmin* admin = nullptr;
  session::memory::MemoryAdmin* memory = nullptr;  // as admin
  std::string authorization = {};
  std::string tenant = {};
  session::SessionAdmin::Place place(const std::string& key) const {
    return {.tenant = tenant, .key = key};
  }
  // Unique among the requests of this directory, as a server's are.
  std::string request_id = {};
};

Result<std::string> AskSessions(const SessionTarget& target, server::HttpRequest request,
                                const std::function<Result<std::string>()>& here) {
  if (target.admin != nullptr) return here();
  request.authorization = target.authorization;
  return server::FetchOk(server::RequestTo(target.server, std::move(request)));
}

Result<Json> ParseAnswer(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_object()) return json;
  return MakeError(ErrorCode::kUnavailable, "cli",
                   "the answer is not in JSON; is that a kvgate server?");
}

std::string UrlOf(const std::string& key, std::string_view more = "") {
  return fmt::format("{}/{}{}", kPath, key, more);
}

std::string TimeOf(const Json& json, const char* name) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}",
                     fmt::localtime(static_cast<std::time_t>(json.value(name, int64_t{0}))));
}

void PrintSession(const Json& session) {
  constexpr size_t kNameColumns = 512;  // whole: other commands take the key
  fmt::print(
      "{:<40} {:>6}  {:<9} {}  {}\n", terminal::Shown(session.value("key", ""), kNameColumns),
      session.value("turns", uint64_t{0}), session.value("dialect", ""),
      TimeOf(session, "updated_at"), terminal::Shown(session.value("model", ""), kNameColumns));
}

Result<int> ListAll(const SessionTarget& target, const SessionFlags& flags) {
  std::string next;
  bool is_first = true;
  do {
    const std::string url = next.empty() ? std::string(kPath) + "?limit=100"
                                         : fmt::format("{}?limit=100&before={}", kPath, next);
    KVGATE_TRY(const std::string body, AskSessions(target, {.url = url}, [&] {
                 return target.admin->List(target.tenant, {.limit = "100", .before = next});
               }));
    KVGATE_TRY(const Json list, ParseAnswer(body));
    const Json sessions = list.value("data", Json::array());
    if (is_first && sessions.empty() && !flags.json) fmt::print("there is no session\n");
    if (is_first && !sessions.empty() && !flags.json) {
      fmt::print("{:<40} {:>6}  {:<9} {:<19}  {}\n", "KEY", "TURNS", "DIALECT", "LAST TURN",
                 "MODEL");
    }
    for (const Json& session : sessions) {
      if (flags.json) {
        fmt::print("{}\n", session.dump());
      } else {
        PrintSession(session);
      }
    }
    is_first = false;
    next = list.contains("next") && list["next"].is_string() ? list["next"].get<std::string>() : "";
  } while (!next.empty());
  return 0;
}

// The text of a message, or of one of its blocks.
std::string TextOf(const Json& message) {
  const Json content = message.contains("content") ? message["content"] : Json();
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array()) {
    for (const Json& block : content) {
      if (!block.is_object()) continue;
      const std::string said = block.contains("text") && block["text"].is_string()
                                   ? block["text"].get<std::string>()
                                   : fmt::format("[{}]", block.value("type", "block"));
      text += text.empty() ? said : " " + said;
    }
    return text;
  }
  return message.contains("type") ? fmt::format("[{}]", message.value("type", "")) : "[call]";
}

// What an event says of itself, in one line and the summary.
void PrintCompaction(const Json& event) {
  fmt::print("  = {}: {} messages left out, {} tokens before, {} after\n", event.value("mode", ""),
             event.value("messages_left_out", uint64_t{0}),
             event.value("tokens_before", int64_t{0}), event.value("tokens_after", int64_t{0}));
  if (!event.contains("summary")) return;
  const Json& summary = event["summary"];
  const Json tokens = summary.value("tokens", Json::object());
  fmt::print("  = written by {} ({}): {} tokens read, {} of them cached, {} written\n",
             summary.value("model", ""), summary.value("prompt", ""),
             tokens.value("input", int64_t{0}), tokens.value("cached", int64_t{0}),
             tokens.value("output", int64_t{0}));
  fmt::print("{}\n", summary.value("text", ""));
}

Result<int> Show(const SessionTarget& target, const SessionFlags& flags) {
  KVGATE_TRY(const std::string body, AskSessions(target, {.url = UrlOf(flags.key)}, [&] {
               return target.admin->Show(target.place(flags.key), {});
             }));
  KVGATE_TRY(const Json session, ParseAnswer(body));
  if (flags.json) {
    fmt::print("{}\n", session.dump());
    return 0;
  }
  fmt::print("{}: {} turns in the dialect {}, since {}\n", session.value("key", ""),
             session.value("turns", uint64_t{0}), session.value("dialect", ""),
             TimeOf(session, "created_at"));
  const uint64_t left_out = session.value("messages_left_out", uint64_t{0});
  if (left_out > 0) fmt::print("{} messages are left out of its prompt\n", left_out);
  for (const Json& turn : session.value("data", Json::array())) {
    const Json tokens = turn.value("tokens", Json::object());
    fmt::print("\n{}  {}  {} tokens, {} cached\n", turn.value("id", ""), TimeOf(turn, "created_at"),
               tokens.value("input", int64_t{0}), tokens.value("cached", int64_t{0}));
    if (turn.contains("compaction") && turn["compaction"].is_object()) {
      PrintCompaction(turn["compaction"]);
    }
    if (turn.contains("undoes")) fmt::print("  = undoes {}\n", turn.value("undoes", ""));
    for (const Json& message : turn.value("input", Json::array())) {
      fmt::print("  > {}\n", TextOf(message));
    }
    for (const Json& message : turn.value("answer", Json::array())) {
      fmt::print("  < {}\n", TextOf(message));
    }
  }
  return 0;
}

Result<int> Fork(const SessionTarget& target, const SessionFlags& flags) {
  Json wanted = {{"key", flags.to}};
  if (!flags.turn.empty()) wanted["turn"] = flags.turn;
  const std::string asked = wanted.dump();
  KVGATE_TRY(
      const std::string body,
      AskSessions(target, {.method = "POST", .url = UrlOf(flags.key, "/fork"), .body = asked}, [&] {
        return target.admin->Fork(target.place(flags.key), asked, target.request_id);
      }));
  KVGATE_TRY(const Json session, ParseAnswer(body));
  PrintSession(session);
  return 0;
}

Result<int> Compact(const SessionTarget& target, const SessionFlags& flags) {
  KVGATE_TRY(const std::string body,
             AskSessions(target, {.method = "POST", .url = UrlOf(flags.key, "/compact")},
                         []() -> Result<std::string> {
                           return MakeError(ErrorCode::kUnavailable, "cli",
                                            "a summary needs a model: start `kvgate serve`, or "
                                            "name a server (--url)");
                         }));
  KVGATE_TRY(const Json session, ParseAnswer(body));
  for (const Json& entry : session.value("data", Json::array())) {
    if (entry.contains("compaction") && entry["compaction"].is_object()) {
      PrintCompaction(entry["compaction"]);
    }
  }
  return 0;
}

Result<int> Undo(const SessionTarget& target, const SessionFlags& flags) {
  KVGATE_TRY(const std::string body,
             AskSessions(target, {.method = "POST", .url = UrlOf(flags.key, "/undo")}, [&] {
               return target.admin->Undo(target.place(flags.key), target.request_id);
             }));
  KVGATE_TRY(const Json undone, ParseAnswer(body));
  fmt::print("{} no longer counts\n", undone.value("undone", ""));
  return 0;
}

Result<int> ExportTo(const SessionTarget& target, const SessionFlags& flags) {
  KVGATE_TRY(const std::string lines,
             AskSessions(target, {.url = UrlOf(flags.key, "/export")},
                         [&] { return target.admin->Export(target.place(flags.key)); }));
  if (flags.file.empty()) {
    std::fwrite(lines.data(), 1, lines.size(), stdout);
    return 0;
  }
  std::ofstream file(flags.file, std::ios::binary | std::ios::trunc);
  std::error_code code;
  std::filesystem::permissions(
      flags.file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, code);
  file << lines;
  file.close();
  if (file.good()) return 0;
  return MakeError(ErrorCode::kIo, "cli", fmt::format("{} cannot be written", flags.file));
}

Result<int> ImportFrom(const SessionTarget& target, const SessionFlags& flags) {
  std::ifstream file(flags.file, std::ios::binary);
  if (!file) return MakeError(ErrorCode::kIo, "cli", fmt::format("{} cannot be read", flags.file));
  const std::string lines((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  KVGATE_TRY(
      const std::string body,
      AskSessions(
          target,
          {.method = "POST", .url = fmt::format("{}?key={}", kPath, flags.key), .body = lines},
          [&] { return target.admin->Import(target.place(flags.key), lines, target.request_id); }));
  KVGATE_TRY(const Json session, ParseAnswer(body));
  PrintSession(session);
  return 0;
}

Result<int> RemoveOne(const SessionTarget& target, const SessionFlags& flags) {
  KVGATE_TRY(const std::string body,
             AskSessions(target, {.method = "DELETE", .url = UrlOf(flags.key)}, [&] {
               return target.admin->Remove(target.place(flags.key), target.request_id);
             }));
  KVGATE_TRY(const Json report, ParseAnswer(body));
  fmt::print("{} removed, with {} blocks of its KV\n", flags.key,
             report.value("kv_records", uint64_t{0}));
  return 0;
}

Result<int> Purge(const SessionTarget& target, const SessionFlags&) {
  KVGATE_TRY(const std::string body,
             AskSessions(target, {.method = "DELETE", .url = std::string(kPath)},
                         [&] { return target.admin->Purge(target.tenant, target.request_id); }));
  KVGATE_TRY(const Json report, ParseAnswer(body));
  fmt::print("{} sessions removed", report.value("deleted", uint64_t{0}));
  const uint64_t in_use = report.value("in_use", uint64_t{0});
  fmt::print(", with {} blocks of their KV", report.value("kv_records", uint64_t{0}));
  if (in_use > 0) fmt::print(", {} are in use", in_use);
  fmt::print("\n");
  return in_use == 0 ? 0 : 1;
}

// The changes that the flags ask for, as a body; empty: none. A value that is JSON is taken as
// such, any other one as text.
Result<std::string> ChangesOf(const SessionFlags& flags) {
  Json facts = Json::object();
  for (const std::string& setting : flags.set) {
    const size_t mark = setting.find('=');
    if (mark == std::string::npos || mark == 0) {
      return MakeError(ErrorCode::kInvalidArgument, "cli",
                       fmt::format("'{}': --set takes NAME=VALUE", setting));
    }
    const std::string value = setting.substr(mark + 1);
    const Json json = Json::parse(value, nullptr, false);
    facts[setting.substr(0, mark)] = json.is_discarded() || json.is_null() ? Json(value) : json;
  }
  for (const std::string& name : flags.remove) facts[name] = nullptr;
  Json body = Json::object();
  if (!facts.empty()) body["facts"] = facts;
  if (flags.retrieval == "default") {
    body["retrieval"] = nullptr;
  } else if (!flags.retrieval.empty()) {
    body["retrieval"] = flags.retrieval == "on";
  }
  return body.empty() ? std::string() : body.dump();
}

void PrintFacts(const Json& answer, const char* member, std::string_view title) {
  const Json facts = answer.value(member, Json::object());
  if (facts.empty()) return;
  fmt::print("{}\n", title);
  constexpr size_t kColumns = 512;
  for (const auto& fact : facts.items()) {
    const std::string value =
        fact.value().is_string() ? fact.value().get<std::string>() : fact.value().dump();
    fmt::print("  {}: {}\n", terminal::Shown(fact.key(), kColumns),
               terminal::Shown(value, kColumns));
  }
}

// Shows what is kept in memory, after the changes that were asked for.
Result<int> Memory(const SessionTarget& target, const SessionFlags& flags) {
  KVGATE_TRY(const std::string changes, ChangesOf(flags));
  const std::string url = flags.key.empty() ? "/kvgate/v1/memory" : UrlOf(flags.key, "/memory");
  const session::memory::MemoryAdmin::Place place{.tenant = target.tenant, .session = flags.key};
  Result<std::string> body = std::string();
  if (flags.clear) {
    body = AskSessions(target, {.method = "DELETE", .url = url},
                       [&] { return target.memory->Clear(place); });
    if (!body) return body.error();
  }
  if (!changes.empty()) {
    body = AskSessions(target, {.method = "PATCH", .url = url, .body = changes},
                       [&] { return target.memory->Patch(place, changes); });
  } else {
    body = AskSessions(target, {.url = url}, [&] { return target.memory->Show(place); });
  }
  if (!body) return body.error();
  KVGATE_TRY(const Json answer, ParseAnswer(*body));
  if (flags.json) {
    fmt::print("{}\n", answer.dump());
    return 0;
  }
  const bool is_empty = answer.value("facts", Json::object()).empty() &&
                        answer.value("tenant_facts", Json::object()).empty();
  if (is_empty) fmt::print("nothing is kept in memory\n");
  PrintFacts(answer, "facts", flags.key.empty() ? "of all of your sessions" : "of this session");
  PrintFacts(answer, "tenant_facts", "of all of your sessions");
  if (answer.contains("retrieval") && answer["retrieval"].is_boolean()) {
    fmt::print("retrieval: {}\n", answer["retrieval"].get<bool>() ? "on" : "off");
  }
  return 0;
}

using SessionCommand = Result<int> (*)(const SessionTarget& target, const SessionFlags& flags);

Result<int> RunOnSessions(const SessionFlags& flags, SessionCommand command) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  KVGATE_TRY(const std::string authorization, server::AuthorizationOf(flags.target));
  const std::filesystem::path directory = runtime::DataDirOf(config);
  const store::ServerAddress server = server::FindServer(flags.target, directory);
  if (!server.url.empty()) {
    return command({.server = server, .authorization = authorization}, flags);
  }
  KVGATE_TRY_VOID(CheckDataDir(directory));
  KVGATE_TRY(const auto opened,
             store::DataDirectory::Open({.directory = directory,
                                         .kv_bytes_max = config.store.disk_cache_bytes,
                                         .secret_env = config.store.secret_env}));
  if (opened->meta_error() != nullptr) return *opened->meta_error();
  KVGATE_TRY(const auto turns,
             store::meta::TurnStore::Open(
                 {.meta = opened->meta(),
                  .enabled = config.store.turns,
                  .retention = std::chrono::seconds(config.store.turns_retention_seconds),
                  .bytes_max = config.store.turns_bytes,
                  .tenant_share = config.store.tenant_share}));
  KVGATE_TRY(const auto book, session::memory::MemoryBook::Open({.meta = opened->meta()}));
  KVGATE_TRY(const auto vectors,
             session::OpenVectorBook(opened->meta(), *turns, config.sessions.retrieval_model));
  session::memory::MemoryAdmin memory(book.get());
  session::Sessions sessions(runtime::ToSessionOptions(
      config, {.turns = turns.get(), .memory = book.get(), .vectors = vectors.get()}));
  session::SessionAdmin admin(
      sessions, [&](BlockHash last) { return local::ForgetPrefix(&opened->kv(), last); });
  return command({.server = {},
                  .admin = &admin,
                  .memory = &memory,
                  .authorization = authorization,
                  .tenant = local::TenantOf(authorization),
                  .request_id = fmt::format(
                      "cli{:x}", std::chrono::system_clock::now().time_since_epoch().count())},
                 flags);
}

}  // namespace

void AddSessions(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<SessionFlags>();
  CLI::App* sessions =
      app.add_subcommand("sessions", "Look at, copy, move and remove kept conversations");
  sessions->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, SessionCommand run) {
    CLI::App* command = sessions->add_subcommand(name, help);
    AddDataDirFlag(*command, flags->config);
    server::AddTargetFlags(*command, flags->target);
    command->callback(
        [flags, run, &chosen] { chosen = [flags, run] { return RunOnSessions(*flags, run); }; });
    return command;
  };
  const auto add_key = [&](CLI::App* command) {
    command->add_option("key", flags->key, "the session's key")->required();
    return command;
  };
  add("ls", "Your sessions, the last begun first", ListAll)
      ->add_flag("--json", flags->json, "one JSON object a line");
  add_key(add("show", "What was said in a session", Show))
      ->add_flag("--json", flags->json, "as the server gives it");
  CLI::App* memory =
      add("memory", "What is kept in memory of a session, or of all of yours", Memory);
  memory->add_option("key", flags->key, "the session's key; without: what holds for all of yours");
  memory->add_option("--set", flags->set, "NAME=VALUE: keep a fact; may be repeated");
  memory->add_option("--rm", flags->remove, "a fact's name: remove it; may be repeated");
  memory->add_flag("--clear", flags->clear, "remove all first");
  memory->add_option("--retrieval", flags->retrieval, "search turns that were left out")
      ->check(CLI::IsMember({"on", "off", "default"}));
  memory->add_flag("--json", flags->json, "as the server gives it");
  CLI::App* fork = add_key(add("fork", "Copy a session, which goes on by itself", Fork));
  fork->add_option("to", flags->to, "the new session's key")->required();
  fork->add_option("--turn", flags->turn, "the last turn to be copied; without: the newest");
  add_key(add("compact", "Fold the older half of a session into a summary now", Compact));
  add_key(add("undo", "Take back the newest compaction of a session", Undo));
  add_key(add("export", "Write a session as lines of JSON", ExportTo))
      ->add_option("file", flags->file, "without: standard output");
  CLI::App* move_in = add("import", "Make a session of what `export` wrote", ImportFrom);
  move_in->add_option("file", flags->file)->required();
  move_in->add_option("--key", flags->key, "the new session's key; without: that of the old one");
  add_key(add("rm", "Remove a session with all of its branches", RemoveOne));
  add("purge", "Remove all of your sessions", Purge);
}

}  // namespace kvgate::cli
