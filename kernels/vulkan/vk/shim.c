//go:build cgo && linux

#include "shim.h"
#include "part.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void *mo_load(const char *path) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return lib ? dlsym(lib, "vkGetInstanceProcAddr") : NULL;
}

static PFN_vkVoidFunction instance_function(void *get, void *instance, const char *name) {
	return ((PFN_vkGetInstanceProcAddr)get)((VkInstance)instance, name);
}

static void put_memory(const VkPhysicalDeviceMemoryProperties2 *m, const VkPhysicalDeviceMemoryBudgetPropertiesEXT *b, mo_physical *out) {
	const VkPhysicalDeviceMemoryProperties *p = &m->memoryProperties;
	out->heaps = p->memoryHeapCount;
	out->types = p->memoryTypeCount;
	for (uint32_t i = 0; i < p->memoryHeapCount; i++) {
		out->heap[i].size = p->memoryHeaps[i].size;
		out->heap[i].flags = p->memoryHeaps[i].flags;
		out->heap[i].budget = b->heapBudget[i];
		out->heap[i].usage = b->heapUsage[i];
	}
	for (uint32_t i = 0; i < p->memoryTypeCount; i++) {
		out->memory[i].heap = p->memoryTypes[i].heapIndex;
		out->memory[i].flags = p->memoryTypes[i].propertyFlags;
	}
}

// put_shape notes the shape of cooperative matrices that multiply elements of a type and sum in float32, subgroup by subgroup.
static void put_shape(const VkCooperativeMatrixPropertiesKHR *p, VkComponentTypeKHR of, mo_shape *shapes, uint32_t *n) {
	if (p->AType != of || p->BType != of || p->CType != VK_COMPONENT_TYPE_FLOAT32_KHR || p->ResultType != VK_COMPONENT_TYPE_FLOAT32_KHR ||
		p->scope != VK_SCOPE_SUBGROUP_KHR || p->saturatingAccumulation || *n == 16) return;
	shapes[(*n)++] = (mo_shape){p->MSize, p->NSize, p->KSize};
}

// put_matrices notes the shapes of cooperative matrices of float16 and bfloat16, as
// far as shaders can have these. Kernels with them want whole subgroups of
// the size that the device says, and atomics that all of it sees.
static void put_matrices(void *get, void *instance, VkPhysicalDevice dev, mo_physical *out) {
	PFN_vkVoidFunction found = out->has_matrices && out->has_size_control ? instance_function(get, instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR") : NULL;
	uint32_t has_bfloat16 = out->has_bfloat16;
	out->has_matrices = out->has_bfloat16 = 0;
	if (!found) return;
	VkPhysicalDeviceVulkanMemoryModelFeatures model = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES};
	VkPhysicalDeviceSubgroupSizeControlFeatures sizes = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, .pNext = &model};
	VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, .pNext = &sizes};
	VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR, .pNext = &matrices};
	VkPhysicalDeviceFeatures2 f2 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = has_bfloat16 ? (void *)&bfloat16 : &matrices};
	((PFN_vkGetPhysicalDeviceFeatures2)instance_function(get, instance, "vkGetPhysicalDeviceFeatures2"))(dev, &f2);
	int usable = matrices.cooperativeMatrix && model.vulkanMemoryModel && model.vulkanMemoryModelDeviceScope && sizes.computeFullSubgroups;
	out->has_bfloat16 = usable && bfloat16.shaderBFloat16Type && bfloat16.shaderBFloat16CooperativeMatrix;
	out->has_matrices = usable && (out->float16 || out->has_bfloat16);
	if (!out->has_matrices) return;
	PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR properties = (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)found;
	uint32_t n = 0;
	properties(dev, &n, NULL);
	VkCooperativeMatrixPropertiesKHR *all = calloc(n ? n : 1, sizeof *all);
	for (uint32_t i = 0; i < n; i++) all[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
	properties(dev, &n, all);
	for (uint32_t i = 0; i < n; i++) {
		if (out->float16) put_shape(&all[i], VK_COMPONENT_TYPE_FLOAT16_KHR, out->shape, &out->shapes);
		if (out->has_bfloat16) put_shape(&all[i], VK_COMPONENT_TYPE_BFLOAT16_KHR, out->bfloat16_shape, &out->bfloat16_shapes);
	}
	free(all);
}

