// SPDX-License-Identifier: Apache-2.0
// What the fake driver pretends to be, by its variables, and what it says of wrong ones.
#include <ptx/driver_support.h>
#include <ptx/fake_profile.h>

#include <stdexcept>
#include <string>

namespace mezzo::test {
namespace {

using namespace runtime::cuda;

fakecuda::Profile profile_of(std::initializer_list<const char*> entries) {
  std::vector<const char*> environment(entries);
  environment.push_back(nullptr);
  return fakecuda::read_profile(environment.data());
}

std::string refusal_of(const char* entry) {
  try {
    profile_of({entry});
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("variables make the profile") {
  const fakecuda::Profile profile = profile_of(
      {"HOME=/", "MEZZO_FAKE_CC=121", "MEZZO_FAKE_DRIVER=12090", "MEZZO_FAKE_DEVICES=2",
       "MEZZO_FAKE_MEMORY=1000000", "MEZZO_FAKE_OOM=7", "MEZZO_FAKE_INIT=803",
       "MEZZO_FAKE_POOLS=0", "MEZZO_FAKE_FAIL=cuLaunchKernel=701,cuMemAlloc=2",
       "MEZZO_FAKE_ORDER=round-robin", "MEZZO_FAKE_SEED=9", "MEZZO_FAKE_DIVERGENCE=hostile",
       "MEZZO_FAKE_MMA=exact", "MEZZO_FAKE_THREADS=2", "MEZZO_FAKE_BUDGET=1000"});
  CHECK(profile.architecture.compute_capability == 121);
  CHECK(profile.driver == 12090);
  CHECK(profile.devices == 2);
  CHECK(profile.memory == 1000000);
  CHECK(profile.oom == 7);
  CHECK(profile.init == 803);
  CHECK_FALSE(profile.pools);
  CHECK(profile.failing.at("cuLaunchKernel") == 701);
  CHECK(profile.failing.at("cuMemAlloc") == 2);
  CHECK(profile.options.order == ptx::BlockOrder::RoundRobin);
  CHECK(profile.options.seed == 9);
  CHECK(profile.options.hostile_divergence);
  CHECK(profile.options.mma == ptx::MmaMode::Exact);
  CHECK(profile.options.threads == 2);
  CHECK(profile.options.budget == 1000);
  CHECK(profile_of({}).architecture.compute_capability == 80);
}

TEST_CASE("words that are not known are refused with those that are") {
  CHECK(refusal_of("MEZZO_FAKE_CC=70") ==
        "MEZZO_FAKE_CC = '70': expected one of 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121");
  CHECK(refusal_of("MEZZO_FAKE_ORDER=backwards") ==
        "MEZZO_FAKE_ORDER = 'backwards': expected one of forward, reversed, random, round-robin");
  CHECK(refusal_of("MEZZO_FAKE_DEVICES=17") ==
        "MEZZO_FAKE_DEVICES = '17': expected a number from 0 to 16");
  CHECK(refusal_of("MEZZO_FAKE_OOM=second") ==
        "MEZZO_FAKE_OOM = 'second': expected a number from 0 to 4611686018427387904");
  CHECK(refusal_of("MEZZO_FAKE_FAIL=cuNothing=1") ==
        "MEZZO_FAKE_FAIL = 'cuNothing=1': expected ENTRY_POINT=CODE, comma-separated, names "
        "without version");
  CHECK(refusal_of("MEZZO_FAKE_CAPABILITY=80") ==
        "unknown variable MEZZO_FAKE_CAPABILITY; known ones are MEZZO_FAKE_BUDGET, MEZZO_FAKE_CC, "
        "MEZZO_FAKE_DEVICES, MEZZO_FAKE_DIVERGENCE, MEZZO_FAKE_DRIVER, MEZZO_FAKE_FAIL, "
        "MEZZO_FAKE_INIT, MEZZO_FAKE_MEMORY, MEZZO_FAKE_MMA, MEZZO_FAKE_OOM, MEZZO_FAKE_ORDER, "
        "MEZZO_FAKE_POOLS, MEZZO_FAKE_SEED, MEZZO_FAKE_THREADS");
}

TEST_CASE("the newest PTX of a driver follows NVIDIA's table of releases") {
  for (const auto& [driver, ptx] : {std::pair{11080, 78},
                                    {12000, 80},
                                    {12040, 84},
                                    {12050, 85},
                                    {12060, 85},
                                    {12080, 87},
                                    {12090, 88},
                                    {13000, 90}})
    CHECK(fakecuda::newest_ptx(driver) == ptx);
}

PROCESS_CASE("a wrong variable makes cuInit fail", "MEZZO_FAKE_MMA=fast") {
  CHECK(fake().cuInit(0) == InvalidValue);
  int count = 0;
  CHECK(fake().cuDeviceGetCount(&count) == NotInitialized);
}

PROCESS_CASE("an entry point fails on request", "MEZZO_FAKE_FAIL=cuStreamSynchronize=719") {
  const FakeContext context;
  CHECK(fake().cuStreamSynchronize(nullptr) == LaunchFailed);
  CHECK(fake().cuCtxSynchronize() == Success);
}

PROCESS_CASE("the stub of a toolkit answers everything with one code", "MEZZO_FAKE_INIT=34") {
  CHECK(fake().cuInit(0) == StubLibrary);
  int version = 0;
  CHECK(fake().cuDriverGetVersion(&version) == StubLibrary);
  const char* name = nullptr;
  CHECK(fake().cuGetErrorName(StubLibrary, &name) == StubLibrary);
  CHECK(name == nullptr);
}

PROCESS_CASE("each device has memory and a fault of its own", "MEZZO_FAKE_DEVICES=2") {
  const FakeContext second(1);
  {
    const FakeContext first(0);
    const DevicePointer a = first.allocate(64);
    CHECK(launch_poke(first.kernel(kKernels, "poke"), a + 64, nullptr) == Success);
    CHECK(fake().cuCtxSynchronize() == IllegalAddress);
  }
  CHECK(fake().cuCtxSynchronize() == Success);
  Device device = -1;
  CHECK(fake().cuCtxGetDevice(&device) == Success);
  CHECK(device == 1);
}

/// Attributes of a device, as NVIDIA's table of technical specifications has them.
void check_device(int major, int minor, int shared_kilobytes, int threads) {
  CHECK(fake().cuInit(0) == Success);
  const auto ask = [](DeviceAttribute which) {
    int value = -1;
    CHECK(fake().cuDeviceGetAttribute(&value, which, 0) == Success);
    return value;
  };
  CHECK(ask(ComputeCapabilityMajor) == major);
  CHECK(ask(ComputeCapabilityMinor) == minor);
  CHECK(ask(MaxSharedMemoryPerBlockOptin) == shared_kilobytes * 1024);
  CHECK(ask(MaxSharedMemoryPerBlock) == 48 * 1024);
  CHECK(ask(MaxThreadsPerMultiprocessor) == threads);
  CHECK(ask(MaxThreadsPerBlock) == 1024);
  CHECK(ask(MaxRegistersPerBlock) == 65536);
  CHECK(ask(WarpSize) == 32);
  int unknown = 0;
  CHECK(fake().cuDeviceGetAttribute(&unknown, static_cast<DeviceAttribute>(100000), 0) ==
        InvalidValue);
}

PROCESS_CASE("a device of 7.5", "MEZZO_FAKE_CC=75") { check_device(7, 5, 64, 1024); }
PROCESS_CASE("a device of 8.0", "MEZZO_FAKE_CC=80") { check_device(8, 0, 163, 2048); }
PROCESS_CASE("a device of 8.6", "MEZZO_FAKE_CC=86") { check_device(8, 6, 99, 1536); }
PROCESS_CASE("a device of 9.0", "MEZZO_FAKE_CC=90") { check_device(9, 0, 227, 2048); }
PROCESS_CASE("a device of 12.0", "MEZZO_FAKE_CC=120") { check_device(12, 0, 99, 1536); }

}  // namespace
}  // namespace mezzo::test
