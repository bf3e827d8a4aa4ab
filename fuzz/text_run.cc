#include "text_run.h"

#include "base/check.h"
#include "targets.h"

namespace quern::fuzz {

void run_text(const Tokenizer& tokenizer) {
  constexpr std::string_view kText = "The mill, 12 \xe7\xa3\xa8 <s> <|im_start|> \xf0\x9f\x8c\xbe\t\n  don't";
  for (const bool parse_special : {false, true}) {
    auto encoding = tokenizer.encode(kText, {.parse_special = parse_special, .max_length = 64});
    if (!encoding) {
      check_refusal(encoding.error());
      continue;
    }
    StreamDecoder stream(tokenizer, parse_special);
    for (const TokenId id : encoding->ids) {
      QUERN_CHECK(id >= 0 && id < tokenizer.vocab_size());
      stream.push(id);
    }
    stream.flush();
    if (auto text = tokenizer.decode(encoding->ids, parse_special); !text) check_refusal(text.error());
  }
  for (const TokenId id : {-1, 0, tokenizer.vocab_size() / 2, tokenizer.vocab_size() - 1, tokenizer.vocab_size()}) {
    tokenizer.piece(id);
    tokenizer.token_bytes(id);
    tokenizer.is_special(id);
    if (auto text = tokenizer.decode(std::span(&id, 1), false); !text) check_refusal(text.error());
  }
  tokenizer.token_id("the");
  tokenizer.eos_ids();
}

}  // namespace quern::fuzz
