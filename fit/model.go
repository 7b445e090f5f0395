package fit

import (
	"context"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
	"github.com/hippo-ssm/hippo/task"
)

// Model is a trained network that knows the columns of its data. It is safe for concurrent use.
type Model struct {
	net  *model.Network
	plan *Plan
	enc  *encoder

	rival   *Contender // predicts instead of the network; nil for the network
	network *Model     // the model with the network and its plan, if this one predicts instead of it; nil for itself
}

// Open loads the model that the run in a folder has chosen: its network, or a simple model that was better.
func Open(dir string) (*Model, error) {
	net, p, err := openNetwork(dir)
	if err != nil {
		return nil, err
	}
	m, err := newModel(net, p)
	if err != nil {
		return nil, err
	}
	if m, err = m.Use(""); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// openNetwork loads the network of a run and its plan.
func openNetwork(dir string) (*model.Network, *Plan, error) {
	net, err := model.FindNetwork(dir)
	if err != nil {
		return nil, nil, err
	}
	if net == nil {
		return nil, nil, fmt.Errorf("%s: found no %s, want the folder of hippo fit or hippo forecast", dir,
			model.NetworkFile)
	}
	p, err := PlanOf(net)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	return net, p, nil
}

func newModel(net *model.Network, p *Plan) (*Model, error) {
	e, err := newEncoder(p)
	if err != nil {
		return nil, err
	}
	return &Model{net: net, plan: p, enc: e}, nil
}

// Plan returns how the model maps data to sequences.
func (m *Model) Plan() *Plan { return m.plan }

// Net returns the network.
func (m *Model) Net() *model.Network { return m.net }

// batchPositions is the approximate number of positions that are computed at a time.
const batchPositions = 16 << 10

// examples is a set of windows with their examples.
type examples interface {
	Example(i int, ex *task.Example)
	at(i int) window
	frame() *frame
	stretch(i, lo, hi int) []float32 // stored rows of and before window i
}

// outputs calls visit with the network's outputs for examples: those at the positions to be predicted, in order.
func (m *Model) outputs(ctx context.Context, w examples, indices []int,
	visit func(at window, ex *task.Example, y []float32) error) error {
	if m.rival != nil {
		return m.guesses(ctx, w, indices, visit)
	}
	for len(indices) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		var in model.Input
		var examples []task.Example
		total := 0
		for len(examples) < len(indices) && total < batchPositions {
			var ex task.Example
			w.Example(indices[len(examples)], &ex)
			n := len(ex.Values) / m.net.Config.Channels
			total += n
			in.Lengths, in.Values = append(in.Lengths, n), append(in.Values, ex.Values...)
			examples = append(examples, ex)
		}
		y := m.net.Predict(in)
		for k := range examples {
			n, asked := 1, 1
			if !m.plan.whole() {
				n, asked = in.Lengths[k], in.Lengths[k]
			}
			if m.plan.Task == Forecast {
				asked = m.plan.Horizon
			}
			out := y[:n*m.net.Config.Outputs]
			y = y[len(out):]
			at := w.at(indices[k])
			place := table.Place{File: fmt.Sprintf("sequence %d", at.seq+1), Unit: "window", At: int64(indices[k]) + 1}
			if err := finite(out, place); err != nil {
				return err
			}
			if err := visit(at, &examples[k], out[(n-asked)*m.net.Config.Outputs:]); err != nil {
				return err
			}
		}
		indices = indices[len(examples):]
	}
	return nil
}

// guesses is like outputs, for a rival.
func (m *Model) guesses(ctx context.Context, w examples, indices []int,
	visit func(at window, ex *task.Example, y []float32) error) error {
	p, f := m.plan, w.frame()
	for _, i := range indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		var ex task.Example
		w.Example(i, &ex)
		at := w.at(i)
		lo, hi, n := at.lo, at.hi, len(ex.Values)/m.net.Config.Channels
		switch {
		case p.Task == Forecast:
			n = p.Horizon
			m.enc.from(w.stretch(i, lo, hi-n))
			lo = max(f.seqs[at.seq].lo, min(lo, hi-n-m.rival.rival.memory(p)))
		case p.whole():
			n = 1
		default:
			hi = lo + n // the last row has no next one
		}
		if err := visit(at, &ex, m.rival.outputs(m.enc, w.stretch(i, lo, hi), n)); err != nil {
			return err
		}
	}
	return nil
}

// some returns at most limit of n indices, evenly spaced.
func some(n, limit int) []int {
	count := min(n, limit)
	all := make([]int, count)
	for i := range all {
		all[i] = i * n / count
	}
	return all
}

// quantiles returns the quantiles of a number of target k at a step of a forecast, in the units of the data: outputs of
// the network, sorted (Chernozhukov, Fernández-Val and Galichon, "Quantile and probability curves without crossing",
// Econometrica 78, 2010) and widened by the calibration. now is the number at the previous row; see encoder.back.
func (m *Model) quantiles(e *encoder, y []float32, k, step int, now float64) []float64 {
	p := m.plan
	q := p.ordered(y, k)
	if len(p.Widen) > 0 {
		for pair, steps := range p.Widen[k] {
			p.widen(q, pair, steps[min(step, len(steps)-1)])
		}
		slices.Sort(q) // the median stays in the middle
	}
	return m.inUnits(e, q, k, now)
}

// learnt returns the quantiles as the network has learnt them.
func (m *Model) learnt(e *encoder, y []float32, k int, now float64) []float64 {
	return m.inUnits(e, m.plan.ordered(y, k), k, now)
}

// ordered returns the outputs for target k, sorted, on the network's scale.
func (p *Plan) ordered(y []float32, k int) []float64 {
	q := make([]float64, len(p.Levels))
	for j := range q {
		q[j] = float64(y[k*len(q)+j])
	}
	slices.Sort(q)
	return q
}

// inUnits converts quantiles of target k from the network's scale to the units of the data, in place.
func (m *Model) inUnits(e *encoder, q []float64, k int, now float64) []float64 {
	i := m.plan.targets()[k]
	for j := range q {
		q[j] = e.back(i, q[j], now)
	}
	return q
}

// middle returns the index of the median among the levels.
func (p *Plan) middle() int { return max(0, slices.Index(p.Levels, 0.5)) }
