package text

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// probes measures what an update of a run needs, by updates of models that have some of its model's layers.
type probes struct {
	*Config
	shape  model.Config
	layers []layer
	frozen map[string]bool              // names of the parameters that are not trained
	ranks  map[string]model.ChangeShape // shapes of an adapter's changes, by matrix
	// frozenHead is true if the weights of the head are frozen.
	frozenHead bool
	// measure and time are probe and timedProbe, except in tests.
	measure, time func(shape model.Config, layers []layer, batch, l int) (probed, error)
}

// layer is a layer of the run's model.
type layer struct {
	entry string // entry in the plan
	index int
	below bool // below the first trained layer: it keeps nothing for the backward pass
	// class is the same for layers that need the same memory and time: those with the same entry, on the same side of
	// the first trained layer, and with the same frozen parameters.
	class string
}

// probes returns probes for the updates of a shape.
func (c *Config) probes(shape model.Config) (*probes, error) {
	plan, err := shape.Plan()
	if err != nil {
		return nil, err
	}
	m, err := model.New(shape)
	if err != nil {
		return nil, err
	}
	if _, err := c.freeze(m); err != nil {
		return nil, err
	}
	if held := c.Train.held(); held < c.Train.SeqLen {
		short := *c
		short.Train.SeqLen, c = held, &short
	}
	run := &probes{Config: c, shape: shape, frozen: map[string]bool{}, ranks: map[string]model.ChangeShape{}}
	run.measure, run.time = run.probe, run.timedProbe
	first := m.FirstTrained()
	run.frozenHead = !m.Unembedding().NeedsGrad()
	for i, entry := range plan {
		l := layer{entry: entry, index: i, below: i < first}
		l.class = fmt.Sprint(entry, l.below)
		run.layers = append(run.layers, l)
	}
	m.Params("", func(name string, p *nn.Param) {
		if p.NeedsGrad() {
			return
		}
		run.frozen[name] = true
		part := ""
		if p.Change != nil {
			run.ranks[name] = model.ChangeShape{Rank: p.Change.A.Dim(0), Scale: p.Change.Scale}
			part = "+"
		}
		if i, in, ok := layerOf(name); ok {
			run.layers[i].class += " " + in + part
		}
	})
	return run, nil
}

// layerOf splits the name of a layer's parameter into the layer's index and the rest.
func layerOf(name string) (index int, part string, ok bool) {
	if _, err := fmt.Sscanf(name, "backbone.layers.%d.%s", &index, &part); err != nil {
		return 0, "", false
	}
	return index, part, true
}

// freeze freezes the same parameters as in the run in a model that has some of its layers, and adds the adapter's
// changes of these layers.
func (run *probes) freeze(m *model.Model, layers []layer) error {
	ranks := map[string]model.ChangeShape{}
	m.Params("", func(name string, p *nn.Param) {
		frozen, of := run.frozen[name], name
		if i, part, ok := layerOf(name); ok {
			// Parameters that layers share belong to the first of them.
			of = fmt.Sprintf("backbone.layers.%d.%s", layers[i].index, part)
			frozen = layers[i].below || run.frozen[of]
		}
		if frozen {
			p.SetNeedsGrad(false)
		}
		if s, ok := run.ranks[of]; ok && p.Product {
			ranks[name] = s
		}
	})
	if len(ranks) == 0 {
		return nil
	}
	a, err := m.AdaptEach(ranks)
	if err == nil {
		a.SetDropout(run.LoRA.Dropout)
	}
	return err
}

// classes returns the first layer of each class, and how many more layers the class has.
func (run *probes) classes() (layers []layer, more []int) {
	for _, l := range run.layers {
		i := slices.IndexFunc(layers, func(k layer) bool { return k.class == l.class })
		if i < 0 {
			layers, more = append(layers, l), append(more, 0)
		} else {
			more[i]++
		}
	}
	return layers, more
}

// entries returns layers in the format of model.Config.Layers.
func entries(layers []layer) string {
	all := make([]string, len(layers))
	for i, l := range layers {
		all[i] = l.entry
	}
	return strings.Join(all, ",")
}

// addLayers computes f for all layers, assuming that it is a constant plus a sum over layers. It calls f for one layer
// of each class, and with one more layer of each class.
func (run *probes) addLayers(f func([]layer) (float64, error)) (float64, error) {
	layers, more := run.classes()
	base, err := f(layers)
	if err != nil {
		return 0, err
	}
	sum := base
	for i, n := range more {
		if n == 0 {
			continue
		}
		larger, err := f(slices.Insert(slices.Clone(layers), i, layers[i]))
		if err != nil {
			return 0, err
		}
		sum += float64(n) * max(0, larger-base)
	}
	return sum, nil
}

// probed holds what one update needs: bytes of activations, scratch memory of the cores, time.
type probed struct {
	bytes, scratch int
	seconds        float64
}

// probe runs two updates of a model with these layers on random tokens, and measures the memory of the second. The
// model trains the same parameters as the run.
func (run *probes) probe(shape model.Config, layers []layer, batch, l int) (probed, error) {
	return run.updates(shape, layers, batch, l, 0)
}

