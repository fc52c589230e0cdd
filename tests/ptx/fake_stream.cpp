// SPDX-License-Identifier: Apache-2.0
#include <ptx/fake_stream.h>

#include <algorithm>
#include <chrono>
#include <ptx/fake_entry.h>
#include <utility>

namespace mezzo::fakecuda {

using namespace runtime::cuda;

namespace {

double now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The legacy stream and the blocking ones wait for each other.
void order_against_legacy(ContextObject& context, StreamObject& stream) {
  if (&stream == &context.legacy) {
    for (StreamObject* other : context.streams)
      if (other->blocking) drain(*other);
  } else if (stream.blocking) {
    drain(context.legacy);
  }
}

Result put(ContextObject& context, Stream handle, Work work) {
  StreamObject* stream = find_stream(context, handle);
  if (!stream) return InvalidHandle;
  order_against_legacy(context, *stream);
  stream->queue.push_back(std::move(work));
  return Success;
}

}  // namespace

StreamObject* find_stream(ContextObject& context, Stream handle) {
  if (!handle || handle == kLegacyStream) return &context.legacy;
  return is_live(context, handle) ? handle : nullptr;
}

void step(StreamObject& stream) {
  const Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (work.wait) reach(work.wait);
  // After a fault a device does nothing any more.
  if (work.run && stream.context->fault == Success) work.run();
  if (work.record) {
    work.record->done = true;
    work.record->milliseconds = now();
  }
}

void drain(StreamObject& stream) {
  while (!stream.queue.empty()) step(stream);
}

void reach(const std::shared_ptr<Marker>& marker) {
  while (!marker->done && !marker->stream->queue.empty()) step(*marker->stream);
}

void drain_all(ContextObject& context) {
  drain(context.legacy);
  for (StreamObject* stream : context.streams) drain(*stream);
}

void record_node(StreamObject& stream, std::function<void()> run) {
  Capture& capture = *stream.capture;
  auto node = std::make_unique<GraphNodeObject>();
  node->run = std::move(run);
  node->needs = capture.ends[&stream];
  capture.ends[&stream] = {node.get()};
  capture.graph->nodes.push_back(std::move(node));
}

Result enqueue(ContextObject& context, Stream handle, std::function<void()> run) {
  StreamObject* stream = find_stream(context, handle);
  if (!stream) return InvalidHandle;
  if (stream->capture) {
    if (stream->capture->invalid) return StreamCaptureInvalidated;
    record_node(*stream, std::move(run));
    return Success;
  }
  if (stream == &context.legacy)
    for (const auto& capture : driver().captures)
      if (capture->mode != CaptureRelaxed && capture->origin->blocking) {
        capture->invalid = true;
        return StreamCaptureImplicit;
      }
  return put(context, handle, {.run = std::move(run)});
}

}  // namespace mezzo::fakecuda

