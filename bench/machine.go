package bench

import (
	"context"
	"math/rand/v2"
	"runtime"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// Machine describes the machine and the program that rows were measured with, for files that people send.
type Machine struct {
	train.Origin
	Go      string   `json:"go"`
	Level   string   `json:"cpu"`     // level of processor features in use
	Levels  []string `json:"levels"`  // levels that the processor has
	Kernels []string `json:"kernels"` // which code computes what
	Rows    []Row    `json:"rows"`
}

// ThisMachine returns the description of this machine and program, with rows measured on it.
func ThisMachine(rows []Row) (Machine, error) {
	level, err := native.Level()
	return Machine{train.Here(), runtime.Version(), level, kernel.Levels(), native.Kernels(), rows}, err
}

// machineCases measure what a machine reaches of its limits, in less than two minutes if there are kernels for it:
// reading memory on one core and on all; products of packed weights by few and many rows of x, where weights come from
// memory unless there are many rows; functions in the first-level cache; the long convolution; attention; and decoding
// with its share of the speed of memory.
func machineCases(shrink int) []Case {
	cases := []Case{machineCase("memory", nil, func() (trial, error) {
		m := newMemory(shrink)
		onAll := func() error {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
			return m.read()
		}
		return trial{runs: []func() error{m.read, onAll}, fields: func(t []Timing) Row {
			return Row{{"gb_per_s", rounded(m.gigabytes() / t[0].CPU)},
				{"all_cores_gb_per_s_wall", rounded(m.gigabytes() / t[1].Wall)}}
		}}, nil
	})}
	for _, p := range []kernel.Precision{kernel.Float32, kernel.BF16, kernel.Int8, kernel.Int4} {
		for _, rows := range []int{1, 4, 32, 512} {
			cases = append(cases, productsCase(p, rows, shrink))
		}
	}
	for _, f := range []struct {
		name string
		into func(y, x []float32)
	}{
		{"exp", func(y, x []float32) {
			copy(y, x)
			kernel.ExpShift(y, 0, 1)
		}},
		{"sigmoid", kernel.FuncSigmoid.Into}, {"gelu", kernel.FuncGelu.Into},
	} {
		cases = append(cases, machineCase(f.name, nil, func() (trial, error) {
			x := uniform(rand.New(rand.NewPCG(1, 12)), 2048)
			y := make([]float32, len(x))
			run := func() error {
				f.into(y, x)
				return nil
			}
			return trial{runs: []func() error{run}, fields: func(t []Timing) Row {
				return Row{{"ns", rounded(t[0].CPU * 1e9 / float64(len(x)))}}
			}}, nil
		}))
	}
	for _, l := range []int{4096, 65536} {
		d, l := 256/shrink, l/shrink
		cases = append(cases, machineCase("convolution", Row{{"d", float64(d)}, {"l", float64(l)}},
			func() (trial, error) { return convTrial(1, d, l), nil }))
	}
	cases = append(cases, attentionCase(max(1, 12/shrink), 2048/shrink))
	for _, c := range decodeCases(shrink) {
		if of, _ := c.ID.Get("model"); of != "H3-hybrid" {
			break
		}
		batch, _ := c.ID.Number("batch")
		if past, _ := c.ID.Number("context"); batch == 1 && past == float64(1024/shrink) {
			c.ID = append(Row{{"bench", "machine"}, {"mode", "decode"}}, c.ID[1:]...)
			cases = append(cases, c)
		}
	}
	return cases
}

func machineCase(mode string, more Row, prepare func() (trial, error)) Case {
	return Case{ID: append(Row{{"bench", "machine"}, {"mode", mode}}, more...),
		prepare: func(context.Context) (trial, error) { return prepare() }}
}

// productsCase returns a case for the product of m rows of x by packed weights.
func productsCase(p kernel.Precision, m, shrink int) Case {
	k := 768 / shrink
	id := Row{{"precision", p.String()}, {"m", float64(m)}, {"n", float64(4 * k)}, {"k", float64(k)}}
	return machineCase("products", id, func() (trial, error) {
		const fewRows = 32
		matrices := matricesPastCaches
		if m > fewRows {
			matrices = 1
		}
		s := newPackedRows(p, m, matrices, shrink)
		return trial{runs: []func() error{s.multiply}, fields: func(t []Timing) Row {
			work := 2 * float64(matrices*m) * 4 * float64(k*k)
			return Row{{"gop_per_s", rounded(work / t[0].CPU / 1e9)},
				{"weight_gb_per_s", rounded(float64(s.bytes()) / t[0].CPU / 1e9)}}
		}}, nil
	})
}

// attentionCase returns a case for the forward pass of causal attention over one sequence of l positions with heads of
// 64.
func attentionCase(heads, l int) Case {
	d := 64 * heads
	return machineCase("attention", Row{{"d", float64(d)}, {"l", float64(l)}}, func() (trial, error) {
		qkv, o := random(l, 3*d), engine.AttentionOptions{Heads: heads}
		runs := forwardBackward([]*tensor.Tensor{qkv}, func(t *autograd.Tape) *tensor.Tensor {
			return t.Attention(qkv, engine.NewRows(l), nil, o)
		})
		return trial{runs: runs[:1], fields: func(t []Timing) Row {
			work := 2 * float64(l) * float64(l+1) * float64(d) // for scores and for sums of values
			return Row{{"us", rounded(t[0].CPU * 1e6 / float64(l))}, {"gflops", rounded(work / t[0].CPU / 1e9)}}
		}}, nil
	})
}
