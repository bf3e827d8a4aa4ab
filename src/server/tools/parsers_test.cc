// Every parser: the parts of a text, and that it does not matter where the text is cut.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "base/json.h"
#include "server/tools/format_choice.h"
#include "server/tools/reasoning_parser.h"

namespace quern::tools {
namespace {

struct Call {
  std::string name, arguments;
  bool operator==(const Call&) const = default;
};
struct Parts {
  std::string content, reasoning;
  std::vector<Call> calls;
  bool operator==(const Parts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Parts& parts) {
  out << "content '" << parts.content << "' reasoning '" << parts.reasoning << "'";
  for (const Call& call : parts.calls) out << " " << call.name << "(" << call.arguments << ")";
  return out;
}

using MakeParser = std::function<std::unique_ptr<OutputParser>()>;

void take(const OutputDeltas& deltas, Parts& parts) {
  for (const OutputDelta& delta : deltas) {
    switch (delta.kind) {
      case OutputDelta::Kind::kContent: parts.content += delta.text; break;
      case OutputDelta::Kind::kReasoning: parts.reasoning += delta.text; break;
      case OutputDelta::Kind::kCall:
        ASSERT_EQ(static_cast<size_t>(delta.call), parts.calls.size());
        parts.calls.push_back({delta.text, ""});
        break;
      case OutputDelta::Kind::kArguments:
        ASSERT_EQ(static_cast<size_t>(delta.call) + 1, parts.calls.size());
        parts.calls.back().arguments += delta.text;
        // Never half an escape.
        const size_t backslashes = delta.text.size() - 1 - delta.text.find_last_not_of('\\');
        ASSERT_EQ(backslashes % 2, 0u) << delta.text;
        break;
    }
  }
}

Parts parse(const MakeParser& make, const std::vector<std::string_view>& pieces, Ending ending = Ending::kWhole) {
  const auto parser = make();
  Parts parts;
  for (const std::string_view piece : pieces) {
    OutputDeltas deltas;
    parser->push(piece, deltas);
    take(deltas, parts);
  }
  OutputDeltas deltas;
  parser->finish(deltas, ending);
  take(deltas, parts);
  return parts;
}

// Whole, cut once at every place, and character by character.
void expect(const MakeParser& make, const std::string& text, const Parts& expected) {
  EXPECT_EQ(parse(make, {text}), expected) << text;
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view view(text);
    EXPECT_EQ(parse(make, {view.substr(0, at), view.substr(at)}), expected) << text << " cut at " << at;
    characters.push_back(view.substr(at, 1));
  }
  EXPECT_EQ(parse(make, characters), expected) << text;
}

MakeParser tools(ToolFormat format) {
  return [format] { return make_tool_parser(format, {"get_weather", "add"}); };
}

const std::string kParis = R"({"city": "Par\u00eds \"x\" \\", "n": [1, -2.5e3, {"a": null}], "ok": true})";
const std::string kTwo = R"({"a": 1, "b": 2})";

std::string call_json(const std::string& name, const std::string& arguments, const std::string& key = "arguments") {
  return R"({"name": ")" + name + R"(", ")" + key + R"(": )" + arguments + "}";
}

TEST(Hermes, Calls) {
  const auto make = tools(ToolFormat::kHermes);
  const std::string paris = "<tool_call>\n" + call_json("get_weather", kParis) + "\n</tool_call>";
  const std::string add = "<tool_call>" + call_json("add", kTwo) + "</tool_call>";
  expect(make, paris, {"", "", {{"get_weather", kParis}}});
  expect(make, "I look.\n" + paris + "\n" + add + "\n", {"I look.", "", {{"get_weather", kParis}, {"add", kTwo}}});
  expect(make, paris + " done", {" done", "", {{"get_weather", kParis}}});
  // Without the closing mark, as some models end.
  expect(make, "<tool_call>\n" + call_json("add", kTwo), {"", "", {{"add", kTwo}}});
  // The arguments first, as a string, or absent.
  expect(make, R"(<tool_call>{"arguments": {"a": 1, "b": 2}, "name": "add"}</tool_call>)", {"", "", {{"add", kTwo}}});
  expect(make, R"(<tool_call>{"name": "add", "arguments": "{\"a\": 1, \"b\": 2}"}</tool_call>)",
         {"", "", {{"add", kTwo}}});
  expect(make, R"(<tool_call>{"name": "add"}</tool_call>)", {"", "", {{"add", "{}"}}});
  // A line break inside a string is repaired: the arguments stay JSON.
  expect(make, "<tool_call>" + call_json("add", "{\"a\": \"x\ny\"}") + "</tool_call>",
         {"", "", {{"add", R"({"a": "x\ny"})"}}});
  // Cut off by a limit.
  expect(make, R"(<tool_call>{"name": "add", "arguments": {"a": 1)", {"", "", {{"add", R"({"a": 1)"}}});
}

