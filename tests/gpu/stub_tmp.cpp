#include <gpu/report.h>
namespace mezzo::gpu {
void check_training(const Options&, Report&) {}
void measure_speed(const Options&, Report&) {}
}  // namespace mezzo::gpu
