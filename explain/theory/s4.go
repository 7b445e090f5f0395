package theory

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var s4View = View{
	Name:  "s4",
	Short: "S4's matrix, normal plus low rank: its spectrum, and its kernel by three ways",
	Long: `Shows how S4 makes HiPPO's A quick to compute with:

  A + P Pᵀ = N        a normal matrix N: a multiple of I plus a skew-symmetric one
  N = V Λ V^H         with orthonormal eigenvectors V, so that A = V (Λ - P P*) V^H with P in the new basis
  kernel              K_l = C Abarˡ Bbar, whose transform is a sum of terms a_i b_i/(w - Λ_i): a Cauchy kernel

A itself has real eigenvalues, too, but its eigenvectors are nearly parallel: their condition number grows exponentially
with n, and nothing can be computed in their basis. C is chosen so that the system gives the input of --age samples ago,
as well as its n numbers know it. S4, arXiv:2111.00396, theorem 1, lemma 3.2 and algorithm 1.`,
	Example: `  hippo explain ssm s4
  hippo explain ssm s4 --measure legt --n 32 --age 100
  hippo explain ssm s4 --measure fout --n 32 --dt 0.01`,
	New: func() Options { return &S4Options{Measure: "legs", N: 16, Dt: 0.02, Age: 40, Length: 256} },
}

// S4Options holds the options of the view s4.
type S4Options struct {
	Measure string  `json:"measure" enum:"legs,legt,lagt,fout" help:"the HiPPO matrix"`
	N       int     `json:"n" min:"2" max:"64" help:"numbers in the state, even"`
	Dt      float64 `json:"dt" min:"0.0001" max:"1" help:"time from one sample to the next"`
	Age     float64 `json:"age" min:"0" max:"4096" help:"how many samples ago the input is that C reads"`
	Length  int     `json:"length" min:"8" max:"2048" help:"samples of the kernel"`
}

// readAt returns the C that reads from the state of a measure, with the time scale of ssm.HiPPO, the input s units of
// time ago.
func readAt(measure string, n int, s float64) []float64 {
	const window = 2 // for legt and fout
	switch measure {
	case "legs":
		return ssm.Legendre(n, math.Exp(-s))
	case "legt":
		return ssm.Legendre(n, 1-s/window)
	case "lagt":
		return ssm.Laguerre(n, s)
	}
	return ssm.FourierHiPPO(n, s/window)
}

// system returns the dense system, and the same system as diagonal plus low rank.
func (o *S4Options) system() (*ssm.Continuous, *ssm.DPLR, error) {
	a, b, err := ssm.HiPPO(o.Measure, o.N)
	if err != nil {
		return nil, nil, err
	}
	dense := &ssm.Continuous{A: a, B: b, C: readAt(o.Measure, o.N, o.Age*o.Dt)}
	s, v, err := ssm.NPLR(o.Measure, o.N)
	if err != nil {
		return nil, nil, err
	}
	s.Dt = o.Dt
	for _, column := range v { // C in the basis of V
		var sum complex128
		for i, c := range dense.C {
			sum += complex(c, 0) * column[i]
		}
		s.C = append(s.C, sum)
	}
	return dense, s, nil
}

// Page returns the page with the matrices, their spectra and the kernel.
func (o *S4Options) Page(context.Context) (*figure.Page, error) {
	dense, s, err := o.system()
	if err != nil {
		return nil, err
	}
	p, err := ssm.LowRank(o.Measure, o.N)
	if err != nil {
		return nil, err
	}
	kernel, err := o.kernel(dense, s)
	if err != nil {
		return nil, err
	}
	spectrum, err := o.spectrum(dense, s)
	if err != nil {
		return nil, err
	}
	low := mat.NewDense(o.N, o.N, nil)
	for _, row := range p {
		low.RankOne(low, 1, mat.NewVecDense(o.N, row), mat.NewVecDense(o.N, row))
	}
	var normal, left, right mat.Dense
	normal.Add(dense.A, low)
	left.Mul(&normal, normal.T())
	right.Mul(normal.T(), &normal)
	left.Sub(&left, &right)
	defect := mat.Norm(&left, 2) / mat.Norm(&right, 2)

	matrices := still("matrices", "Normal plus low rank",
		fmt.Sprintf("A, the matrix P Pᵀ of rank %d, and their sum N, which is normal: |N Nᵀ - Nᵀ N| is %.1e of |Nᵀ N|.",
			len(p), defect), "S4, arXiv:2111.00396, theorem 1")
	for _, m := range []struct {
		name   string
		matrix mat.Matrix
	}{{"A", dense.A}, {"P Pᵀ", low}, {"N = A + P Pᵀ", &normal}} {
		shown, _ := matrixMap(m.matrix)
		matrices.Frames[0].Panels = append(matrices.Frames[0].Panels, mapPanel(m.name, "column", "row", shown))
	}
	return &figure.Page{
		Title: "S4: diagonal plus low rank",
		Subtitle: fmt.Sprintf("%s, a state of %d numbers, dt %g, read %g samples ago", measureNames[o.Measure], o.N,
			o.Dt, o.Age),
		Figures: []*figure.Figure{matrices, spectrum, kernel},
	}, nil
}

