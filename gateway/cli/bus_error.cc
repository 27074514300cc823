#include "gateway/cli/machine/bus_error.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "engine/modelfile/mapped_file.h"

namespace kvgate::cli {
namespace {

struct sigaction g_before {};

void Write(const char* text) {
  // There is nobody to tell that it could not be told.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

// Calls nothing that takes a lock or memory: the thread was stopped anywhere.
void OnBusError(int signal, siginfo_t* info, void*) {
  const char* const path = model::MappedFile::PathOf(info->si_addr);
  if (path != nullptr) {
    Write("kvgate: the model file ");
    Write(path);
    Write(
        " was cut while it was read, or its disk fails; start again when it is whole, and replace "
        "model files by rename\n");
    _exit(kBusErrorExit);
  }
  // Not ours: the same read once more, and whoever was there before answers.
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

}  // namespace kvgate::cli
