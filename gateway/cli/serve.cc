// `kvgate serve`: opens a gateway, then waits for signals.
#include "gateway/cli/serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/machine/watchdog.h"
#include "gateway/cli/options.h"
#include "gateway/metrics/registry.h"
#include "gateway/runtime/machine/start_failure.h"

namespace kvgate::cli {
namespace {

using std::chrono::milliseconds;

sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Blocks the end signals and SIGHUP, and returns the former. It must be called before any thread
// starts, so that all threads inherit the mask and only sigwait receives the signals.
sigset_t BlockSignals() {
  sigset_t blocked = EndSignals();
  sigaddset(&blocked, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  return EndSignals();
}

// Returns true if one of the signals arrives within the timeout.
bool SignalWithin(const sigset_t& signals, milliseconds timeout) {
  const timespec wait{.tv_sec = timeout.count() / 1000,
                      .tv_nsec = (timeout.count() % 1000) * 1'000'000};
  return sigtimedwait(&signals, nullptr, &wait) > 0;
}

// Waits for one of the end signals or SIGHUP.
int WaitForSignal(sigset_t signals) {
  sigaddset(&signals, SIGHUP);
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  return signal;
}

// A signal while a model loads ends the process at once, since no request has been served and the
// store survives worse.
void EndIfStopped(const sigset_t& signals) {
  if (!SignalWithin(signals, milliseconds(0))) return;
  KVGATE_LOG(kInfo, "cli", "stopped while loading");
  std::_Exit(0);
}

// Serves until a signal asks for the end.
void ServeUntilEnd(const ConfigFlags& flags, runtime::Runtime& gateway, const sigset_t& signals) {
  while (WaitForSignal(signals) == SIGHUP) {
    const Result<void> reloaded = gateway.Reload(ReadConfig(flags));
    if (!reloaded) {
      KVGATE_LOG(kError, "cli", "the configuration stays as it was: {}",
                 reloaded.error().ToString());
    }
  }
}

Result<int> ServeOrThrow(const config::Config& config, const ConfigFlags& flags,
                         const runtime::WrapLog& wrap) {
  const sigset_t signals = BlockSignals();
  metrics::Registry registry;
  const machine::Watchdog watchdog({}, registry);
  KVGATE_TRY(const auto gateway,
             runtime::Runtime::Open({.config = config,
                                     .registry = registry,
                                     .wrap_log = wrap,
                                     .while_loading = [&signals] { EndIfStopped(signals); }}));
  fmt::print("listening on {}\n", gateway->url());
  std::fflush(stdout);
  ServeUntilEnd(flags, *gateway, signals);
  KVGATE_LOG(kInfo, "cli", "stopping (each further signal ends a wait)");
  gateway->Stop([&signals](milliseconds time) { return !SignalWithin(signals, time); });
  KVGATE_LOG(kInfo, "cli", "stopped");
  return 0;
}

}  // namespace

Result<int> Serve(const ConfigFlags& flags, const runtime::WrapLog& wrap) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags));
  try {
    return ServeOrThrow(config, flags, wrap);
  } catch (const std::system_error& failure) {  // the watchdog was refused its thread
    return runtime::machine::StartFailure(config, failure);
  }
}

void AddServe(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<ConfigFlags>();
  CLI::App* command = app.add_subcommand("serve", "Serve the OpenAI API with the local engine");
  AddEngineFlags(*command, *flags);
  AddServerFlags(*command, *flags);
  command->callback([flags, &chosen] { chosen = [flags] { return Serve(*flags, {}); }; });
}

}  // namespace kvgate::cli
