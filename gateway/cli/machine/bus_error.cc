#include "gateway/cli/machine/bus_error.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "engine/modelfile/mapped_file.h"

namespace kvgate::cli::machine {
namespace {

struct sigaction g_before {};

void Write(const char* text) {
  // A failed write to stderr cannot be reported anywhere.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

// Calls only functions that take no lock and no memory, as the thread may be interrupted anywhere.
void OnBusError(int signal, siginfo_t* info, void*) {
  const char* const path = modelfile::MappedFile::PathOf(info->si_addr);
  if (path != nullptr) {
    Write("kvgate: the model file ");
    Write(path);
    Write(
        " was cut while it was read, or its disk fails; start again when it is whole, and replace "
        "model files by rename\n");
    _exit(kBusErrorExit);
  }
  // The address is not in a model file: restores the previous handler, which gets the signal again
  // when the read is repeated.
  sigaction(signal, &g_before, nullptr);
}

}  // namespace

void ExplainBusErrors() {
  struct sigaction action {};
  action.sa_sigaction = &OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &g_before);
}

}  // namespace kvgate::cli::machine
