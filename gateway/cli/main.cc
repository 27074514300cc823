// The `kvgate` program: the command line, and the last handler for errors and exceptions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <span>
#include <string>

#include "gateway/cli/commands.h"
#include "gateway/cli/machine/bus_error.h"
#include "gateway/cli/terminal/misspelling.h"
#include "kernels/cuda/cuda_backend.h"
#include "store/file/start_marker.h"

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

int RunCommandLine(int argc, char** argv) {
  CLI::App app{"kvgate: a prompt-caching gateway with an embedded inference engine"};
  app.set_version_flag("--version", kvgate::kernels::cuda::IsCudaBuilt()
                                        ? "kvgate " KVGATE_VERSION " (CUDA)"
                                        : "kvgate " KVGATE_VERSION);
  app.require_subcommand(1);
  kvgate::cli::Run chosen;
  kvgate::cli::AddServe(app, chosen);
  kvgate::cli::AddRecord(app, chosen);
  kvgate::cli::AddReplay(app, chosen);
  kvgate::cli::AddChat(app, chosen);
  kvgate::cli::AddWarm(app, chosen);
  kvgate::cli::AddCache(app, chosen);
  kvgate::cli::AddSessions(app, chosen);
  kvgate::cli::AddStats(app, chosen);
  kvgate::cli::AddTop(app, chosen);
  kvgate::cli::AddRequests(app, chosen);
  kvgate::cli::AddContext(app, chosen);
  kvgate::cli::AddAdvise(app, chosen);
  kvgate::cli::AddMakeModel(app, chosen);
  kvgate::cli::AddQuantize(app, chosen);
  kvgate::cli::AddTokenize(app, chosen);
  kvgate::cli::AddRender(app, chosen);
  kvgate::cli::AddConfig(app, chosen);
  kvgate::cli::AddBench(app, chosen);
  kvgate::cli::AddPlan(app, chosen);
  kvgate::cli::AddExplain(app, chosen);
  kvgate::cli::AddDoctor(app, chosen);
  kvgate::cli::AddRun(app, chosen);
  kvgate::cli::AddSetup(app, chosen);
  kvgate::cli::AddInit(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);
    const std::span<const char* const> words(argv + 1, argc > 0 ? argc - 1 : 0);
    const std::string misspelling = kvgate::cli::terminal::FindMisspelling(app, words);
    if (misspelling.empty()) {
      app.exit(problem);
    } else {
      fmt::print(stderr, "kvgate: {}\n", misspelling);
    }
    return kExitUsage;
  }
  const kvgate::Result<int> code = chosen();
  if (code) return *code;
  fmt::print(stderr, "kvgate: {}\n", code.error().detail);
  return code.error().code == kvgate::ErrorCode::kInvalidArgument ? kExitUsage : kExitFailure;
}

// A damaged file that passes a library's checks can make it abort. The start marker records which
// file was being opened, so that it is set aside if the crash repeats.
void NoteCrash(int signal) {
  kvgate::store::file::StartMarker::NoteCrash();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

int main(int argc, char** argv) {
  kvgate::cli::machine::ExplainBusErrors();
  std::signal(SIGABRT, NoteCrash);
  std::signal(SIGSEGV, NoteCrash);
  try {
    return RunCommandLine(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(
        stderr,
        "kvgate: the system refused memory: let it ask for less (engine.kv_memory, "
        "engine.context, cache.host_memory), or raise the limit of the process (ulimit -v, a "
        "container's)\n");
    return kExitFailure;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "kvgate: {}\n", failure.what());
    return kExitFailure;
  }
}
