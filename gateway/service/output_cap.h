// OutputCap: a key's bound on answers in a body that goes to an upstream of its own dialect: which
// members have to change so that no answer is longer, or why the request is refused. (Translated
// bodies: translate/output_limit; local ones: provider/local.) Pure; any thread.
//
// It is an order of the operator's, so it reads a body as the most obliging server would: names in
// any case and spelling, those that some servers know beside the dialect's, and numbers that they
// take for "no bound". What it cannot decide it refuses.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/config/config.h"
#include "gateway/prompt/parse/segment.h"
#include "gateway/protocol/form/completion.h"
#include "gateway/upstream/dialect.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::service {

// How long answers to a key's requests may be, on every target. Null: there are no keys.
protocol::OutputLimit OutputLimitOf(const config::KeyConfig* key,
                                    const upstream::HeaderFields& fields);

// Whether its answers are tokens that a model writes.
bool HasAnswer(upstream::Endpoint endpoint);

struct OutputCapArgs {
  std::string_view body;  // without its content-encoding
  upstream::Endpoint endpoint = upstream::Endpoint::kOther;
  std::string_view provider;
  protocol::OutputLimit limit;  // REQUIRES: most > 0
  std::string_view key;         // its name
  std::string_view fixed = {};  // why nothing of the body may change; empty: it may
};

// A value in its place, or a member in front of the body's last bracket.
struct CapEdit {
  prompt::Span span;
  std::string bytes;
  std::string name;  // the member's, as the body spells it
};

// What has to change, in the order of the body. kInvalidArgument, with the field: a bound that
// nobody can be sure of, or one that would have to change where nothing may.
Result<std::vector<CapEdit>> CapOutput(const OutputCapArgs& args);
// The body with these edits.
std::string Capped(std::string_view body, std::span<const CapEdit> edits);

// What a key with a bound is told of a body that cannot be looked into.
Error UnreadableBound(std::string_view key, const protocol::OutputLimit& limit);

}  // namespace kvgate::service