void mo_describe(void *get, void *instance, void *physical, mo_physical *out) {
	VkPhysicalDevice dev = physical;
	memset(out, 0, sizeof *out);
	out->family = out->transfer = -1;
	PFN_vkGetPhysicalDeviceProperties properties = (PFN_vkGetPhysicalDeviceProperties)instance_function(get, instance, "vkGetPhysicalDeviceProperties");
	VkPhysicalDeviceProperties first;
	properties(dev, &first);
	memcpy(out->name, first.deviceName, sizeof out->name);
	out->api = first.apiVersion;
	out->type = first.deviceType;
	// What follows is only there since 1.2.
	if (first.apiVersion < (1u << 22 | 2u << 12)) return;

	VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
	VkPhysicalDeviceMaintenance3Properties m3 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, .pNext = &driver};
	VkPhysicalDeviceSubgroupProperties sub = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &m3};
	VkPhysicalDeviceProperties2 p2 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sub};
	((PFN_vkGetPhysicalDeviceProperties2)instance_function(get, instance, "vkGetPhysicalDeviceProperties2"))(dev, &p2);
	const VkPhysicalDeviceLimits *l = &p2.properties.limits;
	memcpy(out->driver, driver.driverName, sizeof out->driver);
	memcpy(out->driver_info, driver.driverInfo, sizeof out->driver_info);
	out->vendor = p2.properties.vendorID;
	out->device = p2.properties.deviceID;
	out->driver_version = p2.properties.driverVersion;
	out->subgroup = sub.subgroupSize;
	out->subgroup_operations = sub.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT ? sub.supportedOperations : 0;
	memcpy(out->max_groups, l->maxComputeWorkGroupCount, sizeof out->max_groups);
	out->max_invocations = l->maxComputeWorkGroupInvocations;
	out->max_push = l->maxPushConstantsSize;
	out->shared_bytes = l->maxComputeSharedMemorySize;
	out->storage_buffers = l->maxPerStageDescriptorStorageBuffers;
	out->max_range = l->maxStorageBufferRange;
	out->max_allocation = m3.maxMemoryAllocationSize;
	out->storage_alignment = l->minStorageBufferOffsetAlignment;
	out->atom = l->nonCoherentAtomSize;
	out->max_allocations = l->maxMemoryAllocationCount;
	out->timestamp_period = l->timestampPeriod;

	VkPhysicalDevice16BitStorageFeatures s16 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
	VkPhysicalDevice8BitStorageFeatures s8 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, .pNext = &s16};
	VkPhysicalDeviceShaderFloat16Int8Features small = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, .pNext = &s8};
	VkPhysicalDeviceBufferDeviceAddressFeatures addresses = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES, .pNext = &small};
	VkPhysicalDeviceFeatures2 f2 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &addresses};
	((PFN_vkGetPhysicalDeviceFeatures2)instance_function(get, instance, "vkGetPhysicalDeviceFeatures2"))(dev, &f2);
	out->int64 = f2.features.shaderInt64;
	out->storage8 = s8.storageBuffer8BitAccess;
	out->int8 = small.shaderInt8;
	out->storage16 = s16.storageBuffer16BitAccess;
	out->float16 = small.shaderFloat16;
	out->addresses = addresses.bufferDeviceAddress;

	uint32_t n = 0;
	PFN_vkEnumerateDeviceExtensionProperties extensions =
		(PFN_vkEnumerateDeviceExtensionProperties)instance_function(get, instance, "vkEnumerateDeviceExtensionProperties");
	extensions(dev, NULL, &n, NULL);
	VkExtensionProperties *names = calloc(n ? n : 1, sizeof *names);
	extensions(dev, NULL, &n, names);
	for (uint32_t i = 0; i < n; i++) {
		if (!strcmp(names[i].extensionName, "VK_EXT_memory_budget")) out->has_budget = 1;
		if (!strcmp(names[i].extensionName, "VK_EXT_subgroup_size_control")) out->has_size_control = 1;
		if (!strcmp(names[i].extensionName, "VK_KHR_cooperative_matrix")) out->has_matrices = 1;
		if (!strcmp(names[i].extensionName, "VK_KHR_shader_bfloat16")) out->has_bfloat16 = 1;
		if (!strcmp(names[i].extensionName, "VK_EXT_external_memory_host")) out->has_host_memory = 1;
		if (!strcmp(names[i].extensionName, "VK_KHR_push_descriptor")) out->has_push = 1;
	}
	free(names);
	if (out->has_host_memory) {
		VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
		VkPhysicalDeviceProperties2 again = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &host};
		((PFN_vkGetPhysicalDeviceProperties2)instance_function(get, instance, "vkGetPhysicalDeviceProperties2"))(dev, &again);
		out->import_alignment = host.minImportedHostPointerAlignment;
	}
	if (out->has_push) {
		VkPhysicalDevicePushDescriptorPropertiesKHR pushed = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR};
		VkPhysicalDeviceProperties2 again = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &pushed};
		((PFN_vkGetPhysicalDeviceProperties2)instance_function(get, instance, "vkGetPhysicalDeviceProperties2"))(dev, &again);
		out->most_pushed = pushed.maxPushDescriptors;
	}
	put_matrices(get, instance, dev, out);

	VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
	VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = out->has_budget ? &budget : NULL};
	((PFN_vkGetPhysicalDeviceMemoryProperties2)instance_function(get, instance, "vkGetPhysicalDeviceMemoryProperties2"))(dev, &memory);
	put_memory(&memory, &budget, out);

	// A family of compute alone is rarely watched by a display; graphics too
	// will do.
	VkQueueFamilyProperties families[32];
	n = 32;
	((PFN_vkGetPhysicalDeviceQueueFamilyProperties)instance_function(get, instance, "vkGetPhysicalDeviceQueueFamilyProperties"))(dev, &n, families);
	for (uint32_t i = 0; i < n; i++) {
		if (families[i].queueFlags & VK_QUEUE_TRANSFER_BIT && !(families[i].queueFlags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)) && out->transfer < 0) {
			out->transfer = (int32_t)i;
			out->transfer_queues = families[i].queueCount;
		}
		if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
		if (out->family >= 0 && families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) continue;
		out->family = (int32_t)i;
		out->timestamp_bits = families[i].timestampValidBits;
	}
}