// Wherever a limit cuts an answer, nothing of its calls shows as text, but what may be the first letters of a mark; and
// it does not matter in what pieces the text came.
void expect_no_text_of_cut_calls(const MakeParser& make, const std::string& text, size_t mark_letters = 3) {
  size_t calls = 0;
  for (size_t size = 0; size <= text.size(); ++size) {
    const std::string_view begin = std::string_view(text).substr(0, size);
    const Parts parts = parse(make, {begin}, Ending::kCut);
    if (size > mark_letters) {
      EXPECT_EQ(parts.content, "") << begin;
    }
    std::vector<std::string_view> characters;
    for (size_t i = 0; i < size; ++i) characters.push_back(begin.substr(i, 1));
    EXPECT_EQ(parse(make, characters, Ending::kCut), parts) << begin;
    const Parts ended = parse(make, {begin});
    if (!ended.calls.empty()) {
      EXPECT_EQ(ended.content, "") << begin;
    }
    calls = parts.calls.size();
  }
  EXPECT_EQ(calls, 2u) << text;
}

TEST(EveryFormat, WhatALimitCutAndIsNoCallStaysText) {
  const std::pair<ToolFormat, std::vector<std::string>> cases[] = {
      {ToolFormat::kHermes, {"a <", "if a < b", "<tool>", "<tool_call>{\"other\"", "x <to"}},
      {ToolFormat::kJson,
       {"{\"city\": \"Par", "{\"name\": \"Anna", "[", "[1, 2", "{\"names", "{\"id\": 17", "{\"type\": \"a long report",
        "{\"type\": \"function\", \"sum\": 1"}},
      {ToolFormat::kLlama3Json, {"{\"name\": \"Anna\", \"a", "<|p", "<b"}},
      {ToolFormat::kMistral, {"[T", "[1", "[TOOLS"}},
      {ToolFormat::kPythonic, {"[", "[other(a=", "[x", "[add(1, 2)] is", "[add, ", "``"}},
      {ToolFormat::kHarmony, {"<|channel|>final<|message|>a <|"}},
  };
  for (const auto& [format, texts] : cases) {
    for (const std::string& text : texts) {
      const size_t head = format == ToolFormat::kHarmony ? text.rfind("|>") + 2 : 0;
      EXPECT_EQ(parse(tools(format), {text}, Ending::kCut), (Parts{text.substr(head), "", {}})) << text;
    }
  }
  // Content before the call stays, without the blanks between.
  EXPECT_EQ(parse(tools(ToolFormat::kHermes), {"I look.\n<tool_call>{\"na"}, Ending::kCut), (Parts{"I look.", "", {}}));
}

