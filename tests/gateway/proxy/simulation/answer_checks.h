// AnswerChecks compares, after a run, what clients asked and got with what providers got and said,
// and both with the records, sums and metrics that the gateway kept.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/upstream/body_digests.h"
#include "gateway/upstream/wire/content_decoder.h"
#include "tests/gateway/proxy/simulation/simulated_gateway.h"

namespace kvgate::test {

class AnswerChecks {
 public:
  using milliseconds = std::chrono::milliseconds;
  using Duration = SimulatedTime::Duration;
  // The timeouts of the upstreams and of whoever looks at them.
  struct Settings {
    milliseconds connect{0};
    milliseconds first_byte{0};
    milliseconds idle{0};
    milliseconds flight{0};
    Duration tick{0};
    int retries = 0;  // at most
  };
  struct Args {
    const std::vector<std::unique_ptr<SimulatedRequest>>& requests;
    const SimulatedNetwork& network;
    SimulatedGateway& gateway;
    const proxy::request::TargetOptions& targets;
    const Settings& settings;
  };
  explicit AnswerChecks(const Args& args) : args_(args) {
    for (const auto& exchange : args.network.exchanges()) {
      if (exchange->request >= 0) exchanges_[exchange->request].push_back(exchange.get());
    }
    for (const ledger::RequestRecord& record : args.gateway.ledger.records()) {
      records_[record.id].push_back(&record);
    }
  }

  void Run() {
    for (const auto& request : args_.requests) {
      SCOPED_TRACE(fmt::format("request {} of {} for {} at {}", request->number, request->tenant,
                               request->model, request->path));
      if (request->method == "GET") {
        CheckHealth(*request);
      } else {
        CheckRequest(*request);
      }
    }
    CheckSums();
  }

 private:
  using Exchanges = std::vector<const SimulatedExchange*>;
  using Form = AskedReply::Form;

  // The gateway's own health is told at once, whatever upstreams do.
  static void CheckHealth(const SimulatedRequest& request) {
    EXPECT_EQ(request.client.status, 200);
    EXPECT_TRUE(request.client.is_complete);
    EXPECT_EQ(request.ended_at, request.began_at) << "a stalled upstream delays /health";
  }

  void CheckRequest(const SimulatedRequest& request) {
    const Exchanges& exchanges = exchanges_[request.number];
    CheckTime(request, exchanges);
    CheckOrder(request, exchanges);
    CheckSecrets(request);
    for (const SimulatedExchange* const exchange : exchanges) CheckHead(request, *exchange);
    const auto& records = records_[request.id];
    ASSERT_LE(records.size(), 1u) << "a request has several records";
    if (records.empty()) {
      EXPECT_TRUE(exchanges.empty()) << "a request that an upstream got has no record";
      EXPECT_TRUE(request.client.is_whole && request.client.status == 503)
          << "only a body for which there is no room has no record";
      return;
    }
    const ledger::RequestRecord& record = *records[0];
    const SimulatedExchange* last = exchanges.empty() ? nullptr : exchanges.back();
    if (last != nullptr && HostOf(record.upstream) != last->provider) last = nullptr;
    SCOPED_TRACE(ledger::RecordJson(record));
    SCOPED_TRACE(last == nullptr ? "nothing was said"
                                 : kFaultNames[static_cast<size_t>(last->reply.fault)]);
    CheckRecord(request, record, last);
    if (last == nullptr) return;
    CheckSent(request, record, *last);
    CheckUsage(request, record, *last);
    CheckAnswer(request, record, *last);
  }

  static std::string HostOf(std::string_view upstream) { return fmt::format("{}.test", upstream); }
  static bool IsTranslated(Form form, std::string_view upstream) {
    if (upstream == "beta") return form != Form::kMessages;
    return form == Form::kMessages || (upstream == "gamma" && form == Form::kResponses);
  }

  // --- Time and order