// spectrum returns a figure of the eigenvalues of A and of N, and of how close to parallel the eigenvectors of A are.
func (o *S4Options) spectrum(dense *ssm.Continuous, s *ssm.DPLR) (*figure.Figure, error) {
	own, err := ssm.Poles(dense.A)
	if err != nil {
		return nil, err
	}
	lambda := make([]complex128, 0, o.N)
	for _, z := range s.Lambda {
		lambda = append(lambda, z, complex(real(z), -imag(z)))
	}
	left := plane("eigenvalues", false, points("of A", own), points("Λ: of N", lambda))
	left.Square, left.Lines.At = false, []float64{0}
	condition := figure.Series{Name: "of A"}
	flat := figure.Series{Name: "of N", Dashed: true}
	for n := 2; n <= o.N; n += 2 {
		a, _, err := ssm.HiPPO(o.Measure, n)
		if err != nil {
			return nil, err
		}
		c, ok := eigenvectorCondition(a)
		if !ok {
			c = math.NaN() // a gap
		}
		condition.X, condition.Y = append(condition.X, float64(n)), append(condition.Y, c)
		flat.X, flat.Y = append(flat.X, float64(n)), append(flat.Y, 1)
	}
	right := lines("condition number of the eigenvectors", "n", "", condition, flat)
	right.Y.Log = true
	return still("spectrum", "Eigenvalues, and what they are worth",
		"The eigenvectors of N are orthonormal, with condition number 1. Those of A are not: "+
			"rounding errors grow by the condition number in their basis, "+
			"so that beyond about 10¹⁶ no digit is left. LagT has one eigenvalue only, "+
			"and no basis of eigenvectors at all.", "S4, arXiv:2111.00396, lemma 3.2", left, right), nil
}

// eigenvectorCondition returns the condition number of the matrix of eigenvectors of a. It returns false if there is no
// finite one.
func eigenvectorCondition(a *mat.Dense) (float64, bool) {
	var eigen mat.Eigen
	if !eigen.Factorize(a, mat.EigenRight) {
		return 0, false
	}
	var v mat.CDense
	eigen.VectorsTo(&v)
	n, _ := a.Dims()
	both := mat.NewDense(2*n, 2*n, nil) // x + iy is [Re -Im; Im Re] times (x, y)
	for i := range n {
		for j := range n {
			z := v.At(i, j)
			both.Set(i, j, real(z))
			both.Set(i, n+j, -imag(z))
			both.Set(n+i, j, imag(z))
			both.Set(n+i, n+j, real(z))
		}
	}
	c := mat.Cond(both, 2)
	return c, !math.IsInf(c, 0) && !math.IsNaN(c)
}

// kernel returns a figure of the kernel computed in three ways: by the dense recurrence, by the recurrence of diagonal
// plus low rank, and by the generating function.
func (o *S4Options) kernel(dense *ssm.Continuous, s *ssm.DPLR) (*figure.Figure, error) {
	d, err := dense.Discretize(o.Dt, ssm.Bilinear)
	if err != nil {
		return nil, err
	}
	truth, quick := d.Kernel(o.Length), s.Kernel(o.Length)
	trained := *s
	trained.C = s.TruncatedC(o.Length)
	cauchy := trained.CauchyKernel(o.Length)
	scale := floats.Norm(truth, math.Inf(1))
	off := func(k []float64) float64 { return floats.Distance(k, truth, math.Inf(1)) / scale }
	sums := fmt.Sprintf("the inverse transform of the Cauchy sums by %.1e.", off(cauchy))
	if floats.HasNaN(cauchy) {
		sums = "while the Cauchy sums have a pole at z = 1: this Λ has the eigenvalue 0, and does not fade there."
	}
	at := evenly(o.Length, mostPoints)
	shown := lines("kernel", "lag in samples", "", picked("K", truth, at))
	shown.Lines.At = []float64{o.Age}
	return still("kernel", "The kernel, by three ways", fmt.Sprintf("C reads the input of %g samples ago, "+
		"so the kernel is the sharpest bump at that lag that %d numbers allow. The recurrence of Λ - P P*, "+
		"which takes a multiple of n steps where the dense one takes n², differs from it by %.1e of its height, ",
		o.Age, o.N, off(quick))+sums, "S4, arXiv:2111.00396, appendix C.2 and algorithm 1", shown), nil
}
