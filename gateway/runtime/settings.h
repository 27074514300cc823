// Settings: what of a configuration the parts of a running gateway are given, what it forbids when
// they start, and what of a changed one they take while they run.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/http/server.h"
#include "gateway/proxy/host/host.h"
#include "gateway/session/prompts/prompt_library.h"
#include "gateway/session/sessions.h"
#include "store/meta/turn_store.h"

namespace kvgate::runtime {

// With upstreams and without a named model a gateway only forwards and needs no engine, and neither
// does one whose model makes embeddings.
bool HasLocalModel(const config::Config& config);

// Returns the address to listen on. Fails with kInvalidArgument for a public address without keys,
// since only keys can tell whom to let in. Warns if there are keys but none is an admin's.
Result<config::HostPort> ListenAddress(const config::Config& config);

proxy::request::TargetOptions ToTargetOptions(const config::Config& config);
http::socket::ListenerTls::Options ToTlsOptions(const config::Config& config);
http::ServerOptions ToServerOptions(const config::Config& config, const config::HostPort& listen);
proxy::host::HostOptions ToHostOptions(const config::Config& config,
                                       const std::string& admin_token);

// Returns the words that ask for a summary. Fails with kInvalidArgument for a file that cannot be
// used.
Result<session::summary::SummaryPrompt> ReadSummaryPrompt(const config::Config& config);
// Reads the files of the configuration's prompts. Fails with kInvalidArgument, naming the key, for
// one that cannot be used.
Result<std::vector<session::prompts::PromptVersion>> ReadPrompts(const config::Config& config);
// Where sessions are kept; null: nowhere.
struct SessionStores {
  store::meta::TurnStore* turns = nullptr;
  session::log::SharedTurns* shared = nullptr;  // of these turns
  session::memory::MemoryBook* memory = nullptr;
  session::retrieval::VectorBook* vectors = nullptr;
};
session::Sessions::Options ToSessionOptions(const config::Config& config,
                                            const SessionStores& stores,
                                            session::summary::SummaryPrompt prompt = {});

// What is wrong with the model that finds passages by meaning: nobody serves it; empty: nothing is.
// `serves` says if the local engine makes embeddings by that name; empty: the model's file does.
using ServesEmbeddings = std::function<bool(std::string_view model)>;
std::string MissingRetrievalModel(const config::Config& config,
                                  const ServesEmbeddings& serves = {});

// Returns what a gateway that runs with `running` can take of `next`: its upstreams, routes, keys,
// prompts, metrics and the engine's mode, while the address and the certificate's file names stay.
// Fails with kInvalidArgument if `next` adds the first upstream or drops the last one, or could not
// listen.
Result<config::Config> Reloadable(const config::Config& running, config::Config next);

// Returns what is in force once a gateway that was started with `start` has taken `next`: what a
// reload reads, of `next`, and all else of the start.
config::Config InForce(config::Config start, const config::Config& next);

// Lists the tables that differ and are read only at a start: "[engine], [limits]"; empty if there
// are none.
std::string UnreadTables(const config::Config& running, config::Config next);

}  // namespace kvgate::runtime