TEST(EveryFormat, ASecondCallThatWasCutIsNoText) {
  const std::string add = call_json("add", kTwo), paris = call_json("get_weather", kParis);
  expect_no_text_of_cut_calls(tools(ToolFormat::kHermes),
                              "<tool_call>\n" + add + "\n</tool_call>\n<tool_call>\n" + paris + "\n</tool_call>");
  expect_no_text_of_cut_calls(tools(ToolFormat::kLlama3Json), add + "; " + paris);
  expect_no_text_of_cut_calls(tools(ToolFormat::kJson), "[" + add + ", " + paris + "]");
  expect_no_text_of_cut_calls(tools(ToolFormat::kMistral), "[TOOL_CALLS][" + add + ", " + paris + "]");
  expect_no_text_of_cut_calls(tools(ToolFormat::kMistral),
                              "[TOOL_CALLS]add[ARGS]" + kTwo + "[TOOL_CALLS]get_weather[CALL_ID]abc[ARGS]" + kParis);
  expect_no_text_of_cut_calls(tools(ToolFormat::kDeepSeek),
                              "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>" + kTwo +
                                  "<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + kParis +
                                  "<｜tool▁call▁end｜><｜tool▁calls▁end｜>");
  expect_no_text_of_cut_calls(
      tools(ToolFormat::kHarmony),
      "<|start|>assistant to=functions.add<|channel|>commentary json<|message|>" + kTwo +
          "<|call|><|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>" + kParis +
          "<|call|>");
  for (const auto& [text, first] :
       {std::pair<std::string, std::string>(
            R"([add(a=1, b=-2.5), get_weather(city='P\u00e9 "x" \n', d=[1, {"k": None}], ok=True)])",
            "[add(a=1, b=-2.5)"),
        {"```tool_code\nprint(add(a=1))\nprint(get_weather(a='b'))\n```", "```tool_code\nprint(add(a=1))"}}) {
    const Parts whole = parse(tools(ToolFormat::kPythonic), {text});
    EXPECT_EQ(whole.calls.size(), 2u);
    for (size_t size = 4; size <= text.size(); ++size) {
      EXPECT_EQ(parse(tools(ToolFormat::kPythonic), {std::string_view(text).substr(0, size)}, Ending::kCut).content, "")
          << size;
    }
    for (size_t size = first.size(); size <= text.size(); ++size) {
      const Parts parts = parse(tools(ToolFormat::kPythonic), {std::string_view(text).substr(0, size)});
      EXPECT_EQ(parts.content, "") << text.substr(0, size);
      ASSERT_FALSE(parts.calls.empty()) << text.substr(0, size);
      EXPECT_EQ(parts.calls[0], whole.calls[0]);
    }
  }
  const auto hermes = tools(ToolFormat::kHermes);
  expect(hermes, "<tool_call>" + add + "</tool_call> so a <", {" so a <", "", {{"add", kTwo}}});
}

TEST(Hermes, WhatIsNoCallStaysText) {
  const auto make = tools(ToolFormat::kHermes);
  for (const std::string text :
       {"plain text", "a < b, <tool and </tool_call>", "<tool_call>not json</tool_call>",
        "<tool_call>{\"name\": 5}</tool_call>", "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"add\", \"arguments\": 7}</tool_call>", "<tool_call>{\"other\": 1}</tool_call>",
        "<tool_call>", "<tool_call>\n{\"name\": \"ad", "<tool_call>{\"name\": \"add\"", "<tool_ca", " blanks around \n",
        "{\"name\": \"add\", \"arguments\": {}}", "ends with <",
        "<tool_call>{\"name\": \"add\", \"arguments\": \"no object\"}</tool_call>"}) {
    expect(make, text, {text, "", {}});
  }
}

TEST(Hermes, BrokenAfterTheBeginning) {
  expect(tools(ToolFormat::kHermes), R"(<tool_call>{"name": "add", "arguments": {"a": 1,,}}</tool_call>)",
         {",}}</tool_call>", "", {{"add", R"({"a": 1,)"}}});
}

TEST(Llama3Json, Calls) {
  const auto make = tools(ToolFormat::kLlama3Json);
  const std::string add = call_json("add", kTwo, "parameters");
  expect(make, add, {"", "", {{"add", kTwo}}});
  expect(make, "<|python_tag|>" + add, {"", "", {{"add", kTwo}}});
  expect(make, add + "; " + call_json("get_weather", kParis, "parameters"),
         {"", "", {{"add", kTwo}, {"get_weather", kParis}}});
  expect(make, R"({"type": "function", "name": "add", "parameters": {"a": 1, "b": 2}})", {"", "", {{"add", kTwo}}});
  for (const std::string text :
       {"It is sunny.", R"({"city": "Paris"})", R"({"name": "Anna", "age": 5})", "<|python_tag|>print(1)", "[1, 2]",
        "{", "", "  ", R"({"name": "add", "parameters": [1]})"}) {
    expect(make, text, {text, "", {}});
  }
}

