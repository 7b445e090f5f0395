package course

import (
	"errors"
	"math"
	"math/cmplx"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/explain/theory"
	"github.com/hippo-ssm/hippo/ssm"
)

// Chapters returns the chapters of docs/course in order.
func Chapters() []Chapter {
	return []Chapter{
		{"Convolution", "1-convolution.md", convolution},
		{"State and discretization", "2-state.md", state},
		{"HiPPO: a memory", "3-hippo.md", hippo},
		{"S4 and diagonal models", "4-s4.md", s4},
		{"Long convolutions", "5-long.md", long},
		{"H3 and recall", "6-h3.md", h3},
		{"Selection and scans", "7-mamba.md", mamba},
		{"Training, and looking inside", "8-training.md", training},
	}
}

// exactly returns an answer whose computation cannot fail.
func exactly(f func() []float64) func() ([]float64, error) {
	return func() ([]float64, error) { return f(), nil }
}

// one returns an answer that is one number.
func one(f func() float64) func() ([]float64, error) {
	return exactly(func() []float64 { return []float64{f()} })
}

// is returns an answer that is a constant.
func is(x float64) func() ([]float64, error) {
	return one(func() float64 { return x })
}

var convolution = []Exercise{
	{
		ID: "1.1",
		Question: "The signal 1, 2, 3 goes through the kernel 1, 1, 1. " +
			"What are the first three outputs of the causal convolution?",
		Numbers: exactly(func() []float64 { return ssm.Convolve([]float64{1, 1, 1}, []float64{1, 2, 3}) }),
		Slips: []Slip{
			{exactly(func() []float64 { return ssm.ConvolveCircular([]float64{1, 1, 1}, []float64{1, 2, 3}) }),
				"that is the circular convolution: the end of the signal has wrapped around"},
			{exactly(func() []float64 { return ssm.ConvolveFull([]float64{1, 1, 1}, []float64{1, 2, 3}) }),
				"that is the whole convolution; the question is about the first three outputs"},
		},
		Why: "y_k = Σ_{j≤k} K_j u_{k-j}: with a kernel of ones every output is the sum of the inputs so far.",
	},
	{
		ID:       "1.2",
		Question: "And without padding, as the product of two Fourier transforms of three points gives it?",
		Numbers:  exactly(func() []float64 { return ssm.ConvolveCircular([]float64{1, 1, 1}, []float64{1, 2, 3}) }),
		Slips: []Slip{{exactly(func() []float64 { return ssm.Convolve([]float64{1, 1, 1}, []float64{1, 2, 3}) }),
			"that is the causal convolution; without padding the inputs after k count, too"}},
		Why: "Every output of the circular convolution is the sum of all three inputs.",
	},
	{
		ID: "1.3",
		Question: "A signal of 100 samples goes through a kernel of 30. " +
			"How many points must the transforms have so that nothing of the whole convolution wraps around?",
		Numbers: one(func() float64 {
			return float64(len(ssm.ConvolveFull(make([]float64, 100), make([]float64, 30))))
		}),
		Slips: []Slip{
			{is(130),
				"one too many: the last input meets the first number of the kernel at once"},
			{is(100), "the echo of the last input would come back at the beginning"},
		},
		Why: "The whole convolution has m + n - 1 entries.",
	},
}

// tank returns the system x' = -2x + u, y = x.
func tank() *ssm.Continuous {
	return &ssm.Continuous{A: mat.NewDense(1, 1, []float64{-2}), B: []float64{1}, C: []float64{1}}
}

// tankPole returns Abar of the tank.
func tankPole(m ssm.Method, dt float64) func() ([]float64, error) {
	return func() ([]float64, error) {
		d, err := tank().Discretize(dt, m)
		if err != nil {
			return nil, err
		}
		return []float64{d.Abar.At(0, 0)}, nil
	}
}

