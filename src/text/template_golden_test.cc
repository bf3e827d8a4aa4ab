// The chat templates' golden cases: models' own templates, and small ones on single features.
#include <gtest/gtest.h>

#include <map>

#include "text/chat_template.h"
#include "text/golden_files.h"

namespace quern {
namespace {

using testing::golden;

TemplateInput input_of(const Json& test) {
  TemplateInput input;
  input.messages = test.value("messages", Json::array());
  input.tools = test.value("tools", Json());
  input.documents = test.value("documents", Json());
  input.add_generation_prompt = test.value("add_generation_prompt", false);
  input.continue_final_message = test.value("continue_final_message", false);
  input.kwargs = test.value("kwargs", Json::object());
  input.now = test.value("now", "2026-03-05T09:07:03");
  if (test.contains("special_tokens")) {
    for (const auto& [name, text] : test["special_tokens"].items()) input.special_tokens.emplace_back(name, text);
  }
  return input;
}

void check_case(const ChatTemplate& chat_template, const Json& test) {
  SCOPED_TRACE(test["id"].get<std::string>());
  const auto output = chat_template.render(input_of(test));
  if (!test.contains("error")) {
    ASSERT_TRUE(output) << output.error().message;
    EXPECT_EQ(output->text, test["rendered"].get<std::string>());
    if (test.contains("assistant_spans")) {
      EXPECT_EQ(Json(output->assistant_spans), test["assistant_spans"]);
    }
    return;
  }
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kInvalidArgument);
  if (test["error"]["kind"] == "raise_exception") {
    EXPECT_EQ(output.error().message, test["error"]["message"].get<std::string>());
  }
}

// Text of a template: stored beside the cases, or in a folder for the ones whose licence does not allow it.
std::optional<std::string> template_text(const std::string& name, const Json& source) {
  if (source["stored"].is_string())
    return testing::read_text(golden("templates/" + source["stored"].get<std::string>()));
  if (const auto path = testing::extra_file(name + ".jinja")) return testing::read_text(*path);
  return std::nullopt;
}

const std::map<std::string, std::vector<Json>>& cases_by_source() {
  static const auto cases = [] {
    std::map<std::string, std::vector<Json>> cases;
    for (const Json& test : testing::read_json_lines(golden("templates/cases.jsonl"))) {
      cases[test["template_source"]].push_back(test);
    }
    return cases;
  }();
  return cases;
}

class TemplateGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(TemplateGolden, Renders) {
  const Json sources = Json::parse(testing::read_text(golden("templates/sources.json")));
  const auto text = template_text(GetParam(), sources[GetParam()]);
  if (!text) GTEST_SKIP() << "no " << GetParam() << ".jinja in the folder QUERN_TEST_TOKENIZERS";
  const auto chat_template = ChatTemplate::create(*text);
  ASSERT_TRUE(chat_template) << chat_template.error().message;
  for (const Json& test : cases_by_source().at(GetParam())) check_case(**chat_template, test);
}

std::vector<std::string> source_names() {
  std::vector<std::string> names;
  for (const auto& [name, cases] : cases_by_source()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, TemplateGolden, ::testing::ValuesIn(source_names()),
                         [](const auto& info) { return info.param; });

void check_cases(const std::string& file) {
  for (const Json& test : testing::read_json_lines(golden(file))) {
    SCOPED_TRACE(test["id"].get<std::string>());
    const auto chat_template = ChatTemplate::create(test["template"].get<std::string>());
    ASSERT_TRUE(chat_template) << chat_template.error().message;
    check_case(**chat_template, test);
  }
}

TEST(TemplateGoldenSynthetic, Renders) {
  check_cases("templates/synthetic.jsonl");
}

TEST(TemplateGoldenJinja, Renders) {
  check_cases("templates/jinja.jsonl");
}

TEST(TemplateGoldenMessages, Renders) {
  check_cases("templates/messages.jsonl");
}

}  // namespace
}  // namespace quern
