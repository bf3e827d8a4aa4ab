#include "server/people/asked_models.h"

#include "server/http/multipart.h"

namespace quern {
namespace {

// Every value that `model` and `name` have at the top level: where one key comes twice, readers may differ in which
// they take, and all of them must be allowed.
class NameFinder final : public nlohmann::json_sax<Json> {
 public:
  explicit NameFinder(std::vector<std::string>& names) : names_(names) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& value) override {
    if (depth_ == 1 && wanted_) names_.push_back(value);
    return true;
  }
  bool key(string_t& key) override {
    if (depth_ == 1) wanted_ = key == "model" || key == "name";
    return true;
  }
  bool start_object(size_t) override { return ++depth_ > 0; }
  bool start_array(size_t) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  std::vector<std::string>& names_;
  int depth_ = 0;
  bool wanted_ = false;
};

void add_text(const Json& body, const char* field, std::vector<std::string>& names) {
  const auto found = body.find(field);
  if (found != body.end() && found->is_string()) names.push_back(found->get<std::string>());
}

void add_adapters(const Json& body, std::vector<std::string>& names) {
  const auto adapters = body.find("lora");
  if (adapters == body.end() || !adapters->is_array()) return;
  for (const Json& adapter : *adapters) {
    if (adapter.is_object()) add_text(adapter, "name", names);
  }
}

// False: it cannot be read.
bool add_from_form(const http::Request& request, std::vector<std::string>& names) {
  const auto parts = http::parse_multipart(request.header("content-type").value_or(""), request.body);
  if (!parts) return false;
  for (const http::FormPart& part : *parts) {
    if (part.name == "model") names.emplace_back(part.body);
  }
  return true;
}

// Ollama's names may end in ":latest", which says nothing.
std::string plain_name(std::string name, const Route& route) {
  constexpr std::string_view kLatest = ":latest";
  if (std::string_view(route.path).starts_with("/api/") && name.ends_with(kLatest)) {
    name.resize(name.size() - kLatest.size());
  }
  return name;
}

}  // namespace

AskedModels asked_models(const ModelTable& models, const http::Request& request, const Route& route) {
  AskedModels asked;
  if (std::string_view(route.path).starts_with("/v1/models/{")) {
    asked.names.push_back(request.params.at(0));
    return asked;
  }
  if (route.scope != people::Scope::kModelsRead || route.method != "POST" ||
      route.path.find('{') != std::string::npos) {
    return asked;
  }
  Json body;
  if (http::is_multipart(request.header("content-type").value_or(""))) {
    asked.known = add_from_form(request, asked.names);
  } else if (auto parsed = parse_json(request.body, "request body"); parsed && parsed->is_object()) {
    body = std::move(*parsed);
    NameFinder finder(asked.names);
    Json::sax_parse(request.body, &finder);
  } else {
    asked.known = request.body.empty();
  }
  // What cannot be read here may well be read by a worker.
  if (!asked.known) return asked;
  for (std::string& name : asked.names) name = plain_name(std::move(name), route);
  if (asked.names.empty()) {
    asked.known = models.models().size() == 1;
    if (asked.known) asked.names.push_back(models.models()[0].id);
  }
  if (body.is_object()) add_adapters(body, asked.names);
  return asked;
}

}  // namespace quern