var state = []Exercise{
	{
		ID:       "2.1",
		Question: "The leaky tank x' = -2x + u is sampled every 0.1 by the bilinear rule. What is Abar?",
		Numbers:  tankPole(ssm.Bilinear, 0.1),
		Slips: []Slip{
			{tankPole(ssm.Euler, 0.1), "that is Euler's rule, 1 + dt A"},
			{tankPole(ssm.BackwardEuler, 0.1), "that is the backward rule, 1/(1 - dt A)"},
			{tankPole(ssm.ZOH, 0.1), "that is zero-order hold, exp(dt A)"},
		},
		Why: "Abar = (1 + dt A/2)/(1 - dt A/2).",
	},
	{
		ID:       "2.2",
		Question: "Beyond which dt is Euler's rule unstable for this tank?",
		Numbers: func() ([]float64, error) {
			lo, hi := 0.01, 100.0 // a stable step, and an unstable one
			for range 60 {
				dt := (lo + hi) / 2
				pole, err := tankPole(ssm.Euler, dt)()
				if err != nil {
					return nil, err
				}
				if math.Abs(pole[0]) < 1 {
					lo = dt
				} else {
					hi = dt
				}
			}
			return []float64{lo}, nil
		},
		Slips: []Slip{{is(0.5),
			"there the pole reaches 0, and beyond it the sign alternates; but the state still fades"}},
		Why: "Abar = 1 - 2 dt leaves the unit circle at -1.",
	},
	{
		ID:       "2.3",
		Question: "Give K_0, K_1, K_2 of the tank, y = x, sampled every 0.5 by zero-order hold.",
		Numbers: func() ([]float64, error) {
			d, err := tank().Discretize(0.5, ssm.ZOH)
			if err != nil {
				return nil, err
			}
			return d.Kernel(3), nil
		},
		Slips: []Slip{
			{exactly(func() []float64 {
				h := make([]float64, 3)
				for k := range h {
					h[k] = tank().ImpulseResponse(0.5 * float64(k))
				}
				return h
			}), "those are samples of the impulse response C exp(tA) B; an input that is held for 0.5 has a Bbar"},
			{func() ([]float64, error) {
				d, err := tank().Discretize(0.5, ssm.ZOH)
				if err != nil {
					return nil, err
				}
				return d.Kernel(4)[1:], nil
			}, "one step too late: the state has already seen the input when it is read, so K_0 = C Bbar"},
		},
		Why: "K_l = C Abarˡ Bbar with Abar = exp(-1) and Bbar = (1 - exp(-1))/2.",
	},
}

var hippo = []Exercise{
	{
		ID: "3.1",
		Question: "What is the entry A_21 of LegS, counted from 0: " +
			"how the number of degree 2 is pulled by that of degree 1?",
		Numbers: one(func() float64 { a, _ := ssm.LegS(3); return a.At(2, 1) }),
		Slips: []Slip{
			{one(func() float64 { a, _ := ssm.LegS(3); return a.At(1, 2) }), "that is A_12: LegS is lower triangular"},
			{one(func() float64 { a, _ := ssm.LegS(3); return -a.At(2, 1) }),
				"the paper prints -A; the system is x' = (Ax + Bu)/t"},
		},
		Why: "A_ij = -√(2i+1) √(2j+1) below the diagonal.",
	},
	{
		ID: "3.2",
		Question: "LegS with one number sees 2, 4, 9, each held for one unit of time from t = 1 on, " +
			"and exactly (zero-order hold). What does it hold at the end?",
		Numbers: func() ([]float64, error) {
			c, err := ssm.MemorizeLegS(1, []float64{2, 4, 9}, ssm.ZOH)
			if err != nil {
				return nil, err
			}
			return c[2], nil
		},
		Slips: []Slip{{is(5),
			"that is the mean of the three; LegS takes the mean from t = 0, and before t = 1 the signal counts as 0"}},
		Why: "One number is the mean of all the past: (0 + 2 + 4 + 9)/4.",
	},
	{
		ID: "3.3",
		Question: "A sine of 3 periods (256 samples): " +
			"how many Legendre polynomials are needed for a relative error below 0.01?",
		Numbers: func() ([]float64, error) {
			o := theory.SignalOptions{Signal: "sine", Length: 256, Turns: 3}
			u, err := o.Samples()
			if err != nil {
				return nil, err
			}
			all, err := theory.Errors("Legendre", u, 40, 1)
			if err != nil {
				return nil, err
			}
			for n, e := range all {
				if e < 0.01 {
					return []float64{float64(n + 1)}, nil
				}
			}
			return nil, errors.New("found no number of polynomials up to 40")
		},
		Why: "Read it off the curve of errors: a polynomial needs a bit more than π coefficients for each period.",
	},
}

