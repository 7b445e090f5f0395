package experiment

import (
	"context"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/internal/wav"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
)

// SoundOptions describes the sound that a network of the task speech makes.
type SoundOptions struct {
	Seconds     float64 `json:"seconds" min:"0.001" max:"3600" help:"length of the sound, with what is given"`
	Example     int     `json:"example" min:"-1" help:"test recording that the sound begins as; -1: from silence"`
	Given       float64 `json:"given" min:"0" max:"60" help:"seconds of the recording that are given"`
	Temperature float64 `json:"temperature" min:"0" max:"10" help:"1 draws as the network says, less is less noisy"`
	TopP        float64 `json:"top_p" min:"0" max:"1" help:"draw from the likeliest levels with this sum; 0: all"`
	Seed        uint64  `json:"seed" help:"of the random numbers"`
}

// Sound makes a WAV file with the network of the run in a folder: each sample is drawn from the network's output after
// the samples before it, step by step.
func Sound(ctx context.Context, dir string, o SoundOptions) ([]byte, error) {
	r, err := ReadResult(dir)
	if err != nil {
		return nil, err
	}
	if TaskName(r.Task) != task.Speech.Name {
		return nil, fmt.Errorf("%s: found a run of %s, want one of %s, whose network makes sound",
			dir, r.Task, task.Speech.Name)
	}
	m, err := model.NetworkOf(dir)
	if err != nil {
		return nil, err
	}
	s, err := m.NewStream()
	if err != nil {
		return nil, err
	}
	sampler, err := sample.New(sample.Options{Temperature: o.Temperature, TopP: o.TopP, Seed: o.Seed})
	if err != nil {
		return nil, err
	}
	ex := &task.Example{}
	if o.Example >= 0 {
		if ex, err = r.TestExample(ctx, o.Example); err != nil {
			return nil, err
		}
	}
	given := ex.Targets[:min(len(ex.Targets), int(o.Given*task.SpeechRate))]
	samples := make([]int16, 0, int(o.Seconds*task.SpeechRate))
	for level := int32(task.SpeechSilence); len(samples) < cap(samples); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		logits, err := s.Tokens(level)
		if err != nil {
			return nil, err
		}
		if at := len(samples); at < len(given) {
			level = given[at]
		} else if level, err = sampler.Next(logits, nil); err != nil {
			return nil, err
		}
		samples = append(samples, int16(math.Round(math.MaxInt16*task.MuLawSample(level))))
	}
	return wav.File(task.SpeechRate, samples), nil
}