  void CheckTime(const SimulatedRequest& request, const Exchanges& exchanges) {
    const Settings& settings = args_.settings;
    const Duration slack = milliseconds(50);
    Duration most = slack + request.client.reading_time;
    if (request.model == "steady-1") {
      most += settings.connect / 2;
      for (const SimulatedExchange* const one : exchanges) most += one->reply.duration();
    } else {
      const int targets = 3;
      most += settings.flight +
              targets * (settings.retries + 1) * (settings.connect + settings.tick + slack);
      for (const SimulatedExchange* const one : exchanges) {
        most += one->reply.duration() + settings.first_byte + settings.idle + 2 * settings.tick;
      }
    }
    EXPECT_LE((request.ended_at - request.began_at).count(), std::chrono::nanoseconds(most).count())
        << "a request took too long";
    if (request.client.gone_at) {
      EXPECT_LE(request.ended_at, *request.client.gone_at + slack)
          << "work went on for a client that had left";
    }
    if (request.client.told_to_end_at) {
      EXPECT_LE(request.ended_at,
                *request.client.told_to_end_at + slack + request.client.reading_time)
          << "work went on although the server ends";
    }
  }

  static void CheckOrder(const SimulatedRequest& request, const Exchanges& exchanges) {
    for (const SimulatedExchange* const one : exchanges) {
      if (request.client.answered_at) {
        EXPECT_LE(one->began_at, *request.client.answered_at)
            << one->provider << " was asked although an answer had begun";
      }
      if (request.client.gone_at) {
        EXPECT_LE(one->began_at, *request.client.gone_at)
            << one->provider << " was asked for a client that had left";
      }
      if (request.client.told_to_end_at) {
        EXPECT_LE(one->began_at, *request.client.told_to_end_at)
            << one->provider << " was asked although the server ends";
      }
    }
  }

  // --- What is nobody else's business

  static std::string DecodedBody(const SimulatedRequest& request) {
    for (const auto& [name, value] : request.client.fields) {
      if (name != "content-encoding" || !request.client.is_complete) continue;
      return upstream::DecodeBody(value, request.client.body, 8 << 20).value_or("");
    }
    return request.client.body;
  }

  static void CheckSecrets(const SimulatedRequest& request) {
    const std::string body = DecodedBody(request);
    EXPECT_EQ(body.find(kSimulatedOperatorKey), std::string::npos) << "the operator's key went out";
    for (const auto& [name, value] : request.client.fields) {
      EXPECT_EQ(value.find(kSimulatedOperatorKey), std::string::npos) << name;
    }
    const std::string own = "reply" + request.marker.substr(3);
    for (size_t at = body.find("reply-"); at != std::string::npos;
         at = body.find("reply-", at + 1)) {
      if (body.size() - at < own.size()) break;  // it was cut
      EXPECT_EQ(body.substr(at, own.size()), own) << "the answer is another request's";
    }
  }

  static void CheckHead(const SimulatedRequest& request, const SimulatedExchange& exchange) {
    const std::string& head = exchange.head;
    EXPECT_EQ(head.find("x-kvgate"), std::string::npos) << head;
    EXPECT_EQ(head.find("kg-" + request.tenant), std::string::npos) << "a gateway key went out";
    const bool has_operator = head.find(kSimulatedOperatorKey) != std::string::npos;
    const bool has_caller = head.find("sk-" + request.tenant) != std::string::npos;
    EXPECT_NE(has_operator, has_caller) << head;
    if (!exchange.is_received || request.is_encoded || request.is_damaged) return;
    EXPECT_TRUE(nlohmann::json::accept(exchange.body)) << exchange.body.substr(0, 500);
    EXPECT_NE(exchange.body.find(request.marker), std::string::npos);
    EXPECT_EQ(exchange.body.find(R"("stream":true)") != std::string::npos, request.is_stream);
  }

  // --- The record

