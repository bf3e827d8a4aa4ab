#include "platform/catalog/registrations.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/status.h"
#include "platform/catalog/catalog_reader.h"
#include "platform/catalog/json_fields.h"
#include "platform/catalog/xinference_form.h"
#include "platform/home.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
constexpr std::array kTypes = {"LLM", "embedding", "rerank", "image", "audio"};
constexpr size_t kRegistrationsMax = 4096;

fs::path folder() {
  return quern_home() / "registrations";
}

Result<std::string_view> known_type(std::string_view type) {
  for (const std::string_view known : kTypes) {
    if (same_name(known, type)) return known;
  }
  return invalid_argument(fmt::format("type: '{}' is not one of {}", type.substr(0, 64), fmt::join(kTypes, ", ")));
}

Result<std::string> read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return io_error(fmt::format("{}: cannot be read", path.string()));
  std::string text(kRegistrationBytesMax * 2 + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kRegistrationBytesMax * 2) return invalid_file(fmt::format("{}: is too long", path.string()));
  return text;
}

// What a file holds: {"type": …, "document": {…}, "name": …}.
Result<Registration> read_registration(const fs::path& path) {
  QUERN_ASSIGN(const std::string text, read_text(path));
  QUERN_ASSIGN(const Json json, parse_json(text, path.filename().string(), {.depth_max = 40}));
  QUERN_ASSIGN(const JsonFields fields, JsonFields::of(json, ""));
  QUERN_ASSIGN(const std::string type, fields.text("type", 16));
  QUERN_ASSIGN(const std::string name, fields.text("name", 100));
  QUERN_ASSIGN(const JsonFields document, fields.object("document"));
  QUERN_ASSIGN(Registration registration, parse_registration(dump_json(document.json()), type, name));
  if (path.stem().string() != registration.name) return invalid_file("the file has another name than its model");
  return registration;
}

// Another process may register the same name at this moment: the file is made under a name of its own and linked to
// the final one, which fails where that exists.
Status write_new(const fs::path& target, const std::string& text) {
  std::string part = (target.parent_path() / ".part-XXXXXX").string();
  const int fd = ::mkstemp(part.data());
  if (fd < 0) return io_error(fmt::format("{}: {}", part, std::strerror(errno)));
  bool written = true;
  for (size_t at = 0; written && at < text.size();) {
    const ssize_t count = ::write(fd, text.data() + at, text.size() - at);
    written = count > 0 || (count < 0 && errno == EINTR);
    if (count > 0) at += static_cast<size_t>(count);
  }
  written = written && ::fchmod(fd, 0644) == 0 && ::fsync(fd) == 0;
  int fault = written ? 0 : errno;
  ::close(fd);
  if (written && ::link(part.c_str(), target.c_str()) != 0) fault = errno;
  ::unlink(part.c_str());
  if (fault == EEXIST) return invalid_argument(fmt::format("{}: is registered already", target.stem().string()));
  if (fault != 0) return io_error(fmt::format("{}: {}", target.string(), std::strerror(fault)));
  return {};
}

}  // namespace

Result<Registration> parse_registration(std::string_view text, std::string_view type, std::string_view name) {
  if (text.size() > kRegistrationBytesMax) {
    return invalid_argument(fmt::format("the document has {} bytes, at most {}", text.size(), kRegistrationBytesMax));
  }
  Registration registration;
  QUERN_ASSIGN(registration.document, parse_json(text, "the document", {.depth_max = 32}));
  QUERN_ASSIGN(const JsonFields fields, JsonFields::of(registration.document, ""));
  std::string_view known;
  if (!type.empty()) {
    QUERN_ASSIGN(known, known_type(type));
  }
  if (is_xinference_form(fields)) {
    if (known.empty()) {
      QUERN_ASSIGN(known, type_of_xinference_form(fields));
    }
    QUERN_ASSIGN(const Catalog built_in, Catalog::built_in());
    QUERN_ASSIGN(registration.model, read_xinference_form(fields, known, built_in));
  } else {
    QUERN_ASSIGN(registration.model, read_catalog_model(fields, CatalogOrigin::kCustom));
    const std::string_view own = model_type_of(registration.model.kind);
    if (!known.empty() && known != own) {
      return fields.refuse("kind", fmt::format("{} is of type {}, not {}", registration.model.kind, own, known));
    }
    known = own;
  }
  if (!name.empty()) {
    if (!is_model_name(name)) {
      return invalid_argument("name: must be at most 100 letters, digits, - _ or ., the first a letter or digit");
    }
    registration.model.name = name;
  }
  registration.name = registration.model.name;
  registration.type = known;
  return registration;
}

Result<Registration> register_model(std::string_view text, std::string_view type, std::string_view name) {
  QUERN_ASSIGN(Registration registration, parse_registration(text, type, name));
  QUERN_ASSIGN(const Catalog built_in, Catalog::built_in());
  const std::vector<Registration> others = list_registrations();
  if (others.size() >= kRegistrationsMax) {
    return make_error(ErrorCode::kResourceExhausted, fmt::format("there are {} registrations already", others.size()));
  }
  for (const std::string& each : registration.model.names()) {
    if (built_in.find_model(each) != nullptr) {
      return invalid_argument(fmt::format("{}: is the name of a built-in model", each));
    }
    for (const Registration& other : others) {
      const auto taken = [&](const std::string& theirs) { return same_name(theirs, each); };
      if (taken(other.name) || std::ranges::any_of(other.model.names(), taken)) {
        return invalid_argument(fmt::format("{}: is registered already", each));
      }
    }
  }
  std::error_code error;
  fs::create_directories(folder(), error);
  if (error) return io_error(fmt::format("{}: {}", folder().string(), error.message()));
  const Json kept = {{"name", registration.name}, {"type", registration.type}, {"document", registration.document}};
  const std::string kept_text = dump_json(kept) + "\n";
  if (kept_text.size() > kRegistrationBytesMax * 2) {
    return invalid_argument(
        fmt::format("the document takes {} bytes, at most {}", kept_text.size(), kRegistrationBytesMax * 2));
  }
  QUERN_TRY(write_new(folder() / (registration.name + ".json"), kept_text));
  return registration;
}

Status unregister_model(std::string_view name, std::string_view type) {
  std::string_view known;
  if (!type.empty()) {
    QUERN_ASSIGN(known, known_type(type));
  }
  for (const Registration& registration : list_registrations()) {
    if (!same_name(registration.name, name)) continue;
    if (!known.empty() && registration.fault.empty() && registration.type != known) break;
    std::error_code error;
    if (fs::remove(folder() / (registration.name + ".json"), error)) return {};
    if (error) return io_error(fmt::format("{}: {}", registration.name, error.message()));
  }
  return not_found(fmt::format("{}: is not registered", name));
}

std::vector<Registration> list_registrations() {
  std::vector<Registration> registrations;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder(), error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() != ".json" || !is_model_name(path.stem().string())) continue;
    if (registrations.size() >= kRegistrationsMax) break;
    auto registration = read_registration(path);
    if (!registration) registration = Registration{.name = path.stem().string(), .fault = registration.error().message};
    registrations.push_back(std::move(*registration));
  }
  std::ranges::sort(registrations, {}, &Registration::name);
  return registrations;
}

}  // namespace quern
