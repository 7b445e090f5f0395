package paths

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TraceReport shows what of the second path, put into the first, moves the prediction after it: the causal tracing of
// "Locating and Editing Factual Associations in GPT" (arXiv:2202.05262, §2.1), of what layers add and of what they
// remember. Let p and q be the predictions after the paths, r the prediction after the first path with one thing
// exchanged, and JS the Jensen-Shannon divergence. A value is
//
//	1 - JS(r, q)/JS(p, q)
//
// which is 0 if the prediction stays as far from the second path's as before, 1 if it becomes the second path's, and
// below 0 if it moves away.
type TraceReport struct {
	IDs    [2][]int32
	Common int
	Layers []string
	Added  [][]float64 // what a layer adds to the stream, by layer and token from Common on
	State  [][]float64 // what a layer's state holds before that token, likewise
}

// maxTraced is the maximum number of traced tokens: each is read once for each layer, with all tokens after it.
const maxTraced = 128

// Trace exchanges what each layer adds at each token, and its state before each token. It returns an error if the paths
// differ in length, if there are too many tokens after the place where they diverge, if the predictions are equal, and
// in the cases of Compare.
func Trace(ctx context.Context, g *explain.Language, a, b []int32, progress func(done, total int)) (*TraceReport,
	error) {
	rep, err := fork(g, a, b)
	if err != nil {
		return nil, err
	}
	n := len(a) - rep.Common
	switch {
	case len(a) != len(b):
		return nil, fmt.Errorf("trace: found paths of %d and %d tokens, want the same, "+
			"as they are exchanged token for token", len(a), len(b))
	case n > maxTraced:
		return nil, fmt.Errorf("trace: found %d tokens after the paths diverge, want at most %d", n, maxTraced)
	}
	tr := &tracer{g: g, rep: &TraceReport{IDs: rep.IDs, Common: rep.Common, Layers: rep.Layers}}
	layers := len(g.Backbone.Blocks)
	for range layers {
		tr.rep.Added = append(tr.rep.Added, make([]float64, n))
		tr.rep.State = append(tr.rep.State, make([]float64, n))
	}
	if err := tr.ends(ctx); err != nil {
		return nil, err
	}
	for i := range n {
		for k := range layers {
			if err := tr.exchange(ctx, k, i); err != nil {
				return nil, err
			}
			if progress != nil {
				progress(i*layers+k+1, n*layers)
			}
		}
		for j, p := range tr.paths {
			if err := p.goOn(ctx, rep.IDs[j][rep.Common+i:][:1]); err != nil {
				return nil, err
			}
		}
	}
	return tr.rep, nil
}

// tracer builds a TraceReport.
type tracer struct {
	g     *explain.Language
	rep   *TraceReport
	paths [2]*walker // before the current token
	next  [2][]float32
	of    [2]explain.Softmax
	apart float64
	added map[added][]float32 // of the second path
	with  *walker             // exchanges what a layer adds at a token
	now   struct{ layer, token int }
}

// added identifies what a layer adds at a token.
type added struct {
	layer int
	place explain.Place
	token int
}

// hooks returns hooks that observe what a layer adds.
func (tr *tracer) hooks(layer int, use func(at added, x []float32) bool) (hooks []explain.Hook) {
	for _, s := range tr.g.Sites(explain.Target{Layer: layer}) {
		hooks = append(hooks, s.Read(func(token int, x []float32) bool {
			return use(added{layer, s.Place, token}, x)
		}))
	}
	return hooks
}