// mode returns a pair of modes A with B = C = 1.
func mode(a complex128, dt float64) *ssm.Diagonal {
	return &ssm.Diagonal{A: []complex128{a}, B: []complex128{1}, C: []complex128{1}, Dt: dt, Pairs: true}
}

// halfLife returns the number of samples in which a mode decays to half.
func halfLife(a complex128, dt float64) float64 {
	abar, _ := mode(a, dt).Discretize(ssm.ZOH)
	return -math.Ln2 / math.Log(cmplx.Abs(abar[0]))
}

var s4 = []Exercise{
	{
		ID:       "4.1",
		Question: "What are the poles of LegS with 4 numbers, the least first?",
		Numbers: func() ([]float64, error) {
			a, _ := ssm.LegS(4)
			poles, err := ssm.Poles(a)
			re := make([]float64, len(poles))
			for i, p := range poles {
				re[i] = real(p)
			}
			return re, err
		},
		Why: "A triangular matrix has its eigenvalues on the diagonal: -(i+1).",
	},
	{
		ID:       "4.2",
		Question: "After how many samples has the mode A = -½ + iπ fallen to half, at dt = 0.01 (zero-order hold)?",
		Numbers:  one(func() float64 { return halfLife(-0.5+math.Pi*1i, 0.01) }),
		Slips: []Slip{
			{one(func() float64 { return halfLife(-0.5+math.Pi*1i, 0.01) * 0.01 }),
				"that is in units of time, not in samples"},
			{one(func() float64 { return halfLife(-0.5, 0.01) / math.Ln2 }), "that is where it has fallen to 1/e"},
		},
		Why: "|Abar| = exp(-½ dt), so ln 2/(½ dt) samples; the imaginary part only turns.",
	},
	{
		ID:       "4.3",
		Question: "One mode A = -½ + iπ and its conjugate, B = C = 1, dt = 0.1, zero-order hold: what is K_0?",
		Numbers:  exactly(func() []float64 { return mode(-0.5+math.Pi*1i, 0.1).Kernel(ssm.ZOH, 1) }),
		Slips: []Slip{
			{exactly(func() []float64 {
				k := mode(-0.5+math.Pi*1i, 0.1).Kernel(ssm.ZOH, 1)
				return []float64{k[0] / 2}
			}),
				"that is one mode without its conjugate: with both it is twice the real part"},
			{exactly(func() []float64 { return mode(-0.5+math.Pi*1i, 0.1).Kernel(ssm.Bilinear, 1) }),
				"that is the bilinear rule"},
			{is(0.2), "that is 2 dt B, Euler's rule"},
		},
		Why: "K_0 = 2 Re C Bbar with Bbar = (exp(dt A) - 1)/A.",
	},
}

