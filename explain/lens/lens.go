// Package lens shows what a model would predict after each of its layers (the logit lens), and what changes when parts
// of it are ablated, or patched with those of another text.
package lens

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Report holds what a model would predict if it ended after some of its layers: the residual stream there, through the
// final norm and the unembedding, as in "the logit lens" (nostalgebraist 2020; arXiv:2303.08112, §2). Index k of the
// slices by depth is the stream after k layers: 0 is the embedding, and len-1 is the model's own prediction.
//
// At each token x_i, with p_k the distribution of depth k and L the last,
//
//	LogP[k][i]    = log p_k(x_{i+1} | x_≤i),   i < n-1
//	Entropy[k][i] = -Σ_v p_k(v) log p_k(v)
//	KL[k][i]      = Σ_v p_L(v) (log p_L(v) - log p_k(v))
//
// all in nats.
type Report struct {
	IDs     []int32
	Depths  []string // names of the streams
	LogP    [][]float64
	Entropy [][]float64
	KL      [][]float64
	Top     [][][]explain.Likely // for each depth and token, the most probable next tokens
	// Watched lists requested tokens. WatchedP has their probabilities after the text, by token and depth.
	Watched  []int32
	WatchedP [][]float64
}

// lensTop is the number of most probable tokens that are stored for each depth and token.
const lensTop = 3

