#include "engine/default_model/default_model.h"

// The assembler puts the file into the read-only data as it is: as an array of C++ it would take a
// minute to compile.
asm(R"(
  .pushsection .rodata
  .balign 64
  .hidden kvgate_default_model_begin
  .globl kvgate_default_model_begin
kvgate_default_model_begin:
  .incbin ")" KVGATE_DEFAULT_MODEL_FILE R"("
  .hidden kvgate_default_model_end
  .globl kvgate_default_model_end
kvgate_default_model_end:
  .byte 0
  .popsection
)");

extern "C" {
extern const std::byte kvgate_default_model_begin[];
extern const std::byte kvgate_default_model_end[];
}

namespace kvgate::default_model {

std::span<const std::byte> FileBytes() {
  return {kvgate_default_model_begin, kvgate_default_model_end};
}

}  // namespace kvgate::default_model
