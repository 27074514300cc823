// A command that gets this process's terminal: it is started, waited for, and gets the signals that
// end this one. And where a command is found.
#pragma once

#include <signal.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace kvgate::cli::agents {

// The file that a shell would run for this name: as a path if it has a slash, else from $PATH.
// Empty if there is none.
std::string FindProgram(const std::string& name);

// Blocks the signals that RunChild waits for, in this thread and those that it starts from then on;
// the destructor restores what was blocked before.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  // Lets the signals end this process while `work` runs, if they did before. The calling thread
  // must be the only one that does.
  void Interruptible(const std::function<void()>& work) const;

  const sigset_t& waited() const { return waited_; }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t waited_;
  sigset_t before_;
};

struct ChildArgs {
  std::string program = {};                 // a path
  std::vector<std::string> arguments = {};  // the first is its name
  // What of this process's environment is changed: set, or left out.
  std::vector<std::pair<std::string, std::string>> variables = {};
  std::vector<std::string> removed = {};
};

// Starts the command with this process's input, output and terminal, and waits for its end. Returns
// its exit status, or 128 and the number of the signal that ended it. Fails with kUnavailable if it
// cannot be started.
//
// SIGTERM, SIGHUP, and SIGINT and SIGQUIT where a process sent them, go on to it. Ctrl-C at the
// terminal reaches it anyway, and this process waits. When it stops (Ctrl-Z), so does this process.
Result<int> RunChild(const ChildArgs& args, const SignalGuard& signals);

// This process's environment with these changes, as "NAME=VALUE".
std::vector<std::string> ChangedEnvironment(const ChildArgs& args);

}  // namespace kvgate::cli::agents
