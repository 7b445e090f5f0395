package task

import (
	"context"
	"fmt"
	"math"
)

// ECG asks for the next sample at each sample of an electrocardiogram. The data is five minutes of record 208 of the
// MIT-BIH Arrhythmia Database, 360 samples a second, which SciPy includes as an example. The record has no annotations
// of its beats, so these are not a target.
//
// The first eight tenths are the training part, the next tenth is the validation part, the last the test part. Samples
// are scaled by the mean and the deviation of the training part.
var ECG = ecg(origin{task: "ecg", data: "dataset-ecg of SciPy (MIT-BIH record 208)",
	url: "https://github.com/scipy/dataset-ecg"})

func ecg(from origin) *Task {
	return &Task{
		Name: from.task, Group: "streams",
		About:  "samples of an electrocardiogram; at each of them, the next one",
		Source: "MIT-BIH Arrhythmia Database, record 208, as in scipy.datasets.electrocardiogram",
		Files: "ecg.dat of " + from.url + ", or its millivolts as little-endian 32-bit floats in ecg_mV_float32.raw, " +
			"compressed or not; as it is or in the folder ecg",
		Options: func() any { return &ecgOptions{Length: 720, Stride: 180, Relative: true} },
		Open: func(ctx context.Context, dir string, options any) (*Set, error) {
			return openECG(ctx, from, dir, options.(*ecgOptions))
		},
	}
}

// ecgOptions holds the options of ECG.
type ecgOptions struct {
	Length   int  `json:"length" min:"16" max:"8000" help:"samples of a window; 360 are a second"`
	Stride   int  `json:"stride" min:"1" max:"8000" help:"samples between training windows; others do not overlap"`
	Relative bool `json:"relative" help:"predict the difference to the next sample; errors stay the same"`
}

// ecgOrder is the number of past samples used by the linear forecast.
const ecgOrder = 32

// openECG reads the record under dir and divides it into windows.
func openECG(ctx context.Context, from origin, dir string, o *ecgOptions) (*Set, error) {
	volts, err := readECG(from, dir)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	valid, test := len(volts)*8/10, len(volts)*9/10
	if o.Length < 1 || o.Stride < 1 || valid <= ecgOrder || min(test-valid, len(volts)-test) <= o.Length {
		return nil, fmt.Errorf("task %s: found %d samples under %s, want enough for windows of %d in each tenth",
			from.task, len(volts), folder(dir), o.Length)
	}
	mean, deviation := moments(volts[:valid])
	in := rangeOf("voltage", "mV", volts[:valid], mean, deviation)
	out := in
	if o.Relative {
		out = in.difference("change of voltage")
	}
	for i := range volts {
		volts[i] = (volts[i] - mean) / deviation
	}
	windows := func(lo, hi, length, stride int) *nextSample {
		return &nextSample{volts[lo:hi], length, stride, o.Relative}
	}
	coefficients := linearForecast(volts[:valid], ecgOrder)
	var last, linear float64
	for i := test + 1; i < len(volts); i++ {
		guess := 0.0
		for k, c := range coefficients {
			guess += c * volts[i-1-k]
		}
		last += (volts[i] - volts[i-1]) * (volts[i] - volts[i-1])
		linear += (volts[i] - guess) * (volts[i] - guess)
	}
	n := float64(len(volts) - test - 1)
	return &Set{
		Channels: 1, Outputs: 1, Numbers: true, Everywhere: true, MaxLength: o.Length,
		Inputs: []Channel{in}, Results: []Channel{out},
		Train: windows(0, valid, o.Length, o.Stride),
		Valid: windows(valid, test, o.Length, o.Length),
		Test:  windows(test, len(volts), o.Length, o.Length),
		Extra: []Extra{{Name: "the test part as one window",
			Split: windows(test, len(volts), len(volts)-test-1, len(volts))}},
		Simple: []Simple{{Name: "the last sample", Loss: last / n},
			{Name: fmt.Sprintf("a linear forecast of order %d", ecgOrder), Loss: linear / n}},
		Notes: []string{fmt.Sprintf("errors are in units of the variance, %.4g mV²; the linear forecast is by least "+
			"squares on the training part, and sees what precedes a window", deviation*deviation)},
	}, nil
}

// moments returns the mean and the standard deviation of x. The deviation of a constant x is 1.
func moments(x []float64) (mean, deviation float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	square := 0.0
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	if square == 0 {
		return mean, 1
	}
	return mean, math.Sqrt(square)
}

// nextSample is a Split of windows of a series. The target of each sample is the next sample.
type nextSample struct {
	series         []float64
	length, stride int
	relative       bool // the target is the difference between the next sample and this one
}

// Len returns the number of windows.
func (s *nextSample) Len() int { return (len(s.series)-s.length-1)/s.stride + 1 }

// Example fills ex with window i.
func (s *nextSample) Example(i int, ex *Example) {
	ex.Reset()
	lo := i * s.stride
	for j, x := range s.series[lo : lo+s.length+1] {
		if j < s.length {
			ex.Values = append(ex.Values, float32(x))
		}
		if j > 0 {
			if s.relative {
				x -= s.series[lo+j-1]
			}
			ex.Numbers = append(ex.Numbers, float32(x))
		}
	}
}
