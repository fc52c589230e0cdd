// SPDX-License-Identifier: Apache-2.0
// Queues of the fake driver: putting work into them, or into a recording, and doing it.
#pragma once

#include <functional>
#include <memory>
#include <ptx/fake_objects.h>

namespace mezzo::fakecuda {

/// The stream of a handle, null where it is none.
runtime::cuda::StreamObject* find_stream(runtime::cuda::ContextObject& context,
                                         runtime::cuda::Stream handle);

/// Puts work on a stream, or a node into the graph that it records.
runtime::cuda::Result enqueue(runtime::cuda::ContextObject& context, runtime::cuda::Stream handle,
                              std::function<void()> run);

/// Does what stands in a stream up to a marker, or all; and what that waits for.
void drain(runtime::cuda::StreamObject& stream);
void reach(const std::shared_ptr<runtime::cuda::Marker>& marker);
void drain_all(runtime::cuda::ContextObject& context);
/// Does the first thing in a stream that is not empty.
void step(runtime::cuda::StreamObject& stream);

/// Adds a node that needs the ends of `stream` in its recording and becomes its end.
void record_node(runtime::cuda::StreamObject& stream, std::function<void()> run);

}  // namespace mezzo::fakecuda
