// What the program says when a model file ends under its reader.
#pragma once

namespace kvgate::cli {

// A read of a mapped file beyond the end that it has by now, or one that the disk refuses, is
// answered with SIGBUS. From now on that ends the process with a sentence that names the file, and
// an exit status of its own (kBusErrorExit); anywhere else SIGBUS does what it did before. To be
// called once, by the program: a library leaves the signals of its process alone.
void ExplainBusErrors();

inline constexpr int kBusErrorExit = 74;  // EX_IOERR of sysexits.h

}  // namespace kvgate::cli
