// The commands of `kvgate`. Each adds itself to the command line; the one chosen is run by main.
#pragma once

#include <functional>

#include <kvgate/result.h>

namespace CLI {
class App;
}

namespace kvgate::cli {

// 0 ok, 1 failure, 2 usage. An Error is printed by main, one line, and is 1 (2 when the input was
// wrong: kInvalidArgument).
using Run = std::function<Result<int>()>;

// Registers a subcommand; `chosen` gets its function when the command line names it.
void AddServe(CLI::App& app, Run& chosen);
void AddRecord(CLI::App& app, Run& chosen);
void AddReplay(CLI::App& app, Run& chosen);
void AddChat(CLI::App& app, Run& chosen);
void AddWarm(CLI::App& app, Run& chosen);
void AddCache(CLI::App& app, Run& chosen);
void AddStats(CLI::App& app, Run& chosen);
void AddMakeModel(CLI::App& app, Run& chosen);
void AddQuantize(CLI::App& app, Run& chosen);
void AddTokenize(CLI::App& app, Run& chosen);
void AddRender(CLI::App& app, Run& chosen);
void AddConfig(CLI::App& app, Run& chosen);
void AddBench(CLI::App& app, Run& chosen);
void AddPlan(CLI::App& app, Run& chosen);
void AddExplain(CLI::App& app, Run& chosen);
void AddDoctor(CLI::App& app, Run& chosen);

}  // namespace kvgate::cli