// timedProbe is probe, but repeats updates for probedTime to measure their time.
func (run *probes) timedProbe(shape model.Config, layers []layer, batch, l int) (probed, error) {
	return run.updates(shape, layers, batch, l, probedTime)
}

const (
	fewestProbed = 2 // updates
	probedTime   = 300 * time.Millisecond
)

// updates is a probe that runs for at least the given time. It returns the median time of an update, since the
// machine's speed varies from one update to the next.
func (run *probes) updates(shape model.Config, layers []layer, batch, l int, least time.Duration) (probed, error) {
	shape.Layers = entries(layers)
	const seed = 1 // of tokens, weights and dropout; any value will do
	rng := rand.New(rand.NewPCG(seed, seed))
	ids := make([]int32, batch*l+1)
	for i := range ids {
		ids[i] = rng.Int32N(int32(shape.VocabSize))
	}
	m, err := model.New(shape)
	if err != nil {
		return probed{}, err
	}
	if err := run.freeze(m, layers); err != nil {
		return probed{}, err
	}
	m.Init(seed)
	var leaves []*tensor.Tensor
	trained := func(_ string, p *nn.Param) {
		if p.NeedsGrad() {
			leaves = append(leaves, p.Tensor)
		}
	}
	m.Params("", trained)
	if a := m.Adapter(); a != nil {
		a.Init(seed)
		a.Params("", trained)
	}
	if err := run.LoRA.pack(m); err != nil {
		return probed{}, err
	}
	precision, err := engine.ParsePrecision(run.Precision)
	if err != nil {
		return probed{}, err
	}
	t := m.NewTape()
	t.Collect(autograd.NewGradients(t.Backend(), leaves...))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var p probed
	var times []float64
	inputs, wanted, kept := ids[:batch*l], ids[1:], copies{}
	for began := time.Now(); len(times) < fewestProbed || time.Since(began) < least; {
		start := time.Now()
		t.Reset()
		train.ForUpdates(t, precision)
		rows := model.EqualRows(batch, l)
		rows.Train(engine.RowSeeds(seed, seed, seed, batch)...)
		if run.Train.Recompute {
			w := layerwise{m: m, t: t, rows: rows, copies: &kept}
			_, err = w.through(inputs, wanted, func() float64 { return 1 }, func(float64) error { return nil })
			if err != nil {
				return probed{}, err
			}
		} else {
			t.Backward(m.Loss(t, m.Forward(t, inputs, rows), wanted))
		}
		p.bytes = t.Bytes()
		times = append(times, time.Since(start).Seconds())
	}
	slices.Sort(times)
	p.seconds = times[(len(times)-1)/2]
	runtime.ReadMemStats(&after)
	p.scratch = max(0, int(after.HeapInuse)-int(before.HeapInuse)-p.bytes)
	runtime.GC() // the next probe needs the memory of this one
	return p, nil
}

// extrapolate estimates an update by measuring small models of the same width: time from one short sequence, memory by
// extrapolateBytes.
func (run *probes) extrapolate() (probed, error) {
	bytes, err := run.activations()
	if err != nil {
		return probed{}, err
	}
	shape, _, larger, err := run.narrowed()
	if err != nil {
		return probed{}, err
	}
	classes, _ := run.classes()
	small, err := tinyVocab(shape, classes)
	if err != nil {
		return probed{}, err
	}
	l := min(small.length(timedTokens), run.Train.SeqLen)
	var scratch int
	timed := func(shape model.Config, layers []layer) (float64, error) {
		p, err := run.time(shape, layers, 1, l)
		scratch = max(scratch, p.scratch)
		return p.seconds, err
	}
	seconds, err := run.addLayers(func(layers []layer) (float64, error) { return timed(small.Config, layers) })
	if err != nil {
		return probed{}, err
	}
	// The head is timed separately, once: in the sum over layers, noise in its time would count once per layer.
	without, err := timed(small.Config, classes)
	if err != nil {
		return probed{}, err
	}
	with, err := timed(shape, classes)
	seconds += max(0, with-without)
	return probed{bytes, scratch, seconds * larger * float64(run.Train.BatchSize*run.Train.SeqLen) / float64(l)}, err
}

// timedTokens is the length of the sequence that is timed, if that is affordable. With shorter sequences, work that is
// done once for all positions, such as reading rounded weights, would outweigh the matrix products.
const timedTokens = 256

// tinyShape is a shape with a tiny vocabulary, for probes of layers.
type tinyShape struct {
	model.Config
	params int // number of parameters with one layer of each class
}

func tinyVocab(shape model.Config, classes []layer) (s tinyShape, err error) {
	s.Config = shape
	s.VocabSize, s.Layers = 64, entries(classes)
	s.params, err = s.CountParams()
	return s, err
}

// length returns most or, if updates of so many tokens would take too long, 32.
func (s *tinyShape) length(most int) int {
	if 6*float64(s.params)*float64(most) < estimateFlops {
		return most
	}
	return 32
}