var long = []Exercise{
	{
		ID:       "5.1",
		Question: "How many products does the sum y_k = Σ_{j≤k} K_j u_{k-j} take for all of 1000 outputs?",
		Numbers: one(func() float64 {
			ones := make([]float64, 1000)
			floats.AddConst(1, ones)
			return mat.Sum(ssm.Toeplitz(ones, 1000))
		}),
		Slips: []Slip{
			{is(1e6), "that is the whole square; the matrix is zero above the diagonal"},
			{is(499500), "the diagonal is missing: K_0 counts, too"},
		},
		Why: "l (l + 1)/2: the entries of the Toeplitz matrix on and below the diagonal.",
	},
	{
		ID: "5.2",
		Question: "A signal goes through a diagonal SSM of 32 modes in pieces. " +
			"How many real numbers pass from one piece to the next?",
		Numbers: one(func() float64 {
			s := &ssm.Diagonal{A: make([]complex128, 32), B: make([]complex128, 32), C: make([]complex128, 32), Dt: 1}
			_, _, states := s.ScanPieces(ssm.Bilinear, make([]float64, 4), 2)
			return float64(len(ssm.ReIm(states[1])))
		}),
		Slips: []Slip{{is(32), "a mode is a complex number: two real ones"}},
		Why:   "The state, and nothing else, whatever the length.",
	},
	{
		ID: "5.3",
		Question: "A piece begins in the state x = 1 of one real mode A = -1, C = 1, dt = 0.5. " +
			"What does the past add to its second output?",
		Numbers: one(func() float64 { return past(2)[1] }),
		Slips: []Slip{{one(func() float64 { return past(1)[0] }),
			"that is the first output; the second is one step later"}},
		Why: "C Abarᵏ⁺¹ x with k = 1: exp(-1).",
	},
}

// past returns the outputs of a real mode with the initial state 1.
func past(l int) []float64 {
	s := mode(-1, 0.5)
	s.Pairs = false
	return s.ZeroInput(ssm.ZOH, []complex128{1}, l)
}

// recall returns what the circuit of H3 reads at the last token of a text of letters: a number for each letter, in the
// order in which they first appear.
func recall(text string, decay float64) (names []string, y []float64) {
	tokens := strings.Split(text, "")
	for _, token := range tokens {
		if !slices.Contains(names, token) {
			names = append(names, token)
		}
	}
	x := make([][]float64, len(tokens))
	for t, token := range tokens {
		x[t] = ssm.Delta(slices.Index(names, token), len(names))
	}
	steps := ssm.Recaller(len(names), decay).Steps(x, x, x)
	return names, steps[len(steps)-1].Y
}

var h3 = []Exercise{
	{
		ID:       "6.1",
		Question: "A shift SSM has B = (1, 0, 0, 0) and C = (0, 0, 1, 0). Give K_0 to K_3.",
		Numbers: exactly(func() []float64 {
			return (&ssm.Shift{B: []float64{1, 0, 0, 0}, C: []float64{0, 0, 1, 0}}).Kernel(4)
		}),
		Why: "With B = e₁ the kernel is C: a delay of two steps.",
	},
	{
		ID:       "6.2",
		Question: "The circuit reads the text \"c a b c d b\". Which token does it say comes next?",
		Words: func() ([]string, error) {
			names, y := recall("cabcdb", 0)
			return []string{names[floats.MaxIdx(y)]}, nil
		},
		Why: "The last token is b; the one time it was seen before, c followed.",
	},
	{
		ID: "6.3",
		Question: "It reads \"a b a c a\", and a pair of t steps ago counts exp(-t/2). " +
			"What does it read at the last token for b, and what for c?",
		Numbers: exactly(func() []float64 { _, y := recall("abaca", 0.5); return y[1:] }),
		Slips: []Slip{{exactly(func() []float64 { _, y := recall("abaca", 0.5); return []float64{y[2], y[1]} }),
			"the other way around: b was written first, and has faded more"}},
		Why: "b was written 3 steps ago and c 1 step ago: exp(-3/2) and exp(-1/2).",
	},
}

// joined returns the composition of two steps x → a x + b.
func joined(a1, b1, a2, b2 float64) []float64 {
	s := &ssm.Selective{A: []complex128{-1}}
	var u []float64
	for _, step := range [][2]float64{{a1, b1}, {a2, b2}} {
		dt := -math.Log(step[0])
		s.Dt = append(s.Dt, dt)
		s.B, s.C = append(s.B, []complex128{1}), append(s.C, []complex128{1})
		u = append(u, step[1]/dt) // the step adds dt B u
	}
	nodes, prefix := s.ScanTree(u)
	node := nodes[prefix[1]]
	return []float64{real(node.Decay[0]), real(node.Add[0])}
}

