package model

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// errAdapter reports that a model has an adapter whose changes are not in its weights.
var errAdapter = errors.New("the model has an adapter: found changes outside its weights, want Merge first")

// Adapter holds low-rank changes of some matrices of a model (see nn.LowRank). The weights themselves do not change,
// and other models can share them (see Model.Beside).
type Adapter struct {
	Changes []Change // in the order of the parameters
}

// Change is the low-rank change of one parameter.
type Change struct {
	Name string // name of the parameter
	Of   *nn.Param
	*nn.LowRank
}

// AdapterShape selects the matrices that an adapter changes, and sets the rank of the changes.
type AdapterShape struct {
	Rank int
	// Alpha/Rank multiplies the changes, so the rank can be varied alone.
	Alpha float64
	// Targets are patterns of parameter names, as for Freeze. If there are none, the matrices of all products are
	// changed.
	Targets []string
}

// maxRank bounds the cost of an invalid or hostile adapter.
const maxRank = 1 << 12

// Adapt attaches an adapter of the given shape to the model, which must not have one. The adapter's parameters have no
// values yet (see Init). From then on only they are trained. A pattern that matches no matrix of a product is an error.
func (m *Model) Adapt(s AdapterShape) (*Adapter, error) {
	var p config.Problems
	if s.Rank < 1 || s.Rank > min(maxRank, m.Config.DModel) {
		p.Addf("rank", "found %d, want 1 to %d, the width of the model", s.Rank, min(maxRank, m.Config.DModel))
	}
	if !(s.Alpha > 0) || math.IsInf(s.Alpha, 0) {
		p.Addf("alpha", "found %g, want a number above 0", s.Alpha)
	}
	var names []string
	for _, product := range m.Products() {
		names = append(names, product.Name)
	}
	changed, err := targets.match(names, s.Targets)
	p.Add(err)
	if err := p.Err(); err != nil {
		return nil, err
	}
	ranks := map[string]ChangeShape{}
	for i, name := range names {
		if changed[i] || len(s.Targets) == 0 {
			ranks[name] = ChangeShape{s.Rank, s.Alpha / float64(s.Rank)}
		}
	}
	a, err := m.AdaptEach(ranks)
	if err == nil {
		m.TrainAdapter()
	}
	return a, err
}

// TrainAdapter freezes all parameters of the model except those of its adapter.
func (m *Model) TrainAdapter() {
	m.Params("", func(_ string, q *nn.Param) { q.SetNeedsGrad(false) })
}

// ChangeShape is the rank and the scale of a change.
type ChangeShape struct {
	Rank  int
	Scale float64
}

// AdaptEach attaches an adapter for inference, not for training. shapes maps the name of a parameter to the shape of
// its change.
func (m *Model) AdaptEach(shapes map[string]ChangeShape) (*Adapter, error) {
	if m.adapter != nil {
		return nil, errAdapter
	}
	a := &Adapter{}
	m.Params("", func(name string, q *nn.Param) {
		if s, ok := shapes[name]; ok && q.Product {
			a.Changes = append(a.Changes, Change{name, q, nn.NewLowRank(q.Dim(0), q.Dim(1), s.Rank, s.Scale)})
		}
	})
	if len(a.Changes) < len(shapes) || len(shapes) == 0 {
		return nil, fmt.Errorf("adapter: found %d of the %d matrices to be changed among the products of the model",
			len(a.Changes), len(shapes))
	}
	for _, c := range a.Changes {
		c.Of.Change = c.LowRank
	}
	m.adapter = a
	return a, nil
}

// SetDropout sets the probability of the dropout before A in all changes: see nn.LowRank.
func (a *Adapter) SetDropout(p float64) {
	for _, c := range a.Changes {
		c.Dropout = p
	}
}

// Adapter returns the model's adapter, or nil if it has none.
func (m *Model) Adapter() *Adapter { return m.adapter }

// Product is a matrix that may have a change: the weights of a Linear, (N, K).
type Product struct {
	Name string // name of the parameter
	N, K int
}

