#include <gpu/report.h>
namespace mezzo::gpu {
void measure_speed(const Options&, Report&) {}
}  // namespace mezzo::gpu