var mamba = []Exercise{
	{
		ID:       "7.1",
		Question: "The step x → 0.5 x + 1 is followed by x → 0.2 x + 3. Which a and b has the step that does both?",
		Numbers:  exactly(func() []float64 { return joined(0.5, 1, 0.2, 3) }),
		Slips: []Slip{{exactly(func() []float64 { return joined(0.2, 3, 0.5, 1) }),
			"that is the other order: the first step comes first"}},
		Why: "(a, b) then (c, d) is (c a, c b + d).",
	},
	{
		ID: "7.2",
		Question: "The state 5 of a mode A = -1 waits through 100 tokens that are noise " +
			"(input 0) with dt = 0.002 each. What is left?",
		Numbers: one(func() float64 { return waited(0.002) }),
		Slips:   []Slip{{one(func() float64 { return waited(0.002) / 5 }), "that is the share that is left"}},
		Why:     "5 exp(-100 · 0.002).",
	},
	{
		ID:       "7.3",
		Question: "In how many rounds does the tree of hippo explain ssm scan join 64 steps?",
		Numbers: one(func() float64 {
			s := &ssm.Selective{A: []complex128{-1}, Dt: make([]float64, 64), B: make([][]complex128, 64)}
			for k := range s.B {
				s.B[k] = []complex128{1}
			}
			nodes, _ := s.ScanTree(make([]float64, 64))
			rounds := 0
			for _, n := range nodes {
				rounds = max(rounds, n.Round)
			}
			return float64(rounds)
		}),
		Slips: []Slip{{is(6),
			"that is the way up; what is between has to be filled in on the way down"}},
		Why: "Six rounds up to the whole, and the prefixes that are in between are there four rounds later: " +
			"2 log₂ l - 2.",
	},
}

// waited returns what remains of a state of 5 after 100 steps of dt.
func waited(dt float64) float64 {
	const steps = 100
	s := &ssm.Selective{A: []complex128{-1}}
	for range steps {
		s.Dt = append(s.Dt, dt)
		s.B, s.C = append(s.B, []complex128{1}), append(s.C, []complex128{1})
	}
	y := s.Scan([]complex128{5}, make([]float64, steps))
	return y[steps-1]
}

var training = []Exercise{
	{
		ID:       "8.1",
		Question: "A model has a loss of 1.5 nats per token. What is its perplexity?",
		Numbers:  one(func() float64 { return math.Exp(1.5) }),
		Slips: []Slip{{one(func() float64 { return math.Exp2(1.5) }),
			"that would be for a loss in bits; a nat is a power of e"}},
		Why: "e to the loss.",
	},
	{
		ID:       "8.2",
		Question: "Its tokens stand for 4 bytes of text each. How many bits per byte is that loss of 1.5?",
		Numbers:  one(func() float64 { return 1.5 / math.Ln2 / 4 }),
		Slips: []Slip{
			{one(func() float64 { return 1.5 / 4 }), "those are nats per byte"},
			{one(func() float64 { return 1.5 / math.Ln2 }), "those are bits per token"},
		},
		Why: "loss/ln 2 bits per token, over 4 bytes per token.",
	},
	{
		ID:       "8.3",
		Question: "Which dt makes a mode A = -½ fall to half in 1000 tokens (zero-order hold)?",
		Numbers:  one(func() float64 { return halfLife(-0.5, 1) / 1000 }),
		Slips: []Slip{{one(func() float64 { return math.Ln2 / 1000 }),
			"that would be for A = -1: the real part of A counts, too"}},
		Why: "exp(-½ dt · 1000) = ½, so dt = 2 ln 2/1000.",
	},
}