// Products returns all matrices that may have a change.
func (m *Model) Products() (all []Product) {
	m.Params("", func(name string, q *nn.Param) {
		if q.Product {
			all = append(all, Product{name, q.Dim(0), q.Dim(1)})
		}
	})
	return all
}

// compileTarget is compileGlob for targets. A target may also be the last part of a module's name, such as q_proj.
func compileTarget(pattern string) (*regexp.Regexp, error) {
	if !strings.ContainsAny(pattern, ".*?") && pattern != "" {
		return compileGlob("*." + pattern)
	}
	return compileGlob(pattern)
}

// parts returns the names, their prefixes up to a dot, and the last parts of the names of modules.
func parts(names []string) []string {
	all := withParts(names)
	for _, name := range names {
		module := strings.TrimSuffix(name, ".weight")
		if last := module[strings.LastIndexByte(module, '.')+1:]; !slices.Contains(all, last) {
			all = append(all, last)
		}
	}
	return all
}

// Module returns the name of the matrix without ".weight".
func (c *Change) Module() string { return strings.TrimSuffix(c.Name, ".weight") }

// Params visits the parameters of the changes.
func (a *Adapter) Params(prefix string, visit nn.Visitor) {
	for _, c := range a.Changes {
		c.LowRank.Params(prefix+c.Module()+".", visit)
	}
}

// Init initializes the parameters from seed. A newly initialized adapter changes nothing.
func (a *Adapter) Init(seed uint64) { nn.InitAll(a, "", seed) }

// NumParams returns the number of trainable values.
func (a *Adapter) NumParams() int { return numParams(a) }

// fingerprint returns a checksum of the names, scales and values of the changes.
func (a *Adapter) fingerprint() []byte {
	h := fnv.New128a()
	for _, c := range a.Changes {
		fmt.Fprintf(h, "%q %v\n", c.Name, c.Scale)
	}
	a.Params("", func(_ string, p *nn.Param) {
		values := p.Floats()
		h.Write(addSum(nil, values))
	})
	return h.Sum(nil)
}

// Beside returns another model that shares the weights in memory and has no adapter. From then on, each of the two
// models can be trained or changed only through its adapter.
func (m *Model) Beside() (*Model, error) {
	other, err := New(m.Config)
	if err != nil {
		return nil, err
	}
	other.precision = m.precision
	other.use(m.backend)
	other.divided, other.rounder = m.divided, m.rounder
	var from []*tensor.Tensor
	m.Params("", func(_ string, p *nn.Param) { from = append(from, p.Tensor) })
	other.Params("", func(_ string, p *nn.Param) {
		p.Share(from[0])
		from = from[1:]
	})
	return other, nil
}

// Merge adds the changes of the adapter to the weights, W + Scale·B A, and removes the adapter. It returns an error if
// the model is packed. The sums are computed in float64 and rounded once.
func (m *Model) Merge() error {
	if isPacked(m) {
		return errPacked
	}
	if m.adapter == nil {
		return nil
	}
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for _, c := range m.adapter.Changes {
		places <- struct{}{}
		all.Go(func() {
			c.merge()
			<-places
		})
	}
	all.Wait()
	m.adapter = nil
	return nil
}

// merge adds the change to the weights.
func (c *Change) merge() {
	n, k, r := c.Of.Dim(0), c.Of.Dim(1), c.A.Dim(0)
	w, a, b := make([]float32, n*k), make([]float32, r*k), make([]float32, n*r)
	c.Of.CopyTo(w)
	c.A.CopyTo(a)
	c.B.CopyTo(b)
	sum := make([]float64, k)
	for i := range n {
		clear(sum)
		for l := range r {
			f := c.Scale * float64(b[i*r+l])
			for j, v := range a[l*k:][:k] {
				sum[j] += f * float64(v)
			}
		}
		for j, v := range sum {
			w[i*k+j] = float32(float64(w[i*k+j]) + v)
		}
	}
	c.Of.SetData(w)
	c.Of.Change = nil
}

// isChanged reports whether matrices of a model have changes.
func isChanged(m nn.Module) (changed bool) {
	m.Params("", func(_ string, p *nn.Param) { changed = changed || p.Change != nil })
	return changed
}