// Of reads ids and computes what the model would predict after each of its layers. It stores a few numbers for each
// token and layer, and the stream of a piece of the text. watched are tokens whose probabilities after the text are
// also reported. It returns an error for ids that the model cannot read, scores that are not finite, and if ctx is
// done.
func Of(ctx context.Context, g *explain.Language, ids []int32, watched ...int32) (*Report, error) {
	if err := g.Check(ids); err != nil {
		return nil, err
	}
	if err := g.CheckWatched(watched); err != nil {
		return nil, err
	}
	depths := len(g.Backbone.Blocks) + 1
	rep := &Report{IDs: ids, Watched: watched}
	for range watched {
		rep.WatchedP = append(rep.WatchedP, make([]float64, depths))
	}
	for k := range depths {
		rep.Depths = append(rep.Depths, g.DepthName(k))
		rep.LogP = append(rep.LogP, make([]float64, len(ids)-1))
		rep.Entropy = append(rep.Entropy, make([]float64, len(ids)))
		rep.KL = append(rep.KL, make([]float64, len(ids)))
		rep.Top = append(rep.Top, make([][]explain.Likely, len(ids)))
	}
	streams := make([][]float32, depths)
	r, err := g.Start(explain.Probe{Only: -1, Stream: func(layer, _ int, x []float32) {
		if ctx.Err() == nil { // checking ctx may let other work run between layers
			streams[layer] = x
		}
	}})
	if err != nil {
		return nil, err
	}
	l := &report{g: g, rep: rep, final: g.NewScorer(), early: g.NewScorer()}
	err = r.Read(ctx, ids, func(at int, piece []int32) error {
		for i := 0; i < len(piece); i += explain.ScoreRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := l.rows(streams, i, at+i, min(explain.ScoreRows, len(piece)-i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rep, nil
}

// report builds a Report.
type report struct {
	g            *explain.Language
	rep          *Report
	final, early *explain.Scorer
	p            []float32 // probabilities of the final predictions
}

// rows reports n tokens, the first with number at. Their streams start at row i.
func (l *report) rows(streams [][]float32, i, at, n int) error {
	d, last := l.g.Unembedding.Dim(1), len(streams)-1
	var truth []float32
	of := make([]explain.Softmax, n)
	for k := last; k >= 0; k-- { // the last first: the others are compared with it
		s := l.early
		if k == last {
			s = l.final
		}
		z, vocab := s.Scores(streams[k][i*d:][:n*d])
		if k == last {
			truth, l.p = z, slices.Grow(l.p[:0], len(z))[:len(z)]
		}
		bad := make([]bool, n)
		parallel.Each(n, func(j int) {
			row := z[j*vocab:][:vocab]
			own, ok := explain.SoftmaxOf(row)
			if bad[j] = !ok; !ok {
				return
			}
			p := l.p[j*vocab:][:vocab]
			if k == last {
				of[j] = own
				own.Fill(p, row)
			} else {
				l.rep.KL[k][at+j] = of[j].Divergence(p, truth[j*vocab:][:vocab], row, own)
			}
			l.rep.Entropy[k][at+j] = own.Entropy
			l.rep.Top[k][at+j] = explain.Likeliest(row, own, lensTop)
			if at+j+1 < len(l.rep.IDs) {
				l.rep.LogP[k][at+j] = float64(row[l.rep.IDs[at+j+1]]) - own.Norm
				return
			}
			for i, id := range l.rep.Watched {
				l.rep.WatchedP[i][k] = math.Exp(float64(row[id]) - own.Norm)
			}
		})
		if j := slices.Index(bad, true); j >= 0 {
			return l.g.Ruined(k, at+j)
		}
	}
	return nil
}

// Figures draws the report.
func (r *Report) Figures(tok tokenizer.Tokenizer) []*figure.Figure {
	names := explain.TokenTexts(tok, r.IDs)
	const source = "nostalgebraist, interpreting GPT: the logit lens (2020); arXiv:2303.08112, §2"
	var figures []*figure.Figure
	for _, m := range []struct {
		name, pick, unit, caption string
		max                       float64
		at                        func(k, i int) float64
	}{
		{"lens-probability", "probability of the next token", "probability",
			"The probability of the token that really comes next, after each layer (down) at each token (across): " +
				"softmax(W·norm(stream)), with the model's final norm and unembedding W. " +
				"The bottom row is the model's own prediction.", 1,
			func(k, i int) float64 {
				if i >= len(r.LogP[k]) {
					return math.NaN()
				}
				return math.Exp(r.LogP[k][i])
			}},
		{"lens-entropy", "entropy", "nats", "How uncertain the prediction after each layer is: -Σ p log p.", 0,
			func(k, i int) float64 { return r.Entropy[k][i] }},
		{"lens-kl", "distance to the final prediction", "nats",
			"How far the prediction after each layer is from the model's own: " +
				"KL(final ‖ layer) = Σ p_final (log p_final - log p_layer).", 0,
			func(k, i int) float64 { return r.KL[k][i] }},
	} {
		mp := figure.GridOf(r.Depths, names, m.at)
		mp.Unit, mp.Max, mp.RowClick = m.unit, m.max, m.pick+" after this layer"
		mp.Notes = r.notes(tok, mp.ColStep)
		figures = append(figures, &figure.Figure{Name: m.name, Title: "Predictions after every layer", Group: "lens",
			Pick: m.pick, Caption: m.caption, Source: source,
			Frames: []figure.Frame{{Panels: []figure.Panel{{
				X: figure.Axis{Label: "token that is read"}, Y: figure.Axis{Label: "stream after"}, Map: mp}}}}})
	}
	return append(figures, r.curves(), r.next(tok))
}

// notes returns the notes of the map's cells, nil if a cell combines several tokens.
func (r *Report) notes(tok tokenizer.Tokenizer, step int) []string {
	if step > 1 {
		return nil
	}
	var notes []string
	for k := range r.Depths {
		for i := range r.IDs {
			note := "would say " + explain.LikelyText(tok, r.Top[k][i])
			if i+1 < len(r.IDs) {
				note = fmt.Sprintf("%s comes next, %s; %s", explain.Quoted(tok, r.IDs[i+1]),
					explain.Percent(math.Exp(r.LogP[k][i])), note)
			}
			notes = append(notes, fmt.Sprintf("%s; entropy %.3g, KL %.3g nats", note, r.Entropy[k][i], r.KL[k][i]))
		}
	}
	return notes
}

// curves returns a figure of the means over all tokens, by depth.
func (r *Report) curves() *figure.Figure {
	series := func(name string, of [][]float64, sign float64) figure.Series {
		s := figure.Series{Name: name, Labels: r.Depths}
		for k, x := range of {
			s.X, s.Y = append(s.X, float64(k)), append(s.Y, sign*explain.MeanOf(x))
		}
		return s
	}
	return &figure.Figure{Name: "lens-curves", Title: "From the embedding to the prediction", Frames: []figure.Frame{{
		Panels: []figure.Panel{{X: figure.Axis{Label: "layers passed"}, Y: figure.Axis{Label: "nats"},
			Lines: &figure.Lines{Series: []figure.Series{
				series("loss of the next token", r.LogP, -1), series("entropy", r.Entropy, 1),
				series("KL(final ‖ layer)", r.KL, 1)}}}}}},
		Caption: "Means over the tokens of the text, after each layer. Where the loss falls, " +
			"the model finds what comes next."}
}

// next returns a table of the predictions after the last token.
func (r *Report) next(tok tokenizer.Tokenizer) *figure.Figure {
	table := &figure.Table{Columns: []string{"stream after", "most probable", "", "", "entropy", "KL"}}
	for _, id := range r.Watched {
		table.Columns = append(table.Columns, "p of "+explain.Quoted(tok, id))
	}
	at := len(r.IDs) - 1
	for k, name := range r.Depths {
		row := []string{name}
		for _, x := range r.Top[k][at] {
			row = append(row, explain.Quoted(tok, x.ID)+" "+explain.Percent(x.P))
		}
		for len(row) < 1+lensTop {
			row = append(row, "")
		}
		row = append(row, figure.Number(r.Entropy[k][at]), figure.Number(r.KL[k][at]))
		for i := range r.Watched {
			row = append(row, figure.Share(r.WatchedP[i][k]))
		}
		table.Rows = append(table.Rows, row)
	}
	return &figure.Figure{Name: "lens-next", Title: "What comes after the text",
		Caption: "The most probable tokens after the last one, by the stream after each layer. " +
			"Entropy and distance to the final prediction are in nats.",
		Frames: []figure.Frame{{Panels: []figure.Panel{{Table: table}}}}}
}
