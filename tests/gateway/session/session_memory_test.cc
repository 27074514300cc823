#include "gateway/session/session_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gateway/session/memory/memory_admin.h"
#include "gateway/session/session_admin.h"
#include "gateway/session/sessions.h"
#include "tests/gateway/service/kept_responses.h"
#include "tests/gateway/session/session_turns.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::session {
namespace {

using nlohmann::json;
using test::Said;
using test::SaidOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Sessions whose tokens are a quarter of the bytes of their bodies.
class SessionMemoryTest : public ::testing::Test {
 protected:
  void Open(window::Settings window, bool retrieves = false) {
    sessions = std::make_unique<Sessions>(Sessions::Options{.turns = turns.get(),
                                                            .window = window,
                                                            .memory = {.book = book.get(),
                                                                       .vectors = vectors.get(),
                                                                       .retrieves = retrieves,
                                                                       .retrieval_tokens = 600}});
  }
  void OpenVectors(const std::string& model) { vectors = *OpenVectorBook(meta, *turns, model); }
  // As a model that knows what a puppy is.
  static retrieval::Meaning MeaningOf(std::string_view text) {
    const bool is_of_dogs = text.find("dog") != text.npos || text.find("puppy") != text.npos;
    std::vector<float> values(64, 0.1F);
    values[is_of_dogs ? 0 : 1 + std::hash<std::string_view>()(text) % 63] = 5;
    return retrieval::Meaning::Of(values);
  }
  // Has vectors made of what the last turn left over. Returns the texts.
  std::vector<std::string> Embed() {
    std::vector<std::string> all;
    const auto work = sessions->memory().BeginEmbedding(
        turn->place(), std::exchange(turn->unembedded, {}), turn->turn);
    if (work == nullptr) return all;
    EXPECT_TRUE(work->Plan());
    for (auto texts = work->Next(); !texts.empty(); texts = work->Next()) {
      std::vector<retrieval::Meaning> made;
      for (const std::string& text : texts) made.push_back(MeaningOf(text));
      work->Take(std::move(made));
      EXPECT_TRUE(work->Store());
      all.insert(all.end(), texts.begin(), texts.end());
    }
    return all;
  }
  std::string Ask(const std::string& body, SessionAsk ask) {
    auto read = sessions->Read({.tenant = "t",
                                .ask = std::move(ask),
                                .request_id = std::to_string(++last_id),
                                .dialect = transcript::Dialect::kChatCompletions,
                                .body = body});
    EXPECT_TRUE(read);
    turn = *read;
    const auto loaded = sessions->Load(*turn);
    EXPECT_TRUE(loaded) << loaded.error().ToString();
    last_asked = sessions->memory().AskedBy("t", turn->remembered, turn->request.messages);
    if (!last_asked.empty()) turn->remembered.question = MeaningOf(last_asked);
    auto composed =
        sessions->Compose(*turn, {.body = body, .count = [](std::string_view prompt) {
                                    return Result<int64_t>(static_cast<int64_t>(prompt.size() / 4));
                                  }});
    EXPECT_TRUE(composed) << composed.error().detail;
    last_body = body;
    return composed ? *composed : "";
  }
  // One turn with its answer. Returns what was sent for it.
  std::string Say(std::string_view text, SessionAsk ask = {.key = "k"}) {
    const json body = {{"model", "m"},
                       {"messages", json::array({{{"role", "user"}, {"content", text}}})}};
    const std::string sent = Ask(body.dump(), std::move(ask));
    const std::string answer = fmt::format("A{}", last_id);
    EXPECT_TRUE(sessions->Commit(*turn, {.messages = {Said("assistant", answer)}, .tokens = {}}));
    return sent;
  }
  static std::vector<std::string> TextsOf(const std::string& body) {
    std::vector<std::string> texts;
    const json sent = json::parse(body);
    for (const json& message : sent["messages"]) texts.push_back(message["content"]);
    return texts;
  }
  void Keep(std::string_view facts) {
    const auto kept =
        memory::MemoryAdmin(book.get())
            .Patch({.tenant = "t", .session = "k"}, fmt::format(R"({{"facts":{}}})", facts));
    EXPECT_TRUE(kept) << kept.error().ToString();
  }
  // True if what was said in `before` still stands where it stood.
  static bool GoesOn(const std::string& before, const std::string& after) {
    const std::string_view stays = std::string_view(before).substr(0, before.rfind(']'));
    return after.starts_with(stays);
  }
  void SetUp() override { Open({}); }