// The features to switch on, as a chain for device creation; to be freed. All
// of it is one piece of memory.
void *mo_features(const mo_physical *p) {
	struct {
		VkPhysicalDeviceFeatures2 f2;
		VkPhysicalDeviceBufferDeviceAddressFeatures addresses;
		VkPhysicalDeviceShaderFloat16Int8Features small;
		VkPhysicalDevice8BitStorageFeatures s8;
		VkPhysicalDevice16BitStorageFeatures s16;
		VkPhysicalDeviceTimelineSemaphoreFeatures timelines;
		VkPhysicalDeviceVulkanMemoryModelFeatures model;
		VkPhysicalDeviceSubgroupSizeControlFeatures sizes;
		VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices;
		VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16;
	} *c = calloc(1, sizeof *c);
	c->f2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
	c->f2.pNext = &c->addresses;
	c->f2.features.shaderInt64 = p->int64;
	c->addresses.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
	c->addresses.pNext = &c->small;
	c->addresses.bufferDeviceAddress = p->addresses;
	c->small.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
	c->small.pNext = &c->s8;
	c->small.shaderInt8 = p->int8;
	c->small.shaderFloat16 = p->float16;
	c->s8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
	c->s8.pNext = &c->s16;
	c->s8.storageBuffer8BitAccess = p->storage8;
	c->s16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
	c->s16.storageBuffer16BitAccess = p->storage16;
	c->s16.pNext = &c->timelines;
	c->timelines.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
	c->timelines.timelineSemaphore = VK_TRUE; // every device of 1.2 has them
	if (p->has_matrices) {
		c->timelines.pNext = &c->model;
		c->model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
		c->model.pNext = &c->sizes;
		c->model.vulkanMemoryModel = c->model.vulkanMemoryModelDeviceScope = VK_TRUE;
		c->sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
		c->sizes.pNext = &c->matrices;
		c->sizes.computeFullSubgroups = VK_TRUE;
		c->matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
		c->matrices.cooperativeMatrix = VK_TRUE;
	}
	if (p->has_bfloat16) {
		c->matrices.pNext = &c->bfloat16;
		c->bfloat16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR;
		c->bfloat16.shaderBFloat16Type = c->bfloat16.shaderBFloat16CooperativeMatrix = VK_TRUE;
	}
	return c;
}

