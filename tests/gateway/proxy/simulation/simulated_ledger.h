// SimulatedLedger makes the records of requests as the ledger does, keeps them for comparison, and
// checks that their accounts are told what exchange_observer.h promises, in its order.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/ledger/exchange_recorder.h"
#include "gateway/ledger/ledger.h"
#include "gateway/service/prompts.h"

namespace kvgate::test {

class SimulatedLedger final : public upstream::ExchangeLog {
 public:
  explicit SimulatedLedger(service::Prompts& prompts) : prompts_(prompts) {}
  // Every account was closed.
  ~SimulatedLedger() override { EXPECT_EQ(num_open_, 0) << "accounts that were never closed"; }

  std::vector<ledger::RequestRecord>& records() { return records_; }
  size_t num_superseded() const { return num_superseded_; }
  ledger::Ledger& sums() { return sums_; }

  std::unique_ptr<upstream::ExchangeObserver> Begin(const upstream::ExchangeStart& start) override {
    return std::make_unique<Account>(*this, start);
  }
  upstream::Spending Spent(std::string_view tenant) const override { return sums_.Spent(tenant); }

 private:
  class Account final : public upstream::ExchangeObserver {
   public:
    Account(SimulatedLedger& log, const upstream::ExchangeStart& start)
        : log_(log),
          recorder_(
              start,
              {.sink = [&log](ledger::RequestRecord&& record) { log.Take(std::move(record)); },
               .digests = log.sums_.digests(),
               .complete =
                   [&log](auto& record, const auto& facts, auto& preparation) {
                     log.prompts_.Complete(record, facts, preparation);
                   },
               .price = [&log](auto& record) { log.sums_.Price(record); }}) {
      ++log_.num_open_;
    }
    ~Account() override { EXPECT_TRUE(has_ended_) << "an account was left open"; }

    void OnPrepared(std::shared_ptr<upstream::ExchangePreparation> preparation) override {
      EXPECT_FALSE(is_prepared_ || is_sent_ || has_head_ || has_ended_);
      is_prepared_ = true;
      recorder_.OnPrepared(std::move(preparation));
    }
    void OnTranslated(dialect::form::Endpoint sent_endpoint,
                      const std::vector<std::string>& left_out) override {
      EXPECT_FALSE(is_translated_ || is_sent_ || has_head_ || has_ended_);
      is_translated_ = true;
      recorder_.OnTranslated(sent_endpoint, left_out);
    }
    void OnSent(std::string_view received, std::string_view sent) override {
      EXPECT_FALSE(is_sent_ || has_ended_);
      is_sent_ = true;
      recorder_.OnSent(received, sent);
    }
    void OnHead(const upstream::ExchangeHead& head) override {
      EXPECT_FALSE(has_head_ || has_ended_);
      has_head_ = true;
      recorder_.OnHead(head);
    }
    void OnBody(std::string_view piece) override {
      EXPECT_TRUE(has_head_ && !has_ended_);
      recorder_.OnBody(piece);
    }
    std::string Explain(const upstream::ExchangeEnd& until_now) override {
      EXPECT_FALSE(is_explained_ || has_ended_);
      is_explained_ = true;
      return recorder_.Explain(until_now);
    }
    upstream::ExchangeTotals OnEnd(const upstream::ExchangeEnd& end) override {
      EXPECT_FALSE(has_ended_) << "an account was closed twice";
      has_ended_ = true;
      --log_.num_open_;
      if (end.superseded) ++log_.num_superseded_;
      return recorder_.OnEnd(end);
    }

   private:
    SimulatedLedger& log_;
    ledger::ExchangeRecorder recorder_;
    bool is_prepared_ = false;
    bool is_translated_ = false;
    bool is_sent_ = false;
    bool has_head_ = false;
    bool is_explained_ = false;
    bool has_ended_ = false;
  };

  void Take(ledger::RequestRecord&& record) {
    records_.push_back(record);
    sums_.Add(std::move(record));
  }

  service::Prompts& prompts_;
  ledger::Ledger sums_{{}};
  std::vector<ledger::RequestRecord> records_;
  int num_open_ = 0;
  size_t num_superseded_ = 0;
};

}  // namespace kvgate::test
