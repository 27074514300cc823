#include "engine/engine.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <thread>

#include "engine/text/grammar/compiler.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/memory_kv_store.h"
#include "tests/wait_until.h"

namespace kvgate::engine {
namespace {

std::vector<TokenId> Prompt(int count, TokenId first = 3) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i % 500);
  return tokens;
}

class EngineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new TestModel(TestModel::Make("llama", kernels::DType::kF16));
  }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }
  static TestModel* model_;
  EngineOptions options_{.kv_bytes = 8 << 20};
};
TestModel* EngineTest::model_ = nullptr;

TEST_F(EngineTest, RefusesWhatCannotRunAndNamesTheField) {
  options_.context_tokens_max = 64;
  const auto engine = model_->Open(options_);
  const auto submit = [&](std::vector<TokenId> prompt, int max_tokens) {
    return engine->Submit(
        MakeRequest(std::move(prompt), max_tokens, std::make_shared<CollectingSink>()));
  };
  for (const auto& [prompt, max_tokens] : std::vector<std::pair<std::vector<TokenId>, int>>{
           {{}, 5}, {{-1}, 5}, {{600}, 5}, {Prompt(64), 5}, {Prompt(65), 0}}) {
    const auto refused = submit(prompt, max_tokens);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().field, "prompt");
  }
  EXPECT_EQ(submit(Prompt(5), -1).error().field, "max_tokens");
  EXPECT_TRUE(submit(Prompt(63), 5).has_value());
  EXPECT_TRUE(submit(Prompt(64), 0).has_value());
}

TEST_F(EngineTest, OpenRefusesKvThatTheModelCannotHaveAndNamesTheField) {
  const auto field_of = [](const EngineOptions& options) {
    const auto refused =
        Engine::Open(options, model_->file, *model_->backend, *model_->tokenizer, nullptr);
    return refused.has_value() ? std::string() : refused.error().field;
  };
  options_.kv_dtype = kernels::DType::kQ8_0;  // too few: the heads have 16 dimensions
  EXPECT_EQ(field_of(options_), "kv_dtype");
  options_.kv_dtype = kernels::DType::kF16;
  options_.context_policy_tokens = 127;
  EXPECT_EQ(field_of(options_), "context_policy_tokens");
  options_.context_policy_tokens = 128;
  EXPECT_EQ(field_of(options_), "");
}

TEST_F(EngineTest, TheContextEndsAnAnswerWithReasonLength) {
  options_.context_tokens_max = 64;
  const auto engine = model_->Open(options_);
  const Outcome outcome = Generate(*engine, Prompt(60), 100);
  EXPECT_EQ(outcome.tokens.size(), 4u);
  EXPECT_EQ(outcome.finish.reason, FinishReason::kLength);
}

TEST_F(EngineTest, ZeroTokensOnlyPrefills) {
  const auto engine = model_->Open(options_);
  const Outcome warm = Generate(*engine, Prompt(200), 0);
  EXPECT_TRUE(warm.tokens.empty());
  EXPECT_EQ(warm.finish.stats.num_computed_tokens, 200);
  EXPECT_EQ(Generate(*engine, Prompt(200), 3).finish.stats.num_cached_tokens, 199);
}

TEST_F(EngineTest, AStopStringEndsTheAnswerBeforeIt) {
  const auto engine = model_->Open(options_);
  const Outcome free_run = Generate(*engine, Prompt(30), 60);
  ASSERT_GT(free_run.text.size(), 40u);
  const std::string stop = free_run.text.substr(free_run.text.size() / 2, 4);
  const auto sink = std::make_shared<CollectingSink>();
  GenerationRequest request = MakeRequest(Prompt(30), 60, sink);
  request.stop_strings = {stop};
  ASSERT_TRUE(engine->Submit(std::move(request)).has_value());
  const Outcome stopped = Collect(*sink);
  EXPECT_EQ(stopped.finish.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.finish.stop_string, stop);
  EXPECT_EQ(stopped.text, free_run.text.substr(0, free_run.text.find(stop)));
}