TEST(Json, Lists) {
  const auto make = tools(ToolFormat::kJson);
  expect(make, "[" + call_json("add", kTwo) + ",\n " + call_json("get_weather", kParis) + "]\n",
         {"", "", {{"add", kTwo}, {"get_weather", kParis}}});
  expect(make, " " + call_json("add", kTwo), {"", "", {{"add", kTwo}}});
  expect(make, "[" + call_json("other", kTwo) + "]", {"[" + call_json("other", kTwo) + "]", "", {}});
}

TEST(Mistral, Calls) {
  const auto make = tools(ToolFormat::kMistral);
  const std::string list = "[" + call_json("add", kTwo) + ", " + call_json("get_weather", kParis) + "]";
  expect(make, "[TOOL_CALLS]" + list, {"", "", {{"add", kTwo}, {"get_weather", kParis}}});
  expect(make, "Yes.[TOOL_CALLS] " + list, {"Yes.", "", {{"add", kTwo}, {"get_weather", kParis}}});
  expect(make, "[TOOL_CALLS]add[ARGS]" + kTwo + "[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]" + kParis,
         {"", "", {{"add", kTwo}, {"get_weather", kParis}}});
  expect(make, "[TOOL_CALLS]add" + kTwo, {"", "", {{"add", kTwo}}});
  for (const std::string text :
       {"[TOOL_CALLS]", "[TOOL_CALLS]nothing", "[TOOL_CALLS][1]", "[TOOL_CALLS][]", "[TOOL", "[1, 2] [TOOL_CALL]",
        "[TOOL_CALLS]other{\"a\": 1}", "[TOOL_CALLS][{\"name\": \"other\"}]"}) {
    expect(make, text, {text, "", {}});
  }
}

