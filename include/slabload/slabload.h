/* slabload from C: what a checkpoint holds, which part of it a rank gets, and the load itself.
 *
 * Conventions
 *  1. Handles (slabload_index, slabload_layout, slabload_shards, slabload_error) are opaque. Each is freed
 *     by the function named after it, once; freeing NULL does nothing. Handles don't depend on each other.
 *  2. Strings, arrays and memory that a call hands out belong to the handle they were asked from and live
 *     as long as it does. Nothing that is passed in is kept: it may go when the call returns.
 *  3. A call that can fail returns a status, the same number that the program ends with. Its last argument
 *     says where the reason goes: NULL for nowhere, or the address of a pointer that is NULL or holds an
 *     earlier error, which is then freed. Afterwards it holds a new error if the call failed, and NULL if
 *     it did not.
 *  4. Results are written only on SLABLOAD_OK, except that a handle asked for becomes NULL on failure. A
 *     NULL argument that is not allowed, a number out of range and an unknown name are answered with
 *     SLABLOAD_USAGE.
 *  5. Text is UTF-8 and ends with a zero byte. Sizes and offsets are in bytes where they say so, in
 *     elements otherwise. Dimensions go from the outermost to the innermost, data is row-major and in this
 *     machine's byte order.
 *  6. Only slabload_load and slabload_save are collective. Everything else is one process's own business and needs no MPI.
 *  7. Handles don't change once made: several threads may read one. The calls that open files
 *     (slabload_index_open, slabload_load) are for one thread of the process at a time, and the second for
 *     one that may call MPI.
 *  8. The library prints nothing, keeps no state between calls, and neither SLABLOAD_ environment
 *     variables nor configuration files reach it. It ends the process in one case only, named at
 *     slabload_load.
 */
#ifndef SLABLOAD_SLABLOAD_H_
#define SLABLOAD_SLABLOAD_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most dimensions a tensor can have. */
#define SLABLOAD_MAX_NDIM 32

typedef enum slabload_status {
  SLABLOAD_OK = 0,
  SLABLOAD_WRONG_DATA = 1, /* a checksum, or what `expect` lists, differs */
  SLABLOAD_USAGE = 2,      /* a wrong argument, option, mesh or layout; a plan that does not fit */
  SLABLOAD_FILE = 3,       /* a file cannot be read, understood or written */
  SLABLOAD_PEER = 4,       /* another rank or the communication failed */
  SLABLOAD_INTERNAL = 5    /* out of memory, or a fault of the library's own */
} slabload_status;

typedef struct slabload_error slabload_error;
typedef struct slabload_index slabload_index;
typedef struct slabload_layout slabload_layout;
typedef struct slabload_shards slabload_shards;

/* "0.1.0", with "+commit" where one is known. Static. */
const char* slabload_version(void);

/* ---- errors ------------------------------------------------------------------------------------ */

/* SLABLOAD_OK for NULL. */
slabload_status slabload_error_status(const slabload_error* error);
/* What happened, where, and what to do: one line, but for lists of differences. "" for NULL. Options are
 * named as on the command line. */
const char* slabload_error_message(const slabload_error* error);
/* 1 if every rank of the communicator got this same error, so that the job can go on; 0 if it may be this
 * rank's alone. */
int slabload_error_agreed(const slabload_error* error);
void slabload_error_free(slabload_error* error);

/* ---- what a checkpoint holds ------------------------------------------------------------------- */

/* Reads the index, and no tensor data, of an HDF5 file or of a safetensors file, folder or index.json. */
slabload_status slabload_index_open(const char* path, slabload_index** index, slabload_error** error);
void slabload_index_free(slabload_index* index);

typedef struct slabload_index_info {
  const char* path;   /* as given */
  const char* format; /* "hdf5" or "safetensors" */
  uint64_t tensors;
  uint64_t skipped; /* objects in the file that can't be tensors */
  uint64_t bytes;   /* of all tensors together */
} slabload_index_info;
slabload_status slabload_index_get_info(const slabload_index* index, slabload_index_info* info,
                                        slabload_error** error);

