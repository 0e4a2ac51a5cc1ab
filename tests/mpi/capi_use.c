#include "mpi/capi_use.h"

#include <slabload/slabload.h>
#include <stdio.h>
#include <string.h>

static int compare(const slabload_shard* shard, const slabload_tensor* tensor, const slabload_box* box) {
  uint64_t elements = 1;
  if (strcmp(shard->name, tensor->name) != 0 || strcmp(shard->dtype, tensor->dtype) != 0) return 0;
  if (shard->ndim != tensor->ndim || shard->ndim != box->ndim) return 0;
  for (uint32_t d = 0; d < shard->ndim; ++d) {
    if (shard->global_shape[d] != tensor->shape[d]) return 0;
    if (shard->shape[d] != box->extent[d] || shard->offset[d] != box->start[d]) return 0;
    elements *= shard->shape[d];
  }
  return shard->bytes == elements * shard->element_bytes && (shard->data == NULL) == (shard->bytes == 0);
}

int capi_use(int communicator, uint64_t rank, uint64_t ranks, const char* path, uint64_t* sum, char* why,
             size_t why_bytes) {
  slabload_error* error = NULL;
  slabload_index* index = NULL;
  slabload_layout* layout = NULL;
  slabload_shards* shards = NULL;
  slabload_index_info info;
  const slabload_option options[] = {{"layout", "fsdp2"}, {"staging", "4MiB"}, {"verify", "shards"}};
  int failed = 1;

  *sum = 0;
  snprintf(why, why_bytes, "a shard is not the box it should be");
  /* All ranks take part in the load, whatever came before it. */
  slabload_load(communicator, path, options, sizeof options / sizeof options[0], &shards, &error);
  if (error != NULL) goto end;
  if (slabload_index_open(path, &index, &error) != SLABLOAD_OK) goto end;
  if (slabload_index_get_info(index, &info, &error) != SLABLOAD_OK) goto end;
  if (slabload_layout_preset("fsdp2", NULL, ranks, &layout, &error) != SLABLOAD_OK) goto end;
  for (uint64_t t = 0; t < info.tensors; ++t) {
    slabload_tensor tensor;
    slabload_box box;
    slabload_shard shard;
    uint64_t number;
    const unsigned char* bytes;
    if (slabload_index_get_tensor(index, t, &tensor, &error) != SLABLOAD_OK) goto end;
    if (slabload_layout_get_box(layout, index, t, rank, &box, &error) != SLABLOAD_OK) goto end;
    if (slabload_shards_find(shards, tensor.name, &number, &error) != SLABLOAD_OK) goto end;
    if (slabload_shards_get(shards, number, &shard, &error) != SLABLOAD_OK) goto end;
    if (!compare(&shard, &tensor, &box)) goto end;
    bytes = shard.data;
    for (uint64_t i = 0; i < shard.bytes; ++i) *sum += bytes[i];
  }
  failed = 0;

end:
  if (error != NULL) snprintf(why, why_bytes, "%s", slabload_error_message(error));
  slabload_error_free(error);
  slabload_shards_free(shards);
  slabload_layout_free(layout);
  slabload_index_free(index);
  return failed;
}
