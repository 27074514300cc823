#include "engine/text/chat/template_capabilities.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "engine/text/chat/template_format.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::chat {
namespace {

TemplateCapabilities TraitsOf(const std::string& source) {
  auto format = MakeTemplateFormat(
      {.name = "test", .source = source, .bos_token = "<s>", .eos_token = "</s>"});
  EXPECT_TRUE(format);
  return ProbeTraits(**format);
}

// Shows the traits that matter for an assistant's turn, as "calls text=… several" ….
std::string Show(const TemplateCapabilities& traits) {
  std::string shown = traits.tools_variable.empty() ? "none" : traits.tools_variable;
  if (traits.writes_calls) shown += traits.arguments_as_text ? " text" : " data";
  if (traits.calls_need_none) shown += " none";
  if (traits.calls_beside_text) shown += " beside";
  if (traits.several_calls) shown += " several";
  if (traits.writes_results) shown += " results";
  if (!traits.reasoning_field.empty()) shown += " " + traits.reasoning_field;
  if (!traits.has_system) shown += " -system";
  if (!traits.has_late_system) shown += " -late";
  if (!traits.repeats_roles) shown += " -repeats";
  if (traits.needs_tool_list) shown += " list";
  return shown;
}

TEST(TemplateCapabilitiesTest, TheFormOfArgumentsIsFound) {
  const std::string turns =
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>"
      "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}ARGS{% endfor %}"
      "{% endfor %}";
  const auto with = [&](const std::string& arguments) {
    std::string source = turns;
    return source.replace(source.find("ARGS"), 4, arguments);
  };
  EXPECT_EQ(Show(TraitsOf(with("{{ c.function.arguments | tojson }}"))),
            "tools data beside several results");
  EXPECT_EQ(Show(TraitsOf(with("{{ ' ' + c.function.arguments }}"))),
            "tools text beside several results");
  EXPECT_EQ(Show(TraitsOf(with("{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}"
                               "{% endfor %}"))),
            "tools data beside several results");
  EXPECT_EQ(Show(TraitsOf(with(""))), "tools results");
}

TEST(TemplateCapabilitiesTest, RefusalsAndLossesAreFound) {
  EXPECT_EQ(Show(TraitsOf("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}"
                          "{% endif %}{% for m in messages %}"
                          "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
                          "{{ raise_exception('alternate') }}{% endif %}"
                          "{{ m.role + m.content }}{% endfor %}")),
            "none -system -late -repeats");
  EXPECT_EQ(Show(TraitsOf("{{ tools | length }}{% for m in messages %}{{ m.content }}"
                          "{% endfor %}")),
            "none results list");
  EXPECT_EQ(Show(TraitsOf("{% for m in messages if m.role == 'system' %}{{ m.content }}"
                          "{% endfor %}{% for m in messages if m.role != 'system' %}"
                          "{{ m.content }}{% endfor %}")),
            "none results -late");
  EXPECT_EQ(Show(TraitsOf("{% if xml_tools %}{{ xml_tools | string }}{% endif %}"
                          "{% for m in messages %}{{ m.content }}{% endfor %}")),
            "xml_tools results");
}

TEST(TemplateCapabilitiesTest, BuiltInFormatsKnowNoTools) {
  for (const char* name : {"chatml", "llama2", "llama3", "plain"}) {
    const auto format = MakeChatFormat(name);
    ASSERT_TRUE(format);
    const TemplateCapabilities traits = ProbeTraits(**format);
    EXPECT_TRUE(traits.tools_variable.empty() && !traits.writes_calls) << name;
    EXPECT_TRUE(traits.has_system) << name;
  }
}

TEST(TemplateCapabilitiesTest, TheTemplatesOfModelsAreKnown) {
  const std::filesystem::path folder = model::TestDataPath("templates");
  struct Known {
    const char* file;
    const char* traits;
  };
  constexpr Known kKnown[] = {
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use",
       "tools data beside several results reasoning_content"},
      {"GLM-4.6", "tools data beside several results reasoning_content"},
      {"HuggingFaceTB-SmolLM3-3B", "none results -late"},
      {"Kimi-K2-Instruct", "tools results"},
      {"LFM2-8B-A1B", "tools results"},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "tools text beside several results list"},
      {"Qwen-Qwen2.5-7B-Instruct", "tools data beside several results"},
      {"Qwen-Qwen3-0.6B", "tools text beside several results reasoning_content"},
      {"Qwen3-Coder", "tools data beside several results"},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "none text none several results -late"},
      {"deepseek-ai-DeepSeek-V3.1", "none data beside several results -late"},
      {"google-gemma-2-2b-it", "none -system -late -repeats"},
      {"meetkai-functionary-medium-v3.1", "tools data beside several results"},
      {"meta-llama-Llama-3.1-8B-Instruct", "tools data beside results"},
      {"meta-llama-Llama-3.2-3B-Instruct", "tools data beside results"},
      {"microsoft-Phi-3.5-mini-instruct", "none"},
      {"mistralai-Mistral-Nemo-Instruct-2407", "tools data beside several results -late -repeats"},
      {"openai-gpt-oss-120b", "tools data beside results thinking -late"},
  };
  for (const Known& known : kKnown) {
    std::ifstream file(folder / (std::string(known.file) + ".jinja"));
    if (!file) GTEST_SKIP() << folder << " is not there (KVGATE_TEST_DATA)";
    std::ostringstream source;
    source << file.rdbuf();
    EXPECT_EQ(Show(TraitsOf(source.str())), known.traits) << known.file;
  }
}

}  // namespace
}  // namespace kvgate::chat