#define FUNCTIONS(F) \
	F(CreateShaderModule) F(DestroyShaderModule) F(CreateDescriptorSetLayout) F(DestroyDescriptorSetLayout) \
	F(CreatePipelineLayout) F(DestroyPipelineLayout) F(CreateComputePipelines) F(DestroyPipeline) \
	F(CreatePipelineCache) F(DestroyPipelineCache) F(GetPipelineCacheData) \
	F(CreateDescriptorPool) F(DestroyDescriptorPool) F(AllocateDescriptorSets) F(UpdateDescriptorSets) \
	F(CreateCommandPool) F(DestroyCommandPool) F(AllocateCommandBuffers) F(FreeCommandBuffers) F(BeginCommandBuffer) F(EndCommandBuffer) \
	F(CmdBindPipeline) F(CmdBindDescriptorSets) F(CmdPushConstants) F(CmdDispatch) F(CmdPipelineBarrier) F(CmdCopyBuffer) F(CmdFillBuffer) \
	F(CmdWriteTimestamp) F(CmdResetQueryPool) F(CreateQueryPool) F(DestroyQueryPool) F(GetQueryPoolResults) \
	F(CreateFence) F(DestroyFence) F(ResetFences) F(WaitForFences) F(QueueSubmit) F(GetDeviceQueue) F(GetBufferDeviceAddress) \
	F(CreateSemaphore) F(DestroySemaphore) F(WaitSemaphores) F(QueueWaitIdle)

struct mo_device {
	VkDevice dev;
	VkPhysicalDevice physical;
	VkQueue queue;
	VkFence fence;
	VkPipelineCache pipelines; // none where they are not kept
	uint32_t family, has_budget, transfer_queues;
	int32_t transfer;
	struct { VkQueue queue; VkSemaphore done; uint64_t count; } lanes[MO_LANES]; // none before mo_make_lanes
	PFN_vkGetPhysicalDeviceMemoryProperties2 memory;
	PFN_vkCmdPushDescriptorSetKHR push; // NULL where bindings cannot be pushed
	PFN_vkGetMemoryHostPointerPropertiesEXT host_properties; // NULL where host memory cannot be imported
#define FIELD(name) PFN_vk##name name;
	FUNCTIONS(FIELD)
};