TEST_F(EngineTest, RequestsWithAndWithoutAGrammarRunTogether) {
  const auto engine = model_->Open(options_);
  grammar::Compiler compiler(*model_->tokenizer, {});
  const auto compiled = *compiler.Compile(
      {.kind = grammar::SourceKind::kJsonSchema,
       .text = R"({"type":"array","items":{"type":"boolean"},"minItems":3,"maxItems":3})"});
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (uint64_t i = 0; i < 6; ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    GenerationRequest request = MakeRequest({1, 2, 3, static_cast<TokenId>(i)}, 60, sinks.back());
    request.sampling.temperature = 1;
    request.sampling.seed = i;
    if (i % 2 == 0) request.grammar = compiled;
    ASSERT_TRUE(engine->Submit(std::move(request)).has_value());
  }
  const std::regex list(R"(\[(true|false)(, ?(true|false)){2}\])");
  for (size_t i = 0; i < sinks.size(); ++i) {
    const Outcome outcome = Collect(*sinks[i]);
    EXPECT_EQ(std::regex_match(outcome.text, list), i % 2 == 0) << outcome.text;
    EXPECT_EQ(outcome.finish.reason, i % 2 == 0 ? FinishReason::kStop : FinishReason::kLength);
  }
}

// Returns requests of every kind: those for which the top of the logits is enough, and those that
// need the whole row to be fetched.
std::vector<GenerationRequest> MixedRequests(
    const std::shared_ptr<const grammar::mask::CompiledGrammar>& list,
    std::vector<std::shared_ptr<CollectingSink>>& sinks) {
  const std::vector<sample::SamplingParams> kinds = {
      {.temperature = 0},
      {.temperature = 0, .num_logprobs = 5},
      {.temperature = 0.1f, .seed = 1},
      {.seed = 2},
      {.top_k = 40, .seed = 3},
      {.top_p = 0.4f, .seed = 4},
      {.min_p = 0.5f, .seed = 5, .num_logprobs = 20},
      {.typical_p = 0.5f, .seed = 6},
      {.adjustments = {.repetition_penalty = 1.3f}, .seed = 7, .num_logprobs = 2}};
  std::vector<GenerationRequest> requests;
  for (size_t i = 0; i < 3 * kinds.size(); ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    const auto length = static_cast<int>(7 + 5 * i);
    requests.push_back(MakeRequest(Prompt(length, static_cast<TokenId>(i)), 24, sinks.back()));
    requests.back().sampling = kinds[i % kinds.size()];
    requests.back().hash_logits = i % 2 == 0;
    if (i >= 2 * kinds.size()) requests.back().grammar = list;
  }
  return requests;
}

TEST_F(EngineTest, HeadsOfLogitsGiveTheTokensOfWholeRows) {
  grammar::Compiler compiler(*model_->tokenizer, {});
  const auto list = *compiler.Compile({.kind = grammar::SourceKind::kJsonSchema,
                                       .text = R"({"type":"array","items":{"type":"integer"}})"});
  std::vector<std::vector<std::shared_ptr<CollectingSink>>> runs;
  for (const int tokens : {0, 256, 40}) {
    options_.logit_head_tokens = tokens;
    const auto engine = model_->Open(options_);
    for (GenerationRequest& request : MixedRequests(list, runs.emplace_back())) {
      ASSERT_TRUE(engine->Submit(std::move(request)).has_value());
    }
    for (const auto& sink : runs.back()) Collect(*sink);
  }
  for (size_t run = 1; run < runs.size(); ++run) {
    for (size_t i = 0; i < runs[0].size(); ++i) {
      EXPECT_TRUE(Collect(*runs[0][i]) == Collect(*runs[run][i])) << i;
      const std::vector<TokenEvent>& want = runs[0][i]->events();
      const std::vector<TokenEvent>& got = runs[run][i]->events();
      for (size_t t = 0; t < want.size(); ++t) {
        EXPECT_NEAR(want[t].logprob, got[t].logprob, 1e-4);
        ASSERT_EQ(want[t].top_logprobs.size(), got[t].top_logprobs.size());
        for (size_t k = 0; k < want[t].top_logprobs.size(); ++k) {
          EXPECT_EQ(want[t].top_logprobs[k].token, got[t].top_logprobs[k].token);
        }
      }
    }
  }
}

