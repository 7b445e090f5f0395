package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// The files of a run's last checkpoint besides those of the model and of the work.
const (
	optimizerFile = "optimizer.safetensors"
	TrainerFile   = "trainer.json"
)

// Kinds of work. A checkpoint of one kind cannot be used for another.
const (
	LanguageKind = "language model"
	LabelledKind = "labelled network"
)

// Saved is the content of trainer.json: all that the next update depends on besides weights and moments.
type Saved struct {
	Version int             `json:"version"`
	Kind    string          `json:"kind"`    // of the work
	Program string          `json:"program"` // version of hippo that wrote the file
	Config  json.RawMessage `json:"config"`
	Step    int             `json:"step"`
	Updates int             `json:"optimizer_updates"`
	Trained time.Duration   `json:"trained_ns"` // in updates alone, by the run's clock
	History history         `json:"history"`
	Work    json.RawMessage `json:"work"` // result of Work.Place
}

// stateVersion is the current version of Saved. oldformats.go reads earlier versions.
const stateVersion = 2

// write writes a checkpoint to dir. At every moment there is a complete checkpoint on the disk: the new one is written
// beside the old one, synced, and moved into its place. Only then is the old one removed.
func (l *Training) write(dir string) error {
	s := Saved{
		Version: stateVersion, Kind: l.Plan.Kind, Program: Commit(), Step: l.step, Updates: l.opt.Steps(),
		Trained: l.budget.used, History: l.history,
	}
	var err error
	if s.Config, err = json.Marshal(l.Plan.Config); err != nil {
		return err
	}
	return checkpoint.WriteDirAtomic(dir, func(tmp string) error {
		if err := l.work.SaveModel(tmp); err != nil {
			return err
		}
		if err := l.writeMoments(tmp); err != nil {
			return err
		}
		if err := l.average.save(tmp); err != nil {
			return err
		}
		place, err := l.work.Place(tmp)
		if err != nil {
			return err
		}
		if s.Work, err = json.Marshal(place); err != nil {
			return err
		}
		if err := disk.WriteJSON(filepath.Join(tmp, TrainerFile), s); err != nil {
			return err
		}
		return engine.Failure(l.opt.Backend())
	})
}

// writeMoments writes the optimizer's moments into a checkpoint's folder.
func (l *Training) writeMoments(dir string) error {
	if l.split != nil {
		return l.split.write(dir)
	}
	var moments []checkpoint.Tensor
	if l.islands != nil {
		moments = l.islands.saved()
	} else {
		l.opt.Moments(func(name string, x *tensor.Tensor) {
			moments = append(moments, checkpoint.NewTensor(name, x.Shape(), x.Elements()))
		})
	}
	return WriteTensors(filepath.Join(dir, optimizerFile), moments)
}

// WriteModel writes the files that are needed to use a model to dir, atomically. It writes nothing if the model's
// device fails.
func WriteModel(dir string, w Work) error {
	return checkpoint.WriteDirAtomic(dir, func(tmp string) error {
		if err := w.SaveModel(tmp); err != nil {
			return err
		}
		return engine.Failure(w.NewTape().Backend())
	})
}

func WriteTensors(path string, tensors []checkpoint.Tensor) error {
	return disk.WriteFile(path, func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, tensors, nil)
	})
}

// ReadSaved reads trainer.json of the last checkpoint of the run in folder out, which must be of the given kind. The
// error is fs.ErrNotExist if the run has no checkpoint. recover restores a checkpoint folder whose replacement was
// interrupted.
func ReadSaved(out, kind string, recover func(dir string) error) (*Saved, error) {
	for _, sub := range []string{model.LastDir, model.BestDir} {
		if err := recover(filepath.Join(out, sub)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	var s *Saved
	var path string
	dir := filepath.Join(out, model.LastDir)
	err := checkpoint.ReadDir(dir, func() (err error) {
		s, path, err = readAnyFormat(dir)
		return err
	}, TrainerFile, placeFile)
	switch {
	case err != nil:
		return nil, err
	case s.Kind != kind:
		return nil, brief.Error(fmt.Errorf("%s: kind: found the run of a %s, want that of a %s", path, s.Kind, kind))
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Settings decodes the settings of the run into c, which holds the defaults.
func (s *Saved) Settings(dir string, c any) error {
	if err := json.Unmarshal(s.Config, c); err != nil {
		return brief.Error(fmt.Errorf("%s: config: %w", filepath.Join(dir, model.LastDir, TrainerFile), err))
	}
	return nil
}

// check returns an error that lists every value that no run can have saved.
func (s *Saved) check() error {
	var p config.Problems
	if s.Step < 0 {
		p.Addf("step", "found %d, want 0 or more", s.Step)
	}
	if s.Updates != s.Step {
		p.Addf("optimizer_updates", "found %d, want as many as step, %d", s.Updates, s.Step)
	}
	h := &s.History
	if h.Elapsed < 0 || h.CPU < 0 || s.Trained < 0 || h.LossN < 0 {
		p.Addf("elapsed_ns, cpu_ns, trained_ns, loss_n", "found %d, %d, %d, %d, want 0 or more", h.Elapsed, h.CPU,
			s.Trained, h.LossN)
	}
	if len(h.Curve.Loss) != len(h.Curve.Steps) {
		p.Addf("history.curve", "found %d losses for %d steps, want one for each", len(h.Curve.Loss),
			len(h.Curve.Steps))
	}
	if h.Best < -1 || h.Best >= len(h.Points) {
		p.Addf("history.best", "found %d, want the place of one of the %d points, or -1", h.Best, len(h.Points))
	}
	return p.Err()
}

// Restore puts a new run into the saved state. Its model must have the weights of the checkpoint in dir already.
func (l *Training) Restore(s *Saved, dir string) error {
	path := filepath.Join(dir, optimizerFile)
	set := l.opt.SetMoments
	switch {
	case l.split != nil:
		set = l.split.set
	case l.islands != nil:
		set = l.islands.setStates(s.Step)
	}
	if err := restoreMoments(path, set); err != nil {
		return err
	}
	if err := l.average.restore(dir); err != nil {
		return err
	}
	if err := l.work.Return(s.Work, dir); err != nil {
		return err
	}
	l.opt.SetSteps(s.Updates)
	l.step, l.budget.used, l.history = s.Step, s.Trained, s.History
	l.savedStep = l.step
	return nil
}

// Within returns an error if more updates were made than the run has steps.
func (s *Saved) Within(dir string, steps int) error {
	if s.Step > steps {
		return fmt.Errorf("%s: step: found %d, want at most the %d steps of the run", filepath.Join(dir, TrainerFile),
			s.Step, steps)
	}
	return nil
}

// restoreMoments calls set with a function that reads moments by name from the file at path.
func restoreMoments(path string, set func(get func(name string) ([]float32, error)) error) error {
	f, err := checkpoint.OpenSafetensors(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = set(func(name string) ([]float32, error) {
		x, ok := f.Tensor(name)
		if !ok {
			return nil, fmt.Errorf("missing %s", name)
		}
		return x.Float32()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