mo_device *mo_attach(void *get, void *instance, void *physical, void *device, const mo_physical *p) {
	PFN_vkGetDeviceProcAddr of = (PFN_vkGetDeviceProcAddr)instance_function(get, instance, "vkGetDeviceProcAddr");
	mo_device *d = calloc(1, sizeof *d);
	d->dev = device;
	d->physical = physical;
	d->family = (uint32_t)p->family;
	d->has_budget = p->has_budget;
	d->transfer = p->transfer;
	d->transfer_queues = p->transfer_queues;
	d->memory = (PFN_vkGetPhysicalDeviceMemoryProperties2)instance_function(get, instance, "vkGetPhysicalDeviceMemoryProperties2");
#define LOAD(name) \
	if (!(d->name = (PFN_vk##name)of(d->dev, "vk" #name))) { free(d); return NULL; }
	FUNCTIONS(LOAD)
	d->host_properties = p->has_host_memory ? (PFN_vkGetMemoryHostPointerPropertiesEXT)of(d->dev, "vkGetMemoryHostPointerPropertiesEXT") : NULL;
	d->push = p->has_push ? (PFN_vkCmdPushDescriptorSetKHR)of(d->dev, "vkCmdPushDescriptorSetKHR") : NULL;
	d->GetDeviceQueue(d->dev, d->family, 0, &d->queue);
	VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
	if (d->CreateFence(d->dev, &info, NULL, &d->fence) != VK_SUCCESS) { free(d); return NULL; }
	return d;
}

void mo_detach(mo_device *d) {
	d->DestroyFence(d->dev, d->fence, NULL);
	d->DestroyPipelineCache(d->dev, d->pipelines, NULL);
	for (uint32_t i = 0; i < MO_LANES; i++) d->DestroySemaphore(d->dev, d->lanes[i].done, NULL);
	free(d);
}

void mo_budget(mo_device *d, mo_physical *p) {
	VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
	VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = d->has_budget ? &budget : NULL};
	d->memory(d->physical, &memory);
	put_memory(&memory, &budget, p);
}

// Handles are pointers or numbers, by the platform.
#define H(type, x) ((type)(uintptr_t)(x))
#define N(x) ((uint64_t)(uintptr_t)(x))

// multiplies_matrices says whether a module asks for cooperative matrices.
static int multiplies_matrices(const uint32_t *code, uint64_t bytes) {
	enum { HEADER = 5, OP_CAPABILITY = 17, COOPERATIVE_MATRIX_KHR = 6022 };
	for (uint64_t i = HEADER; 4 * (i + 1) < bytes && (code[i] & 0xffff) == OP_CAPABILITY; i += code[i] >> 16)
		if (code[i + 1] == COOPERATIVE_MATRIX_KHR) return 1;
	return 0;
}

void *mo_addressed(void) {
	static const VkMemoryAllocateFlagsInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
	return (void *)&info;
}

uint64_t mo_address(mo_device *d, uint64_t buffer) {
	VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = H(VkBuffer, buffer)};
	return d->GetBufferDeviceAddress(d->dev, &info);
}

void *mo_external(void) {
	static const VkExternalMemoryBufferCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
	return (void *)&info;
}

void *mo_import(void *host, uint32_t addressed) {
	VkImportMemoryHostPointerInfoEXT *info = calloc(1, sizeof *info);
	info->sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
	info->pNext = addressed ? mo_addressed() : NULL;
	info->handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
	info->pHostPointer = host;
	return info;
}

int32_t mo_host_types(mo_device *d, void *host, uint32_t *types) {
	VkMemoryHostPointerPropertiesEXT p = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
	VkResult r = VK_ERROR_EXTENSION_NOT_PRESENT;
	if (d->host_properties) r = d->host_properties(d->dev, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, host, &p);
	*types = p.memoryTypeBits;
	return r;
}

int32_t mo_make_pipeline(mo_device *d, const uint32_t *code, uint64_t bytes, const uint32_t *spec, uint32_t specs,
	uint32_t bindings, uint32_t push_bytes, uint32_t pushed, mo_pipeline *out) {
	VkResult r;
	VkShaderModule module = 0;
	VkDescriptorSetLayout set_layout = 0;
	VkPipelineLayout layout = 0;
	VkPipeline pipeline = 0;
	memset(out, 0, sizeof *out);

	VkShaderModuleCreateInfo mi = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
	if ((r = d->CreateShaderModule(d->dev, &mi, NULL, &module)) != VK_SUCCESS) return r;
	out->module = N(module);

	VkDescriptorSetLayoutBinding *b = calloc(bindings ? bindings : 1, sizeof *b);
	for (uint32_t i = 0; i < bindings; i++)
		b[i] = (VkDescriptorSetLayoutBinding){.binding = i, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = 1, .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
	VkDescriptorSetLayoutCreateInfo si = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.flags = pushed ? VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR : 0, .bindingCount = bindings, .pBindings = b};
	r = d->CreateDescriptorSetLayout(d->dev, &si, NULL, &set_layout);
	free(b);
	if (r != VK_SUCCESS) return r;
	out->set_layout = N(set_layout);

	VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = push_bytes};
	VkPipelineLayoutCreateInfo li = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &set_layout,
		.pushConstantRangeCount = push_bytes ? 1 : 0, .pPushConstantRanges = &range};
	if ((r = d->CreatePipelineLayout(d->dev, &li, NULL, &layout)) != VK_SUCCESS) return r;
	out->layout = N(layout);

	VkSpecializationMapEntry *entries = calloc(specs ? specs : 1, sizeof *entries);
	for (uint32_t i = 0; i < specs; i++) entries[i] = (VkSpecializationMapEntry){.constantID = i, .offset = 4 * i, .size = 4};
	VkSpecializationInfo special = {.mapEntryCount = specs, .pMapEntries = entries, .dataSize = 4 * (size_t)specs, .pData = spec};
	VkComputePipelineCreateInfo pi = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .layout = layout, .stage = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT, .module = module, .pName = "main",
		.flags = multiplies_matrices(code, bytes) ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0, .pSpecializationInfo = &special}};
	r = d->CreateComputePipelines(d->dev, d->pipelines, 1, &pi, NULL, &pipeline);
	free(entries);
	out->pipeline = N(pipeline);
	return r;
}

int32_t mo_keep_pipelines(mo_device *d, const void *saved, uint64_t bytes) {
	VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = bytes, .pInitialData = saved};
	return d->CreatePipelineCache(d->dev, &info, NULL, &d->pipelines);
}

int32_t mo_kept_pipelines(mo_device *d, void *to, uint64_t *bytes) {
	size_t n = *bytes;
	VkResult r = d->GetPipelineCacheData(d->dev, d->pipelines, &n, to);
	*bytes = n;
	return r;
}

