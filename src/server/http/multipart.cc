#include "server/http/multipart.h"

#include <algorithm>
#include <cctype>

#include "base/status.h"

namespace quern::http {
namespace {

bool equals_no_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The value of a parameter behind ';' of a header: name=token or name="quoted".
std::string parameter(std::string_view header, std::string_view wanted) {
  size_t at = header.find(';');
  while (at < header.size()) {
    ++at;
    const size_t equals = header.find('=', at);
    if (equals == std::string_view::npos) break;
    const std::string_view name = trimmed(header.substr(at, equals - at));
    std::string value;
    at = equals + 1;
    if (at < header.size() && header[at] == '"') {
      for (++at; at < header.size() && header[at] != '"'; ++at) {
        if (header[at] == '\\' && at + 1 < header.size()) ++at;
        value += header[at];
      }
      at = std::min(header.find(';', at), header.size());
    } else {
      const size_t end = std::min(header.find(';', at), header.size());
      value = std::string(trimmed(header.substr(at, end - at)));
      at = end;
    }
    if (equals_no_case(name, wanted)) return value;
  }
  return "";
}

// Headers of a part, up to the empty line.
Result<FormPart> read_part(std::string_view text) {
  FormPart part;
  for (;;) {
    const size_t end = text.find("\r\n");
    if (end == std::string_view::npos) return invalid_argument("multipart body: a part has no end of its headers");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    if (line.empty()) break;
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = trimmed(line.substr(0, colon));
    const std::string_view value = trimmed(line.substr(std::min(colon + 1, line.size())));
    if (equals_no_case(name, "content-disposition")) {
      part.name = parameter(value, "name");
      part.filename = parameter(value, "filename");
    } else if (equals_no_case(name, "content-type")) {
      part.content_type = std::string(value);
    }
  }
  if (part.name.empty()) return invalid_argument("multipart body: a part has no name");
  part.body = text;
  return part;
}

}  // namespace

bool is_multipart(std::string_view content_type) {
  return equals_no_case(trimmed(content_type.substr(0, content_type.find(';'))), "multipart/form-data");
}

Result<std::vector<FormPart>> parse_multipart(std::string_view content_type, std::string_view body, size_t parts_max) {
  const std::string boundary = parameter(content_type, "boundary");
  if (!is_multipart(content_type) || boundary.empty() || boundary.size() > 70) {
    return invalid_argument("the body must be multipart/form-data with a boundary");
  }
  // With a line break in front, the first delimiter looks like all others.
  const std::string delimiter = "\r\n--" + boundary;
  const std::string_view first = std::string_view(delimiter).substr(2);
  if (!body.starts_with(first)) return invalid_argument("multipart body: does not begin with its boundary");
  body.remove_prefix(first.size());
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    if (!body.starts_with("\r\n")) return invalid_argument("multipart body: no line break behind a boundary");
    body.remove_prefix(2);
    const size_t end = body.find(delimiter);
    if (end == std::string_view::npos) return invalid_argument("multipart body: the last boundary is missing");
    if (parts.size() == parts_max) return invalid_argument(fmt::format("multipart body: over {} parts", parts_max));
    QUERN_ASSIGN(FormPart part, read_part(body.substr(0, end)));
    parts.push_back(std::move(part));
    body.remove_prefix(end + delimiter.size());
  }
  return parts;
}

}  // namespace quern::http
