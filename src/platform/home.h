// Where state lives, and the settings of the environment that platform code honours.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace quern {

// QUERN_HOME, else $XDG_CACHE_HOME/quern, else ~/.cache/quern. Not created here.
std::filesystem::path quern_home();

// A variable that is set and not empty.
std::optional<std::string> environment(const char* name);

// HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface.
std::filesystem::path hf_home();
// HF_TOKEN, else the first line of HF_HOME/token, else empty.
std::string hf_token();
// HF_ENDPOINT without a trailing slash, else https://huggingface.co.
std::string hf_endpoint();
// MODELSCOPE_ENDPOINT likewise, else https://modelscope.cn.
std::string modelscope_endpoint();
// pip's index: PIP_INDEX_URL, else index-url of pip's configuration files, else https://pypi.org/simple. No trailing
// slash.
std::string pip_index_url();

}  // namespace quern
