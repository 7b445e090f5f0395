package task

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
)

// Digits is the classification of the spoken digits of the free-spoken-digit-dataset: six speakers say each digit fifty
// times, at 8,000 samples a second. The input is the raw samples. The test part is takes 0 to 4 of each speaker and
// digit, as defined by the authors.
//
// Recordings keep their lengths. Samples are scaled so that their mean square in each recording is 1. The trained model
// is also tested on the same recordings at 4,000 samples a second, with its dt doubled and without further training, as
// S4 (arXiv:2111.00396) does with speech.
var Digits = digits(origin{
	task: "digits", data: "free-spoken-digit-dataset", url: "https://github.com/Jakobovski/free-spoken-digit-dataset",
})

func digits(from origin) *Task {
	return &Task{
		Name: from.task, Group: "classification",
		About:  "a second of speech, sample by sample; which digit is said, and whether half the samples are enough",
		Source: "free-spoken-digit-dataset; half rate as in S4, arXiv:2111.00396",
		Files: "the folder recordings of the free-spoken-digit-dataset (" + from.url + "), as it is or in the folder " +
			"of that name or fsdd, or archives fsdd*.tar.gz or free-spoken-digit-dataset*.tar.gz of its files",
		Options: func() any { return &DigitsOptions{Length: 8000, Valid: 1, Copies: 1} },
		Open: func(ctx context.Context, dir string, options any) (*Set, error) {
			return openDigits(ctx, from, dir, options.(*DigitsOptions))
		},
	}
}

// DigitsOptions holds the options of Digits.
type DigitsOptions struct {
	Length int    `json:"length" min:"256" max:"65536" help:"samples to use of a recording"`
	Pad    bool   `json:"pad" help:"fill shorter recordings up with zeros instead of masking"`
	Valid  int    `json:"valid" min:"0" max:"40" help:"takes of each speaker and digit for validation, from take 5 on"`
	Copies int    `json:"copies" min:"1" max:"64" help:"copies per recording and epoch: one unchanged, rest augmented"`
	Seed   uint64 `json:"seed" help:"seed of the changes in copies"`
	// Fold is for choosing a recipe: with a fold, no test recording is used.
	Fold int `json:"fold" min:"0" max:"5" help:"1 to 5: test on 3 of the training takes 5 to 19 alone; 0: as published"`
}

// part returns the part of a take: 0 for training, 1 for validation, 2 for testing, -1 for none. A fold tests on three
// of the takes 5 to 19. It validates on the takes after them, or on the first ones for the last fold.
func (o *DigitsOptions) part(take int) int {
	test, valid := 0, digitsTestTakes
	ends := digitsTestTakes
	if o.Fold > 0 {
		if take < digitsTestTakes {
			return -1
		}
		test = digitsTestTakes + 3*(o.Fold-1)
		ends = test + 3
		if o.Fold < 5 {
			valid = ends
		}
	}
	switch {
	case take >= test && take < ends:
		return 2
	case take >= valid && take < valid+o.Valid:
		return 1
	}
	return 0
}

const (
	digitsRate      = 8000
	digitsTestTakes = 5               // takes 0 to 4
	digitsShift     = digitsRate / 25 // 40 ms
)

// openDigits reads the recordings under dir.
func openDigits(ctx context.Context, from origin, dir string, o *DigitsOptions) (*Set, error) {
	all, err := readRecordings(ctx, from, dir)
	if err != nil {
		return nil, err
	}
	var parts [3]speech // training, validation, test
	for i := range parts {
		parts[i] = speech{maxLength: o.Length, pad: o.Pad, seed: o.Seed, copies: 1}
	}
	parts[0].copies = max(o.Copies, 1)
	for i := range all {
		if part := o.part(all[i].take); part >= 0 {
			parts[part].recordings = append(parts[part].recordings, &all[i])
		}
	}
	train, valid, test := &parts[0], &parts[1], &parts[2]
	if len(train.recordings) == 0 || len(test.recordings) == 0 || o.Valid > 0 && len(valid.recordings) == 0 {
		return nil, fmt.Errorf("task %s: under %s, found %d recordings to train, %d to validate, "+
			"%d to test (takes 0 to 4, or those of a fold): want some of each", from.task, folder(dir),
			len(train.recordings), len(valid.recordings), len(test.recordings))
	}
	half := *test
	half.half = true
	set := &Set{
		Channels: 1, Outputs: 10, Train: train, Test: test, Classes: numerals(10),
		Inputs: []Channel{{Name: "sample", Unit: "over the root of the mean square of its recording", Deviation: 1}},
		Extra:  []Extra{{Name: "half rate", Split: &half, DtScale: 2}},
		Notes: []string{fmt.Sprintf("%d recordings to train, %d to validate, %d to test",
			len(train.recordings), len(valid.recordings), len(test.recordings))},
	}
	for i := range parts {
		set.MaxLength = max(set.MaxLength, longest(&parts[i]))
	}
	if o.Valid > 0 {
		set.Valid = valid
	}
	return set, nil
}

