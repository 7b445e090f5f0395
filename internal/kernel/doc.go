// Package kernel is the arithmetic of hippo on slices of float32: one contract per kernel, given by its doc comment, that
// every implementation of it keeps. The portable code in Go is always compiled and is the reference for any other.
//
// Kernels cannot fail: sizes are checked by their callers (package autograd), and a kernel given too short a slice panics
// as Go code does. Their results do not depend on the number of cores. Products are written float32(x*y)+z, which forbids
// the compiler to fuse them on machines that could, so that machines agree as well.
//
// It imports internal/parallel and the standard library. Sources: the long convolution and the Vandermonde products follow
// H3 (arXiv:2212.14052, §4 and appendix), S4 (arXiv:2111.00396) and S4D (arXiv:2206.11893).
package kernel
