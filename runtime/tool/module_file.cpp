// SPDX-License-Identifier: Apache-2.0
// A module's text with the data of its resources: `net.mz` and, where constants are
// `resource("name")`, `net.safetensors` beside it.
#include <mezzo/ir/attr.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/parser.h>
#include <mezzo/runtime/safetensors.h>
#include <mezzo/runtime/tool/commands.h>

#include <fmt/format.h>

#include <filesystem>
#include <optional>

namespace mezzo::tool {

namespace {

namespace fs = std::filesystem;
using runtime::HostArray;
using runtime::NamedArrays;

fs::path data_file(const std::string& module_file) {
  return fs::path(module_file).replace_extension(".safetensors");
}

/// Reads the file beside the text when the first constant asks for it.
class ResourceReader {
 public:
  explicit ResourceReader(const std::string& module_file) : module_file_(module_file) {}

  std::shared_ptr<const ir::ResourceData> operator()(std::string_view name) {
    if (module_file_ == "-")
      throw UserError({}, fmt::format("resource(\"{}\") has no data", name),
                      "a module on standard input has no file beside it");
    const fs::path path = data_file(module_file_);
    if (!arrays_) arrays_ = runtime::read_safetensors(path);
    const auto it = arrays_->find(std::string(name));
    if (it == arrays_->end()) {
      std::vector<std::string> known;
      for (const auto& [each, array] : *arrays_) known.push_back(each);
      throw UserError(
          {},
          fmt::format("{} has no array '{}'{}", path.string(), name, ir::did_you_mean(name, known)),
          fmt::format("it has {}", fmt::join(known, ", ")));
    }
    return std::make_shared<ir::ResourceData>(
        ir::ResourceData{it->second.type, it->second.bytes()});
  }

 private:
  std::string module_file_;
  std::optional<NamedArrays> arrays_;
};

void collect_resources(const ir::Region& region, const ir::Module& module, NamedArrays& arrays) {
  for (const ir::Op& op : region) {
    if (op.body()) collect_resources(*op.body(), module, arrays);
    if (op.kind() != ir::OpKind::Constant) continue;
    const ir::Attr& value = *op.attrs().find("value");
    if (!value.is<ir::Resource>()) continue;
    const std::string& name = value.as<ir::Resource>().name;
    const auto data = module.resource(name);
    if (!data) continue;
    HostArray array;
    array.type = data->type;
    array.bytes() = data->bytes;
    arrays.emplace(name, std::move(array));
  }
}

/// `w (tensor<20xf32>), v (tensor<3xf32>)`, the first few.
std::string list(const NamedArrays& arrays) {
  constexpr size_t kShown = 4;
  std::string out;
  size_t count = 0;
  for (const auto& [name, array] : arrays) {
    if (count++ == kShown) return out + fmt::format(" and {} more", arrays.size() - kShown);
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", name, to_string(array.type));
  }
  return out.empty() ? "no arrays" : out;
}

/// Nobody named the file of the data, so that it must not cost what nobody meant to give up.
void check_nothing_lost(const std::string& module_file, const NamedArrays& written) {
  const fs::path path = data_file(module_file);
  std::error_code ignored;
  if (fs::symlink_status(path, ignored).type() == fs::file_type::not_found) return;
  const std::string remedy = "remove it, or give -o another name";
  NamedArrays there;
  try {
    there = runtime::read_safetensors(path);
  } catch (const UserError& unreadable) {
    throw UserError({},
                    fmt::format("{} is not replaced by the data of {}, {}: {}", path.string(),
                                module_file, list(written), unreadable.message()),
                    remedy);
  }
  NamedArrays lost;
  bool values = true;  // only values differ
  for (const auto& [name, array] : there) {
    const auto it = written.find(name);
    const bool typed = it != written.end() && it->second.type == array.type;
    if (typed && it->second.bytes() == array.bytes()) continue;
    values = values && typed;
    lost.emplace(name, array);
  }
  if (lost.empty()) return;
  throw UserError({},
                  fmt::format("{} is not replaced by the data of {}: it holds {}{}, the data is {}",
                              path.string(), module_file, values ? "other values of " : "",
                              list(lost), list(written)),
                  remedy);
}

}  // namespace

std::unique_ptr<ir::Module> read_module(const std::string& path, ResourceUse use) {
  const std::string text = read_text(path);
  ir::ParseOptions options;
  std::error_code ignored;
  const bool there = path != "-" && fs::exists(data_file(path), ignored);
  ResourceReader reader(path);
  if (there || use == ResourceUse::Needed)
    options.resource = [&](std::string_view name, const ir::Type&) { return reader(name); };
  return ir::parse(text, path, options);
}

void write_module(const std::string& path, const ir::Module& module, const std::string& text) {
  NamedArrays arrays;
  for (const auto& function : module.functions())
    collect_resources(function->body(), module, arrays);
  // The data first: where there is a text, there is what it refers to.
  if (!path.empty() && path != "-" && !arrays.empty()) {
    check_nothing_lost(path, arrays);
    runtime::write_safetensors(data_file(path), arrays);
  }
  write_text(path, text);
}

}  // namespace mezzo::tool