// recording is one take of a digit.
type recording struct {
	digit   int32
	speaker string
	take    int
	samples []int16
}

// speech is a Split of n recordings: example i is copy i/n of recording i mod n.
type speech struct {
	recordings []*recording
	maxLength  int
	pad        bool
	copies     int
	seed       uint64
	half       bool // use half the sampling rate
}

// Len returns the number of recordings times the number of copies.
func (s *speech) Len() int { return len(s.recordings) * s.copies }

// Length returns the number of samples of example i.
func (s *speech) Length(i int) int {
	n := s.maxLength
	if !s.pad {
		n = min(n, s.version(i).length)
	}
	if s.half {
		return (n + 1) / 2
	}
	return n
}

// Example fills ex with a recording or a modified copy of it.
func (s *speech) Example(i int, ex *Example) {
	ex.Reset()
	r := s.recordings[i%len(s.recordings)]
	var square float64
	for _, x := range r.samples {
		square += float64(x) * float64(x)
	}
	scale := 1.0 // a silent recording stays silent
	if square > 0 {
		scale = math.Sqrt(float64(len(r.samples)) / square)
	}
	ex.Values = s.version(i).of(ex.Values, r.samples, scale)
	if len(ex.Values) > s.maxLength {
		ex.Values = ex.Values[:s.maxLength]
	}
	for s.pad && len(ex.Values) < s.maxLength {
		ex.Values = append(ex.Values, 0)
	}
	if s.half {
		ex.Values = lowPass(nil, ex.Values, 2)
	}
	ex.Targets = append(ex.Targets, r.digit)
}

// version describes how a recording is modified to make an example.
type version struct {
	speed  float64    // 1 leaves it unchanged
	shift  int        // samples of silence before the recording
	length int        // number of samples of the example
	color  float64    // factor of the previous sample, which is added: emphasizes low or high frequencies
	gap    [2]int     // start and end of a silent range
	noise  float64    // deviation of the noise, relative to the recording
	dull   bool       // low-pass filtered as for half the rate
	rng    *rand.Rand // source of the noise; nil for none
}

// version returns the modification for example i. The first copy of a recording is unchanged, the others are modified
// at random.
func (s *speech) version(i int) version {
	n := len(s.recordings[i%len(s.recordings)].samples)
	if i < len(s.recordings) {
		return version{speed: 1, length: n}
	}
	rng := rand.New(rand.NewPCG(s.seed, uint64(i)))
	v := version{
		speed: 0.85 + 0.3*rng.Float64(), shift: rng.IntN(digitsShift + 1),
		color: rng.Float64() - 0.5,
		noise: math.Pow(10, -0.5-1.5*rng.Float64()), // 10 to 40 dB below the recording
		dull:  rng.IntN(2) == 0, rng: rng,
	}
	v.length = v.shift + max(1, int(float64(n-1)/v.speed))
	v.gap[0] = rng.IntN(v.length)
	v.gap[1] = min(v.gap[0]+rng.IntN(2*digitsShift), v.length)
	return v
}

// of returns this version of samples, interpolated linearly. It overwrites to.
func (v version) of(to []float32, samples []int16, scale float64) []float32 {
	to = to[:0]
	for range v.shift {
		to = append(to, 0)
	}
	last := len(samples) - 1
	for j := range v.length - v.shift {
		at := v.speed * float64(j)
		k := int(at)
		part := at - float64(k)
		to = append(to, float32(scale*((1-part)*float64(samples[k])+part*float64(samples[min(k+1, last)]))))
	}
	if v.rng != nil {
		before, gain := float32(0), float32(1/math.Sqrt(1+v.color*v.color))
		for j, x := range to {
			to[j], before = gain*(x+float32(v.color)*before), x
		}
		clear(to[v.gap[0]:v.gap[1]])
		for j := range to {
			to[j] += float32(v.noise * v.rng.NormFloat64())
		}
	}
	if v.dull {
		return lowPass(nil, to, 1)
	}
	return to
}