  store::MemoryMetaStore meta;
  std::unique_ptr<store::meta::TurnStore> turns = test::OpenTurns(meta);
  std::unique_ptr<memory::MemoryBook> book = *memory::MemoryBook::Open({.meta = meta});
  std::unique_ptr<retrieval::VectorBook> vectors;
  std::unique_ptr<Sessions> sessions;
  std::shared_ptr<SessionTurn> turn;
  std::string last_body;
  std::string last_asked;  // the text whose meaning would be asked for
  int last_id = 0;
};

TEST_F(SessionMemoryTest, MemoryStandsInFrontAndChangesBehind) {
  Keep(R"({"name":"Ann"})");
  const std::string first = Say("hello");
  EXPECT_THAT(TextsOf(first)[0], StartsWith("<memory>\n"));
  EXPECT_THAT(TextsOf(first)[0], HasSubstr("- name: Ann\n</memory>\n\nhello"));
  const std::string second = Say("more");
  EXPECT_TRUE(GoesOn(first, second));
  EXPECT_EQ(TextsOf(second).back(), "more");
  Keep(R"({"likes":"tea"})");
  const std::string third = Say("and");
  EXPECT_TRUE(GoesOn(second, third));
  EXPECT_THAT(TextsOf(third).back(), HasSubstr("- likes: tea\n</memory>\n\nand"));
  EXPECT_THAT(TextsOf(third).back(), Not(HasSubstr("Ann")));
  EXPECT_TRUE(GoesOn(third, Say("last")));
}

TEST_F(SessionMemoryTest, WhatIsRemovedIsSaidNowhere) {
  Keep(R"({"name":"Ann"})");
  Say("hello");
  Keep(R"({"likes":"tea"})");
  Say("more");
  Keep(R"({"name":null})");
  const std::string sent = Say("and");
  EXPECT_THAT(sent, Not(HasSubstr("Ann")));
  EXPECT_THAT(TextsOf(sent)[0], HasSubstr("- likes: tea\n</memory>\n\nhello"));
  EXPECT_EQ(TextsOf(sent)[2], "more");
  EXPECT_TRUE(GoesOn(sent, Say("last")));
  Keep(R"({"likes":null})");
  EXPECT_THAT(Say("end"), Not(HasSubstr("memory")));
}

TEST_F(SessionMemoryTest, AClientsOwnTranscriptSaysTheSame) {
  Keep(R"({"name":"Ann"})");
  const std::string first = Say("hello");
  Keep(R"({"likes":"tea"})");
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":"hello"},{"role":"assistant",)"
      R"("content":"A1"},{"role":"user","content":"more"}]})";
  const std::string second = Ask(body, {.key = "k"});
  EXPECT_EQ(TextsOf(second)[0], TextsOf(first)[0]);
  EXPECT_THAT(TextsOf(second).back(), HasSubstr("- likes: tea\n</memory>\n\nmore"));
}

TEST_F(SessionMemoryTest, ResultsOfToolsWaitForTheNextWords) {
  Say("hello");
  Keep(R"({"likes":"tea"})");
  const std::string body =
      R"({"model":"m","messages":[{"role":"tool","tool_call_id":"1","content":"r"}]})";
  EXPECT_THAT(Ask(body, {.key = "k"}), Not(HasSubstr("tea")));
  ASSERT_TRUE(sessions->Commit(*turn, {.messages = {Said("assistant", "A")}, .tokens = {}}));
  EXPECT_THAT(TextsOf(Say("go on")).back(), HasSubstr("- likes: tea"));
}

TEST_F(SessionMemoryTest, WhereOlderTurnsAreLeftOutTheWholeIsSaidAnew) {
  Open({.high = 400, .low = 200, .hard = 500});
  Keep(R"({"name":"Ann"})");
  Say("hello");
  Keep(R"({"likes":"tea"})");
  bool has_dropped = false;
  std::string before;
  for (int i = 0; i < 30; ++i) {
    const std::string sent = Say(fmt::format("turn {} {}", i, std::string(80, 'x')));
    const bool drops = turn->turn.compaction.has_value();
    if (drops) {
      EXPECT_THAT(TextsOf(sent)[0], HasSubstr("- name: Ann\n- likes: tea\n</memory>\n\n"));
    } else if (!before.empty()) {
      EXPECT_TRUE(GoesOn(before, sent)) << sent;
    }
    has_dropped = has_dropped || drops;
    before = sent;
    // All of it is said once, wherever.
    EXPECT_EQ(sent.find("tea"), sent.rfind("tea"));
    EXPECT_NE(sent.find("tea"), std::string::npos);
  }
  EXPECT_TRUE(has_dropped);
}

TEST_F(SessionMemoryTest, ASummaryTakesTheWholeWithIt) {
  Open({.mode = window::Mode::kSummary, .high = 500, .low = 250, .hard = 900});
  Keep(R"({"name":"Ann"})");
  Say("hello");
  Keep(R"({"likes":"tea"})");
  std::unique_ptr<SessionFold> fold;
  for (int i = 0; i < 40 && fold == nullptr; ++i) {
    Say(fmt::format("turn {} {}", i, std::string(80, 'x')));
    fold = sessions->BeginFold(*turn, last_body);
  }
  ASSERT_NE(fold, nullptr);
  ASSERT_TRUE(
      fold->Read(R"({"model":"m","choices":[{"index":0,"finish_reason":"stop","message":)"
                 R"({"role":"assistant","content":"the summary"}}],"usage":{"prompt_tokens":9,)"
                 R"("completion_tokens":3,"total_tokens":12}})"));
  ASSERT_TRUE(fold->Store("fold_1"));
  const std::string prefilled = fold->NextBody();
  EXPECT_THAT(TextsOf(prefilled)[0],
              HasSubstr("- name: Ann\n- likes: tea\n</memory>\n\n<summary>"));
  const std::string sent = Say("next");
  EXPECT_EQ(json::parse(sent)["messages"].size(), json::parse(prefilled)["messages"].size() + 1);
  EXPECT_TRUE(GoesOn(prefilled, sent)) << prefilled << "\n" << sent;
}

TEST_F(SessionMemoryTest, CopiesAndExportsTakeTheirMemoryAlong) {
  Keep(R"({"name":"Ann"})");
  Say("hello");
  SessionAdmin admin(*sessions);
  const SessionAdmin::Place place{.tenant = "t", .key = "k"};
  ASSERT_TRUE(admin.Fork(place, R"({"key":"copy"})", "fork_1"));
  const auto lines = admin.Export(place);
  ASSERT_TRUE(lines);
  EXPECT_THAT(*lines, StartsWith(R"({"kvgate_session":3,)"));
  ASSERT_TRUE(admin.Import({.tenant = "t", .key = "moved"}, *lines, "import_1"));
  const memory::Entries kept = {{"name", "\"Ann\""}};
  EXPECT_EQ(book->Holding({.tenant = "t", .session = "copy"})->entries, kept);
  EXPECT_EQ(book->Holding({.tenant = "t", .session = "moved"})->entries, kept);
  EXPECT_THAT(Say("more", {.key = "moved"}), HasSubstr("- name: Ann"));
  ASSERT_TRUE(admin.Remove(place, "rm_1"));
  EXPECT_TRUE(book->Holding({.tenant = "t", .session = "k"})->entries.empty());
  EXPECT_EQ(book->Holding({.tenant = "t", .session = "copy"})->entries, kept);
}

struct Fact {
  std::string told;
  std::string asked;
  std::string needed;
};

// Facts of a hundred kinds of values, and questions that say them in other words.
std::vector<Fact> FactsOf(uint64_t seed, size_t count) {
  static const std::vector<std::string> kPeople = {
      "Amara",   "Bjorn",  "Chiara",  "Dmitri", "Esther",  "Farid",    "Greta",
      "Hiroshi", "Ingrid", "Jamal",   "Katya",  "Lorenzo", "Mireille", "Nadia",
      "Oskar",   "Priya",  "Quentin", "Rosa",   "Stellan", "Tomoko"};
  static const std::vector<std::string> kCities = {"Porto", "Bergen", "Lyon",    "Krakow", "Ghent",
                                                   "Turin", "Graz",   "Malaga",  "Riga",   "Split",
                                                   "Basel", "Leeds",  "Utrecht", "Cork",   "Siena",
                                                   "Tartu", "Bremen", "Nantes",  "Bilbao", "Varna"};
  static const std::vector<std::string> kServices = {
      "billing",  "ledger",    "mailer",    "gateway",  "search",   "thumbnailer", "scheduler",
      "audit",    "invoicing", "telemetry", "exporter", "archiver", "crawler",     "notifier",
      "resolver", "cache",     "uploader",  "router",   "indexer",  "profiler"};
  static const std::vector<std::string> kFoods = {"pistachio", "mango",    "liquorice", "saffron",
                                                  "rhubarb",   "tamarind", "walnut",    "ginger",
                                                  "fennel",    "apricot"};
  std::mt19937_64 random(seed);
  std::vector<Fact> facts;
  for (size_t i = 0; i < count; ++i) {
    const std::string& person = kPeople[i / 5 % kPeople.size()];
    const std::string& city = kCities[random() % kCities.size()];
    const std::string& service = kServices[i / 5 % kServices.size()];
    const std::string& food = kFoods[random() % kFoods.size()];
    const auto number = 1000 + random() % 9000;
    switch (i % 5) {
      case 0:
        facts.push_back({fmt::format("{}'s badge has the number {}.", person, number),
                         fmt::format("What is the badge number of {}?", person),
                         fmt::to_string(number)});
        break;
      case 1:
        facts.push_back({fmt::format("{} was born in {}.", person, city),
                         fmt::format("Do you remember in which city {} was born?", person), city});
        break;
      case 2:
        facts.push_back({fmt::format("The {} service listens on port {}.", service, number),
                         fmt::format("On which port is the {} service listening?", service),
                         fmt::to_string(number)});
        break;
      case 3:
        facts.push_back(
            {fmt::format("{} is allergic to {}.", person, food),
             fmt::format("Is there an allergy that {} has?  What must {} not eat?", person, person),
             food});
        break;
      default:
        facts.push_back(
            {fmt::format("The owner of the {} repository is {}, extension {}.", service, person,
                         number),
             fmt::format("Who owns the {} repository, and at which extension?", service),
             fmt::to_string(number)});
    }
  }
  std::shuffle(facts.begin(), facts.end(), random);
  return facts;
}

// Talk of other things in words of their own, some of which come again and again.
std::string Filler(std::mt19937_64& random) {
  static const std::vector<std::string> kWords = {
      "build",   "step",      "branch",  "merge",  "review",     "layout", "button", "colour",
      "draft",   "paragraph", "table",   "column", "query",      "index",  "commit", "deploy",
      "number",  "city",      "service", "port",   "repository", "owner",  "error",  "warning",
      "message", "window",    "handler", "parser", "buffer"};
  std::string text = "Now look at";
  for (int i = 0; i < 30; ++i) {
    text += ' ' + kWords[random() % kWords.size()];
    if (random() % 4 == 0) text += fmt::to_string(random() % 10'000);
  }
  return text + ".";
}

// A hundred facts are told in the first ten turns and asked for in turns 150 to 200.
double ShareRecalled(uint64_t seed, const std::function<std::string(std::string_view)>& say) {
  std::mt19937_64 random(seed);
  const std::vector<Fact> facts = FactsOf(seed, 100);
  for (size_t i = 0; i < 10; ++i) {
    std::string told = "Please remember:";
    for (size_t k = 0; k < 10; ++k) told += ' ' + facts[10 * i + k].told;
    say(told);
  }
  for (int i = 10; i < 149; ++i) say(Filler(random));
  size_t num_there = 0;
  for (size_t i = 0; i < facts.size(); i += 2) {
    const std::string sent = say(facts[i].asked + ' ' + facts[i + 1].asked);
    num_there += sent.find(facts[i].told) != std::string::npos ? 1 : 0;
    num_there += sent.find(facts[i + 1].told) != std::string::npos ? 1 : 0;
  }
  return static_cast<double>(num_there) / static_cast<double>(facts.size());
}

TEST_F(SessionMemoryTest, FactsOfLongAgoAreThereWhenTheyAreAskedFor) {
  Open({.high = 3000, .low = 1500, .hard = 4000}, /*retrieves=*/true);
  std::string before;
  int num_breaks = 0;
  int num_drops = 0;
  const double share = ShareRecalled(1, [&](std::string_view text) {
    const std::string sent = Say(text);
    const bool drops = turn->turn.compaction.has_value();
    num_drops += drops ? 1 : 0;
    if (!before.empty() && !drops && !GoesOn(before, sent)) ++num_breaks;
    EXPECT_LE(sent.size() / 4, 4000u);
    before = sent;
    return sent;
  });
  EXPECT_GE(share, 0.95);
  EXPECT_EQ(num_breaks, 0);
  EXPECT_GT(num_drops, 0);
  EXPECT_LT(num_drops, 40);
}

TEST_F(SessionMemoryTest, WithoutRetrievalTheyAreNot) {
  Open({.high = 3000, .low = 1500, .hard = 4000});
  EXPECT_LE(ShareRecalled(1, [&](std::string_view text) { return Say(text); }), 0.05);
}

TEST_F(SessionMemoryTest, WhatWasRecalledIsReadFromTheLogAfterARestart) {
  Open({.high = 400, .low = 200, .hard = 500}, /*retrieves=*/true);
  Say("My dog is called Biscuit.");
  std::string sent;
  for (int i = 0; i < 12; ++i) sent = Say(fmt::format("Filler{} {}", i, std::string(80, 'x')));
  ASSERT_THAT(sent, Not(HasSubstr("Biscuit")));
  Open({.high = 400, .low = 200, .hard = 500}, /*retrieves=*/true);
  sent = Say("What is my dog called?");
  EXPECT_THAT(TextsOf(sent).back(), StartsWith("<retrieved>\n"));
  EXPECT_THAT(TextsOf(sent).back(), HasSubstr("[turn 1]\nUser: My dog is called Biscuit."));
  EXPECT_THAT(TextsOf(sent).back(), HasSubstr("</retrieved>\n\nWhat is my dog called?"));
  const std::string next = Say("And what does the dog eat?");
  if (!turn->turn.compaction) {
    EXPECT_TRUE(GoesOn(sent, next));
  }
  // It is not said again while it stands there.
  EXPECT_EQ(next.find("called Biscuit"), next.rfind("called Biscuit"));
  EXPECT_THAT(Say("Which dog?", {.key = "k", .retrieves = false}), Not(HasSubstr("turn 2]")));
}

TEST_F(SessionMemoryTest, ASessionHasItsOwnSwitch) {
  Open({.high = 400, .low = 200, .hard = 500});
  Say("My dog is called Biscuit.");
  for (int i = 0; i < 12; ++i) Say(fmt::format("Filler{} {}", i, std::string(80, 'x')));
  EXPECT_THAT(Say("What is my dog called?"), Not(HasSubstr("Biscuit")));
  ASSERT_TRUE(memory::MemoryAdmin(book.get())
                  .Patch({.tenant = "t", .session = "k"}, R"({"retrieval":true})"));
  EXPECT_THAT(Say("What is my dog called, please?"), HasSubstr("Biscuit"));
}

TEST_F(SessionMemoryTest, WordsThatFillTheWindowGoWithoutWhatWasFound) {
  Open({.high = 400, .low = 200, .hard = 500}, /*retrieves=*/true);
  Say("alpha " + std::string(600, 'y'));
  for (int i = 0; i < 10; ++i) Say(fmt::format("Filler{} {}", i, std::string(80, 'x')));
  const std::string sent = Say("alpha? " + std::string(1700, 'z'));
  EXPECT_THAT(sent, HasSubstr("zzz"));
  EXPECT_THAT(sent, Not(HasSubstr("retrieved")));
}

class RecallByMeaningTest : public SessionMemoryTest {
 protected:
  void Start(const std::string& model = "m") {
    OpenVectors(model);
    Open({.high = 400, .low = 200, .hard = 500}, /*retrieves=*/true);
  }
  std::vector<std::string> SayFiller(int count = 12) {
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) {
      Say(fmt::format("Filler{} {}", ++num_fillers, std::string(80, 'x')));
      for (std::string& text : Embed()) texts.push_back(std::move(text));
    }
    return texts;
  }
  std::string Metrics() const {
    std::string text;
    metrics::TextWriter writer(text);
    sessions->Collect(writer);
    return text;
  }
  int num_fillers = 0;
};

TEST_F(RecallByMeaningTest, AFactIsFoundInOtherWords) {
  Start();
  Say("My dog is called Biscuit.");
  EXPECT_TRUE(Embed().empty());  // nothing is left out yet
  const std::vector<std::string> texts = SayFiller();
  EXPECT_EQ(last_asked.substr(0, 8), "Filler12");
  EXPECT_EQ(texts[0], "User: My dog is called Biscuit.");
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 26u);
  EXPECT_EQ(texts.size(), 26u);
  EXPECT_THAT(TextsOf(Say("A puppy?")).back(),
              HasSubstr("[turn 1]\nUser: My dog is called Biscuit."));
  EXPECT_THAT(Metrics(),
              Not(HasSubstr(R"(kvgate_session_retrieval_total{by="meaning",outcome="found"} 0)")));
}