TEST(DeepSeek, Calls) {
  const auto make = tools(ToolFormat::kDeepSeek);
  const std::string old =
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n" + kTwo +
      "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" + kParis +
      "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
  expect(make, "Well.\n\n" + old, {"Well.", "", {{"add", kTwo}, {"get_weather", kParis}}});
  expect(
      make,
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>" + kTwo + "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      {"", "", {{"add", kTwo}}});
  for (const std::string text :
       {"plain ｜ text", "<｜tool▁call▁begin｜>x", "<｜tool▁call▁begin｜>other<｜tool▁sep｜>{}",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n[1]"}) {
    expect(make, text, {text, "", {}});
  }
}

TEST(Harmony, Messages) {
  const auto make = tools(ToolFormat::kHarmony);
  expect(make,
         "<|channel|>analysis<|message|>I think.<|end|><|start|>assistant<|channel|>final<|message|>Hello!<|return|>",
         {"Hello!", "I think.", {}});
  expect(
      make,
      "<|channel|>analysis<|message|>Weather.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
      "<|constrain|>json<|message|>" +
          kParis + "<|call|>",
      {"", "Weather.", {{"get_weather", kParis}}});
  expect(make, "<|start|>assistant to=functions.add<|channel|>commentary json<|message|>" + kTwo + "<|call|>",
         {"", "", {{"add", kTwo}}});
  expect(make,
         "<|channel|>commentary<|message|>I will call.<|end|><|start|>assistant<|channel|>commentary "
         "to=functions.add<|message|>" +
             kTwo,
         {"I will call.", "", {{"add", kTwo}}});
  expect(make, "no channels < at all", {"no channels < at all", "", {}});
  expect(make, "<|channel|>commentary to=functions.other<|message|>{}", {"{}", "", {}});
  expect(make, "<|channel|>commentary to=functions.add<|message|>oops", {"oops", "", {}});
}

TEST(Pythonic, Calls) {
  const auto make = tools(ToolFormat::kPythonic);
  expect(make, R"([add(a=1, b=-2.5), get_weather(city='Par"is', days=[1, 2,], opts={"x": None, 'y': True})])",
         {"",
          "",
          {{"add", R"({"a":1,"b":-2.5})"},
           {"get_weather", R"({"city":"Par\"is","days":[1,2],"opts":{"x":null,"y":true}})"}}});
  expect(make, "```tool_code\nprint(add(a=1, b=2))\n```", {"", "", {{"add", R"({"a":1,"b":2})"}}});
  expect(make, "[add()]", {"", "", {{"add", "{}"}}});
  expect(make, call_json("add", kTwo), {"", "", {{"add", kTwo}}});
  for (const std::string text : {"[1, 2]", "[add", "[add(1, 2)]", "[other(a=1)]", "add(a=1)", "```python\nx\n```",
                                 "[add(a=open('x'))]", "[see the note] text", "[add(a='unfinished)]"}) {
    expect(make, text, {text, "", {}});
  }
}

TEST(Reasoning, Splits) {
  const ReasoningMarks marks = {"<think>", "</think>"};
  const MakeParser closed = [&] { return make_reasoning_parser(marks, false, make_plain_parser()); };
  const MakeParser open = [&] { return make_reasoning_parser(marks, true, make_plain_parser()); };
  expect(closed, "<think>\nhm, a < b\n</think>\n\nYes.\n", {"Yes.\n", "hm, a < b", {}});
  expect(closed, "No thought, <think> is a word.", {"No thought, <think> is a word.", "", {}});
  expect(closed, "<think></think>x", {"x", "", {}});
  expect(closed, "<think>cut off\n ", {"", "cut off", {}});
  expect(closed, "<thin", {"<thin", "", {}});
  expect(open, "hm\n</think>\nYes.", {"Yes.", "hm", {}});
  expect(open, "never closed </thin", {"", "never closed </thin", {}});
  const MakeParser both = [&] {
    return make_reasoning_parser(marks, false, make_tool_parser(ToolFormat::kHermes, {"add"}));
  };
  expect(both, "<think>add?</think>\n<tool_call>" + call_json("add", kTwo) + "</tool_call>",
         {"", "add?", {{"add", kTwo}}});
}

struct TemplateFormat {
  const char* name;
  ToolFormat tools;
  const char* reasoning;
};
const TemplateFormat kTemplates[] = {
    {"qwen2_5", ToolFormat::kHermes, ""},
    {"qwen3", ToolFormat::kHermes, "</think>"},
    {"gpt_oss", ToolFormat::kHarmony, ""},
    {"mistral_nemo", ToolFormat::kMistral, ""},
    {"mistral_small_3_2", ToolFormat::kMistral, ""},
    {"deepseek_v3_1", ToolFormat::kJson, "</think>"},
    {"deepseek_r1_distill_qwen", ToolFormat::kJson, "</think>"},
    {"smollm2", ToolFormat::kJson, ""},
    {"phi3_5", ToolFormat::kJson, ""},
};

TEST(FormatChoice, NamesAreChecked) {
  EXPECT_EQ(choose_output_format("", "hermes", "auto")->tools, ToolFormat::kHermes);
  EXPECT_FALSE(choose_output_format("", "hermse", "auto"));
  EXPECT_FALSE(choose_output_format("", "auto", "thinking"));
  EXPECT_EQ(choose_output_format("x <tool_call> tools y", "auto", "auto")->tools, ToolFormat::kHermes);
  EXPECT_EQ(choose_output_format("x <tool_call> y", "auto", "auto")->tools, ToolFormat::kJson);
  for (const auto& [name, tools, reasoning] : kTemplates) {
    const std::string file = std::string(QUERN_TEST_DATA) + "/golden/templates/files/" + name + ".jinja";
    std::ifstream stream(file);
    ASSERT_TRUE(stream) << file;
    const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    const auto format = choose_output_format(text, "auto", "auto");
    ASSERT_TRUE(format);
    EXPECT_EQ(format->tools, tools) << name;
    EXPECT_EQ(format->reasoning.close, reasoning) << name;
  }
  EXPECT_EQ(choose_output_format("", "auto", "qwen3")->reasoning.close, "</think>");
}

}  // namespace
}  // namespace quern::tools
