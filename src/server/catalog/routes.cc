#include "server/catalog/routes.h"

#include <algorithm>
#include <charconv>

#include "base/status.h"
#include "engine/runner.h"
#include "platform/catalog/describe.h"
#include "platform/model_name.h"
#include "platform/pull.h"
#include "server/fields.h"
#include "server/offload.h"

namespace quern::catalog {
namespace {

using http::asio::awaitable;

constexpr size_t kQueryBytesMax = 256;
constexpr size_t kWordsMax = 8;
constexpr int64_t kKvBytesMax = int64_t{1} << 50;
constexpr int32_t kModelLenMax = 1 << 28;
constexpr int32_t kNumSeqsMax = 65536;
constexpr int32_t kNumSeqsServed = 64;  // of `quern serve`, where nobody says

std::vector<const CatalogVariant*> all_variants(const CatalogModel& model) {
  std::vector<const CatalogVariant*> variants;
  for (const CatalogVariant& variant : model.variants) variants.push_back(&variant);
  return variants;
}

// The first engine, in their order, that can run some variant here, and its first such variant.
Json fit_json(const CatalogModel& model, const std::vector<EngineCheck>& checks) {
  for (const EngineCheck& check : checks) {
    const auto place = std::ranges::find_if(check.variants, [](const auto& variant) { return variant.reason.empty(); });
    if (!check.runs() || place == check.variants.end()) continue;
    return {{"runs", true},
            {"engine", check.engine},
            {"model", model.name + ":" + place->variant->tag},
            {"note", place->note.empty() ? Json(nullptr) : Json(place->note)},
            {"reason", nullptr}};
  }
  return {{"runs", false},
          {"engine", nullptr},
          {"model", nullptr},
          {"note", nullptr},
          {"reason", checks.empty() ? "no engine" : checks.front().reason}};
}

bool is_stored(const CatalogModel& model) {
  return std::ranges::any_of(model.variants,
                             [&](const CatalogVariant& variant) { return find_local(model, variant).has_value(); });
}

Json entry_json(const CatalogModel& model, const std::vector<EngineCheck>& checks) {
  Json json = catalog_model_json(model);
  json["fits"] = fit_json(model, checks);
  json["stored"] = is_stored(model);
  return json;
}

ApiResult<double> read_size(std::string_view text) {
  double size = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (fault != std::errc() || end != text.data() + text.size() || !(size > 0 && size <= 1e6)) {
    return bad_field("max_size", "max_size: must be billions of parameters, a number above 0");
  }
  return size;
}

ApiResult<std::vector<std::string>> read_words(std::string_view text) {
  std::vector<std::string> words;
  for (size_t begin = text.find_first_not_of(' '); begin < text.size(); begin = text.find_first_not_of(' ', begin)) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  if (words.size() > kWordsMax) return bad_field("q", fmt::format("q: more than {} words", kWordsMax));
  return words;
}

ApiResult<CatalogQuery> read_query(const http::Request& request) {
  CatalogQuery query;
  for (const auto& [name, value] : request.query) {
    if (value.size() > kQueryBytesMax)
      return bad_field(name, fmt::format("{}: longer than {} bytes", name, kQueryBytesMax));
    if (name == "kind") {
      query.kind = value;
    } else if (name == "ability") {
      query.ability = value;
    } else if (name == "format") {
      query.format = value;
    } else if (name == "q") {
      auto words = read_words(value);
      if (!words) return std::unexpected(words.error());
      query.words = std::move(*words);
    } else if (name == "max_size") {
      const auto size = read_size(value);
      if (!size) return std::unexpected(size.error());
      query.parameters_b_max = *size;
    } else {
      return bad_field(name, fmt::format("{}: this parameter is not supported", name.substr(0, 40)));
    }
  }
  return query;
}

ApiResult<int32_t> read_count(const std::string& name, std::string_view text, int32_t min, int32_t max) {
  int32_t count = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (fault != std::errc() || end != text.data() + text.size() || count < min || count > max) {
    return bad_field(name, fmt::format("{}: must be a number from {} to {}", name, min, max));
  }
  return count;
}

// What a model would be served with.
ApiResult<EngineOptions> read_options(const http::Request& request) {
  EngineOptions options;
  options.max_num_seqs = kNumSeqsServed;
  for (const auto& [name, value] : request.query) {
    if (name == "max_model_len") {
      const auto count = read_count(name, value, 0, kModelLenMax);
      if (!count) return std::unexpected(count.error());
      options.max_model_len = *count;
    } else if (name == "max_num_seqs") {
      const auto count = read_count(name, value, 1, kNumSeqsMax);
      if (!count) return std::unexpected(count.error());
      options.max_num_seqs = *count;
    } else if (name == "kv_cache_dtype") {
      const auto type = parse_kv_dtype(value);
      if (!type) return std::unexpected(request_error(type.error(), name));
      options.kv_cache_dtype = value;
    } else {
      return bad_field(name, fmt::format("{}: this parameter is not supported", name.substr(0, 40)));
    }
  }
  return options;
}

ApiResult<Json> search(const CatalogQuery& query) {
  const auto catalog = Catalog::open();
  if (!catalog) return std::unexpected(to_api_error(catalog.error()));
  EngineOptions options;
  options.max_num_seqs = kNumSeqsServed;
  Json data = Json::array();
  for (const CatalogModel* model : catalog->search(query)) {
    data.push_back(entry_json(*model, check_engines(*model, all_variants(*model), options)));
  }
  return Json{{"object", "list"}, {"data", std::move(data)}};
}

ApiResult<Json> show(const std::string& name, const EngineOptions& options) {
  const auto catalog = Catalog::open();
  if (!catalog) return std::unexpected(to_api_error(catalog.error()));
  const CatalogModel* model = catalog->find_model(name);
  if (model == nullptr) {
    return std::unexpected(ApiError{
        .status = 404, .message = "name: no such model in the catalogue", .param = "name", .code = "model_not_found"});
  }
  const auto checks = check_engines(*model, all_variants(*model), options);
  Json json = entry_json(*model, checks);
  Json variants = Json::array(), engines = Json::array();
  for (const CatalogVariant& variant : model->variants) {
    Json entry = catalog_variant_json(*model, variant);
    entry["stored"] = find_local(*model, variant).has_value();
    variants.push_back(std::move(entry));
  }
  for (const EngineCheck& check : checks) {
    Json engine = engine_check_json(check);
    engine.erase("program");  // a path of this machine
    engines.push_back(std::move(engine));
  }
  json["variants"] = std::move(variants);
  json["engines"] = std::move(engines);
  return json;
}

struct EstimateJob {
  std::string model, quantization;
  EngineOptions options;
};

ApiResult<EstimateJob> read_job(const http::Request& request) {
  const auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  EstimateJob job;
  job.model = fields.string("model").value_or("");
  job.quantization = fields.string("quantization").value_or("");
  EngineOptions& options = job.options;
  options.max_model_len = static_cast<int32_t>(fields.integer("max_model_len", 0, kModelLenMax).value_or(0));
  options.max_num_seqs = static_cast<int32_t>(fields.integer("max_num_seqs", 1, kNumSeqsMax).value_or(kNumSeqsServed));
  options.max_num_batched_tokens = static_cast<int32_t>(
      fields.integer("max_num_batched_tokens", 1, 1 << 20).value_or(options.max_num_batched_tokens));
  options.kv_cache_dtype = fields.string("kv_cache_dtype").value_or(options.kv_cache_dtype);
  options.kv_cache_bytes = fields.integer("kv_cache_memory", 0, kKvBytesMax).value_or(0);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto name = parse_model_name(job.model);
  if (!name) return std::unexpected(to_api_error(name.error()));
  // A client names models; it does not send this machine into its own files.
  if (name->kind == ModelNameKind::kPath || name->kind == ModelNameKind::kUrl) {
    return bad_field("model", "model: must be a name of the catalogue or of a hub");
  }
  return job;
}

ApiResult<Json> estimate(const EstimateJob& job) {
  const auto estimate = estimate_model(job.model, job.quantization, job.options);
  if (!estimate) return std::unexpected(request_error(estimate.error(), "model"));
  Json json = {{"object", "estimate"}, {"model", job.model}, {"basis", estimate->path.empty() ? "catalogue" : "files"}};
  json.update(memory_json(estimate->memory));
  return json;
}

awaitable<void> answer(std::function<ApiResult<Json>()> work, http::Reply& reply) {
  const auto result = co_await offload<ApiResult<Json>>(work);
  if (!result) co_return co_await send_error(reply, result.error());
  co_await send_json(reply, *result);
}

awaitable<void> search_route(const ModelTable&, const http::Request& request, http::Reply& reply) {
  auto query = read_query(request);
  if (!query) return send_error(reply, query.error());
  return answer([query = std::move(*query)] { return search(query); }, reply);
}

awaitable<void> show_route(const ModelTable&, const http::Request& request, http::Reply& reply) {
  auto options = read_options(request);
  if (!options) return send_error(reply, options.error());
  return answer([name = request.params[0], options = std::move(*options)] { return show(name, options); }, reply);
}

awaitable<void> estimate_route(const ModelTable&, const http::Request& request, http::Reply& reply) {
  auto job = read_job(request);
  if (!job) return send_error(reply, job.error());
  return answer([job = std::move(*job)] { return estimate(job); }, reply);
}

}  // namespace

Routes routes() {
  const auto listing = [](Route route) { return needs(people::Scope::kModelsList, std::move(route)); };
  return {
      listing({"GET", "/v1/catalog", search_route}),
      listing({"GET", "/v1/catalog/{name*}", show_route}),
      listing({"POST", "/v1/estimate", estimate_route}),
  };
}

}  // namespace quern::catalog
