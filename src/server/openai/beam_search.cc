#include "server/openai/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace quern::openai {

BeamSearch::BeamSearch(std::vector<int32_t> prompt, const BeamOptions& options) : options_(options) {
  beams_.push_back({.ids = std::move(prompt)});
}

std::vector<Request> BeamSearch::requests(const Request& base) const {
  std::vector<Request> list;
  for (const Beam& beam : beams_) {
    Request request = base;
    request.prompt_ids = beam.ids;
    request.n = 1;
    request.max_tokens = 1;
    request.ignore_eos = true;
    request.top_logprobs = 2 * options_.width;
    list.push_back(std::move(request));
  }
  return list;
}

void BeamSearch::take(const std::vector<std::vector<std::pair<int32_t, float>>>& next) {
  std::vector<Beam> grown;
  for (size_t i = 0; i < beams_.size(); ++i) {
    for (const auto& [id, logprob] : next[i]) {
      Beam beam = beams_[i];
      beam.ids.push_back(id);
      beam.logprob += static_cast<double>(logprob);
      beam.ended = options_.end_ids.contains(id);
      (beam.ended ? completed_ : grown).push_back(std::move(beam));
    }
  }
  std::ranges::stable_sort(grown, std::greater(), &Beam::logprob);
  grown.resize(std::min(grown.size(), static_cast<size_t>(options_.width)));
  beams_ = std::move(grown);
  ++steps_;
}

double BeamSearch::score(const Beam& beam) const {
  const double length = static_cast<double>(beam.ids.size()) - (beam.ended ? 1 : 0);
  return beam.logprob / std::pow(std::max(length, 1.0), options_.length_penalty);
}

std::vector<BeamSearch::Beam> BeamSearch::best() const {
  std::vector<Beam> all = completed_;
  all.insert(all.end(), beams_.begin(), beams_.end());
  std::ranges::stable_sort(all, std::greater(), [this](const Beam& beam) { return score(beam); });
  all.resize(std::min(all.size(), static_cast<size_t>(options_.width)));
  return all;
}

}  // namespace quern::openai
