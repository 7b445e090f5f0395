package surprise

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/model"
)

// measurement builds a Report.
type measurement struct {
	m      *model.Model
	tokens *data.Tokens
	rep    *Report
	t      *autograd.Tape
	state  *model.State // nil for windows
	at     int          // number of tokens after the first that were processed, predicted or not
	scores []float32

	costly map[int32]*CostlyToken
	asked  []int   // for each part of the curve, the number of predicted tokens
	last   []Token // last tokens, at the end of which a passage ends
	sum    float64 // sum of their surprises
}

func newSurpriser(g *explain.Language, tokens *data.Tokens, o Options) *measurement {
	n := tokens.Len() - 1
	s := &measurement{m: g.Model, tokens: tokens, t: g.Backbone.NewTape(), costly: map[int32]*CostlyToken{},
		rep: &Report{Options: o, CurveStep: max(1, (n+curvePlaces-1)/curvePlaces),
			Bins: make([]CalibrationBin, o.Bins), Histogram: make([]int, histogramSize)}}
	if o.Stream {
		s.state = s.m.NewState()
	}
	return s
}

// window reads the next tokens of the text.
func (s *measurement) window(w data.Batch) error {
	s.t.Reset()
	rows := &model.Rows{}
	for _, borders := range w.Borders {
		s.state = rows.AddDocuments(s.m, w.Len, borders, s.state)
	}
	hidden := s.m.Forward(s.t, w.Inputs, rows)
	if s.at == 0 {
		s.rep.First = append(s.rep.First, unasked(w.Inputs[0]))
	}
	for i := 0; i < len(w.Targets); i += explain.ScoreRows {
		n := min(explain.ScoreRows, len(w.Targets)-i)
		at := make([]int32, n)
		for j := range at {
			at[j] = int32(i + j)
		}
		mark := s.t.Mark()
		z := s.m.LogitsAt(s.t, hidden, at)
		vocab := z.Dim(-1)
		if z.Len() > cap(s.scores) {
			s.scores = make([]float32, z.Len())
		}
		scores := s.scores[:z.Len()]
		z.CopyTo(scores)
		s.t.ReleaseSince(mark)
		found, bad := make([]Token, n), make([]bool, n)
		parallel.Each(n, func(j int) {
			row := scores[j*vocab:][:vocab]
			of, ok := explain.SoftmaxOf(row)
			if bad[j] = !ok; !ok {
				return
			}
			id := w.Targets[i+j]
			if id == data.Ignore {
				found[j].ID = id
				return
			}
			found[j] = Token{id, of.Norm - float64(row[id]), of.Entropy, explain.Likeliest(row, of, 1)[0]}
		})
		if j := slices.Index(bad, true); j >= 0 {
			return fmt.Errorf("found scores that are not finite at token %d: the weights are invalid", w.Start+i+j)
		}
		for _, x := range found {
			if err := s.next(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// unasked returns a token that is not predicted.
func unasked(id int32) Token { return Token{ID: id, Nats: math.NaN(), Entropy: math.NaN()} }

// next processes the next token. It may be one that is not to be predicted, such as the first of a document.
func (s *measurement) next(x Token) error {
	r := s.rep
	if s.at%r.CurveStep == 0 {
		r.Curve, s.asked = append(r.Curve, Part{Start: s.at + 1}), append(s.asked, 0)
	}
	s.at++
	if x.ID != data.Ignore {
		s.add(x)
		return nil
	}
	s.last, s.sum = nil, 0 // no passage contains it
	if len(r.First) < firstKept {
		var id [1]int32
		if _, err := s.tokens.Read(id[:], s.at); err != nil {
			return err
		}
		r.First = append(r.First, unasked(id[0]))
	}
	return nil
}

// add counts a token that was predicted.
func (s *measurement) add(x Token) {
	r := s.rep
	s.asked[len(s.asked)-1]++
	part := &r.Curve[len(r.Curve)-1]
	part.Mean, part.Entropy, part.Most = part.Mean+x.Nats, part.Entropy+x.Entropy, max(part.Most, x.Nats)
	r.Tokens++
	r.Sum, r.Entropy = r.Sum+x.Nats, r.Entropy+x.Entropy
	r.Histogram[min(len(r.Histogram)-1, int(2*x.Nats))]++
	bin := &r.Bins[min(len(r.Bins)-1, int(x.Top.P*float64(len(r.Bins))))]
	bin.Count++
	bin.Confidence += x.Top.P
	if x.Top.ID == x.ID {
		bin.Accuracy++
		r.Right++
	}
	if len(r.First) < firstKept {
		r.First = append(r.First, x)
	}
	c := s.costly[x.ID]
	if c == nil {
		c = &CostlyToken{ID: x.ID}
		s.costly[x.ID] = c
	}
	c.Count, c.Sum = c.Count+1, c.Sum+x.Nats
	s.offer(x)
}

// offer stores the passage that ends with x if it is among the worst.
func (s *measurement) offer(x Token) {
	o := &s.rep.Options
	s.last, s.sum = append(s.last, x), s.sum+x.Nats
	if len(s.last) > o.Passage {
		s.sum -= s.last[0].Nats
		s.last = s.last[1:]
	}
	mean, all := s.sum/float64(o.Passage), s.rep.Passages
	if len(s.last) < o.Passage || len(all) == o.Worst && (o.Worst == 0 || mean <= all[len(all)-1].Mean) {
		return
	}
	start := s.at + 1 - o.Passage
	overlaps := func(p Passage) bool { return start-p.Start < o.Passage }
	if slices.ContainsFunc(all, func(p Passage) bool { return overlaps(p) && p.Mean >= mean }) {
		return
	}
	all = slices.DeleteFunc(all, overlaps)
	at, _ := slices.BinarySearchFunc(all, mean, func(p Passage, mean float64) int { return cmp.Compare(mean, p.Mean) })
	all = slices.Insert(all, at, Passage{Start: start, Mean: mean, Tokens: slices.Clone(s.last)})
	s.rep.Passages = all[:min(len(all), o.Worst)]
}

// done completes the report.
func (s *measurement) done() error {
	r := s.rep
	if r.Tokens == 0 {
		return fmt.Errorf("found nothing to predict in %d tokens, want a reply, or a document of two tokens",
			s.tokens.Len())
	}
	for i := range r.Curve {
		part, n := &r.Curve[i], float64(s.asked[i])
		if n == 0 {
			part.Most = math.NaN()
		}
		part.Mean, part.Entropy = part.Mean/n, part.Entropy/n
	}
	for i := range r.Bins {
		b := &r.Bins[i]
		if b.Count == 0 {
			continue
		}
		b.Confidence, b.Accuracy = b.Confidence/float64(b.Count), b.Accuracy/float64(b.Count)
		gap := math.Abs(b.Accuracy - b.Confidence)
		r.ECE, r.MCE = r.ECE+gap*float64(b.Count)/float64(r.Tokens), max(r.MCE, gap)
	}
	byCost := func(a, b *CostlyToken) int { return cmp.Or(cmp.Compare(b.Sum, a.Sum), cmp.Compare(a.ID, b.ID)) }
	for _, c := range slices.SortedFunc(maps.Values(s.costly), byCost) {
		if len(r.Costly) < costlyKept {
			r.Costly = append(r.Costly, *c)
		}
	}
	for i := range r.Passages {
		p := &r.Passages[i]
		end := p.Start + len(p.Tokens)
		p.Before = make([]int32, min(passageContext, p.Start))
		p.After = make([]int32, min(passageContext, s.tokens.Len()-end))
		if _, err := s.tokens.Read(p.Before, p.Start-len(p.Before)); err != nil {
			return err
		}
		if _, err := s.tokens.Read(p.After, end); err != nil && len(p.After) > 0 {
			return err
		}
	}
	var err error
	_, r.Bytes, err = s.tokens.Targets()
	return err
}
