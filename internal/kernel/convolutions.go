package kernel

// Convolutions: where to begin.
//
// All of them compute y[t] = Σ_i k[i]·x[t-i] along a sequence, each channel with a kernel of its own. There are two
// ways.
//
// The direct way adds tap after tap. It takes time in proportion to the length of the kernel, and is the faster one up
// to some hundred taps. Its rows are positions, (l, d), as in activations.
//
//	fir.go            FIR, with a skip, and its gradients FIRGrad and FIRTapsGrad. FIRAfter continues a sequence whose
//	                  inputs are kept, as a decoder does. Tiles of rows and taps have their sums in registers.
//	fir_short.go      the same for sequences of up to shortRows positions, in a copy with zeros around it
//	causalconv.go     the short filter of Mamba and Hyena: FIR's tiles, with a bias in place of the skip
//	shift.go          the shift SSM as such a filter: its taps, and what its state adds
//	shiftstep.go      the shift SSM one position at a time, without a filter
//
// The transform takes time in proportion to l·log l, for kernels as long as the sequence. It works on channels in
// lanes: Lanes of them side by side.
//
//	conv.go           read it first. ConvPlan: the mathematics, the order of the three steps, and what is done between
//	                  the transforms
//	conv_ends.go      Begin and End, the outer passes: they read the sequence from an Input and write it to an Output
//	fft.go            lengths, passes and rotations; the inner passes, one block after the other in the cache
//	conv_passes.go    each part of a pass in Go or in assembly
//	fft_butterfly.go  the passes in Go
//	conv_products.go  products of spectra in Go
//	lanes.go          channels into lanes and back, for kernels that a system generates
//
// realdft.go is not part of either. It turns kernels that are given by their values at frequencies, those of S4, into
// taps, at any length, by products of matrices.
//
// Which way is taken when is decided above: see convolutions.go of package engine/cpu.
