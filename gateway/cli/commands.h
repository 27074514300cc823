// The commands of `kvgate`. Each registers itself on the command line; main runs the chosen one.
#pragma once

#include <functional>

#include "base/result.h"

namespace CLI {
class App;
}

namespace kvgate::cli {

// Returns the exit status: 0 ok, 1 failure, 2 wrong usage. main prints an Error as one line and
// exits with 1, or with 2 if the input was wrong (kInvalidArgument).
using Run = std::function<Result<int>()>;

// Registers a subcommand; `chosen` is set to its function when the command line names it.
void AddServe(CLI::App& app, Run& chosen);
void AddRecord(CLI::App& app, Run& chosen);
void AddReplay(CLI::App& app, Run& chosen);
void AddChat(CLI::App& app, Run& chosen);
void AddWarm(CLI::App& app, Run& chosen);
void AddCache(CLI::App& app, Run& chosen);
void AddSessions(CLI::App& app, Run& chosen);
void AddStats(CLI::App& app, Run& chosen);
void AddTop(CLI::App& app, Run& chosen);
void AddRequests(CLI::App& app, Run& chosen);
void AddContext(CLI::App& app, Run& chosen);
void AddAdvise(CLI::App& app, Run& chosen);
void AddMakeModel(CLI::App& app, Run& chosen);
void AddQuantize(CLI::App& app, Run& chosen);
void AddTokenize(CLI::App& app, Run& chosen);
void AddRender(CLI::App& app, Run& chosen);
void AddConfig(CLI::App& app, Run& chosen);
void AddBench(CLI::App& app, Run& chosen);
void AddPlan(CLI::App& app, Run& chosen);
void AddExplain(CLI::App& app, Run& chosen);
void AddDoctor(CLI::App& app, Run& chosen);
void AddRun(CLI::App& app, Run& chosen);
void AddSetup(CLI::App& app, Run& chosen);
void AddInit(CLI::App& app, Run& chosen);

}  // namespace kvgate::cli
