// Every family there is, one object each; defined in the file of its name.
#pragma once

#include "models/family.h"

namespace quern {

extern const Family kCohere2Family;
extern const Family kCohereFamily;
extern const Family kDeepseekV2Family;
extern const Family kDeepseekV3Family;
extern const Family kExaone4Family;
extern const Family kExaoneFamily;
extern const Family kFalconFamily;
extern const Family kGemma2Family;
extern const Family kGemma3Family;
extern const Family kGemmaFamily;
extern const Family kGlm4Family;
extern const Family kGlmFamily;
extern const Family kGpt2Family;
extern const Family kGptNeoxFamily;
extern const Family kGptOssFamily;
extern const Family kGraniteFamily;
extern const Family kInternlm2Family;
extern const Family kLlamaFamily;
extern const Family kMinicpmFamily;
extern const Family kMistralFamily;
extern const Family kMixtralFamily;
extern const Family kOlmo2Family;
extern const Family kPhi3Family;
extern const Family kPhiFamily;
extern const Family kQwen2Family;
extern const Family kQwen2MoeFamily;
extern const Family kQwen3Family;
extern const Family kQwen3MoeFamily;
extern const Family kSmollm3Family;
extern const Family kStablelmFamily;
extern const Family kStarcoder2Family;

}  // namespace quern
