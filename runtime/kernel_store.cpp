// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/kernel_store.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/printer.h>
#include <mezzo/runtime/kernel_cache.h>
#include <mezzo/runtime/log.h>
#include <mezzo/runtime/thread_pool.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <unordered_map>

namespace mezzo::runtime {

namespace {

/// What the process holds: the kernels that some executable keeps alive, a cache a folder.
struct Process {
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<const LoadedKernel>> alive;
  std::map<std::string, std::shared_ptr<DiskCache>> caches;
};

Process& process() {
  // Never freed: the destructor of a static of the program may compile and run.
  static auto* instance = new Process;
  return *instance;
}

/// What is looked for, and how it is made where it is not found.
struct Request {
  std::string key, device;
  std::function<KernelImage()> compile;
  std::function<std::shared_ptr<LoadedKernel>(const KernelImage&)> load;
  /// What the binary is, for who looks into the folder.
  std::function<std::string(const KernelImage&)> manifest;
  std::function<bool()> usable = [] { return true; };  // as KernelBackend says

  /// Code is loaded on one device.
  std::string alive_key() const { return key + "@" + device; }
};

std::shared_ptr<const LoadedKernel> find_alive(const std::string& key) {
  Process& here = process();
  std::lock_guard lock(here.mutex);
  auto it = here.alive.find(key);
  if (it == here.alive.end()) return nullptr;
  std::shared_ptr<const LoadedKernel> kernel = it->second.lock();
  if (!kernel) here.alive.erase(it);
  return kernel;
}

/// The kernel that all users of the key share: the first one wins.
std::shared_ptr<const LoadedKernel> share(std::shared_ptr<const LoadedKernel> kernel,
                                          const Request& request) {
  Process& here = process();
  std::lock_guard lock(here.mutex);
  std::weak_ptr<const LoadedKernel>& entry = here.alive[request.alive_key()];
  if (std::shared_ptr<const LoadedKernel> earlier = entry.lock()) return earlier;
  entry = kernel;
  return kernel;
}

std::shared_ptr<DiskCache> disk_cache() {
  std::filesystem::path folder = default_cache_folder();
  Process& here = process();
  std::lock_guard lock(here.mutex);
  std::shared_ptr<DiskCache>& cache = here.caches[folder.string()];
  if (!cache) cache = std::make_shared<DiskCache>(folder);
  return cache;
}

/// Names of the values around kernels of one function, made when the first of them is compiled:
/// they take a walk over the whole function.
class Names {
 public:
  const ir::ValueNames& of(const ir::Op& kernel) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<ir::ValueNames>& names = names_[kernel.function()];
    if (!names) names = std::make_unique<ir::ValueNames>(*kernel.function());
    return *names;
  }