typedef struct slabload_tensor {
  const char* name;
  const char* dtype; /* f64 f32 f16 bf16 f8_e4m3 f8_e5m2 i64 i32 i16 i8 u64 u32 u16 u8 bool */
  uint32_t element_bytes;
  uint32_t ndim;
  const uint64_t* shape; /* ndim lengths */
  uint64_t bytes;        /* of the elements, uncompressed */
  /* "contiguous", "chunked", "chunked, partly unwritten", "compact" or "never written" */
  const char* storage;
  const char* file;  /* the file its bytes lie in */
  int is_contiguous; /* 1: `bytes` bytes in one run at `offset` of `file`; 0: not so, and offset is 0 */
  uint64_t offset;   /* from the start of the file */
  int is_big_endian; /* the bytes in the file; a load converts them */
  int has_crc64;     /* 1: the file has a checksum of it */
  uint64_t crc64;    /* CRC-64/XZ over all elements in row-major order, little-endian */
  uint64_t aliases;  /* further names of the same tensor (links in an HDF5 file) */
} slabload_tensor;
/* Tensors are numbered from 0 in the order of their bytes: by file, then by offset. */
slabload_status slabload_index_get_tensor(const slabload_index* index, uint64_t number,
                                          slabload_tensor* tensor, slabload_error** error);
slabload_status slabload_index_get_alias(const slabload_index* index, uint64_t number, uint64_t alias,
                                         const char** name, slabload_error** error);
/* The number of the tensor with this name or alias. */
slabload_status slabload_index_find(const slabload_index* index, const char* name, uint64_t* number,
                                    slabload_error** error);
/* An object that can't be a tensor, and why. */
slabload_status slabload_index_get_skipped(const slabload_index* index, uint64_t number, const char** name,
                                           const char** reason, slabload_error** error);

/* ---- which part a rank gets -------------------------------------------------------------------- */

/* A preset (fsdp2, hsdp, replicate) on a mesh such as "dp_replicate=2,dp_shard=4"; a NULL mesh is
 * dp_shard=<ranks>. */
slabload_status slabload_layout_preset(const char* preset, const char* mesh, uint64_t ranks,
                                       slabload_layout** layout, slabload_error** error);
/* From the JSON text of a rules file, which messages call rules.json. A mesh that is not NULL wins over the
 * one in it. */
slabload_status slabload_layout_rules(const char* json, const char* mesh, uint64_t ranks,
                                      slabload_layout** layout, slabload_error** error);
void slabload_layout_free(slabload_layout* layout);

/* A dense part of a tensor, in elements. Dimensions from ndim on are 0. */
typedef struct slabload_box {
  uint32_t ndim;
  uint64_t start[SLABLOAD_MAX_NDIM];
  uint64_t extent[SLABLOAD_MAX_NDIM];
} slabload_box;
/* What a rank holds of a tensor. An empty part has extent 0 in a dimension and starts at that dimension's
 * end. */
slabload_status slabload_layout_get_box(const slabload_layout* layout, const slabload_index* index,
                                        uint64_t number, uint64_t rank, slabload_box* box,
                                        slabload_error** error);

/* ---- the load ---------------------------------------------------------------------------------- */

/* Call it before MPI_Init, or at least before the program's first use of MPI-IO. It sets OMPI_MCA_io in the
 * environment unless that is set, so that Open MPI 4 reads through ROMIO: its other MPI-IO can turn a failed
 * read into zeros. slabload_load does the same, but that is too late in a program that has opened files by
 * MPI-IO itself. With other MPIs it does nothing. */
slabload_status slabload_prepare(slabload_error** error);

/* An option of `slabload load` by its name on the command line, without the dashes: {"layout", "hsdp"},
 * {"staging", "64MiB"}. Those that may be repeated there may be repeated here, and those without a value get
 * "true". All but `config` and `help` are taken. */
typedef struct slabload_option {
  const char* name;
  const char* value;
} slabload_option;

/* Loads a checkpoint: every rank reads its part, gets the rest from the others, and checks what it read.
 *
 * Collective over `communicator`, an intra-communicator given as MPI_Comm_c2f makes it; MPI runs already. All
 * ranks pass the same path and options. With no option at all `options` may be NULL.
 *
 * A file whose bytes don't match its checksums gives SLABLOAD_WRONG_DATA and no shards.
 *
 * If slabload_error_agreed says so, every rank of the communicator has the same error. If not, the others may
 * be waiting for this rank inside the call: end the job (MPI_Abort).
 *
 * If a rank stands still for longer than the option `timeout` (300s unless given), the library writes the
 * reason to stderr and ends the job by MPI_Abort with status 4, since no call would ever return.
 *
 * With GPUs (the option `device`) the calling thread's current device is changed to the one that this rank got, and
 * NCCL_LAUNCH_ORDER_IMPLICIT=1, NCCL_NVLS_ENABLE=0, NCCL_MAX_P2P_NCHANNELS=4 and NCCL_BUFFSIZE=2097152 are put into the
 * environment unless they are set there: they keep NCCL's own memory small, and NCCL reads them once in a process. Set them
 * before the call to have them otherwise.
 *
 * The peak of resident memory that the kernel keeps for the process (VmHWM) is set back at the start. */