void mo_free_pipeline(mo_device *d, const mo_pipeline *p) {
	d->DestroyPipeline(d->dev, H(VkPipeline, p->pipeline), NULL);
	d->DestroyPipelineLayout(d->dev, H(VkPipelineLayout, p->layout), NULL);
	d->DestroyDescriptorSetLayout(d->dev, H(VkDescriptorSetLayout, p->set_layout), NULL);
	d->DestroyShaderModule(d->dev, H(VkShaderModule, p->module), NULL);
}

int32_t mo_make_sets(mo_device *d, const uint64_t *layouts, uint32_t n, uint32_t bindings, uint64_t *pool, uint64_t *sets) {
	VkDescriptorPoolSize size = {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = bindings};
	VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = n, .poolSizeCount = 1, .pPoolSizes = &size};
	VkDescriptorPool p = 0;
	VkResult r = d->CreateDescriptorPool(d->dev, &info, NULL, &p);
	if (r != VK_SUCCESS) return r;
	*pool = N(p);
	VkDescriptorSetLayout *l = calloc(n, sizeof *l);
	VkDescriptorSet *s = calloc(n, sizeof *s);
	for (uint32_t i = 0; i < n; i++) l[i] = H(VkDescriptorSetLayout, layouts[i]);
	VkDescriptorSetAllocateInfo ai = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = p, .descriptorSetCount = n, .pSetLayouts = l};
	r = d->AllocateDescriptorSets(d->dev, &ai, s);
	for (uint32_t i = 0; i < n; i++) sets[i] = N(s[i]);
	free(l);
	free(s);
	return r;
}

static VkWriteDescriptorSet written(const mo_binding *b, VkDescriptorBufferInfo *info) {
	*info = (VkDescriptorBufferInfo){.buffer = H(VkBuffer, b->buffer), .offset = b->at, .range = b->bytes};
	return (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = H(VkDescriptorSet, b->set), .dstBinding = b->binding,
		.descriptorCount = 1, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .pBufferInfo = info};
}

void mo_bind(mo_device *d, const mo_binding *b, uint32_t n) {
	VkDescriptorBufferInfo *info = calloc(n ? n : 1, sizeof *info);
	VkWriteDescriptorSet *w = calloc(n ? n : 1, sizeof *w);
	for (uint32_t i = 0; i < n; i++) w[i] = written(&b[i], &info[i]);
	d->UpdateDescriptorSets(d->dev, n, w, 0, NULL);
	free(w);
	free(info);
}

void mo_free_sets(mo_device *d, uint64_t pool) { d->DestroyDescriptorPool(d->dev, H(VkDescriptorPool, pool), NULL); }

int32_t mo_make_pool(mo_device *d, uint32_t copies, uint64_t *pool) {
	VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.queueFamilyIndex = copies && d->transfer >= 0 ? (uint32_t)d->transfer : d->family};
	VkCommandPool p = 0;
	VkResult r = d->CreateCommandPool(d->dev, &info, NULL, &p);
	*pool = N(p);
	return r;
}

void mo_free_pool(mo_device *d, uint64_t pool) { d->DestroyCommandPool(d->dev, H(VkCommandPool, pool), NULL); }