TEST_F(RecallByMeaningTest, VectorsAreReadAgainAfterARestartAndNotMade) {
  Start();
  Say("My dog is called Biscuit.");
  SayFiller();
  Start();
  EXPECT_THAT(TextsOf(Say("A puppy?")).back(), HasSubstr("called Biscuit."));
  EXPECT_EQ(Embed().size(), 2u);  // of this turn
}

TEST_F(RecallByMeaningTest, AnotherModelMakesItsOwn) {
  Start();
  Say("My dog is called Biscuit.");
  SayFiller();
  Start("m2");
  EXPECT_THAT(TextsOf(Say("A puppy?")).back(), Not(HasSubstr("Biscuit")));
  EXPECT_EQ(last_asked, "");
  EXPECT_EQ(Embed().size(), 28u);
  EXPECT_THAT(TextsOf(Say("Which puppy?")).back(), HasSubstr("called Biscuit."));
}

TEST_F(RecallByMeaningTest, WithoutAModelOrASwitchNothingIsAskedFor) {
  Start("");
  Say("My dog is called Biscuit.");
  EXPECT_TRUE(SayFiller().empty());
  Start();
  Open({.high = 400, .low = 200, .hard = 500}, /*retrieves=*/false);
  EXPECT_TRUE(SayFiller().empty());
  EXPECT_EQ(last_asked, "");
}

