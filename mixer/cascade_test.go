package mixer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// cascade is a sequence of SpAtten layers, each of which passes on what it prunes.
type cascade []Mixer

// keeps lists the numbers of tokens and, after a slash, of heads that the layers of the tests keep.
var keeps = []string{"12/2", "12/2", "7/1"}

func newCascade(cfg Config) (Mixer, error) {
	var c cascade
	for i, keep := range keeps {
		tokens, heads, _ := strings.Cut(keep, "/")
		of := cfg
		of.NumHeads, of.Earlier = 4, slices.Repeat([]string{"spatten"}, i)
		of.Options = Options{"block": "6", "keep": tokens, "keep_heads": heads, "cascade": "true"}
		m, err := SpAttenInfo.New(of)
		if err != nil {
			return nil, err
		}
		c = append(c, m)
	}
	return c, nil
}

func (c cascade) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	with := *r
	if with.Handed == nil {
		with.Handed = &Handed{}
	}
	for i, m := range c {
		u = Run(t, m, u, with.Part(i))
	}
	return u
}

func (c cascade) NewState() State {
	var names []string
	var parts []State
	for i, m := range c {
		names, parts = append(names, strconv.Itoa(i)), append(parts, m.NewState())
	}
	return Together(names, parts)
}

func (c cascade) Traits() Traits { return Traits{StepsRows: true} }

func (c cascade) Params(prefix string, visit nn.Visitor) {
	for i, m := range c {
		m.Params(fmt.Sprintf("%s%d.", prefix, i), visit)
	}
}

// cascadeFormula computes layers by their definition, with tokens by position. After each block of 6, a layer keeps
// those of its tokens that the previous layer kept and whose importance in both together is highest.
type cascadeFormula struct {
	keys  []int // read by each layer
	alone bool  // each layer prunes independently
}

func (f *cascadeFormula) of(c cascade) func(u matrix) matrix {
	const block, heads, hd = 6, 4, dModel / 4
	return func(u matrix) matrix {
		// of the previous layer, after each block: tokens, then heads, with their importance
		var above [][]map[int]float64
		f.keys = make([]int, len(c))
		for layer, m := range c {
			m, tokens, least := m.(*SpAtten), 0, 0
			fmt.Sscanf(keeps[layer], "%d/%d", &tokens, &least)
			qkv, y := u.each(affine(m.Wqkv)), make(matrix, len(u))
			left, importance, mass := []int{}, map[int]float64{}, map[int]float64{0: 0, 1: 0, 2: 0, 3: 0}
			var cuts [][]map[int]float64
			for i := range u {
				left, y[i] = append(left, i), make([]float64, dModel)
				for h := range mass {
					part := func(kind, j int) []float64 { return qkv[j][kind*dModel+h*hd:][:hd] }
					p, sum := make([]float64, len(left)), 0.0
					for at, j := range left {
						p[at] = math.Exp(dotOf(part(0, i), part(1, j)) / math.Sqrt(hd))
						sum += p[at]
					}
					f.keys[layer] += len(left)
					for at, j := range left {
						importance[j] += p[at] / sum
						for c, x := range part(2, j) {
							y[i][h*hd+c] += p[at] / sum * x
						}
					}
					for _, x := range y[i][h*hd:][:hd] {
						mass[h] += math.Abs(x)
					}
				}
				if (i+1)%block != 0 {
					continue
				}
				cut := []map[int]float64{{}, {}}
				ready := true
				for kind, own := range []map[int]float64{importance, mass} {
					for j, x := range own {
						if above == nil {
							cut[kind][j] = x
						} else if before, ok := above[len(cuts)][kind][j]; ok {
							cut[kind][j] = x + before
						} else if kind == 1 {
							delete(mass, j)
						}
					}
				}
				if above != nil {
					before := 0
					fmt.Sscanf(keeps[layer-1][strings.Index(keeps[layer-1], "/")+1:], "%d", &before)
					ready = len(above[len(cuts)][1]) == before
				}
				if ready && len(mass) > least {
					first := slices.MinFunc([]int{0, 1, 2, 3}, func(a, b int) int {
						of := func(h int) float64 {
							if x, ok := cut[1][h]; ok {
								return x
							}
							return math.Inf(1)
						}
						return cmp.Compare(of(a), of(b))
					})
					delete(mass, first)
					delete(cut[1], first)
				}
				left = slices.DeleteFunc(left, func(j int) bool { _, ok := cut[0][j]; return !ok })
				slices.SortFunc(left, func(a, b int) int { return cmp.Compare(cut[0][b], cut[0][a]) })
				left = left[:min(len(left), tokens)]
				slices.Sort(left)
				for j := range importance {
					if !slices.Contains(left, j) {
						delete(importance, j)
						delete(cut[0], j)
					}
				}
				cuts = append(cuts, cut)
			}
			if u = y.each(affine(m.Out)); !f.alone {
				above = cuts
			}
		}
		return u
	}
}