int32_t mo_record(mo_device *d, uint64_t pool, const mo_command *c, uint32_t n, const uint8_t *push, const mo_binding *bindings, uint64_t queries,
	uint32_t copies, uint64_t *list) {
	VkCommandBufferAllocateInfo ai = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = H(VkCommandPool, pool),
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1};
	VkCommandBuffer b;
	VkResult r = d->AllocateCommandBuffers(d->dev, &ai, &b);
	if (r != VK_SUCCESS) return r;
	*list = N(b);
	VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
	if ((r = d->BeginCommandBuffer(b, &begin)) != VK_SUCCESS) return r;
	VkPipelineStageFlags work = VK_PIPELINE_STAGE_TRANSFER_BIT;
	VkAccessFlags reads = VK_ACCESS_TRANSFER_READ_BIT, writes = VK_ACCESS_TRANSFER_WRITE_BIT;
	if (!copies) { // queues that only copy know no shaders
		work |= VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
		reads |= VK_ACCESS_SHADER_READ_BIT;
		writes |= VK_ACCESS_SHADER_WRITE_BIT;
	}
	uint64_t bound = 0;
	for (uint32_t i = 0; i < n; i++, c++) {
		switch (c->kind) {
		case MO_DISPATCH: {
			VkDescriptorSet set = H(VkDescriptorSet, c->set);
			VkPipelineLayout layout = H(VkPipelineLayout, c->layout);
			if (bound != c->pipeline) d->CmdBindPipeline(b, VK_PIPELINE_BIND_POINT_COMPUTE, H(VkPipeline, c->pipeline));
			bound = c->pipeline;
			if (set) d->CmdBindDescriptorSets(b, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, NULL);
			else if (c->bindings) {
				VkDescriptorBufferInfo info[MO_PUSHED];
				VkWriteDescriptorSet w[MO_PUSHED];
				for (uint32_t k = 0; k < c->bindings; k++) w[k] = written(&bindings[c->bind_at + k], &info[k]);
				d->push(b, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, c->bindings, w);
			}
			if (c->push_bytes) d->CmdPushConstants(b, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, c->push_bytes, push + c->push_at);
			d->CmdDispatch(b, c->groups[0], c->groups[1], c->groups[2]);
			break;
		}
		case MO_BARRIER: {
			VkMemoryBarrier m = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = writes, .dstAccessMask = reads | writes};
			VkPipelineStageFlags to = work;
			if (c->host) {
				m.dstAccessMask |= VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT;
				to |= VK_PIPELINE_STAGE_HOST_BIT;
			}
			d->CmdPipelineBarrier(b, work, to, 0, 1, &m, 0, NULL, 0, NULL);
			break;
		}
		case MO_COPY: {
			VkBufferCopy region = {.srcOffset = c->from_at, .dstOffset = c->to_at, .size = c->bytes};
			d->CmdCopyBuffer(b, H(VkBuffer, c->from), H(VkBuffer, c->to), 1, &region);
			break;
		}
		case MO_FILL: d->CmdFillBuffer(b, H(VkBuffer, c->to), c->to_at, c->bytes, c->value); break;
		case MO_RESET: d->CmdResetQueryPool(b, H(VkQueryPool, queries), 0, c->value); break;
		case MO_TIME: d->CmdWriteTimestamp(b, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, H(VkQueryPool, queries), c->value); break;
		}
	}
	return d->EndCommandBuffer(b);
}

void mo_free_list(mo_device *d, uint64_t pool, uint64_t list) {
	VkCommandBuffer b = H(VkCommandBuffer, list);
	d->FreeCommandBuffers(d->dev, H(VkCommandPool, pool), 1, &b);
}

int32_t mo_make_queries(mo_device *d, uint32_t n, uint64_t *queries) {
	VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = n};
	VkQueryPool q = 0;
	VkResult r = d->CreateQueryPool(d->dev, &info, NULL, &q);
	*queries = N(q);
	return r;
}

int32_t mo_read_queries(mo_device *d, uint64_t queries, uint32_t n, uint64_t *out) {
	return d->GetQueryPoolResults(d->dev, H(VkQueryPool, queries), 0, n, 8 * (size_t)n, out, 8, VK_QUERY_RESULT_64_BIT);
}

void mo_free_queries(mo_device *d, uint64_t queries) { d->DestroyQueryPool(d->dev, H(VkQueryPool, queries), NULL); }

enum { MO_BATCHES = 256 };

int32_t mo_submit(mo_device *d, const uint64_t *lists, uint32_t n, uint64_t timeout_ns) {
	// Each list is a batch of its own, so that watchdogs see short work; one call takes many of them.
	VkCommandBuffer b[MO_BATCHES];
	VkSubmitInfo s[MO_BATCHES];
	VkResult r = d->ResetFences(d->dev, 1, &d->fence);
	for (uint32_t from = 0; from < n && r == VK_SUCCESS; from += MO_BATCHES) {
		uint32_t some = n - from < MO_BATCHES ? n - from : MO_BATCHES;
		for (uint32_t i = 0; i < some; i++) {
			b[i] = H(VkCommandBuffer, lists[from + i]);
			s[i] = (VkSubmitInfo){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = b + i};
		}
		r = d->QueueSubmit(d->queue, some, s, from + some == n ? d->fence : VK_NULL_HANDLE);
	}
	if (r != VK_SUCCESS || !n) return r;
	return d->WaitForFences(d->dev, 1, &d->fence, VK_TRUE, timeout_ns);
}