// ends reads both paths to their ends. It keeps what layers add in the second, and the states where the paths diverge.
func (tr *tracer) ends(ctx context.Context) error {
	common := tr.rep.Common
	tr.added = map[added][]float32{}
	var record, exchange []explain.Hook
	for k := range tr.g.Backbone.Blocks {
		record = append(record, tr.hooks(k, func(at added, x []float32) bool {
			tr.added[at] = slices.Clone(x)
			return false
		})...)
		exchange = append(exchange, tr.hooks(k, func(at added, x []float32) bool {
			if at.layer != tr.now.layer || at.token != tr.now.token {
				return false
			}
			copy(x, tr.added[at])
			return true
		})...)
	}
	var err error
	var first explain.Probe
	streams := tr.g.KeepStreams(&first, common, len(tr.rep.IDs[0])-common)
	if tr.with, err = newWalker(tr.g, explain.Probe{Hooks: exchange, Streams: streams}); err != nil {
		return err
	}
	var at *model.State
	for i, w := range []explain.Probe{first, {Hooks: record}} {
		if tr.paths[i], err = newWalker(tr.g, explain.Probe{}); err != nil {
			return err
		}
		if at == nil {
			if err := tr.paths[i].goOn(ctx, tr.rep.IDs[i][:common]); err != nil {
				return err
			}
			at = tr.paths[i].State.Clone()
		} else {
			tr.paths[i].from(at)
		}
		end, err := newWalker(tr.g, w)
		if err != nil {
			return err
		}
		end.from(at)
		if err := end.goOn(ctx, tr.rep.IDs[i][common:]); err != nil {
			return err
		}
		tr.next[i], tr.of[i] = end.next, end.of
	}
	if tr.apart = explain.JensenShannon(tr.next[0], tr.next[1], tr.of[0], tr.of[1]); tr.apart == 0 {
		return errors.New("trace: found the same prediction after both paths, want paths whose predictions differ")
	}
	return nil
}

// exchange replaces what a layer adds at a token, and then its state before the token, by those of the second path.
func (tr *tracer) exchange(ctx context.Context, layer, i int) error {
	at := tr.rep.Common + i
	w := tr.with
	rest := tr.rep.IDs[0][at:]
	w.Probe.From = layer // lower layers are the same as in the first path
	for j, to := range []*float64{&tr.rep.Added[layer][i], &tr.rep.State[layer][i]} {
		w.from(tr.paths[0].State)
		tr.now.layer, tr.now.token = layer, at
		if j == 1 {
			if i == 0 {
				continue // the states are the same
			}
			tr.now.layer = -1
			w.State.Mixers[layer] = tr.paths[1].State.Mixers[layer].Clone()
		}
		if err := w.goOn(ctx, rest); err != nil {
			return err
		}
		*to = 1 - explain.JensenShannon(w.next, tr.next[1], w.of, tr.of[1])/tr.apart
	}
	return nil
}

// Figures draws the report.
func (r *TraceReport) Figures(tok tokenizer.Tokenizer) []*figure.Figure {
	var names []string
	for i := r.Common; i < len(r.IDs[0]); i++ {
		a, b := explain.TokenText(tok, r.IDs[0][i]), explain.TokenText(tok, r.IDs[1][i])
		if a != b {
			a += " / " + b
		}
		names = append(names, fmt.Sprintf("%d: %s", i, a))
	}
	var panels []figure.Panel
	for _, x := range []struct {
		title  string
		values [][]float64
	}{{"what the layer adds at the token", r.Added}, {"what the layer carries when the token is read", r.State}} {
		m := figure.GridOf(r.Layers, names, func(k, i int) float64 { return x.values[k][i] })
		m.Diverging = true
		panels = append(panels, figure.Panel{Title: x.title, X: figure.Axis{Label: "token"},
			Y: figure.Axis{Label: "layer"}, Map: m})
	}
	return []*figure.Figure{{Name: "paths-trace", Title: "What in path 2 makes the difference", Columns: 1,
		Caption: "Path 1 is read with one thing from path 2: what one layer adds to the stream at one token, " +
			"or its state before that token. " +
			"The color is how far the prediction after the path moves to that of path 2, 1 - JS(exchanged, " +
			"path 2)/JS(path 1, path 2): 0 not at all, 1 all the way.",
		Source: "causal tracing, arXiv:2202.05262, §2.1",
		Frames: []figure.Frame{{Panels: panels}}}}
}
