package cpu

// Convolutions: an overview.
//
// An operation that mixes positions linearly has up to three ways to compute the same result, up to rounding: stepping
// a recurrence, adding the kernel tap by tap, and multiplying spectra. Which is fastest depends on the length l of the
// row, on whether it has a state or a cache, and on whether the tape records.
//
//	operation       file            method; the first case that applies
//	CausalConv      causalconv.go   always tap by tap: its filter has a few taps
//	ShiftSSM        shift.go        one position, a state, not recorded: a step; else tap by tap
//	GatedLongConv   longconv.go     l or the kernel up to directUpTo: tap by tap (directconv.go); else spectra
//	BothWays        bothways.go     always spectra: one convolution with a kernel that also looks ahead
//	CachedLongConv  convcache.go    recorded: GatedLongConv over the inputs in the cache and the row's own.
//	                                Not recorded: one position after aheadFrom inputs: the sums computed ahead
//	                                (convahead.go); up to directUpTo positions: tap by tap; else GatedLongConv over
//	                                all inputs
//	DiagSSM         diagssm.go      a state, l below recurrentBelow, not recorded: steps; no state, head_dim 1,
//	                                l up to directUpTo: tap by tap; else spectra, in pieces if l is above
//	                                engine.LongestAtOnce
//	DPLRSSM         dplrssm.go      not recorded, with a state or l above its L: steps; else spectra, in pieces of L
//
// The files of the convolution by spectra:
//
//	convolution.go  the work of DiagSSM, LongConv and BothWays, forward and backward: which cores take which heads.
//	                Read it first: it calls the next two.
//	convlanes.go    the work of one core on 16 channels, the lanes of the transform: it passes inputs, gates, kernels
//	                and gradients to the transform row by row, and stores its results
//	lanestates.go   the states of these channels: what the old ones add to the outputs, and the new ones
//	carry.go        the arithmetic for these states of one row, by powers of Ā
//	bothways.go     besides its operation, how kernels that look ahead are passed to the transform
//	kernellanes.go  the two layouts of kernels: rows (l, h), and 16 side by side
//
// The files of the other methods:
//
//	directconv.go   gates, product tap by tap and skip; directUpTo is the length up to which that is faster
//	convahead.go    decoding: the contribution of known inputs to the next positions, summed for a block at once
//
// The kernels of systems come from diagkernel.go, dss.go and dplrkernel.go, those of Hyena from package mixer. The
// arithmetic on slices is in internal/kernel: see convolutions.go there.