TEST_F(EngineTest, LogprobsAreThoseOfTheTokensChosen) {
  const auto engine = model_->Open(options_);
  const auto sink = std::make_shared<CollectingSink>();
  GenerationRequest request = MakeRequest(Prompt(30), 5, sink);
  request.sampling.num_logprobs = 4;
  ASSERT_TRUE(engine->Submit(std::move(request)).has_value());
  Collect(*sink);
  for (const TokenEvent& event : sink->events()) {
    ASSERT_EQ(event.top_logprobs.size(), 4u);
    EXPECT_EQ(event.top_logprobs[0].token, event.token);  // greedy
    EXPECT_EQ(event.top_logprobs[0].logprob, event.logprob);
    EXPECT_LT(event.logprob, 0);
  }
}

TEST_F(EngineTest, ACancelledRequestEndsAtOnceAndLeavesItsPrefix) {
  const auto engine = model_->Open(options_);
  const auto sink = std::make_shared<CollectingSink>();
  const auto id = engine->Submit(MakeRequest(Prompt(100), 3000, sink));
  sink->WaitForTokens(3);
  engine->Cancel(*id);
  EXPECT_EQ(Collect(*sink).finish.reason, FinishReason::kCancelled);
  engine->Cancel(*id);                  // again: nothing happens
  engine->Cancel(RequestId{1u << 30});  // unknown: nothing happens
  EXPECT_EQ(Generate(*engine, Prompt(100), 2).finish.stats.num_cached_tokens, 99);
  engine->CheckIntegrity();
}

TEST_F(EngineTest, ACancelDuringARestoreDoesNotWaitForTheStore) {
  store::MemoryKvStore store;
  {
    const auto engine = model_->Open(options_, &store);
    Generate(*engine, Prompt(200), 2);
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
  }
  store.holds_gets = true;
  const auto engine = model_->Open(options_, &store);
  const auto sink = std::make_shared<CollectingSink>();
  const auto id = engine->Submit(MakeRequest(Prompt(200), 100, sink));
  EXPECT_TRUE(test::WaitUntil([&] { return store.num_gets_held > 0; }, "the restore has begun"));
  engine->Cancel(*id);
  EXPECT_EQ(Collect(*sink).finish.reason, FinishReason::kCancelled);
  store.holds_gets = false;
  engine->CheckIntegrity();
}

TEST_F(EngineTest, AFullQueueRefusesAndServesOn) {
  options_.queue_max = 2;
  const auto engine = model_->Open(options_);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  int num_refused = 0;
  for (int i = 0; i < 6; ++i) {
    auto sink = std::make_shared<CollectingSink>();
    const auto id = engine->Submit(MakeRequest(Prompt(50, 3 + i), 20, sink));
    if (id.has_value()) {
      sinks.push_back(std::move(sink));
    } else {
      EXPECT_EQ(id.error().code, ErrorCode::kOverloaded);
      ++num_refused;
    }
  }
  EXPECT_GE(num_refused, 1);
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->WaitForFinish().reason, FinishReason::kLength);
  }
  EXPECT_TRUE(engine->Submit(MakeRequest(Prompt(5), 1, std::make_shared<CollectingSink>())));
}

TEST_F(EngineTest, DestructionCancelsWhatStillRunsAndWaits) {
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  {
    options_.sequences_max = 2;
    const auto engine = model_->Open(options_);
    for (int i = 0; i < 5; ++i) {
      sinks.push_back(std::make_shared<CollectingSink>());
      ASSERT_TRUE(engine->Submit(MakeRequest(Prompt(50, 3 + i), 4000, sinks.back())));
    }
    sinks.front()->WaitForTokens(2);
  }
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->WaitForFinish().reason, FinishReason::kCancelled);
  }
}

TEST_F(EngineTest, AStoreThatFailsNeverStopsServing) {
  store::MemoryKvStore store;
  store.fail_put = true;
  const auto engine = model_->Open(options_, &store);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Generate(*engine, Prompt(100, 3 + i), 10).tokens.size(), 10u);
  }
  EXPECT_TRUE(engine->Drain(std::chrono::seconds(10)));
  EXPECT_EQ(engine->Stats().num_blocks_written, 0u);
  engine->CheckIntegrity();
}

