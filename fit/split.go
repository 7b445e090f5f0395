package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// The parts of data.
const (
	trainPart = iota
	validPart
	testPart
	parts
)

var partNames = [parts]string{"training", "validation", "test"}

// segment is rows of a sequence that are in one part.
type segment struct {
	seq    int
	lo, hi int // of the store
}

// leastGroups is from how many groups on sequences are divided, and not each of them in time.
const leastGroups = 10

// divide divides the data into parts. Forecasts and long series are divided in time, each at the same share of its
// rows, so that no part knows what is later in time in its own series. Many sequences are divided as a whole; those of
// one group stay together. how says which it was.
func (f *frame) divide(c *Config) (divided [parts][]segment, how string, err error) {
	sizes, err := c.split()
	if err != nil {
		return divided, "", err
	}
	f.lastRows(c, &sizes)
	inTime := f.plan.Task == Forecast || !f.plan.whole() && c.Group == "" && f.groups < leastGroups
	if inTime {
		for i, s := range f.seqs {
			ends := partEnds(s.hi-s.lo, sizes)
			from := s.lo
			for part, end := range ends {
				if s.lo+end > from {
					divided[part] = append(divided[part], segment{i, from, s.lo + end})
				}
				from = s.lo + end
			}
		}
		return divided, fmt.Sprintf(
			"in time: the first rows of each series are the training part, the last the test part (%s)", c.Split), nil
	}
	if f.groups < parts {
		what := "sequences"
		if c.Group != "" {
			what = "groups (values of " + c.Group + ")"
		}
		return divided, "", fmt.Errorf("found %d %s, want %d or more, so that training, validation and test share none",
			f.groups, what, parts)
	}
	for i, part := range f.deal(sizes, c.Seed) {
		s := &f.seqs[i]
		divided[part] = append(divided[part], segment{i, s.lo, s.hi})
	}
	return divided, fmt.Sprintf("by sequences: those of one group are in one part (%d groups, %s)", f.groups, c.Split),
		nil
}

// autoSplit is the split of forecasts: 0.7,0.1,0.2, but at least two horizons to choose by if half of the rows remain
// to train on.
const autoSplit = "auto"

// lastRows gives the validation set of short series as many rows as choosing takes.
func (f *frame) lastRows(c *Config, sizes *[parts]float64) {
	if n := float64(f.longest()); c.Split == autoSplit {
		more := min(2*float64(f.plan.Horizon)/n-sizes[validPart], sizes[trainPart]-0.5)
		if more > 0 {
			sizes[trainPart] -= more
			sizes[validPart] += more
		}
	}
}

// partEnds are the ends of the parts of n rows.
func partEnds(n int, sizes [parts]float64) (ends [parts]int) {
	sum := sizes[0] + sizes[1] + sizes[2]
	at := 0.0
	for i, size := range sizes {
		at += size
		if sum > 2 { // rows
			ends[i] = min(n, int(at))
		} else {
			ends[i] = min(n, int(math.Round(at*float64(n))))
		}
	}
	return ends
}

// deal gives each sequence its part. Groups are dealt in a random order that depends on the seed, those of one class
// after those of another, so that each part gets its share of each class. From three groups on, no part is empty.
func (f *frame) deal(sizes [parts]float64, seed uint64) []int {
	order, class := make([]int, f.groups), make([]int, f.groups)
	for i := len(f.seqs) - 1; i >= 0; i-- { // that of its first sequence stays
		class[f.seqs[i].group] = f.classOf(i)
	}
	for i := range order {
		order[i] = i
	}
	rng := rand.New(rand.NewPCG(seed, 0x73706c6974))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	slices.SortStableFunc(order, func(a, b int) int { return class[a] - class[b] })
	sum := sizes[0] + sizes[1] + sizes[2]
	var counts [parts]float64
	part := make([]int, f.groups)
	empty := parts
	for n, group := range order {
		// the part that lacks most of what it should have by now; the last groups are those of empty parts
		best := 0
		lack := math.Inf(-1)
		for i, size := range sizes {
			l := size/sum*float64(n+1) - counts[i]
			if l > lack && (counts[i] == 0 || len(order)-n > empty) {
				best, lack = i, l
			}
		}
		if counts[best] == 0 {
			empty--
		}
		part[group] = best
		counts[best]++
	}
	all := make([]int, len(f.seqs))
	for i, s := range f.seqs {
		all[i] = part[s.group]
	}
	return all
}

// classOf is the class of a sequence, 0 if it has none.
func (f *frame) classOf(seq int) int {
	if _, ok := f.plan.classes(); !ok || !f.plan.whole() {
		return 0
	}
	y := f.rows.row(f.seqs[seq].lo)[f.plan.targets()[0]]
	if y != y {
		return -1
	}
	return int(y)
}
