// BusError: the program's message when a model file is truncated while it is mapped.
#pragma once

namespace kvgate::cli::machine {

// Reading a mapped file beyond its present end, or from a disk that fails, raises SIGBUS. After
// this call that ends the process with a sentence that names the file and with the exit status
// kBusErrorExit; SIGBUS at any other address is handled as before. Only the program calls it, and
// once: a library must not change its process's signal handlers.
void ExplainBusErrors();

inline constexpr int kBusErrorExit = 74;  // EX_IOERR of sysexits.h

}  // namespace kvgate::cli::machine
