package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// placeFile is the name that trainer.json of a labelled network had in format 1.
const placeFile = "place.json"

// readAnyFormat reads the state of the checkpoint in dir, in the current format or an earlier one. It returns the path
// of the file that it read.
func readAnyFormat(dir string) (s *Saved, path string, err error) {
	path = filepath.Join(dir, TrainerFile)
	text, err := disk.ReadText(path, disk.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		if old := filepath.Join(dir, placeFile); disk.Exists(old) {
			s, err = readPlace(old)
			return s, old, err
		}
	}
	if err != nil {
		return nil, path, err
	}
	var head struct {
		Version int    `json:"version"`
		Program string `json:"program"`
	}
	s = &Saved{}
	if err = json.Unmarshal(text, &head); err == nil {
		switch head.Version {
		case stateVersion:
			err = json.Unmarshal(text, s)
		case 1:
			s, err = readVersion1(text)
		default:
			err = fmt.Errorf("version: found %d, written by hippo %s, want 1 to %d: "+
				"the hippo that wrote it goes on with this run", head.Version, head.Program, stateVersion)
		}
	}
	if err != nil {
		return nil, path, brief.Error(fmt.Errorf("%s: %w", path, err))
	}
	return s, path, nil
}

// version1 is trainer.json in format 1, which only language models used.
type version1 struct {
	Config    json.RawMessage `json:"config"`
	Step      int             `json:"step"`
	Updates   int             `json:"optimizer_updates"`
	Data      json.RawMessage `json:"data"`
	Tokenizer string          `json:"tokenizer_fingerprint"`
	BestStep  int             `json:"best_step"`
	Elapsed   time.Duration   `json:"elapsed_ns"`
	Trained   time.Duration   `json:"trained_ns"`
	History   struct {
		TrainSteps []int     `json:"train_steps"`
		Train      []float64 `json:"train_loss"`
		ValidSteps []int     `json:"valid_steps"`
		Valid      []float64 `json:"valid_loss"`
		Sample     string    `json:"sample"`
	} `json:"history"`
	Carried bool `json:"carried_state"`
}

// readVersion1 decodes trainer.json in format 1.
func readVersion1(text []byte) (*Saved, error) {
	var v version1
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	var p config.Problems
	h := &v.History
	if len(h.Valid) != len(h.ValidSteps) {
		p.Addf("history", "found %d losses for %d steps, want one for each", len(h.Valid), len(h.ValidSteps))
		return nil, p
	}
	var c struct {
		Train struct {
			Accumulation int `json:"accumulation"`
		} `json:"train"`
	}
	if err := json.Unmarshal(v.Config, &c); err != nil {
		return nil, err
	}
	if v.Carried && c.Train.Accumulation > 1 {
		p.Addf("version", "found 1, of a hippo from before shards, with train.carry_state and train.accumulation %d: "+
			"there one state went through all micro-batches, here each shard has its own; "+
			"want the hippo that began the run, or a new run", c.Train.Accumulation)
		return nil, p
	}
	s := &Saved{
		Version: stateVersion, Kind: LanguageKind, Config: v.Config, Step: v.Step, Updates: v.Updates,
		Trained: v.Trained,
		History: history{
			Elapsed: v.Elapsed, Best: slices.Index(h.ValidSteps, v.BestStep), Curve: curve{h.TrainSteps, h.Train},
		},
	}
	for i, step := range h.ValidSteps {
		s.History.Points = append(s.History.Points, Point{Step: step, Valid: Score{Loss: h.Valid[i]}})
	}
	var err error
	s.Work, err = json.Marshal(map[string]any{
		"data": v.Data, "tokenizer_fingerprint": v.Tokenizer, "sample": h.Sample, "carried_state": v.Carried,
	})
	return s, err
}

// readPlace reads place.json in format 1.
func readPlace(path string) (*Saved, error) {
	var v struct {
		Config  json.RawMessage `json:"config"`
		Updates int             `json:"optimizer_updates"`
		Place   struct {
			Step    int           `json:"step"`
			Used    time.Duration `json:"trained_ns"`
			Elapsed time.Duration `json:"elapsed_ns"`
			CPU     time.Duration `json:"cpu_ns"`
			LossSum float64       `json:"loss_sum"`
			LossN   int           `json:"loss_n"`
			Curve   []Point       `json:"curve"`
			Best    int           `json:"best"`
		} `json:"place"`
	}
	if err := disk.ReadJSON(path, &v); err != nil {
		return nil, err
	}
	at := &v.Place
	return &Saved{
		Version: stateVersion, Kind: LabelledKind, Config: v.Config, Step: at.Step, Updates: v.Updates,
		Trained: at.Used,
		History: history{
			Elapsed: at.Elapsed, CPU: at.CPU, LossSum: at.LossSum, LossN: at.LossN, Points: at.Curve, Best: at.Best,
		},
	}, nil
}