  void CheckRecord(const SimulatedRequest& request, const ledger::RequestRecord& record,
                   const SimulatedExchange* last) {
    const SimulatedClient& client = request.client;
    EXPECT_EQ(record.path, request.path);
    if (!request.is_damaged) {
      EXPECT_EQ(record.stream, request.is_stream);
    }
    if (record.outcome == "complete") {
      EXPECT_TRUE(client.is_complete);
      ASSERT_NE(last, nullptr);
      EXPECT_TRUE(last->reply.has_head && last->reply.is_whole);
      EXPECT_EQ(record.error, "");
    } else if (record.outcome == "client_left") {
      EXPECT_TRUE(client.is_gone());
      EXPECT_FALSE(client.is_complete);
    } else if (client.told_to_end_at) {
      EXPECT_TRUE(client.is_whole || client.is_cut || client.is_gone());
    } else if (record.outcome == "upstream_cut") {
      EXPECT_TRUE(client.is_cut || (client.is_whole && client.status == 502) || client.is_gone());
      ASSERT_NE(last, nullptr);
      EXPECT_TRUE(last->reply.has_head && !last->reply.is_sound);
      EXPECT_NE(record.error, "");
    } else if (record.outcome == "failed") {
      EXPECT_TRUE(client.is_whole && client.status >= 502 && client.status <= 504);
      EXPECT_TRUE(last == nullptr || !last->reply.has_head) << "an answer was not used";
      EXPECT_NE(record.error, "");
    } else {
      EXPECT_EQ(record.outcome, "refused");
      EXPECT_TRUE(client.is_whole || client.is_gone());
      EXPECT_NE(record.error, "");
    }
    if (!client.is_gone()) {
      EXPECT_EQ(record.status, client.status);
    }
    if (record.outcome == "complete") {
      EXPECT_EQ(record.answer_bytes, client.body.size());
    }
  }

  void CheckSent(const SimulatedRequest& request, const ledger::RequestRecord& record,
                 const SimulatedExchange& last) {
    if (!record.sent_sha256 || !last.is_received) return;
    EXPECT_EQ(*record.sent_sha256, digests_.Of("", last.body));
    EXPECT_EQ(*record.received_sha256, digests_.Of("", request.body));
    EXPECT_EQ(record.sent_bytes, last.body.size());
    EXPECT_EQ(record.received_bytes, request.body.size());
    const bool is_translated = IsTranslated(request.form, record.upstream);
    const bool is_translated_by_record =
        std::any_of(record.edits.begin(), record.edits.end(),
                    [](const ledger::RecordEdit& edit) { return edit.rule == "translated"; });
    if (!request.is_damaged) {
      EXPECT_EQ(is_translated_by_record, is_translated);
    }
    if (record.edits.empty() && request.model != "coder-1") {
      EXPECT_EQ(last.body, request.body) << "a body was changed, and nobody was told";
    }
  }

  static void CheckUsage(const SimulatedRequest& request, const ledger::RequestRecord& record,
                         const SimulatedExchange& last) {
    const SimulatedReply& reply = last.reply;
    if (record.outcome != "complete" || !reply.is_sound) return;
    if (reply.status != 200) {
      EXPECT_FALSE(record.usage.has_value());
      return;
    }
    ASSERT_TRUE(record.usage.has_value()) << record.usage_unknown << " " << request.number;
    EXPECT_TRUE(*record.usage == *reply.usage) << record.usage->input_tokens();
  }

  // --- The answer

