// SPDX-License-Identifier: Apache-2.0
// The first steps of a training on the device: losses against the CPU's, and the same bits again.
#include <mezzo/ir/error.h>

#include <gpu/micro_device.h>
#include <gpu/report.h>
#include <train/demo_network.h>
#include <train/training_run.h>

namespace mezzo::gpu {

namespace {

template <class Network>
void compare(const test::ComparedPolicy& policy, int64_t batch, int64_t features,
             const Options& options, Report& report) {
  const std::string name = policy.policy.name();
  const Device device = Device::cuda(options.ordinal);
  const test::Trained cpu = test::train<Network>(policy.policy, Device::cpu(), batch, features);
  const test::Trained first = test::train<Network>(policy.policy, device, batch, features);
  const test::Trained second = test::train<Network>(policy.policy, device, batch, features);
  const double worst = test::difference(first.losses, cpu.losses);
  const bool same = first.bits == second.bits;
  // Not "greater than": a NaN is wrong too.
  if (!(worst <= policy.bound))
    report.fail(fmt::format("training under {}: losses are {:.2e} from the CPU's, {:.0e} allowed",
                            name, worst, policy.bound));
  if (!same) report.fail(fmt::format("training under {}: two runs differ", name));
  if (first.skipped != cpu.skipped)
    report.fail(fmt::format("training under {}: {} steps skipped, {} on the CPU", name,
                            first.skipped, cpu.skipped));
  report.line("  {:15} losses {:.4f} to {:.4f}, at most {:.1e} from the CPU's ({:.0e} allowed), {}",
              name, first.losses.front(), first.losses.back(), worst, policy.bound,
              same ? "the same bits in two runs" : "OTHER BITS in a second run");
  report.json()["training"].push_back({{"policy", name},
                                       {"losses", first.losses},
                                       {"cpu_losses", cpu.losses},
                                       {"max_relative_difference", worst},
                                       {"allowed", policy.bound},
                                       {"same_bits_in_two_runs", same}});
}

}  // namespace

void check_training(const Options& options, Report& report) {
  report.line("\ntraining: {} steps of {}", test::kComparedSteps,
              options.quick ? "a small network" : "the network of the demo");
  for (const test::ComparedPolicy& policy : test::compared_policies()) {
    try {
      if (options.quick)
        compare<test::SmallNetwork>(policy, 64, 50, options, report);
      else
        compare<test::DemoNetwork>(policy, test::kDemoBatch, 784, options, report);
    } catch (const Error& error) {
      report.fail(fmt::format("training under {}: {}", policy.policy.name(), error.what()));
      renew_after_fault(options.ordinal);
    }
  }
}

}  // namespace mezzo::gpu