// Here the queue never has room for the blocks.
TEST_F(EngineTest, BlocksWhoseWriteIsSkippedCostNoBudget) {
  store::MemoryKvStore store;
  options_.write_back_bytes_max = 1;
  options_.write_admission = std::make_shared<tier::WriteAdmission>(
      tier::WriteAdmission::Options{.bytes_per_day = uint64_t{1} << 40});
  const auto engine = model_->Open(options_, &store);
  constexpr int kNumBlocks = 4;
  EXPECT_EQ(Generate(*engine, Prompt(kNumBlocks * kernels::kKvBlockTokens + 1), 3).tokens.size(),
            3u);
  ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
  EXPECT_EQ(engine->Stats().num_blocks_write_skipped, uint64_t{kNumBlocks});
  EXPECT_EQ(options_.write_admission->stats().spent_bytes, 0u);
  engine->CheckIntegrity();
}

TEST_F(EngineTest, WhatCannotMeetTheTtftObjectiveIsRefusedWithTheTimeToWait) {
  options_.ttft_slo_ms = 1;
  options_.step_tokens_max = 32;
  const auto engine = model_->Open(options_);
  // This prefill takes far more than a millisecond on any machine.
  const Outcome refused = Generate(*engine, Prompt(4000), 5);
  EXPECT_EQ(refused.finish.reason, FinishReason::kError);
  ASSERT_TRUE(refused.finish.error.has_value());
  EXPECT_EQ(refused.finish.error->code, ErrorCode::kRateLimited);
  EXPECT_GE(refused.finish.error->retry_after_seconds, 1);
  // No request is ahead of it: waiting would not help, so the error names the setting that would.
  EXPECT_NE(refused.finish.error->detail.find("raise engine.ttft_slo_ms"), std::string::npos);
  EXPECT_EQ(refused.finish.error->detail.find("Try again later"), std::string::npos);
  EXPECT_EQ(engine->Stats().num_refused_by_slo, 1u);
  EXPECT_EQ(engine->Stats().num_prompt_tokens, 0u);
  EXPECT_EQ(Generate(*engine, Prompt(400), 0).finish.reason, FinishReason::kLength)
      << "warming has no first token to be late";
  engine->CheckIntegrity();
}

TEST_F(EngineTest, ATtftObjectiveThatCanBeMetRefusesNobody) {
  options_.ttft_slo_ms = 3'600'000;
  const auto engine = model_->Open(options_);
  EXPECT_EQ(Generate(*engine, Prompt(400), 5).finish.reason, FinishReason::kLength);
}

TEST_F(EngineTest, ParallelRequestsWithOnePromptComputeItOnce) {
  const auto engine = model_->Open(options_);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (int i = 0; i < 8; ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(engine->Submit(MakeRequest(Prompt(1000), 20, sinks.back())));
  }
  const Outcome first = Collect(*sinks[0]);
  for (const auto& sink : sinks) EXPECT_EQ(Collect(*sink).tokens, first.tokens);
  // One prompt is computed in full, and for each of the seven others only its last token.
  EXPECT_EQ(engine->Stats().num_computed_tokens, 1007u);
  EXPECT_EQ(engine->Stats().num_single_flight, 7u);
}

TEST_F(EngineTest, APinnedPrefixSurvivesAFloodUntilThePinEnds) {
  const size_t block_bytes = model_->Open(options_)->info().kv_block_bytes;
  options_.kv_bytes = 20 * block_bytes;
  const auto engine = model_->Open(options_);
  const auto flood = [&] {
    for (TokenId i = 0; i < 30; ++i) Generate(*engine, Prompt(200, 50 + 3 * i), 1);
  };
  engine->Pin({.tokens = Prompt(160), .cache_salt = "", .priority = 3});
  Generate(*engine, Prompt(160), 1);
  flood();
  EXPECT_GE(Generate(*engine, Prompt(160), 1).finish.stats.num_cached_tokens, 128);
  engine->Pin({.tokens = Prompt(160), .cache_salt = "", .priority = 0});
  flood();
  EXPECT_EQ(Generate(*engine, Prompt(160), 1).finish.stats.num_cached_tokens, 0);
  engine->Pin({.tokens = Prompt(160),
               .cache_salt = "",
               .priority = 3,
               .until = std::chrono::steady_clock::now()});
  Generate(*engine, Prompt(160), 1);
  flood();
  EXPECT_EQ(Generate(*engine, Prompt(160), 1).finish.stats.num_cached_tokens, 0);
  engine->CheckIntegrity();
}