TEST_F(RecallByMeaningTest, AfterAFailureWordsAreLookedFor) {
  Start();
  Say("My dog is called Biscuit.");
  SayFiller();
  sessions->memory().NoteVectors("t", retrieval::EmbeddingPace::Use::kQuestion, 0);
  EXPECT_THAT(TextsOf(Say("Which dog?")).back(), HasSubstr("called Biscuit."));
  EXPECT_EQ(last_asked, "");
  EXPECT_EQ(Embed().size(), 2u);  // passages are asked for all the same
  sessions->memory().NoteVectors("t", retrieval::EmbeddingPace::Use::kPassages, 0);
  Say("More.");
  EXPECT_TRUE(Embed().empty());
}

TEST_F(RecallByMeaningTest, VectorsGoWithTheirSession) {
  Start();
  Say("My dog is called Biscuit.");
  SayFiller();
  EXPECT_GT(vectors->bytes(), 0u);
  SessionAdmin admin(*sessions);
  ASSERT_TRUE(admin.Fork({.tenant = "t", .key = "k"}, R"({"key":"copy"})", "fork_1"));
  const auto lines = admin.Export({.tenant = "t", .key = "k"});
  ASSERT_TRUE(lines);
  EXPECT_THAT(*lines, Not(HasSubstr("vector")));
  ASSERT_TRUE(admin.Remove({.tenant = "t", .key = "k"}, "rm_1"));
  EXPECT_EQ(vectors->bytes(), 0u);
  // What was being made meanwhile is not kept.
  EXPECT_EQ(Embed().size(), 0u);
  // A copy has its own made.
  Say("Filler", {.key = "copy"});
  EXPECT_EQ(Embed().size(), 28u);
}

}  // namespace
}  // namespace kvgate::session
