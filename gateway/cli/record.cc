// `kvgate record`: serves as `serve` does, and appends each forwarded request to a trace.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/serve.h"
#include "gateway/replay/recording_log.h"

namespace kvgate::cli {
namespace {

struct RecordFlags {
  ConfigFlags config;
  std::string out;
};

Result<int> Record(const RecordFlags& flags) {
  KVGATE_TRY(const auto trace, replay::TraceWriter::Open({.path = flags.out}));
  fmt::print(stderr,
             "recording to {}: it will hold the text of every prompt that is forwarded; only its "
             "owner can read it\n",
             flags.out);
  const Result<int> code = Serve(flags.config, [&trace](upstream::ExchangeLog& ledger) {
    return std::make_unique<replay::RecordingLog>(ledger, *trace);
  });
  if (trace->num_dropped() > 0) {
    fmt::print(stderr, "{} requests could not be recorded\n", trace->num_dropped());
  }
  return code;
}

}  // namespace

void AddRecord(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<RecordFlags>();
  CLI::App* command = app.add_subcommand(
      "record", "Serve, and append what is forwarded to a trace for `kvgate replay`");
  command->add_option("--out", flags->out, "the trace (JSON lines); holds prompt text")->required();
  AddEngineFlags(*command, flags->config);
  AddServerFlags(*command, flags->config);
  command->callback([flags, &chosen] { chosen = [flags] { return Record(*flags); }; });
}

}  // namespace kvgate::cli