slabload_status slabload_load(int communicator, const char* checkpoint, const slabload_option* options,
                              uint64_t option_count, slabload_shards** shards, slabload_error** error);
/* Frees the shards' memory as well. Not collective; MPI may have ended. */
void slabload_shards_free(slabload_shards* shards);

typedef struct slabload_shards_info {
  uint64_t tensors;
  uint64_t rank; /* in the communicator */
  uint64_t ranks;
  const char* mesh; /* "dp_shard=4" */
  const char* layout;
  const char* strategy; /* the one taken, if `auto` was asked for */
  const char* device;   /* "host" or "cuda": where the shards lie; the option `device` asks for one */
  uint64_t bytes;       /* of memory with this rank's shards, the padding between them included */
  uint64_t verified;    /* tensors whose bytes were found to match their checksum */
  uint64_t unverified;
  const char* report; /* rank 0: the report as JSON, as --report writes it; NULL elsewhere */
} slabload_shards_info;
slabload_status slabload_shards_get_info(const slabload_shards* shards, slabload_shards_info* info,
                                         slabload_error** error);

typedef struct slabload_shard {
  const char* name;
  const char* dtype; /* of the data here: after a cast the new one */
  uint32_t element_bytes;
  uint32_t ndim;
  const uint64_t* global_shape; /* of the whole tensor */
  /* Of this rank's part, and where it begins in the tensor, per dimension, in elements; NULL if the part is not one box of
   * the tensor (strided and flat layouts): then see slabload_shards_get_part. */
  const uint64_t* shape;
  const uint64_t* offset;
  /* The part, dense and aligned to 64 bytes, in the memory of slabload_shards_info's device; yours to change; NULL if it is
   * empty. On a GPU it is a device pointer of the CUDA runtime's device that this rank got (number i for the i-th rank of a
   * node). */
  void* data;
  uint64_t bytes;
  uint64_t parts; /* boxes that lie one by one in the data; 0 if it is empty */
} slabload_shard;
/* The loaded tensors, numbered from 0 in the order of their bytes in the file. */
slabload_status slabload_shards_get(const slabload_shards* shards, uint64_t number, slabload_shard* shard,
                                    slabload_error** error);
/* Box `part` of a shard, below its `parts`: its elements lie densely in the data, row-major, from `element` on. */
slabload_status slabload_shards_get_part(const slabload_shards* shards, uint64_t number, uint64_t part,
                                         slabload_box* box, uint64_t* element, slabload_error** error);
/* The number of the loaded tensor with this name or alias. */
slabload_status slabload_shards_find(const slabload_shards* shards, const char* name, uint64_t* number,
                                     slabload_error** error);

/* ---- the save ---------------------------------------------------------------------------------- */

/* A tensor of which each rank holds a part. */
typedef struct slabload_state {
  const char* name;  /* the same on every rank, as are dtype and shape */
  const char* dtype; /* as in slabload_tensor */
  uint32_t ndim;
  const uint64_t* global_shape; /* ndim lengths, of the whole tensor */
  const void* data; /* this rank's part, dense and row-major, only read; host memory, or with the option device=cuda a
                     * pointer of the current device. May be NULL if the part is empty. */
  uint64_t bytes;   /* of the part; what the layout gives this rank, or the call is refused */
} slabload_state;

/* Writes what the ranks hold as one HDF5 checkpoint, in parallel: every element once, replicas share the work. What is at
 * `checkpoint` stays as it was until the new file is whole; the option force=true lets it be replaced.
 *
 * Collective over `communicator` (see slabload_load, also on errors that are not agreed on and on ranks that stand still).
 * All ranks pass the same tensors in the same order and the same options: those of `slabload save` but from, stage-in, out,
 * select, exclude, expect and cast. `layout` and `mesh` say which part each rank holds. The tensors are to stay untouched
 * until the call returns. */
slabload_status slabload_save(int communicator, const char* checkpoint, const slabload_state* tensors,
                              uint64_t tensor_count, const slabload_option* options, uint64_t option_count,
                              slabload_error** error);

#ifdef __cplusplus
}
#endif

#endif /* SLABLOAD_SLABLOAD_H_ */