int32_t mo_make_lanes(mo_device *d) {
	VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
	VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
	for (uint32_t i = 0; i < MO_LANES; i++) {
		if (d->lanes[i].done) continue;
		d->lanes[i].queue = d->queue;
		if (i > 0 && d->transfer >= 0) d->GetDeviceQueue(d->dev, (uint32_t)d->transfer, i > 1 && d->transfer_queues > 1, &d->lanes[i].queue);
		VkResult r = d->CreateSemaphore(d->dev, &info, NULL, &d->lanes[i].done);
		if (r != VK_SUCCESS) return r;
	}
	return VK_SUCCESS;
}

int32_t mo_submit_lanes(mo_device *d, const mo_batch *b, uint32_t n, uint64_t timeout_ns) {
	uint64_t count[MO_LANES];
	VkSemaphore done[MO_LANES];
	for (uint32_t i = 0; i < MO_LANES; i++) {
		count[i] = d->lanes[i].count;
		done[i] = d->lanes[i].done;
	}
	for (uint32_t k = 0; k < n; k++, b++) {
		VkSemaphore waits[MO_LANES];
		uint64_t values[MO_LANES];
		VkPipelineStageFlags stages[MO_LANES];
		uint32_t w = 0;
		// The first of a lane also waits for what others did before, which has ended: so it sees what they wrote.
		int first = d->lanes[b->lane].count == count[b->lane];
		for (uint32_t i = 0; i < MO_LANES; i++) {
			if (!b->waits[i] && !(first && i != b->lane && count[i])) continue;
			waits[w] = done[i];
			values[w] = count[i] + b->waits[i];
			stages[w++] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
		}
		uint64_t end = ++d->lanes[b->lane].count;
		VkCommandBuffer list = H(VkCommandBuffer, b->list);
		VkTimelineSemaphoreSubmitInfo times = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, .waitSemaphoreValueCount = w,
			.pWaitSemaphoreValues = values, .signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &end};
		VkSubmitInfo s = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &times, .waitSemaphoreCount = w, .pWaitSemaphores = waits,
			.pWaitDstStageMask = stages, .commandBufferCount = 1, .pCommandBuffers = &list, .signalSemaphoreCount = 1, .pSignalSemaphores = &done[b->lane]};
		VkResult r = d->QueueSubmit(d->lanes[b->lane].queue, 1, &s, VK_NULL_HANDLE);
		if (r != VK_SUCCESS) return r;
	}
	for (uint32_t i = 0; i < MO_LANES; i++) count[i] = d->lanes[i].count;
	VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = MO_LANES, .pSemaphores = done, .pValues = count};
	VkResult r = d->WaitSemaphores(d->dev, &wait, timeout_ns);
	// Lavapipe's thread of a queue goes on to read what it has signalled: lists and semaphores must not be gone by then.
	for (uint32_t i = 0; i < MO_LANES && r == VK_SUCCESS; i++)
		if (i == 0 || d->lanes[i].queue != d->lanes[i - 1].queue) r = d->QueueWaitIdle(d->lanes[i].queue);
	return r;
}

static pthread_mutex_t messages_lock = PTHREAD_MUTEX_INITIALIZER;
static char messages[1 << 16];
static uint32_t messages_end;

static VkBool32 heard(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
	const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
	(void)severity, (void)types, (void)user;
	pthread_mutex_lock(&messages_lock);
	uint32_t n = (uint32_t)strlen(data->pMessage);
	if (messages_end + n + 1 < sizeof messages) {
		memcpy(messages + messages_end, data->pMessage, n);
		messages_end += n;
		messages[messages_end++] = '\n';
	}
	pthread_mutex_unlock(&messages_lock);
	return VK_FALSE;
}

int32_t mo_listen(void *get, void *instance) {
	PFN_vkCreateDebugUtilsMessengerEXT create =
		(PFN_vkCreateDebugUtilsMessengerEXT)instance_function(get, instance, "vkCreateDebugUtilsMessengerEXT");
	if (!create) return VK_ERROR_EXTENSION_NOT_PRESENT;
	VkDebugUtilsMessengerCreateInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
		.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
		.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT, .pfnUserCallback = heard};
	VkDebugUtilsMessengerEXT m = 0; // lives as long as the instance
	return create((VkInstance)instance, &info, NULL, &m);
}

uint32_t mo_messages(char *out, uint32_t bytes) {
	pthread_mutex_lock(&messages_lock);
	uint32_t n = messages_end < bytes ? messages_end : bytes;
	memcpy(out, messages, n);
	messages_end = 0;
	pthread_mutex_unlock(&messages_lock);
	return n;
}