// TestSpAttenCascade checks that a token or head pruned by a layer is pruned in later ones, by the importance in all
// layers so far, in training, for whole sequences and in steps, and that later layers read less than on their own.
func TestSpAttenCascade(t *testing.T) {
	const l = 45
	c := variant{build: newCascade}.mixer(t).(cascade)
	f := &cascadeFormula{}
	checkFormula(t, c, l, f.of(c))

	u := sequences(3, 1, l)
	counts := make([]engine.SpAttenCounts, len(c))
	for i, m := range c {
		CountReads(m, &counts[i])
	}
	read(c.Forward(newTape(), u, equalRows(1, l)))
	f.of(c)(rowsFrom(u.Data(), dModel))
	for i := range c {
		if got := int(counts[i].Keys.Load()); got != f.keys[i] {
			t.Errorf("layer %d reads %d keys, want %d", i, got, f.keys[i])
		}
		CountReads(c[i], nil)
	}
	together := slices.Clone(f.keys)
	f.alone = true
	f.of(c)(rowsFrom(u.Data(), dModel))
	if together[0] != f.keys[0] || together[2] >= f.keys[2] {
		t.Errorf("the layers read %d keys together and %d alone, want as many in the first and fewer in the last",
			together, f.keys)
	}
}

// TestSpAttenCascadeInPieces checks that any way of cutting a sequence gives the same outputs and states, and so do
// rows that are stepped in one call together with others.
func TestSpAttenCascadeInPieces(t *testing.T) {
	const l = 50
	c := variant{build: newCascade}.mixer(t).(cascade)
	u := sequences(7, 2, l)
	want, state := chunked(c, u, []int{l}, never)
	for _, records := range []func(int) bool{never, always} {
		got, pieces := chunked(c, u, []int{5, 1, 1, 13, 12, 4, 14}, records)
		near(t, "y in pieces", got, want, chunkTol)
		nearStates(t, pieces, state, chunkTol)
	}
	rows := &Rows{Rows: &engine.Rows{}, States: Begin(c.NewState(), c.NewState())}
	rows.AddStepped(l, 0)
	rows.Add(l, 0)
	near(t, "y, one of two rows stepped", read(c.Forward(newTape(), u, rows)), want, chunkTol)
}

// TestSpAttenCascadeGiven checks that a layer that was given what earlier layers prune computes any positions alone.
func TestSpAttenCascadeGiven(t *testing.T) {
	const l = 33
	c := variant{build: newCascade}.mixer(t).(cascade)
	tape, rows := newTape(), equalRows(1, l)
	rows.Handed = &Handed{}
	u := sequences(3, 1, l)
	for _, m := range c[:2] {
		if !Hands(m) {
			t.Error("a layer of a cascade does not say that it hands something on")
		}
		u = m.Forward(tape, u, rows)
	}
	want := read(c[2].Forward(tape, u, rows))
	y, _ := chunked(Given(c[2], rows.Handed), u, []int{4, 1, 20, 8}, never)
	near(t, "y", y, want, chunkTol)
	if alone, _ := chunked(c[2], u, []int{l}, never); slices.Equal(alone, want) {
		t.Error("without what is given it computes the same")
	}
}

// TestCheckCascade checks that layers that prune together must have the same blocks and heads, and others need not.
func TestCheckCascade(t *testing.T) {
	build := func(block, cascade string, heads int) Mixer {
		return variant{build: SpAttenInfo.New, cfg: Config{NumHeads: heads,
			Options: Options{"block": block, "cascade": cascade}}}.mixer(t)
	}
	for _, c := range []struct {
		layers []Mixer
		want   string
	}{
		{[]Mixer{build("8", "true", 2), build("4", "false", 4), build("8", "true", 2)}, ""},
		{[]Mixer{build("8", "true", 2), build("4", "true", 2)},
			"layer 1: found spatten with cascade of 2 heads and a block of 4, want 2 and 8"},
		{[]Mixer{build("8", "true", 2), build("8", "true", 4)}, "layer 1: found spatten with cascade of 4 heads"},
	} {
		err := CheckCascade(c.layers)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("found the error %v, want %q", err, c.want)
		}
	}
}