TEST_F(EngineTest, RequestsThatReadAPrefixAreCountedWithWhatTheyWereSpared) {
  store::MemoryKvStore store;
  const auto engine = model_->Open(options_, &store);
  Generate(*engine, Prompt(200), 2);
  EXPECT_TRUE(store.hits().empty()) << "a cold prompt has read nothing";
  Generate(*engine, Prompt(200), 2);
  Generate(*engine, Prompt(200), 0);  // only warms: it is spared nothing
  ASSERT_EQ(store.hits().size(), 1u);
  const auto [keys, use] = store.hits()[0];
  EXPECT_EQ(keys.size(), 6u) << "the whole blocks of 199 tokens";
  for (const auto& key : keys) EXPECT_EQ(key.fingerprint, engine->info().kv_fingerprint);
  EXPECT_EQ(use.num_hits, 1u);
  EXPECT_EQ(use.num_tokens, 199u);
  EXPECT_GT(use.compute_us, 0u);
}

TEST_F(EngineTest, SaysInWhichMemoryBlocksAre) {
  const size_t block_bytes = model_->Open(options_)->info().kv_block_bytes;
  options_.kv_bytes = 20 * block_bytes;
  options_.host_bytes = 40 * block_bytes;
  store::MemoryKvStore store;
  const auto engine = model_->Open(options_, &store);
  Generate(*engine, Prompt(200), 1);
  Generate(*engine, Prompt(200), 1);
  ASSERT_EQ(store.hits().size(), 1u);
  std::vector<BlockHash> blocks;
  const auto [keys, use] = store.hits()[0];
  for (const auto& key : keys) blocks.push_back(key.hash);
  blocks.push_back({1, 2});  // nobody's
  auto places = engine->Locate(blocks, kRequestTimeMax);
  ASSERT_TRUE(places.has_value());
  EXPECT_EQ(places->front(), KvPlace::kDevice);
  EXPECT_EQ(places->at(5), KvPlace::kDevice);
  EXPECT_EQ(places->back(), KvPlace::kAbsent);
  Generate(*engine, Prompt(600, 90), 1);  // evicts all but perhaps the first to the host arena
  places = engine->Locate(blocks, kRequestTimeMax);
  ASSERT_TRUE(places.has_value());
  EXPECT_EQ(places->at(1), KvPlace::kHost);
  EXPECT_EQ(places->at(5), KvPlace::kHost);
  EXPECT_EQ(engine->Locate({}, kRequestTimeMax)->size(), 0u);
}

using EngineTimingTest = EngineTest;

// A hit on a disk that hangs costs hardly more than no hit.
TEST_F(EngineTimingTest, AHangingDiskDelaysAHitByLittle) {
  store::MemoryKvStore store;
  {
    const auto engine = model_->Open(options_, &store);
    Generate(*engine, Prompt(3000), 2);
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
  }
  const double cold = Generate(*model_->Open(options_), Prompt(3000), 2).finish.stats.ttft_seconds;
  store.get_delay_ms = 5000;
  const auto engine = model_->Open(options_, &store);
  const Outcome hit = Generate(*engine, Prompt(3000), 2);
  EXPECT_EQ(hit.finish.stats.num_disk_tokens, 0);
  EXPECT_EQ(engine->Stats().num_restores_cut, 1u);
  // The bound is 1.1; a test machine that is busy with others may double any time.
  EXPECT_LT(hit.finish.stats.ttft_seconds, 2 * cold + 0.1);
}

TEST_F(EngineTest, APromptThatFillsThePoolIsServedAgainFromIt) {
  options_.kv_bytes = 4 * model_->Open(options_)->info().kv_block_bytes;
  const auto engine = model_->Open(options_);
  const Outcome cold = Generate(*engine, Prompt(127), 1);
  // All four blocks are a hit; the last one must not be held for copying from it.
  EXPECT_EQ(Generate(*engine, Prompt(127), 1), cold);
  engine->CheckIntegrity();
}

