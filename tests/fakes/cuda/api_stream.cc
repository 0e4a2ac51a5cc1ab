// Streams and events.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "api.h"
#include "event.h"
#include "stream.h"

using namespace fakecuda;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  FAKE_ENTER("cudaStreamCreateWithFlags");
  forbid_while_nccl_pending("cudaStreamCreateWithFlags");
  if (flags > cudaStreamNonBlocking) return result(cudaErrorInvalidValue);
  set_current_device(std::max(current_device(), 0));
  *stream = reinterpret_cast<cudaStream_t>(create_stream());
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  FAKE_ENTER("cudaStreamDestroy");
  destroy_stream(stream_of(stream, "cudaStreamDestroy"));
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  FAKE_ENTER("cudaStreamWaitEvent");
  const Event& waited = event_of(event, "cudaStreamWaitEvent");
  record_of(waited, "cudaStreamWaitEvent");
  wait_for_event(stream_of(stream, "cudaStreamWaitEvent"), waited);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  FAKE_ENTER("cudaStreamQuery");
  return result(query_stream(stream_of(stream, "cudaStreamQuery")));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  FAKE_ENTER("cudaStreamSynchronize");
  Stream& waited = stream_of(stream, "cudaStreamSynchronize");
  return result(synchronize(waited, waited.issued, waited.clock));
}

cudaError_t cudaDeviceSynchronize() {
  FAKE_ENTER("cudaDeviceSynchronize");
  cudaError_t error = cudaSuccess;
  for (Stream* stream : all_streams())
    if (const cudaError_t one = synchronize(*stream, stream->issued, stream->clock); error == cudaSuccess)
      error = one;
  return result(error);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  FAKE_ENTER("cudaEventCreateWithFlags");
  forbid_while_nccl_pending("cudaEventCreateWithFlags");
  set_current_device(std::max(current_device(), 0));
  *event = reinterpret_cast<cudaEvent_t>(create_event((flags & cudaEventDisableTiming) == 0));
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  FAKE_ENTER("cudaEventDestroy");
  destroy_event(event_of(event, "cudaEventDestroy"));
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FAKE_ENTER("cudaEventRecord");
  record_event(event_of(event, "cudaEventRecord"), stream_of(stream, "cudaEventRecord"));
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  FAKE_ENTER("cudaEventQuery");
  const Event& asked = event_of(event, "cudaEventQuery");
  record_of(asked, "cudaEventQuery");
  return result(query_event(asked));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  FAKE_ENTER("cudaEventSynchronize");
  Record& record = record_of(event_of(event, "cudaEventSynchronize"), "cudaEventSynchronize");
  return result(synchronize(*record.stream, record.number, record.clock));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  FAKE_ENTER("cudaEventElapsedTime");
  const Event& first = event_of(begin, "cudaEventElapsedTime");
  const Event& last = event_of(end, "cudaEventElapsedTime");
  if (!first.timed || !last.timed || !first.record || !last.record)
    return result(cudaErrorInvalidResourceHandle);
  // As far as the host knows, so that the answer is the same in every mode.
  for (const Record* record : {first.record.get(), last.record.get()})
    if (host_clock().at(record->stream->index) < record->number) return result(cudaErrorNotReady);
  *milliseconds = static_cast<float>(1e3 * (last.record->time_s - first.record->time_s));
  return cudaSuccess;
}

}  // extern "C"
