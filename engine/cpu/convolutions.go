package cpu

// Convolutions: where to begin.
//
// An operation that mixes positions linearly has up to three ways to compute the same thing, equal up to rounding:
// stepping a recurrence, adding the kernel tap by tap, and multiplying spectra. What is fastest depends on the length
// of the chunk l, on whether there is a state, and on whether the tape records.
//
//	operation       file            which way, in the order in which it is asked
//	CausalConv      causalconv.go   always tap by tap: its filter has a few taps
//	ShiftSSM        shift.go        one position, a state, not recorded: a step; else tap by tap
//	GatedLongConv   longconv.go     l or the kernel up to directUpTo: tap by tap (directconv.go); else spectra
//	BothWays        bothways.go     always spectra: one convolution with a kernel that also looks ahead
//	CachedLongConv  convcache.go    recorded: GatedLongConv over the inputs before the chunk and the chunk. Not recorded:
//	                                one position behind aheadFrom inputs: the sums made ahead (convahead.go);
//	                                up to directUpTo positions: tap by tap; else GatedLongConv over all inputs
//	DiagSSM         diagssm.go      a state, l below recurrentBelow, not recorded: steps; no state, head_dim 1, l up to
//	                                directUpTo: tap by tap; else spectra, in pieces if l is above engine.LongestAtOnce
//	DPLRSSM         dplrssm.go      not recorded, with a state or l above its L: steps; else spectra, in pieces of L
//
// The files of the convolution by spectra:
//
//	convolution.go  the work of DiagSSM, LongConv and BothWays, forward and backward: which cores take which heads. It
//	                reads like a table of contents of the next two.
//	convtile.go     what one core does for 16 channels: it brings inputs, gates, kernels and gradients to the transform
//	                row by row, and takes its results where they belong
//	tilestates.go   the states of such a tile: what the old one adds to the outputs, and the new one
//	carry.go        the arithmetic of that for one sequence, by powers of Ā
//	bothways.go     besides its operation, how kernels that look ahead are brought to the transform
//	kerneltiles.go  the two layouts of kernels: rows (l, h), and tiles of 16 of them
//
// And of the others:
//
//	directconv.go   gates, product tap by tap and skip; directUpTo says up to which length that is faster
//	convahead.go    decoding: what known inputs give to the next positions, summed for a block of them at once
//
// The kernels of systems come from diagkernel.go, dss.go and dplrkernel.go, those of Hyena from layers. The arithmetic
// on slices is in internal/kernel: see convolutions.go there.
