// Package toymodel makes small language models with random weights and texts for them, for tests of code that runs
// models.
package toymodel

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// New returns a model of width 16 with layers of the given mixers, such as "h3,attention". Its weights are ten times as
// large as those of a fresh model, so that the logits depend clearly on the text before them and an error in reading it
// shows.
func New(t testing.TB, layers string, vocab int) *model.Model {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState, c.HeadDim, c.DInner = 16, vocab, layers, 2, 8, 2, 24
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	m.Params("", func(name string, p *nn.Param) {
		// Of two matrices in a row, the second stays as it is, or gates would be shut. Both of the matrices between
		// which mla multiplies queries and keys stay as they are, or a query would see only one key.
		second := strings.HasSuffix(name, "in_proj_z.1.weight") || strings.HasSuffix(name, "in_proj_a.1.weight") ||
			strings.Contains(name, ".k_b.") ||
			strings.HasSuffix(name, ".q_proj.weight") && strings.Contains(layers, "mla")
		if p.Role == nn.Weight && !second || p.Role == nn.Table {
			x := make([]float32, p.Len())
			p.CopyTo(x)
			for i := range x {
				x[i] *= 10
			}
			p.CopyFrom(x)
		}
	})
	return m
}

// Randomize adds normal noise of a standard deviation to every parameter of a module.
func Randomize(m nn.Module, std float64) {
	rng := rand.New(rand.NewPCG(3, 4))
	m.Params("", func(_ string, p *nn.Param) {
		x := make([]float32, p.Len())
		p.CopyTo(x)
		for i := range x {
			x[i] += float32(std * rng.NormFloat64())
		}
		p.CopyFrom(x)
		p.Changed()
	})
}

// Text returns n random ids below vocab.
func Text(seed uint64, n, vocab int) []int32 {
	rng := rand.New(rand.NewPCG(seed, 3))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = rng.Int32N(int32(vocab))
	}
	return ids
}
