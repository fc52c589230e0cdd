// SPDX-License-Identifier: Apache-2.0
// Device memory: places, poison, live blocks and what becomes of freed ones.
#include <ptx/memory.h>

#include <doctest/doctest.h>

#include <csetjmp>
#include <csignal>
#include <new>
#include <set>

namespace mezzo::ptx {
namespace {

TEST_CASE("an allocation is aligned, poisoned and has a gap behind it") {
  DeviceMemory memory(1 << 20);
  const Address a = memory.allocate(100).value();
  const Address b = memory.allocate(7).value();
  CHECK(a % 512 == 0);
  CHECK(b % 512 == 0);
  CHECK(b >= a + 100 + 512);
  for (uint64_t i = 0; i < 100; ++i) CHECK(memory.host(a)[i] == std::byte{0xCD});
  CHECK(memory.used() == 107);
}

TEST_CASE("an access is held only where all of its bytes are in one live allocation") {
  DeviceMemory memory(1 << 20);
  const Address a = memory.allocate(64).value();
  CHECK(memory.holds(a, 64));
  CHECK(memory.holds(a + 60, 4));
  CHECK_FALSE(memory.holds(a + 61, 4));
  CHECK_FALSE(memory.holds(a + 64, 1));
  CHECK_FALSE(memory.holds(a - 1, 1));
  CHECK_FALSE(memory.holds(a, ~uint64_t{0}));
  CHECK_FALSE(memory.find(a + 64));
  CHECK(memory.find(a + 63)->begin == a);
  CHECK(memory.nearest_before(a + 1000)->begin == a);
  CHECK_FALSE(memory.nearest_before(a - 1));
  CHECK(memory.free(a));
  CHECK_FALSE(memory.holds(a, 1));
  CHECK_FALSE(memory.free(a));
}

TEST_CASE("memory is full at its capacity and not before") {
  DeviceMemory memory(1000);
  const Address a = memory.allocate(600).value();
  CHECK_FALSE(memory.allocate(401));
  CHECK(memory.allocate(400));
  CHECK_FALSE(memory.allocate(1));
  CHECK(memory.free(a));
  CHECK(memory.allocate(600));
}

TEST_CASE("a freed place is used again last, and poisoned anew") {
  DeviceMemory memory(64 << 20);
  std::set<Address> seen;
  Address first = 0;
  bool again = false;
  for (int i = 0; i < 100 && !again; ++i) {
    const Address a = memory.allocate(16 << 20).value();
    if (!first) first = a;
    again = !seen.insert(a).second;
    CHECK(memory.host(a)[5] == std::byte{0xCD});
    memory.host(a)[5] = std::byte{1};
    CHECK(memory.free(a));
  }
  CHECK(again);
  CHECK(seen.size() >= 16);
}

TEST_CASE("blocks that are freed in any order grow together again") {
  DeviceMemory memory(1 << 20);
  for (int round = 0; round < 2000; ++round) {
    const Address a = memory.allocate(100 << 10).value();
    const Address b = memory.allocate(500 << 10).value();
    const Address c = memory.allocate(300 << 10).value();
    CHECK(memory.free(round % 2 ? b : a));
    CHECK(memory.free(c));
    CHECK(memory.free(round % 2 ? a : b));
  }
  CHECK(memory.used() == 0);
}

sigjmp_buf after_fault;

TEST_CASE("the host cannot dereference a device address") {
  DeviceMemory memory(4096);
  const Address a = memory.allocate(16).value();
  struct sigaction action{}, old{};
  action.sa_handler = [](int) { siglongjmp(after_fault, 1); };
  sigaction(SIGSEGV, &action, &old);
  bool caught = true;
  if (sigsetjmp(after_fault, 1) == 0) {
    [[maybe_unused]] const volatile char value = *reinterpret_cast<const volatile char*>(a);
    caught = false;
  }
  sigaction(SIGSEGV, &old, nullptr);
  CHECK(caught);
}

}  // namespace
}  // namespace mezzo::ptx
