// Xinference's form of a custom model, for its users and clients. What it says of Python environments and of launching
// is left to those who read the document itself; this reads what a catalogue needs.
#pragma once

#include <string_view>

#include "platform/catalog/catalog.h"
#include "platform/catalog/json_fields.h"

namespace quern {

bool is_xinference_form(const JsonFields& fields);

// "LLM", "embedding", "rerank", "image" or "audio", by the fields that only one of them has. kInvalidArgument when they
// do not tell.
Result<std::string_view> type_of_xinference_form(const JsonFields& fields);

// Errors: kInvalidArgument naming the field. A `model_family` of the built-in catalogue lends what the document leaves
// out: architecture, template, formats of tool calls and reasoning.
Result<CatalogModel> read_xinference_form(const JsonFields& fields, std::string_view type, const Catalog& built_in);

}  // namespace quern
