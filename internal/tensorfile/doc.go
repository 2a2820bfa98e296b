// Package tensorfile is files of named tensors: NumPy archives and safetensors,
// in and out. Data sets, reference gradients and checkpoints are such files.
//
// # What is read
//
//   - .npz as np.savez and np.savez_compressed write it, and a single .npy, whose
//     tensor is named after the file: floats of 2, 4 and 8 bytes, integers of 1 to
//     8 and bool, in either byte order, in C and in Fortran order. What is returned
//     is little-endian and in C order.
//   - .safetensors: the same types and bfloat16, and the string metadata.
//
// Files are suspect. What a header declares is compared with the bytes that are
// there before memory is taken for it, and every error is one line that names the
// file and the tensor:
//
//	tensorfile: ref.npz: member "grad.w.npy": 96 bytes of numbers, f32[4, 8] takes 128
//
// # What is written
//
// Both writers stream, and the file appears by rename: there is never half a file
// under its name. The same Set gives the same bytes.
package tensorfile
