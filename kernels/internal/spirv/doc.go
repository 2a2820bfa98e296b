// Package spirv analyzes and edits SPIR-V modules of compute shaders, and the GLSL that
// they are compiled from. It knows neither operators nor devices; package kernels declares
// the shaders and uses this package to make the variants that devices need.
//
//	instruction.go   a module as a list of instructions
//	module.go        Read, Edit: writes functions that call others, at run time, and removes
//	                 unused functions (for chains of pointwise operators)
//	address.go       Addressed: buffers by device address instead of bindings
//	bfloat16.go      BFloat16: cooperative matrices of bfloat16 in place of float16
//	exact.go         Exact: forbids drivers to contract floating-point operations
//	subgroup.go      Subgroups: finds subgroup operations in non-uniform control flow
//	halves.go        Halves: rewrites a shader's text for buffers of 16-bit floats
//
// The package knows only the instructions that these edits need and copies all others.
// Modules are embedded in the program, so an invalid module is a bug and panics.
//
// References: the SPIR-V specification (registry.khronos.org/SPIR-V), 2.3 for the layout
// of modules and 2.4 for the order of their parts; SPV_KHR_physical_storage_buffer for
// addresses.
package spirv