 private:
  std::mutex mutex_;
  std::map<const ir::Function*, std::unique_ptr<ir::ValueNames>> names_;
};

std::string manifest(const ir::Op& kernel, const KeyContext& context, const KernelImage& image,
                     Names& names) {
  std::string out = fmt::format("kernel of family {}\n", to_string(ir::family_of(kernel)));
  out += fmt::format("plan {}\n", ir::print(kernel.plan()));
  out += fmt::format("rounding {}\ntarget {}\ncompiler {}\ngenerator {}\n", context.rounding,
                     to_string(context.target), context.compiler, context.generator);
  if (context.sanitized) out += "checked by AddressSanitizer\n";
  for (const KernelImage::Launch& launch : image.launches)
    out += fmt::format("launch {} tasks {}{}\n", launch.symbol, launch.tasks,
                       launch.threads > 0 ? fmt::format(" of {} threads", launch.threads) : "");
  out += fmt::format("scratch {} bytes a thread, workspace {} bytes\n", image.scratch_bytes,
                     image.workspace_bytes);
  return out + "\n" + ir::print(kernel, names.of(kernel)) + "\n";
}

std::shared_ptr<const LoadedKernel> load(const Request& request, const KernelImage& image) {
  std::shared_ptr<LoadedKernel> loaded = request.load(image);
  loaded->key = request.key;
  loaded->workspace_bytes = image.workspace_bytes;
  for (const KernelImage::Launch& launch : image.launches) loaded->tasks.push_back(launch.tasks);
  return share(std::move(loaded), request);
}

/// Null, with the reason, where the disk has no such kernel or one that cannot be loaded.
std::shared_ptr<const LoadedKernel> load_stored(const Request& request, DiskCache& cache,
                                                std::string& miss_reason) {
  auto bytes = cache.find(request.key, &miss_reason);
  if (!bytes) return nullptr;
  try {
    if (auto image = read_image(*bytes)) return load(request, *image);
    miss_reason = "the entry is not a kernel";
  } catch (const DeviceError& error) {
    if (!request.usable()) throw;
    // The first line says it; advice is of no use where it is compiled anew.
    const std::string_view text = error.what();
    miss_reason = fmt::format("the entry cannot be loaded: {}", text.substr(0, text.find('\n')));
  }
  log_warning(
      fmt::format("kernel cache: entry {}: {}; it is compiled anew", request.key, miss_reason));
  return nullptr;
}

StoredKernel find_or_compile(const Request& request, DiskCache* cache) {
  if (auto alive = find_alive(request.alive_key())) return {alive, KernelSource::Memory, ""};
  StoredKernel out;
  out.miss_reason = cache ? "" : "the disk cache is off";
  if (cache)
    if (auto stored = load_stored(request, *cache, out.miss_reason))
      return {stored, KernelSource::Disk, ""};
  const KernelImage image = request.compile();
  if (cache) cache->store(request.key, write_image(image), request.manifest(image));
  out.kernel = load(request, image);
  out.source = KernelSource::Compiled;
  return out;
}

Request request_of(const ir::Op& kernel, const std::string& key, const KeyContext& context,
                   const KernelBackend& backend, Names& names) {
  const std::string symbol =
      fmt::format("{}_{}", to_string(ir::family_of(kernel)), key.substr(0, 12));
  return {key,
          backend.device(),
          [&kernel, &backend, symbol] { return backend.compile(kernel, symbol); },
          [&](const KernelImage& image) { return backend.load(image, kernel); },
          [&](const KernelImage& image) { return manifest(kernel, context, image, names); },
          [&backend] { return backend.usable(); }};
}

Request request_of(const HelperCode& helper, const std::string& device) {
  return {helper.key,
          device,
          helper.compile,
          helper.load,
          [&helper](const KernelImage&) { return helper.description; },
          helper.usable};
}

/// A request, how long it takes to compile beside others, and its answer.
struct Work {
  Request request;
  int64_t effort = 0;
  StoredKernel stored = {};
  std::exception_ptr error = nullptr;
};

/// Of a product, whose loops are written out, in simple ops; of a helper.
constexpr int64_t kProductEffort = 20, kHelperEffort = 15;

int64_t effort_of(const ir::Op& kernel) {
  int64_t effort = 0;
  for (const ir::Op& op : *kernel.body())
    effort += op.kind() == ir::OpKind::Matmul ? kProductEffort : 1;
  return effort;
}

/// The longest first, each taken by the next thread that is free: compilations differ tenfold, and
/// with fixed shares one thread would work long after the others. Throws the error of the first
/// request that has one, whichever thread met its own first.
void do_all(std::vector<Work>& work, DiskCache* cache, ThreadPool* pool) {
  std::vector<size_t> order(work.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return work[i].effort; });
  std::atomic<size_t> next{0};
  auto take = [&](int64_t, int64_t, int) {
    for (size_t i = next++; i < order.size(); i = next++) {
      Work& each = work[order[i]];
      try {
        each.stored = find_or_compile(each.request, cache);
      } catch (...) {
        each.error = std::current_exception();
      }
    }
  };
  if (pool)
    pool->run(std::min<int64_t>(pool->threads(), static_cast<int64_t>(work.size())), take);
  else
    take(0, 1, 0);
  for (const Work& each : work)
    if (each.error) std::rethrow_exception(each.error);
}

}  // namespace

StoredKernel load_helper(const HelperCode& helper, const std::string& device,
                         const StoreOptions& options) {
  return find_or_compile(request_of(helper, device), options.disk ? disk_cache().get() : nullptr);
}

std::vector<StoredKernel> load_kernels(std::span<const ir::Op* const> kernels,
                                       const KeyContext& context, const KernelBackend& backend,
                                       const StoreOptions& options,
                                       std::span<const HelperCode> helpers) {
  std::vector<std::string> keys;
  std::unordered_map<std::string, size_t> first;  // key -> place in `work`
  Names names;
  std::vector<Work> work;
  for (const HelperCode& helper : helpers)
    work.push_back({request_of(helper, backend.device()), kHelperEffort});
  for (const ir::Op* kernel : kernels) {
    keys.push_back(kernel_key(*kernel, context));
    if (first.try_emplace(keys.back(), work.size()).second)
      work.push_back(
          {request_of(*kernel, keys.back(), context, backend, names), effort_of(*kernel)});
  }
  std::shared_ptr<DiskCache> cache;
  if (options.disk) cache = disk_cache();
  do_all(work, cache.get(), options.pool);

  std::vector<StoredKernel> out;
  for (const std::string& key : keys) out.push_back(work[first.at(key)].stored);
  for (size_t i = 0; i < helpers.size(); ++i) out.push_back(work[i].stored);
  return out;
}

}  // namespace mezzo::runtime
