package kernel

// Convolutions: an overview.
//
// All of them compute y[t] = Σ_i k[i]·x[t-i] along a sequence, where each channel has its own kernel. There are two
// methods.
//
// The direct method adds tap after tap. Its time is proportional to the length of the kernel, and it is the faster one
// up to some hundred taps. Its rows are positions, (l, d), as in activations.
//
//	fir.go            FIR, with a skip, and its gradients FIRGrad and FIRTapsGrad. FIRAfter continues a sequence whose
//	                  inputs are kept, as a decoder does. Tiles of rows and taps keep their sums in registers.
//	fir_short.go      the same for sequences of up to shortRows positions, in a copy with zeros around it
//	causalconv.go     the short filter of Mamba and Hyena: FIR's tiles, with a bias instead of the skip
//	shift.go          the shift SSM as such a filter: its taps, and the contribution of its state
//	shiftstep.go      the shift SSM one position at a time, without a filter
//
// The transform takes time proportional to l·log l, for kernels as long as the sequence. It works on channels in lanes,
// Lanes of them side by side.
//
//	conv.go           read it first. ConvPlan: the mathematics, the order of the three steps, and the work between
//	                  the transforms
//	conv_ends.go      Begin and End, the outer passes: they read the sequence from an Input and write it to an Output
//	fft.go            lengths, passes and rotations; the inner passes, one block after the other in the cache
//	conv_passes.go    each part of a pass in Go or in assembly
//	fft_butterfly.go  the passes in Go
//	conv_products.go  products of spectra in Go
//	lanes.go          channels into lanes and back, for kernels that a system generates
//
// realdft.go belongs to neither. It turns kernels that are given by their values at frequencies, those of S4, into
// taps, at any length, by products of matrices.
//
// The callers choose between the methods: see convolutions.go of package engine/cpu.
