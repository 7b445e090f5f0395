package task

import (
	"context"
	"fmt"
	"math"
)

// Speech asks for the next sample at each sample of a spoken digit. The data is the recordings of Digits as 256 levels
// (µ-law as in WaveNet, arXiv:1609.03499, §2.2), at 8,000 a second. A trained network generates sound: each sample is
// drawn from its output and is the next input. Recordings keep their loudness. The test part is takes 0 to 4, as in
// Digits.
//
// The first input is silence. The target at each position is the sample after the input.
var Speech = speechOf(origin{
	task: "speech", data: "free-spoken-digit-dataset", url: "https://github.com/Jakobovski/free-spoken-digit-dataset",
})

func speechOf(from origin) *Task {
	return &Task{
		Name: from.task, Group: "streams",
		About:   "samples of spoken digits, of 256 levels; at each of them, the next one",
		Source:  "free-spoken-digit-dataset; levels as in WaveNet, arXiv:1609.03499",
		Files:   Digits.Files,
		Options: func() any { return &speechOptions{Length: 4000, Valid: 1} },
		Open: func(ctx context.Context, dir string, options any) (*Set, error) {
			return openSpeech(ctx, from, dir, options.(*speechOptions))
		},
	}
}

// speechOptions holds the options of Speech.
type speechOptions struct {
	Length int `json:"length" min:"64" max:"65536" help:"samples to use of a recording"`
	Valid  int `json:"valid" min:"1" max:"40" help:"takes of each speaker and digit for validation, from take 5 on"`
}

const (
	speechLevels  = 256
	SpeechSilence = speechLevels / 2 // level of silence, which is the first input
	SpeechRate    = digitsRate       // samples per second
)

// openSpeech reads the recordings under dir.
func openSpeech(ctx context.Context, from origin, dir string, o *speechOptions) (*Set, error) {
	all, err := readRecordings(ctx, from, dir)
	if err != nil {
		return nil, err
	}
	var parts [3]levels // training, validation, test
	division := DigitsOptions{Valid: o.Valid}
	for _, r := range all {
		part := division.part(r.take)
		samples := make([]byte, min(len(r.samples), o.Length))
		for i := range samples {
			samples[i] = muLaw(float64(r.samples[i]) / 32768)
		}
		parts[part] = append(parts[part], samples)
	}
	for i, p := range parts {
		if len(p) == 0 {
			return nil, fmt.Errorf("task %s: under %s, found no recordings %s, want some: takes from %d on to train, "+
				"%d to validate, the first %d to test", from.task, folder(dir),
				[]string{"to train", "to validate", "to test"}[i], digitsTestTakes+o.Valid, o.Valid, digitsTestTakes)
		}
	}
	set := &Set{
		Vocab: speechLevels, Outputs: speechLevels, Everywhere: true, Coded: "sample",
		Train: parts[0], Valid: parts[1], Test: parts[2], Simple: speechBaselines(parts[0], parts[1], parts[2]),
		Notes: []string{fmt.Sprintf("%d recordings to train, %d to validate, %d to test",
			len(parts[0]), len(parts[1]), len(parts[2]))},
	}
	for _, p := range parts {
		set.MaxLength = max(set.MaxLength, longest(p))
	}
	return set, nil
}

// levels is a Split of recordings, stored as levels.
type levels [][]byte

func (s levels) Len() int         { return len(s) }
func (s levels) Length(i int) int { return len(s[i]) }

func (s levels) Example(i int, ex *Example) {
	ex.Reset()
	before := int32(SpeechSilence)
	for _, x := range s[i] {
		ex.Tokens, ex.Targets = append(ex.Tokens, before), append(ex.Targets, int32(x))
		before = int32(x)
	}
}

const mu = speechLevels - 1

// muLaw returns the level of a sample from -1 to 1: ⌊128 (1 + sgn(x) ln(1 + 255 |x|)/ln 256)⌋, at most 255.
func muLaw(x float64) byte {
	y := math.Copysign(math.Log1p(mu*min(1, math.Abs(x)))/math.Log1p(mu), x)
	return byte(min(mu, math.Floor((1+y)*speechLevels/2)))
}

// MuLawSample returns the sample from -1 to 1 in the middle of a level.
func MuLawSample(level int32) float64 { return muLawEdge(float64(level) + .5) }

// muLawEdge returns the sample at which a level from 0 to 256 begins.
func muLawEdge(level float64) float64 {
	y := 2*level/speechLevels - 1
	return math.Copysign((math.Pow(speechLevels, math.Abs(y))-1)/mu, y)
}

// speechOrder is the number of past samples used by the linear forecast.
const speechOrder = 32

// speechBaselines returns the losses, in nats per sample, of two ways to code the test part. The first uses the
// frequencies of the levels in the training part. The second uses a linear forecast of the sample, by least squares on
// the training part, with Laplace-distributed errors. Their scale is the exponentially weighted mean of past absolute
// errors: the weight of an error is decay times that of the next. decay is the best of four values on the validation
// part.
func speechBaselines(train, valid, test levels) []Simple {
	counts, n := [speechLevels]float64{}, float64(speechLevels)
	for i := range counts {
		counts[i] = 1
	}
	var series []float64
	for _, r := range train {
		series = append(series, make([]float64, speechOrder)...) // silence between recordings
		for _, x := range r {
			counts[x]++
			n++
			series = append(series, MuLawSample(int32(x)))
		}
	}
	counted, samples := 0.0, 0.0
	for _, r := range test {
		for _, x := range r {
			counted -= math.Log(counts[x] / n)
			samples++
		}
	}
	coefficients := linearForecast(series, speechOrder)
	best, decay := math.Inf(1), 0.0
	for _, d := range []float64{.8, .9, .95, .98} {
		if loss := laplaceLoss(valid, coefficients, d); loss < best {
			best, decay = loss, d
		}
	}
	return []Simple{
		{Name: "frequencies of levels", Loss: counted / samples},
		{Name: fmt.Sprintf("a linear forecast of order %d", speechOrder), Loss: laplaceLoss(test, coefficients, decay)},
	}
}

// laplaceLoss returns the mean of -ln p(level). p is the probability of the level under a Laplace distribution around
// the forecast, with a millionth added for each level.
func laplaceLoss(recordings levels, coefficients []float64, decay float64) float64 {
	const least = 1e-6
	below := func(x float64) float64 { // distribution function with scale 1
		if x < 0 {
			return math.Exp(x) / 2
		}
		return 1 - math.Exp(-x)/2
	}
	loss, n := 0.0, 0.0
	for _, r := range recordings {
		past := make([]float64, len(coefficients)+len(r))
		scale := .01
		for i, level := range r {
			at := i + len(coefficients)
			guess := 0.0
			for k, c := range coefficients {
				guess += c * past[at-1-k]
			}
			low, high := 0.0, 1.0 // the first and last level include the tails
			if level > 0 {
				low = below((muLawEdge(float64(level)) - guess) / scale)
			}
			if level < speechLevels-1 {
				high = below((muLawEdge(float64(level)+1) - guess) / scale)
			}
			loss -= math.Log((1-least*speechLevels)*max(0, high-low) + least)
			n++
			past[at] = MuLawSample(int32(level))
			scale = max(1e-5, decay*scale+(1-decay)*math.Abs(past[at]-guess))
		}
	}
	return loss / n
}
