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

// segment is a range of rows of a sequence in one part.
type segment struct {
	seq    int
	lo, hi int // in the store
}

// leastGroups is the minimum number of groups for dividing by sequences instead of dividing each sequence in time.
const leastGroups = 10

// divide divides the data into parts. Forecasts and long series are divided in time, at the same share of each series,
// so that no part contains later rows of its own series. If there are many sequences, whole sequences are assigned to
// parts, and those of one group stay together. how describes which of these was done.
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

// autoSplit is the split of forecasts: 0.7,0.1,0.2, but at least two horizons for validation if half of the rows remain
// for training.
const autoSplit = "auto"

// lastRows enlarges the validation set of short series to the number of rows needed for choosing.
func (f *frame) lastRows(c *Config, sizes *[parts]float64) {
	if n := float64(f.longest()); c.Split == autoSplit {
		more := min(2*float64(f.plan.Horizon)/n-sizes[validPart], sizes[trainPart]-0.5)
		if more > 0 {
			sizes[trainPart] -= more
			sizes[validPart] += more
		}
	}
}

// partEnds returns the ends of the parts of n rows.
func partEnds(n int, sizes [parts]float64) (ends [parts]int) {
	sum := sizes[0] + sizes[1] + sizes[2]
	at := 0.0
	for i, size := range sizes {
		at += size
		if sum > 2 { // a number of rows
			ends[i] = min(n, int(at))
		} else {
			ends[i] = min(n, int(math.Round(at*float64(n))))
		}
	}
	return ends
}

// deal assigns a part to each sequence. Groups are assigned in a random order that depends on the seed, sorted by
// class, so that each part gets its share of each class. If there are at least three groups, no part is empty.
func (f *frame) deal(sizes [parts]float64, seed uint64) []int {
	order, class := make([]int, f.groups), make([]int, f.groups)
	for i := len(f.seqs) - 1; i >= 0; i-- { // the class of the group's first sequence remains
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
		// Choose the part with the largest deficit so far. The last groups go to empty parts.
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

// classOf returns the class of a sequence, 0 if it has none.
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
