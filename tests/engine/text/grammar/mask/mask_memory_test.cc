// Allocations fail while a mask is made: first the first one, then a later one, and so on. A
// question asked again after a failure is answered as if the failure had not happened.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "engine/text/grammar/mask/mask_table.h"
#include "tests/engine/text/grammar/grammar_fixture.h"

namespace {

thread_local int64_t t_calls_left = -1;  // allocations until one fails; negative: none does

}  // namespace

// If these were inlined, the compiler would report a mismatch of new and free.
[[gnu::noinline]] void* operator new(size_t size) {
  if (t_calls_left >= 0 && t_calls_left-- == 0) throw std::bad_alloc();
  void* const block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new[](size_t size) { return operator new(size); }
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { operator delete(block); }
void operator delete[](void* block) noexcept { operator delete(block); }
void operator delete[](void* block, size_t) noexcept { operator delete(block); }

namespace kvgate::grammar::mask {
namespace {

using Words = std::vector<uint64_t>;

// Repeats the work until no allocation fails.
template <typename Work>
auto Insist(bool& failed, Work work) {
  while (true) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      failed = true;  // only one allocation fails per run
    }
  }
}

TEST(MaskMemoryTest, AnAllocationThatFailsChangesNoMask) {
  const auto tokenizer = JsonTokenizer();
  const auto trie = std::make_shared<TokenTrie>(*tokenizer);
  const auto grammar = std::make_shared<CompiledGrammar>(
      CompiledGrammar{.automaton = FromGbnf("root ::= (word | \"{\" root \"}\"){1,9} \"!\"?\n"
                                            "word ::= [a-c]{0,30} \" \" | \"ab\" word2 | \"abc\"\n"
                                            "word2 ::= \"c\"* [x-z] | \"c\" word"),
                      .trie = trie});
  const std::string_view text = "abcc {aa a";
  const size_t num_words = (static_cast<size_t>(trie->vocab_size()) + 63) / 64;
  // Returns the masks after each byte when allocation number `call` fails; if negative, none does.
  const auto run = [&](int64_t call, size_t bytes_max, bool& failed) {
    std::vector<Words> masks(text.size(), Words(num_words));
    MaskTable table(grammar, {.bytes_max = bytes_max});
    MaskTable::User user;
    EXPECT_TRUE(table.Add(user));
    t_calls_left = call;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      user.state = Insist(failed, [&] { return table.states().Next(user.state, byte); });
      Insist(failed, [&] { return table.FillMask(user, masks[i], 60).has_value(); });
    }
    t_calls_left = -1;
    table.Remove(user);
    return masks;
  };
  // The second bound keeps next to nothing, so that the table forgets all the time.
  for (const size_t bytes_max : {size_t{8} << 20, size_t{4} << 10}) {
    bool failed = false;
    const std::vector<Words> expected = run(-1, bytes_max, failed);
    ASSERT_FALSE(failed);
    int num_failed = 0;
    do {
      failed = false;
      ASSERT_EQ(run(num_failed * 5, bytes_max, failed), expected) << num_failed * 5;
      ++num_failed;
    } while (failed);
    EXPECT_GT(num_failed, 20);
  }
}

}  // namespace
}  // namespace kvgate::grammar::mask
