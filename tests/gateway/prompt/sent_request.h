// SentAs makes a body into the record of a sent request, for tests that compare two of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/parse/segment_text.h"

namespace kvgate::prompt {

inline history::SentRequest SentAs(dialect::form::Endpoint endpoint, std::string_view body) {
  const auto memo = parse::MakeSegmentMemo(4096);
  const Result<parse::RequestLayout> layout = parse::ReadRequestLayout(endpoint, body, *memo);
  EXPECT_TRUE(layout) << layout.error().ToString() << "\n" << body.substr(0, 400);
  history::SentRequest sent;
  sent.upstream = "main";
  sent.model = layout->model;
  sent.endpoint = endpoint;
  for (const parse::Segment& segment : layout->segments) {
    std::string assembled;
    sent.segments.push_back(
        {.place = segment.place,
         .role = segment.role,
         .source = segment.source,
         .content = segment.content,
         .same = segment.same,
         .stable = segment.stable,
         .said = segment.said,
         .sent_raw = segment.raw,
         .bytes = std::make_shared<std::string>(parse::BytesOf(body, segment, assembled)),
         .breakpoint = segment.breakpoint,
         .is_volatile = segment.is_volatile,
         .num_tokens = segment.num_tokens});
  }
  for (const parse::Parameter& parameter : layout->parameters) {
    sent.parameters.push_back({.name = std::string(parameter.name),
                               .value = std::string(parameter.value.In(body).substr(0, 256)),
                               .same = parameter.same});
  }
  return sent;
}

}  // namespace kvgate::prompt
