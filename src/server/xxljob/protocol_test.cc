#include "server/xxljob/protocol.h"

#include <gtest/gtest.h>

namespace quern::xxljob {
namespace {

// As ExecutorBizClient of xxl-job-core 2.4.1 sends it.
constexpr const char* kTrigger =
    R"({"jobId":7,"executorHandler":"quern-batch","executorParams":"nightly","executorBlockStrategy":"COVER_EARLY",)"
    R"("executorTimeout":60,"logId":41,"logDateTime":1700000000000,"glueType":"BEAN","glueSource":"","glueUpdatetime":0,)"
    R"("broadcastIndex":0,"broadcastTotal":1})";

TEST(XxlProtocol, Trigger) {
  const auto trigger = parse_trigger(kTrigger);
  ASSERT_TRUE(trigger) << trigger.error().message;
  EXPECT_EQ(trigger->job_id, 7);
  EXPECT_EQ(trigger->log_id, 41);
  EXPECT_EQ(trigger->log_time, 1700000000000);
  EXPECT_EQ(trigger->handler, "quern-batch");
  EXPECT_EQ(trigger->params, "nightly");
  EXPECT_EQ(trigger->strategy, BlockStrategy::kCoverEarly);
  EXPECT_EQ(trigger->timeout_s, 60);
}

TEST(XxlProtocol, CodeFromOutsideNeverRuns) {
  for (const char* glue : {"GLUE_SHELL", "GLUE_PYTHON", "GLUE_GROOVY", "", "bean"}) {
    Json body = *parse_json(kTrigger, "trigger");
    body["glueType"] = glue;
    body["glueSource"] = "rm -rf /";
    EXPECT_FALSE(parse_trigger(dump_json(body))) << glue;
  }
}

TEST(XxlProtocol, RefusesWhatIsWrong) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, Json>>{{"jobId", "7"},
                                                 {"logId", 0},
                                                 {"logId", -1},
                                                 {"logId", 1e300},
                                                 {"executorTimeout", 1.5},
                                                 {"executorBlockStrategy", "PERHAPS"},
                                                 {"executorHandler", std::string(200, 'x')},
                                                 {"executorParams", std::string(70000, 'x')},
                                                 {"executorParams", Json::object()}}) {
    Json body = *parse_json(kTrigger, "trigger");
    body[name] = value;
    const auto trigger = parse_trigger(dump_json(body));
    ASSERT_FALSE(trigger) << name;
    EXPECT_TRUE(trigger.error().message.starts_with(name)) << trigger.error().message;
  }
  for (const char* body : {"", "[]", "{", "null"}) {
    EXPECT_FALSE(parse_trigger(body));
    EXPECT_FALSE(parse_job_id(body));
    EXPECT_FALSE(parse_log_query(body));
  }
}

TEST(XxlProtocol, Answers) {
  EXPECT_EQ(reply(kDone, ""), R"({"code":200,"msg":null,"content":null,"data":null})");
  const auto log = parse_json(log_reply(2, 3, "b\nc\n", true), "reply");
  EXPECT_EQ(log->at("content").at("toLineNum"), 3);
  EXPECT_EQ(log->at("data"), log->at("content"));
  EXPECT_TRUE(is_done(R"({"code":200,"msg":null})"));
  for (const char* answer : {R"({"code":500})", R"({"code":"200"})", "<html>", "[200]"}) EXPECT_FALSE(is_done(answer));
  EXPECT_EQ(callback_body({{.log_id = 1, .log_time = 2, .code = kTimedOut, .message = "late"}}),
            R"([{"logId":1,"logDateTim":2,"handleCode":502,"handleMsg":"late"}])");
  EXPECT_EQ(registry_body("quern", "http://h:1/"),
            R"({"registryGroup":"EXECUTOR","registryKey":"quern","registryValue":"http://h:1/"})");
}

}  // namespace
}  // namespace quern::xxljob
