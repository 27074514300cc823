// The kinds of sealed values, with the heads that FORMAT.md specifies. In version 1 all of them had
// plain-text bodies.
#pragma once

#include "store/file/sealed_value.h"

namespace kvgate::store::file {

inline constexpr SealedKind kTurnKind = {.magic = 0x4e54564b,  // "KVTN"
                                         .version = 2,
                                         .clear_version = 1,
                                         .purpose = "turns",
                                         .source = "store.turns",
                                         .name = "a turn"};
inline constexpr SealedKind kPinKind = {.magic = 0x4e50564b,  // "KVPN"
                                        .version = 2,
                                        .clear_version = 1,
                                        .purpose = "pins",
                                        .source = "store.pins",
                                        .name = "a pin"};
inline constexpr SealedKind kRemovedPinKind = {.magic = 0x5550564b,  // "KVPU"
                                               .version = 1,
                                               .purpose = "removed pins",
                                               .source = "store.pins",
                                               .name = "an unpin"};
inline constexpr SealedKind kPromptKind = {.magic = 0x5050564b,  // "KVPP"
                                           .version = 3,
                                           .clear_version = 1,
                                           .sealed_version_min = 2,
                                           .purpose = "prompts",
                                           .source = "service.prompt_store",
                                           .name = "a part of a prompt"};
inline constexpr SealedKind kBranchKind = {.magic = 0x5242564b,  // "KVBR"
                                           .version = 3,
                                           .sealed_version_min = 1,
                                           .purpose = "branches",
                                           .source = "service.branch_store",
                                           .name = "a row of a conversation"};
inline constexpr SealedKind kBranchBytesKind = {.magic = 0x4342564b,  // "KVBC"
                                                .version = 1,
                                                .purpose = "branch bytes",
                                                .source = "service.branch_store",
                                                .name = "bytes sent in a conversation"};
inline constexpr SealedKind kTemplatesKind = {.magic = 0x4c54564b,  // "KVTL"
                                              .version = 1,
                                              .purpose = "templates",
                                              .source = "service.template_store",
                                              .name = "what was learnt of prompts"};

inline constexpr SealedKind kNamedPromptKind = {.magic = 0x4d4e564b,  // "KVNM"
                                                .version = 1,
                                                .purpose = "named prompts",
                                                .source = "session.prompts",
                                                .name = "a version of a prompt"};

inline constexpr SealedKind kMemoryKind = {.magic = 0x4d4d564b,  // "KVMM"
                                           .version = 1,
                                           .purpose = "memory",
                                           .source = "session.memory",
                                           .name = "a memory"};
inline constexpr SealedKind kVectorsKind = {.magic = 0x4556564b,  // "KVVE"
                                            .version = 1,
                                            .purpose = "vectors",
                                            .source = "session.vectors",
                                            .name = "the vectors of a turn"};

}  // namespace kvgate::store::file