  static void CheckAnswer(const SimulatedRequest& request, const ledger::RequestRecord& record,
                          const SimulatedExchange& last) {
    const SimulatedClient& client = request.client;
    const SimulatedReply& reply = last.reply;
    const bool is_complete = record.outcome == "complete";
    if (!client.is_whole && !client.is_events) {
      if (client.status == 0) return;
      EXPECT_FALSE(IsTranslated(request.form, record.upstream));
      EXPECT_EQ(client.status, reply.status);
      const bool is_masked = reply.plain.find(kSimulatedOperatorKey) != std::string::npos;
      if (request.explains || is_masked) return;
      EXPECT_TRUE(reply.body.starts_with(client.body)) << "the answer's bytes were changed";
      EXPECT_EQ(is_complete, client.is_complete);
      if (is_complete) {
        EXPECT_EQ(client.body.size(), reply.body.size());
      }
      return;
    }
    if (client.is_gone()) return;
    if (client.is_whole) {
      CheckWhole(request);
    } else if (client.is_complete) {
      CheckEvents(request);
    }
    if (is_complete && reply.is_sound && reply.status == 200) {
      EXPECT_NE(client.body.find("reply" + request.marker.substr(3)), std::string::npos);
    }
  }

  static void CheckWhole(const SimulatedRequest& request) {
    const nlohmann::json json = nlohmann::json::parse(request.client.body, nullptr, false);
    ASSERT_TRUE(json.is_object()) << request.client.body.substr(0, 500);
    const bool is_messages = request.form == Form::kMessages;
    if (request.client.status >= 400) {
      ASSERT_TRUE(json.contains("error")) << request.client.body;
      EXPECT_TRUE(json["error"].contains("message")) << request.client.body;
      EXPECT_EQ(is_messages, json.value("type", "") == "error") << request.client.body;
      return;
    }
    const char* const name = is_messages ? "type" : "object";
    const char* const value = is_messages                        ? "message"
                              : request.form == Form::kResponses ? "response"
                                                                 : "chat.completion";
    EXPECT_EQ(json.value(name, ""), value) << request.client.body.substr(0, 500);
  }

  static void CheckEvents(const SimulatedRequest& request) {
    const std::string_view body = request.client.body;
    ASSERT_TRUE(body.ends_with("\n\n"))
        << body.substr(body.size() - std::min<size_t>(200, body.size()));
    const size_t begin = body.rfind("\n\n", body.size() - 3);
    const std::string_view last = body.substr(begin == std::string_view::npos ? 0 : begin + 2);
    if (request.form == Form::kChat) {
      EXPECT_EQ(last, "data: [DONE]\n\n");
    } else if (request.form == Form::kMessages) {
      EXPECT_TRUE(last.starts_with("event: message_stop") || last.starts_with("event: error"))
          << last;
    } else {
      EXPECT_TRUE(last.starts_with("event: response.completed") ||
                  last.starts_with("event: response.incomplete") ||
                  last.starts_with("event: response.failed") || last.starts_with("event: error"))
          << last;
    }
  }

  // --- Sums and metrics

  void CheckSums() {
    const auto& records = args_.gateway.ledger.records();
    size_t num_left = 0;
    std::map<int, uint64_t> by_status;
    std::map<std::string, const SimulatedRequest*> by_id;
    for (const auto& request : args_.requests) {
      by_id[request->id] = request.get();
      if (!request->client.is_gone()) ++by_status[request->client.status];
    }
    for (const ledger::RequestRecord& record : records) {
      ASSERT_TRUE(by_id.contains(record.id));
      const SimulatedClient& client = by_id[record.id]->client;
      if (record.outcome == "client_left" && client.has_left()) ++num_left;
    }
    EXPECT_EQ(args_.gateway.num_disconnects(), num_left);
    EXPECT_EQ(args_.gateway.NumCounted(), args_.requests.size());
    for (const auto& [status, count] : by_status) {
      EXPECT_GE(args_.gateway.NumCounted(status), count) << status;
    }
    std::string text;
    dialect::form::JsonWriter json(text);
    args_.gateway.ledger.sums().WriteStats(json);
    const auto stats = nlohmann::json::parse(text);
    EXPECT_EQ(stats["totals"]["requests"], records.size());
  }

  const Args args_;
  upstream::BodyDigests digests_;
  std::map<int, Exchanges> exchanges_;
  std::map<std::string, std::vector<const ledger::RequestRecord*>> records_;
};

}  // namespace kvgate::test
