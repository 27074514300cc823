// A PromptAuthor writes long instructions in one of several layouts: Markdown, XML tags, JSON,
// numbered rules, YAML front matter, prose. Constant dates, versions and numbers stand among them,
// which a rule must not take for volatile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gateway/prompt/random_text.h"

namespace kvgate::prompt::traffic {

enum class PromptLayout : uint8_t { kMarkdown, kXml, kJson, kNumbered, kYaml, kProse };
inline constexpr size_t kNumPromptLayouts = 6;

class PromptAuthor {
 public:
  PromptAuthor(RandomText& random, PromptLayout layout) : random_(random), layout_(layout) {}

  // Returns lines of at least `bytes` in all.
  std::vector<std::string> Write(size_t bytes) {
    std::vector<std::string> lines;
    if (layout_ == PromptLayout::kJson) lines.emplace_back("{");
    if (layout_ == PromptLayout::kYaml) {
      lines = {"---", "name: " + random_.Word(), "version: 2.1." + random_.Digits(3),
               "since: 2024-05-01", "---"};
    }
    size_t written = 0;
    while (written < bytes) {
      const size_t first = lines.size();
      WriteSection(lines);
      for (size_t i = first; i < lines.size(); ++i) written += lines[i].size() + 1;
    }
    if (layout_ == PromptLayout::kJson) lines.emplace_back("}");
    return lines;
  }

 private:
  std::string Statement() {
    switch (random_.Below(8)) {
      case 0:
        return random_.Sentence(6) + " It holds since 2024-0" + random_.Digits(1) +
               "-11, version 3." + random_.Digits(1) + ".";
      case 1:
        return random_.Sentence(9) + " At most " + random_.Digits(2) + " " + random_.Word() + "s.";
      case 2:
        return "Use `" + random_.Word() + "_" + random_.Word() + "` to " + random_.Words(7) + ".";
      default:
        return random_.Sentence(random_.Between(8, 22));
    }
  }
  void WriteSection(std::vector<std::string>& lines) {
    switch (layout_) {
      case PromptLayout::kMarkdown:
      case PromptLayout::kYaml:
        return WriteMarkdown(lines);
      case PromptLayout::kXml:
        return WriteXml(lines);
      case PromptLayout::kJson:
        return WriteJson(lines);
      case PromptLayout::kNumbered:
        return WriteNumbered(lines);
      case PromptLayout::kProse:
        break;
    }
    std::string paragraph = Statement();
    for (size_t i = random_.Between(2, 6); i > 0; --i) paragraph += " " + Statement();
    lines.push_back(paragraph);
    lines.emplace_back();
  }
  void WriteMarkdown(std::vector<std::string>& lines) {
    lines.push_back("## " + random_.Words(3));
    lines.emplace_back();
    lines.push_back(Statement() + " " + Statement());
    for (size_t i = random_.Between(2, 7); i > 0; --i) {
      lines.push_back("- **" + random_.Word() + "**: " + Statement());
    }
    if (random_.Chance(20)) {
      lines.emplace_back("```sh");
      lines.push_back("make " + random_.Word() + " -j" + random_.Digits(1) +
                      "  # 2024-02-29 10:00");
      lines.push_back("git commit -m '" + random_.Words(3) + "'");
      lines.emplace_back("```");
    }
    lines.emplace_back();
  }
  void WriteXml(std::vector<std::string>& lines) {
    const std::string tag = random_.Word() + "_" + random_.Word();
    lines.push_back("<" + tag + " level=\"" + random_.Digits(1) + "\">");
    for (size_t i = random_.Between(3, 8); i > 0; --i) {
      lines.push_back("  <rule id=\"" + random_.Hex(4) + "\">" + Statement() + "</rule>");
    }
    lines.push_back("</" + tag + ">");
  }
  void WriteJson(std::vector<std::string>& lines) {
    const std::string key = random_.Word() + "_" + random_.Digits(4);
    lines.push_back("  \"" + key + "\": {");
    for (size_t i = random_.Between(2, 6); i > 0; --i) {
      lines.push_back("    \"" + random_.Word() + "\": \"" + Statement() + "\",");
    }
    lines.push_back("    \"revision\": " + random_.Digits(6));
    lines.emplace_back("  },");
  }
  void WriteNumbered(std::vector<std::string>& lines) {
    const std::string number = std::to_string(++section_);
    lines.push_back(number + ". " + random_.Sentence(4));
    for (size_t i = 1, last = random_.Between(3, 9); i <= last; ++i) {
      lines.push_back("   " + number + "." + std::to_string(i) + ". " + Statement());
    }
  }

  RandomText& random_;
  const PromptLayout layout_;
  size_t section_ = 0;
};

}  // namespace kvgate::prompt::traffic
