// Package ssm provides the mathematics of state-space models by definition: float64, direct sums, no tricks. The rest
// of the repository computes the same things fast. This package defines them, and the fast code is tested against it.
// It imports only the standard library and gonum.
//
// A state-space model maps a signal u to a signal y through a state x of n numbers:
//
//	x'(t) = A x(t) + B u(t)        A (n, n), B (n)
//	y(t)  = C x(t) + D u(t)        C (n), D a number
//
// Sampled every dt, it becomes a recurrence. As in the S4 papers, the state at step k has already seen u_k:
//
//	x_k = Abar x_{k-1} + Bbar u_k
//	y_k = C x_k + D u_k
//
// which, unrolled from x_{-1} = x0, is a causal convolution with the kernel K plus the response to the initial state:
//
//	K_l = C Abarˡ Bbar
//	y_k = C Abarᵏ⁺¹ x0 + Σ_{j≤k} K_j u_{k-j} + D u_k
//
// Some papers print that response as C Abarᵏ x0. The index above agrees with the recurrence.
//
// The contents, in an order suitable for learning:
//
//   - Signals: [Convolve] and its relatives, [DFT], [FFT], [FourierTransform]; a [Basis], [Project], [ProjectSamples]
//     and [Reconstruct].
//   - State space: [Continuous] and [Discrete] hold a dense A, [Method] lists the ways of sampling, [Spring] is a
//     familiar example, [Alias] shows what sampling hides, [Kalman] estimates a state from noisy observations.
//   - HiPPO, arXiv:2008.07669: [HiPPO] and the measures it names give an A whose state remembers, [Memorize] and
//     [MemorizeLegS] use it.
//   - S4, arXiv:2111.00396: [NPLR] makes that A diagonal plus low rank, [DPLR] has its recurrence and its kernel.
//   - Diagonal models: [Diagonal] and [DiagonalInit] are S4D, arXiv:2206.11893, and the diagonal half of H3,
//     arXiv:2212.14052, whose other half is [Shift]; [H3] is both of them in one head, and [H3Diagonal] and [H3Shift]
//     are the values H3's training starts from. [DSS] has the kernels of DSS and GSS.
//   - Models whose parameters depend on the signal: [LinearAttention], [Selective] (Mamba), [SSD] (Mamba-2).
//
// In comments l is the length of a signal and n the size of a state. Scan replaces the state that it is given by the
// state after the signal, so that scanning a signal in any number of pieces gives the same y.
package ssm