// further returns by how much the longer of two probe sequences exceeds the shorter one, at most most. Buffers come in
// size classes, and the unused part of them varies from one length to the next, by a tenth. That matters little if the
// two lengths are far apart.
func (s *tinyShape) further(most int) int {
	const least = 32
	n := 384
	for n > least && 6*float64(s.params)*float64(n) > 4*estimateFlops {
		n /= 2
	}
	return max(least, min(n, most))
}

// extrapolateBytes estimates the memory of the activations of one shard. It is a sum of a constant, a part that grows
// with the length alone (convolution kernels), and a part that grows with the positions of all rows. Three small steps
// separate them. The memory of the loss is counted separately, so that the probes need only a tiny vocabulary, or one
// with which the loss keeps as much per token.
func (run *probes) extrapolateBytes(shape model.Config) (int, error) {
	batch := run.Train.BatchSize
	loss := func(rows int, of model.Config) float64 {
		return 4 * float64(native.Backend.LossMemory(rows, of.DModel, of.PaddedVocab(), run.frozenHead))
	}
	classes, _ := run.classes()
	small, err := tinyVocab(shape, classes)
	if err != nil {
		return 0, err
	}
	rows := batch * run.Train.SeqLen
	if v := int(loss(rows, shape))/4/rows - 1; run.Train.Recompute && v <= shape.PaddedVocab() {
		// Layers and the loss use memory in turn and share it. The probes show how much if the loss is in proportion.
		small.VocabSize, loss = max(v, small.VocabSize), func(int, model.Config) float64 { return 0 }
	}
	// Short sequences are convolved in another way than long ones, which affects memory. So probes are long if that is
	// affordable.
	l := min(32, run.Train.SeqLen)
	if small.length(512) == 512 {
		l = min(128, run.Train.SeqLen)
	}
	more := small.further(run.Train.SeqLen - l)
	total, err := run.addLayers(func(layers []layer) (float64, error) {
		var at [3]float64
		for i, size := range [3]struct{ b, l int }{{1, l}, {1, l + more}, {2, l + more}} {
			if i == 2 && batch == 1 {
				continue // a batch of one row has no additional rows
			}
			p, err := run.measure(small.Config, layers, size.b, size.l)
			if err != nil {
				return 0, err
			}
			at[i] = float64(p.bytes) - loss(size.b*size.l, small.Config)
		}
		position := (at[1] - at[0]) / float64(more) // per position, with one row
		constant := at[0] - position*float64(l)
		row := (at[2] - at[1]) / float64(l+more) // per position of an additional row
		return constant + (position+row*float64(batch-1))*float64(run.Train.SeqLen), nil
	})
	return int(total + loss(rows, shape)), err
}

// Limits of probes: free memory, for machines that do not report it, and parameters, which limit their time. Probes of
// wider models have about narrowParams parameters.
const (
	unknownMemory = 8 << 30
	mostParams    = 1 << 29
	narrowParams  = 1 << 24
)

// narrowed returns a shape whose probes fit into memory: the run's own or, if one layer of each class is too large, a
// narrower one. It also returns the width and the parameters of the run's shape as multiples of that shape's.
func (run *probes) narrowed() (narrow model.Config, width, params float64, err error) {
	free, known := status.FreeMemory()
	if !known {
		free.Bytes = unknownMemory
	}
	shape, probe := run.shape, run.shape
	classes, _ := run.classes()
	probe.Layers = entries(slices.Concat(classes, classes))
	n, err := probe.CountParams()
	if err != nil {
		return shape, 1, 1, err
	}
	const perProbe = 8 // value and gradient
	most := min(int(free.Bytes)/2/perProbe, mostParams)
	if n <= most {
		return shape, 1, 1, nil
	}
	fitting, got, err := probe.FitWidth(min(most/2, narrowParams), .2)
	if err != nil {
		return shape, 1, 1, fmt.Errorf(
			"model: found %d parameters in one layer of each kind, which are too many to measure: %w", n, err)
	}
	return shape.AtWidth(fitting.DModel), float64(shape.DModel) / float64(fitting.DModel), float64(n) / float64(got),
		nil
}

// activations estimates the memory of one shard's activations from small updates.
func (run *probes) activations() (int, error) {
	narrow, width, _, err := run.narrowed()
	if err != nil {
		return 0, err
	}
	if !run.Train.Recompute {
		bytes, err := run.extrapolateBytes(narrow)
		return int(float64(bytes) * width), err
	}
	// A layer reuses the memory of those before it for buffers of the same sizes.
	classes, _ := run.classes()
	one := *run
	one.layers = classes
	bytes, err := one.extrapolateBytes(narrow)
	const gradients = 2 // gradients of a stream, which are kept like the streams
	streams := 8 * run.Train.BatchSize * run.Train.SeqLen * run.shape.DModel * (len(run.layers) + gradients)
	return int(float64(bytes)*width) + streams, err
}
