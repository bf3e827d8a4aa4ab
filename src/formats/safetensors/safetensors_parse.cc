#include "formats/safetensors/safetensors_parse.h"

#include <algorithm>
#include <tuple>

#include "base/status.h"
#include "formats/byte_reader.h"
#include "formats/checked_shape.h"
#include "formats/name_index.h"
#include "formats/printable.h"
#include "formats/safetensors/header.h"

namespace quern {
namespace {

// The header's text, and what follows it.
struct Sections {
  std::string_view header;
  std::span<const std::byte> data;
};

Result<Sections> split_sections(std::span<const std::byte> bytes, std::string_view name) {
  ByteReader reader(bytes);
  uint64_t header_bytes = 0;
  if (!reader.read(header_bytes))
    return invalid_file(fmt::format("{}: {} bytes are too few for a safetensors file", name, bytes.size()));
  if (header_bytes > kSafetensorsHeaderBytesMax) {
    return invalid_file(fmt::format("{}: a header of {} bytes is over the limit of {}", name, header_bytes,
                                    kSafetensorsHeaderBytesMax));
  }
  Sections sections;
  if (!reader.read_text(header_bytes, sections.header)) {
    return invalid_file(fmt::format("{}: a header of {} bytes runs past the end of the file ({} bytes)", name,
                                    header_bytes, bytes.size()));
  }
  if (!sections.header.starts_with('{'))
    return invalid_file(fmt::format("{}: the header does not begin with '{{'", name));
  sections.data = bytes.subspan(reader.position());
  return sections;
}

// Entries must stand in data order: each begins where the one before ends, the last one ends with the data.
Result<std::vector<TensorView>> place(const std::vector<SafetensorsEntry>& entries, std::span<const std::byte> data,
                                      std::string_view name) {
  std::vector<TensorView> tensors;
  tensors.reserve(entries.size());
  uint64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string what = fmt::format("{}: tensor {}", name, printable(entry.name));
    if (entry.end < entry.begin)
      return invalid_file(fmt::format("{}: data_offsets [{}, {}] are reversed", what, entry.begin, entry.end));
    QUERN_ASSIGN(const uint64_t bytes, checked_bytes(entry.dtype, entry.shape, what));
    if (bytes != entry.end - entry.begin) {
      return invalid_file(fmt::format("{}: shape {} of {} is {} bytes, data_offsets [{}, {}] give {}", what,
                                      shape_string(entry.shape), dtype_info(entry.dtype).name, bytes, entry.begin,
                                      entry.end, entry.end - entry.begin));
    }
    if (entry.begin != covered) {
      return invalid_file(fmt::format("{}: begins at byte {} of the data, the tensor before it ends at {}", what,
                                      entry.begin, covered));
    }
    if (entry.end > data.size()) {
      return invalid_file(fmt::format("{}: ends at byte {} of the data, which has {}", what, entry.end, data.size()));
    }
    covered = entry.end;
    tensors.push_back(
        {.name = entry.name, .dtype = entry.dtype, .shape = entry.shape, .bytes = data.subspan(entry.begin, bytes)});
  }
  if (covered != data.size()) {
    return invalid_file(fmt::format("{}: {} bytes follow the last tensor", name, data.size() - covered));
  }
  return tensors;
}

}  // namespace

Result<SafetensorsPart> parse_safetensors_part(std::span<const std::byte> bytes, std::string_view name) {
  QUERN_ASSIGN(const Sections sections, split_sections(bytes, name));
  QUERN_ASSIGN(SafetensorsHeader header, parse_safetensors_header(sections.header, name));
  std::ranges::stable_sort(header.entries, {},
                           [](const SafetensorsEntry& entry) { return std::tie(entry.begin, entry.end); });
  QUERN_ASSIGN(std::vector<TensorView> tensors, place(header.entries, sections.data, name));
  if (const TensorView* twice = NameIndex(tensors).first_duplicate()) {
    return invalid_file(fmt::format("{}: two tensors are named {}", name, printable(twice->name)));
  }
  return SafetensorsPart{std::move(tensors), std::move(header.metadata)};
}

}  // namespace quern
