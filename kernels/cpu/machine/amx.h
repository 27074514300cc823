// Tells if this process can use AMX, the tile registers of newer x86 processors.
#pragma once

#include <string_view>

namespace kvgate::kernels::cpu::machine {

// Returns true if the processor has int8 tiles and the system lets this process use them. The
// system is asked once; the answer holds for all threads.
bool HasAmx();
// Returns why there is no AMX, or "" if there is.
std::string_view WhyNoAmx();

}  // namespace kvgate::kernels::cpu::machine