// Up to sixty-four of 400 requests run at once, with mixed lengths and shared beginnings; about
// every fifth is cancelled.
TEST_F(EngineTest, IsWholeAtEveryMomentUnderACrowd) {
  store::MemoryKvStore store;
  options_.kv_bytes = 96 * model_->Open(options_)->info().kv_block_bytes;
  options_.step_tokens_max = 128;
  const auto engine = model_->Open(options_, &store);
  std::mt19937 random(8);
  struct Running {
    RequestId id;
    std::shared_ptr<CollectingSink> sink;
  };
  std::vector<Running> running;
  for (int i = 0; i < 400; ++i) {
    const auto sink = std::make_shared<CollectingSink>();
    // Two thirds of the prompts begin as another one did.
    const auto seed = static_cast<TokenId>(1 + random() % (random() % 3 == 0 ? 100 : 4));
    const int length = 1 + static_cast<int>(random() % (random() % 8 == 0 ? 1500 : 200));
    const auto id =
        engine->Submit(MakeRequest(Prompt(length, seed), static_cast<int>(random() % 24), sink));
    ASSERT_TRUE(id.has_value());
    running.push_back({*id, sink});
    if (random() % 5 == 0) engine->Cancel(running[random() % running.size()].id);
    if (i % 16 == 0) engine->CheckIntegrity();
    if (running.size() < 64) continue;
    std::swap(running[random() % running.size()], running.back());
    running.back().sink->WaitForFinish();
    running.pop_back();
  }
  for (const Running& each : running) each.sink->WaitForFinish();
  ASSERT_TRUE(engine->Drain(std::chrono::seconds(60)));
  engine->CheckIntegrity();
  EXPECT_EQ(engine->Stats().num_blocks_used, 0u);
  EXPECT_GT(engine->Stats().num_device_tokens, 0u);
}

TEST_F(EngineTest, ABoundedContextAnswersPromptsThatThePoolCouldNotHold) {
  const size_t block_bytes = model_->Open(options_)->info().kv_block_bytes;
  options_.kv_bytes = 64 * block_bytes;  // 2048 tokens
  options_.context_policy = schedule::ContextPolicy::kAttentionSink;
  options_.context_policy_tokens = 256;
  const auto engine = model_->Open(options_);
  const Outcome outcome = Generate(*engine, Prompt(3000), 200);
  EXPECT_EQ(outcome.tokens.size(), 200u);
  EXPECT_EQ(outcome.finish.reason, FinishReason::kLength);
  // Answers within the bound are the same as without a bound.
  EngineOptions plain = options_;
  plain.context_policy = schedule::ContextPolicy::kNone;
  EXPECT_EQ(Generate(*engine, Prompt(100, 40), 50),
            Generate(*model_->Open(plain), Prompt(100, 40), 50));
  engine->CheckIntegrity();
}

TEST_F(EngineTest, ABoundThatThePoolCannotKeepIsRefusedAndNamed) {
  options_.kv_bytes = 40 * model_->Open(options_)->info().kv_block_bytes;
  options_.context_policy = schedule::ContextPolicy::kSlidingWindow;
  options_.context_policy_tokens = 1024;
  const auto refused =
      Engine::Open(options_, model_->file, *model_->backend, *model_->tokenizer, nullptr);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().field, "context_policy_tokens");
}

// Clients come, share prefixes, leave early and come back, over a pool that is too small.
TEST_F(EngineTest, StaysWholeUnderRandomTrafficFromManyThreads) {
  store::MemoryKvStore store;
  const size_t block_bytes = model_->Open(options_)->info().kv_block_bytes;
  options_.kv_bytes = 40 * block_bytes;
  options_.sequences_max = 6;
  const auto engine = model_->Open(options_, &store);
  std::vector<std::thread> clients;
  for (uint32_t client = 0; client < 6; ++client) {
    clients.emplace_back([&, client] {
      std::mt19937 random(client);
      for (int i = 0; i < 25; ++i) {
        const auto sink = std::make_shared<CollectingSink>();
        const int length = 1 + static_cast<int>(random() % 300);
        const auto id = engine->Submit(MakeRequest(
            Prompt(length, 3 + static_cast<TokenId>(random() % 3)), 1 + random() % 40, sink));
        ASSERT_TRUE(id.has_value());
        if (random() % 3 == 0) {
          sink->WaitForTokens(random() % 10);
          engine->Cancel(*id);
        }
        sink->WaitForFinish();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(engine->Drain(std::chrono::seconds(20)));
  engine->CheckIntegrity();
  EXPECT_GT(engine->Stats().num_device_tokens, 0u);
}

}  // namespace
}  // namespace kvgate::engine
