package labelled

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
)

// batch holds some examples of a set, one after the other without padding.
type batch struct {
	set     *task.Set
	in      model.Input
	n       int       // examples; with pairs, half the number of sequences
	targets []int32   // one for each position, or for each example
	numbers []float32 // shape (Σ asked, numbers per position)
	tags    []int32   // like targets; empty without tags
	asked   []int     // positions at the end of each example that have numbers to predict
	count   int       // targets that are not Ignore, or numbers that are not NaN

	examples []task.Example
	lengths  []int
}

// fill fills the batch with the examples of a split at the given indices.
func (b *batch) fill(split task.Split, indices []int) error {
	b.n = len(indices)
	for len(b.examples) < b.n {
		b.examples = append(b.examples, task.Example{})
	}
	b.lengths, b.in.Seeds = b.lengths[:0], nil
	for k, i := range indices {
		split.Example(i, &b.examples[k])
		b.lengths = append(b.lengths, b.length(&b.examples[k]))
	}
	if b.set.Pairs {
		for k := range indices {
			b.lengths = append(b.lengths, len(b.examples[k].Second))
		}
	}
	b.in.Lengths = b.lengths
	if slices.Min(b.lengths) < 1 {
		return fmt.Errorf("found an empty sequence among examples %v, want at least one position", indices)
	}
	b.in.Tokens, b.in.Values = b.in.Tokens[:0], b.in.Values[:0]
	for k := range indices {
		b.in.Tokens = append(b.in.Tokens, b.examples[k].Tokens...)
		b.in.Values = append(b.in.Values, b.examples[k].Values...)
	}
	if b.set.Pairs {
		for k := range indices {
			b.in.Tokens = append(b.in.Tokens, b.examples[k].Second...)
		}
	}
	return b.fillTargets(indices)
}

func (b *batch) length(ex *task.Example) int {
	if b.set.Vocab > 0 {
		return len(ex.Tokens)
	}
	return len(ex.Values) / b.set.Channels
}

// train switches dropout on for the shard of a step.
func (b *batch) train(seed uint64, s train.Shard) {
	b.in.Seeds = engine.RowSeeds(seed, s.Step, s.First, b.n)
	if b.set.Pairs {
		b.in.Seeds = append(b.in.Seeds, engine.RowSeeds(^seed, s.Step, s.First, b.n)...)
	}
}

func (b *batch) fillTargets(indices []int) error {
	b.targets, b.numbers, b.tags, b.asked = b.targets[:0], b.numbers[:0], b.tags[:0], b.asked[:0]
	b.count = 0
	for k, i := range indices {
		ex := &b.examples[k]
		want := 1
		if b.set.Everywhere {
			want = b.lengths[k]
		}
		if b.set.Numbers {
			asked := len(ex.Numbers) / b.set.Asked()
			if asked < 1 || asked > want {
				return fmt.Errorf("example %d: found %d rows of numbers asked of %d positions, "+
					"want one for each of the last, at least", i, asked, want)
			}
			b.numbers, b.asked = append(b.numbers, ex.Numbers...), append(b.asked, asked)
			continue
		}
		if len(ex.Targets) != want || len(ex.Tags) != 0 && len(ex.Tags) != want {
			return fmt.Errorf("example %d: found %d targets and %d tags, want %d", i, len(ex.Targets),
				len(ex.Tags), want)
		}
		b.targets = append(b.targets, ex.Targets...)
		b.tags = append(b.tags, ex.Tags...)
	}
	for _, id := range b.targets {
		if id != task.Ignore {
			b.count++
		}
	}
	b.count += engine.CountNumbers(b.numbers)
	return nil
}

// bucket is the number of batches that are sorted by length together.
const bucket = 16

// epochOrder returns the batches of an epoch: every example once, in an order that depends only on seed and epoch. If
// the split knows the lengths of its examples, those of a batch have similar lengths.
func epochOrder(split task.Split, size int, seed uint64, epoch int) [][]int {
	rng := rand.New(rand.NewPCG(seed, 0x6f72646572+uint64(epoch)))
	order := rng.Perm(split.Len())
	lengths, vary := split.(task.Lengths)
	if vary {
		for pool := range slices.Chunk(order, bucket*size) {
			slices.SortStableFunc(pool, func(a, b int) int { return lengths.Length(a) - lengths.Length(b) })
		}
	}
	batches := slices.Collect(slices.Chunk(order, size))
	if vary {
		rng.Shuffle(len(batches), func(i, j int) { batches[i], batches[j] = batches[j], batches[i] })
	}
	return batches
}
