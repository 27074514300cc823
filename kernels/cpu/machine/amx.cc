#include "kernels/cpu/machine/amx.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kvgate::kernels::cpu::machine {
namespace {

// Returns "" or the reason why AMX is not available.
std::string_view AskForAmx() {
  constexpr std::string_view kNoTiles = "the processor has no int8 tiles";
  constexpr std::string_view kNoState = "the system does not keep the state of tiles";
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTiles = 1u << 24;
  constexpr unsigned kInt8 = 1u << 25;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return kNoTiles;
  if ((d & kTiles) == 0 || (d & kInt8) == 0) return kNoTiles;
  constexpr unsigned kXsaveOfSystem = 1u << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kXsaveOfSystem) == 0) return kNoState;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3u << 17;
  if ((low & kTileState) != kTileState) return kNoState;
  // The tile state is 8 KiB per thread, which Linux grants only to processes that ask for it.
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) {
    return "the system refuses tiles to this process";
  }
  return "";
}

}  // namespace

std::string_view WhyNoAmx() {
  static const std::string_view why = AskForAmx();
  return why;
}

bool HasAmx() { return WhyNoAmx().empty(); }

}  // namespace kvgate::kernels::cpu::machine

#else

namespace kvgate::kernels::cpu::machine {

std::string_view WhyNoAmx() { return "another architecture"; }
bool HasAmx() { return false; }

}  // namespace kvgate::kernels::cpu::machine

#endif
