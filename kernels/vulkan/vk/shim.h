// What Go calls: whole lists at once, and all that is newer than the binding's
// headers. Nothing here keeps a pointer into Go's memory.
#ifndef MEMOPT_VULKAN_SHIM_H
#define MEMOPT_VULKAN_SHIM_H
#include <stdint.h>

typedef struct { uint32_t m, n, k; } mo_shape;

// What a physical device is and can do.
typedef struct {
	char name[256], driver[256], driver_info[256];
	uint32_t api, vendor, device, type, driver_version;
	uint32_t subgroup, subgroup_operations;
	uint32_t max_groups[3], max_invocations, max_push;
	uint32_t shared_bytes, storage_buffers, sets;
	uint64_t max_range, max_allocation, storage_alignment, atom;
	uint32_t max_allocations;
	float timestamp_period;
	uint32_t timestamp_bits; // of the queue family
	int32_t family;          // with compute; −1 if there is none
	int32_t transfer;        // without compute and graphics; −1 if there is none
	uint32_t transfer_queues; // of it
	uint32_t int64, storage8, int8, storage16, float16, addresses;
	uint32_t heaps, types;
	struct { uint64_t size; uint32_t flags; uint64_t budget, usage; } heap[16];
	struct { uint32_t heap, flags; } memory[32];
	uint32_t has_budget, has_size_control, has_host_memory, has_push;
	uint32_t most_pushed; // how many bindings a command may push, where has_push
	uint64_t import_alignment; // of a pointer to host memory and of its bytes, where has_host_memory
	// Cooperative matrices of a subgroup whose products are summed in float32: what they can hold, and their shapes.
	uint32_t has_matrices, has_bfloat16;
	uint32_t shapes, bfloat16_shapes;
	mo_shape shape[16], bfloat16_shape[16];
} mo_physical;

// A command of a list. Fields that a kind does not name are zero.
enum { MO_DISPATCH, MO_BARRIER, MO_COPY, MO_FILL, MO_TIME, MO_RESET };
typedef struct {
	uint32_t kind;
	uint32_t groups[3];
	uint64_t pipeline, layout, set;    // dispatch; the set is 0 where its bindings are pushed
	uint32_t push_at, push_bytes;      // dispatch: bytes of the list's constants
	uint32_t bind_at, bindings;        // dispatch: those of the list that are pushed
	uint64_t from, to;                 // copy: buffers; fill: to
	uint64_t from_at, to_at, bytes;    // copy and fill
	uint32_t value;                    // fill: the word; time: the query; reset: how many queries
	uint32_t host;                     // barrier: also towards the host
} mo_command;

// A range of a buffer that a shader sees as a binding of a set.
typedef struct {
	uint64_t set, buffer, at, bytes;
	uint32_t binding, unused;
} mo_binding;

typedef struct { uint64_t module, set_layout, layout, pipeline; } mo_pipeline;

// The most bindings of a dispatch that are pushed.
enum { MO_PUSHED = 32 };

typedef struct mo_device mo_device;

void *mo_load(const char *path);
void mo_describe(void *get, void *instance, void *physical, mo_physical *out);
void *mo_features(const mo_physical *p);
mo_device *mo_attach(void *get, void *instance, void *physical, void *device, const mo_physical *p);
void mo_detach(mo_device *d);
void mo_budget(mo_device *d, mo_physical *p);

// What memory of buffers that have addresses is allocated with, and the address of
// such a buffer.
void *mo_addressed(void);
uint64_t mo_address(mo_device *d, uint64_t buffer);

// What a buffer on host memory is made with, what its memory is allocated with (to be
// freed), and the types of memory that a pointer to host memory allows, a bit each.
void *mo_external(void);
void *mo_import(void *host, uint32_t addressed);
int32_t mo_host_types(mo_device *d, void *host, uint32_t *types);

int32_t mo_make_pipeline(mo_device *d, const uint32_t *code, uint64_t bytes, const uint32_t *spec, uint32_t specs,
	uint32_t bindings, uint32_t push_bytes, uint32_t pushed, mo_pipeline *out);
int32_t mo_keep_pipelines(mo_device *d, const void *saved, uint64_t bytes);
int32_t mo_kept_pipelines(mo_device *d, void *to, uint64_t *bytes);
void mo_free_pipeline(mo_device *d, const mo_pipeline *p);

int32_t mo_make_sets(mo_device *d, const uint64_t *layouts, uint32_t n, uint32_t bindings, uint64_t *pool, uint64_t *sets);
void mo_bind(mo_device *d, const mo_binding *b, uint32_t n);
void mo_free_sets(mo_device *d, uint64_t pool);

int32_t mo_make_pool(mo_device *d, uint32_t copies, uint64_t *pool);
int32_t mo_record(mo_device *d, uint64_t pool, const mo_command *c, uint32_t n, const uint8_t *push, const mo_binding *bindings, uint64_t queries,
	uint32_t copies, uint64_t *list);
void mo_free_list(mo_device *d, uint64_t pool, uint64_t list);
void mo_free_pool(mo_device *d, uint64_t pool);
int32_t mo_make_queries(mo_device *d, uint32_t n, uint64_t *queries);
int32_t mo_read_queries(mo_device *d, uint64_t queries, uint32_t n, uint64_t *out);
void mo_free_queries(mo_device *d, uint64_t queries);

// Submits the lists in order, each as a batch, and waits for the last.
int32_t mo_submit(mo_device *d, const uint64_t *lists, uint32_t n, uint64_t timeout_ns);

// Lists in lanes, each of which runs its own in order, on a queue that may be that of
// another: work, copies out and copies back. A list waits for the ends of lists of
// other lanes, by how many of theirs there are up to it; 0 is none. Waits for all.
enum { MO_LANES = 3 };
typedef struct {
	uint64_t list, waits[MO_LANES];
	uint32_t lane, unused;
} mo_batch;
int32_t mo_make_lanes(mo_device *d);
int32_t mo_submit_lanes(mo_device *d, const mo_batch *b, uint32_t n, uint64_t timeout_ns);

// The messages of the validation layers, one a line.
int32_t mo_listen(void *get, void *instance);
uint32_t mo_messages(char *out, uint32_t bytes);
#endif
