// Package spirv reads and edits compute kernels as devices take them: SPIR-V modules,
// and the GLSL that they are compiled from. It knows neither operators nor devices;
// package kernels declares kernels, and makes of each the forms that devices want.
//
//	instruction.go   a module as instructions of words
//	module.go        Read, Edit: functions that call others, written at run time; what
//	                 nobody calls is left out (chains of pointwise operators)
//	address.go       Addressed: buffers that are found by address instead of bound
//	exact.go         Exact: no operation on floats may be fused with another
//	subgroup.go      Subgroups: does a whole subgroup come to what asks one?
//	halves.go        Halves: the text of a shader for buffers of 16-bit floats
//
// Only what these edits look at is known of SPIR-V: instructions are kept as they are
// otherwise. Modules are our own, embedded in the program, so a module that makes no
// sense is our own mistake and panics.
//
// References: the SPIR-V specification (registry.khronos.org/SPIR-V), 2.3 for the layout
// of modules and 2.4 for the order of their parts; SPV_KHR_physical_storage_buffer for
// addresses.
package spirv
