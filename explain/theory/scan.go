package theory

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var scanView = View{
	Name:  "scan",
	Short: "The parallel scan as a tree",
	Long: `Shows how a recurrence x_k = a_k x_{k-1} + b_k is computed in about 2 log₂ l rounds instead of l steps. A
step is a map x → a x + b; a stretch of steps is again such a map, and two stretches side by side join into one:

  (a, b) then (c, d) is (c a, c b + d)

Joining is associative, so the order of joining is free: neighbors in pairs, then pairs of pairs, and back down to fill
in what is between. Every box is one map; boxes of a round can be computed at the same time. Mamba, arXiv:2312.00752,
§3.3.2; Blelloch, Prefix sums and their applications, 1990.`,
	Example: `  hippo explain ssm scan
  hippo explain ssm scan --length 16
  hippo explain ssm scan --length 12 --seed 5`,
	New: func() Options { return &ScanOptions{Length: 8, Seed: 1} },
}

// ScanOptions holds the options of the view scan.
type ScanOptions struct {
	Length int    `json:"length" min:"2" max:"64" help:"steps"`
	Seed   uint64 `json:"seed" help:"of inputs and steps"`
}

// model returns a random selective model with one real mode, and an input.
func (o *ScanOptions) model() (*ssm.Selective, []float64) {
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	s := &ssm.Selective{A: []complex128{-1}}
	var u []float64
	for range o.Length {
		s.Dt = append(s.Dt, ssm.LogUniform(rng, 0.1, 1))
		s.B, s.C = append(s.B, []complex128{1}), append(s.C, []complex128{1})
		u = append(u, math.Round(8*rng.NormFloat64())/4)
	}
	return s, u
}

// Page returns the page with the tree, and with how work and rounds grow with the length.
func (o *ScanOptions) Page(context.Context) (*figure.Page, error) {
	s, u := o.model()
	nodes, prefix := s.ScanTree(u)
	step := s.Scan(nil, u)
	isPrefix := map[int]bool{}
	apart := 0.0
	for k, at := range prefix {
		isPrefix[at] = true
		apart = max(apart, math.Abs(real(nodes[at].Add[0])-step[k]))
	}
	rounds := 0
	for _, n := range nodes {
		rounds = max(rounds, n.Round)
	}
	var frames []figure.Frame
	for round := range rounds + 1 {
		d := &figure.Diagram{}
		for i, n := range nodes {
			if n.Round <= round {
				addNode(d, i, n, isPrefix[i])
			}
		}
		frames = append(frames, figure.Frame{Label: fmt.Sprintf("round %d of %d", round, rounds),
			Panels: []figure.Panel{{Diagram: d}}})
	}
	results := still("results", "Results", "The states, from the tree and step by step.", "",
		lines("inputs and states", "step", "", line("input u", u), line("state x", step)),
		figure.Panel{Table: o.table(s, u, nodes, prefix, step)})
	results.Columns = 1 // the table is wide
	page := &figure.Page{
		Title:    "The parallel scan",
		Subtitle: fmt.Sprintf("%d steps of one mode, seed %d", o.Length, o.Seed),
		Figures: []*figure.Figure{
			{Name: "tree", Title: "The tree", Frames: frames, Source: "Blelloch 1990; Mamba, arXiv:2312.00752, §3.3.2",
				Caption: "Each box is the map x → a x + b of a stretch of steps, first the steps themselves. " +
					"Boxes of a round join two boxes of earlier rounds. Those that begin at step 0 are the results: " +
					"their b is the state. " +
					fmt.Sprintf("Tree and recurrence differ by at most %.1e.", apart)},
			results,
			o.growth(),
		},
	}
	return page, nil
}

// addNode adds a box and its arrows. A box is above the last step of its range.
func addNode(d *figure.Diagram, i int, n ssm.ScanNode, result bool) {
	id := func(i int) string { return fmt.Sprintf("n%d", i) }
	kind, name := "join", fmt.Sprintf("%d to %d", n.From, n.To-1)
	switch {
	case n.Left < 0:
		kind, name = "step", fmt.Sprintf("step %d", n.From)
	case result:
		kind = "result"
	}
	d.Nodes = append(d.Nodes, figure.Node{
		ID: id(i), Label: fmt.Sprintf("%s\na %.3g\nb %.3g", name, real(n.Decay[0]), real(n.Add[0])),
		Note: fmt.Sprintf("steps %d to %d: x → %.6g x + %.6g", n.From, n.To-1, real(n.Decay[0]), real(n.Add[0])),
		X:    1.25 * float64(n.To-1), Y: 1.6 * float64(n.Round), Kind: kind,
	})
	if n.Left >= 0 {
		d.Edges = append(d.Edges, figure.Edge{From: id(n.Left), To: id(i)}, figure.Edge{From: id(n.Right), To: id(i)})
	}
}

func (o *ScanOptions) table(s *ssm.Selective, u []float64, nodes []ssm.ScanNode, prefix []int,
	step []float64) *figure.Table {
	t := &figure.Table{Columns: []string{"step", "dt", "u", "a", "b", "state by the tree", "state step by step",
		"round"}}
	for k, at := range prefix {
		n, leaf := nodes[at], nodes[k]
		t.Rows = append(t.Rows, []string{fmt.Sprint(k), figure.Number(s.Dt[k]), fmt.Sprintf("%g", u[k]),
			figure.Number(real(leaf.Decay[0])), figure.Number(real(leaf.Add[0])),
			figure.Number(real(n.Add[0])), figure.Number(step[k]), fmt.Sprint(n.Round)})
	}
	return t
}

// growth returns a figure of the rounds and joins for lengths up to 1024.
func (o *ScanOptions) growth() *figure.Figure {
	rounds, joins := figure.Series{Name: "rounds"}, figure.Series{Name: "joins"}
	steps := figure.Series{Name: "steps one after another", Dashed: true}
	for l := 2; l <= 1024; l *= 2 {
		longer := ScanOptions{Length: l, Seed: o.Seed}
		s, u := longer.model()
		nodes, _ := s.ScanTree(u)
		most := 0
		for _, n := range nodes {
			most = max(most, n.Round)
		}
		x := float64(l)
		rounds.X, rounds.Y = append(rounds.X, x), append(rounds.Y, float64(most))
		joins.X, joins.Y = append(joins.X, x), append(joins.Y, float64(len(nodes)-l))
		steps.X, steps.Y = append(steps.X, x), append(steps.Y, x)
	}
	p := lines("work and rounds", "length l", "", joins, steps, rounds)
	p.X.Log, p.Y.Log = true, true
	return still("growth", "Rounds and work",
		"The tree joins fewer than 2 l times, about twice the work of one step after another, "+
			"but in about 2 log₂ l rounds.", "", p)
}