namespace mezzo::runtime::cuda {

using namespace fakecuda;

Result cuStreamCreate(Stream* stream, unsigned flags) {
  return with_context("cuStreamCreate", [&](ContextObject& context) {
    if (!stream || flags > StreamNonBlocking) return InvalidValue;
    auto made = std::make_unique<StreamObject>();
    made->blocking = flags != StreamNonBlocking;
    *stream = adopt(context, std::move(made));
    context.streams.insert(*stream);
    return Success;
  });
}

Result cuStreamDestroy_v2(Stream stream) {
  return with_context("cuStreamDestroy", [&](ContextObject& context) {
    if (!is_live(context, stream)) return InvalidHandle;
    if (stream->capture) stream->capture->invalid = true;
    drain(*stream);
    context.streams.erase(stream);
    disown(context, stream);
    return Success;
  });
}

Result cuStreamSynchronize(Stream handle) {
  return with_context("cuStreamSynchronize", [&](ContextObject& context) {
    count_synchronising();
    StreamObject* stream = find_stream(context, handle);
    if (!stream) return InvalidHandle;
    if (stream->capture) {
      stream->capture->invalid = true;
      return StreamCaptureUnsupported;
    }
    order_against_legacy(context, *stream);
    drain(*stream);
    return context.fault;
  });
}

// A query does the next thing of the stream, so that a loop of queries comes to an end.
Result cuStreamQuery(Stream handle) {
  return with_context("cuStreamQuery", [&](ContextObject& context) {
    StreamObject* stream = find_stream(context, handle);
    if (!stream) return InvalidHandle;
    if (stream->capture) {
      stream->capture->invalid = true;
      return StreamCaptureUnsupported;
    }
    if (!stream->queue.empty()) step(*stream);
    if (context.fault != Success) return context.fault;
    return stream->queue.empty() ? Success : NotReady;
  });
}

Result cuStreamWaitEvent(Stream handle, Event event, unsigned) {
  return with_context("cuStreamWaitEvent", [&](ContextObject& context) {
    StreamObject* stream = find_stream(context, handle);
    if (!stream || !is_live(context, event)) return InvalidHandle;
    if (event->capture) {  // joins the recording
      if (stream->capture && stream->capture != event->capture) return IllegalState;
      if (event->capture->invalid) return StreamCaptureInvalidated;
      stream->capture = event->capture;
      std::vector<GraphNodeObject*>& ends = event->capture->ends[stream];
      for (GraphNodeObject* node : event->captured_ends)
        if (std::find(ends.begin(), ends.end(), node) == ends.end()) ends.push_back(node);
      return Success;
    }
    if (!event->marker) return Success;
    if (stream->capture) {
      // A graph cannot depend on work outside of it.
      stream->capture->invalid = true;
      return StreamCaptureInvalidated;
    }
    return put(context, handle, {.wait = event->marker});
  });
}

Result cuEventCreate(Event* event, unsigned flags) {
  return with_context("cuEventCreate", [&](ContextObject& context) {
    if (!event) return InvalidValue;
    auto made = std::make_unique<EventObject>();
    made->timing = (flags & EventDisableTiming) == 0;
    *event = adopt(context, std::move(made));
    return Success;
  });
}

// What waits for the event keeps its marker.
Result cuEventDestroy_v2(Event event) {
  return with_context("cuEventDestroy", [&](ContextObject& context) {
    if (!is_live(context, event)) return InvalidHandle;
    disown(context, event);
    return Success;
  });
}

Result cuEventRecord(Event event, Stream handle) {
  return with_context("cuEventRecord", [&](ContextObject& context) {
    StreamObject* stream = find_stream(context, handle);
    if (!stream || !is_live(context, event)) return InvalidHandle;
    event->capture = stream->capture;
    if (stream->capture) {
      event->captured_ends = stream->capture->ends[stream];
      event->marker = nullptr;
      return Success;
    }
    event->marker = std::make_shared<Marker>(Marker{stream});
    return put(context, handle, {.record = event->marker});
  });
}

Result cuEventSynchronize(Event event) {
  return with_context("cuEventSynchronize", [&](ContextObject& context) {
    count_synchronising();
    if (!is_live(context, event)) return InvalidHandle;
    if (event->capture) {
      event->capture->invalid = true;
      return StreamCaptureUnsupported;
    }
    if (event->marker) reach(event->marker);
    return context.fault;
  });
}

Result cuEventQuery(Event event) {
  return with_context("cuEventQuery", [&](ContextObject& context) {
    if (!is_live(context, event)) return InvalidHandle;
    if (!event->marker || event->marker->done) return Success;
    step(*event->marker->stream);
    if (context.fault != Success) return context.fault;
    return event->marker->done ? Success : NotReady;
  });
}

Result cuEventElapsedTime(float* milliseconds, Event start, Event end) {
  return with_context("cuEventElapsedTime", [&](ContextObject& context) {
    if (!is_live(context, start) || !is_live(context, end)) return InvalidHandle;
    if (!start->timing || !end->timing || !start->marker || !end->marker) return InvalidHandle;
    if (!start->marker->done || !end->marker->done) return NotReady;
    *milliseconds = static_cast<float>(end->marker->milliseconds - start->marker->milliseconds);
    return Success;
  });
}

}  // namespace mezzo::runtime::cuda
