// A body as it would have been sent, for tests of what is made of two of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/parse/segment_text.h"

namespace kvgate::prompt {

inline SentRequest SentAs(upstream::Endpoint endpoint, std::string_view body) {
  const auto memo = MakeSegmentMemo(4096);
  const Result<Outline> outline = ReadOutline(endpoint, body, *memo);
  EXPECT_TRUE(outline) << outline.error().ToString() << "\n" << body.substr(0, 400);
  SentRequest sent;
  sent.upstream = "main";
  sent.model = outline->model;
  sent.endpoint = endpoint;
  for (const Segment& segment : outline->segments) {
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
         .bytes = std::make_shared<std::string>(BytesOf(body, segment, assembled)),
         .marker = segment.marker,
         .is_volatile = segment.is_volatile,
         .num_tokens = segment.num_tokens});
  }
  for (const Parameter& parameter : outline->parameters) {
    sent.parameters.push_back({.name = std::string(parameter.name),
                               .value = std::string(parameter.value.In(body).substr(0, 256)),
                               .same = parameter.same});
  }
  return sent;
}

}  // namespace kvgate::prompt
