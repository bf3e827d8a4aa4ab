#include "base/status.h"
#include "engine/encoder_queue.h"
#include "engine/encoder_service.h"
#include "engine/yes_no_reranker.h"

namespace quern {
namespace {

class ServiceReranker final : public Reranker {
 public:
  explicit ServiceReranker(std::unique_ptr<EncoderService> service) : service_(std::move(service)) {}
  Result<RelevanceScores> rerank(const std::string& query, std::span<const std::string> documents) override {
    return service_->rerank(query, documents);
  }

 private:
  std::unique_ptr<EncoderService> service_;
};

}  // namespace

Result<std::unique_ptr<Reranker>> Reranker::create(std::unique_ptr<ModelSource> source, const EncoderOptions& options) {
  if (is_encoding_source(*source)) {
    QUERN_ASSIGN(auto service, EncoderService::create(std::move(source), options));
    return std::make_unique<ServiceReranker>(std::move(service));
  }
  return YesNoReranker::create(std::move(source), options);
}

Result<std::unique_ptr<Reranker>> Reranker::open(const std::filesystem::path& path, const EncoderOptions& options) {
  QUERN_ASSIGN(auto source, open_model_source(path));
  return create(std::move(source), options);
}

}  // namespace quern
