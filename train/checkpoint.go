package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// The files of a run's last checkpoint besides the model's own.
const (
	optimizerFile = "optimizer.safetensors"
	trainerFile   = "trainer.json"
	carriedFile   = "state.safetensors" // with carry_state
)

// trainerState is trainer.json: all that the next step depends on besides weights and moments.
type trainerState struct {
	Version   int           `json:"version"`
	Config    Config        `json:"config"`
	Step      int           `json:"step"`
	Updates   int           `json:"optimizer_updates"`
	Data      data.Cursor   `json:"data"`
	Tokenizer string        `json:"tokenizer_fingerprint"`
	Random    []byte        `json:"random"`
	Best      *float64      `json:"best_valid_loss"` // null before the first evaluation
	BestStep  int           `json:"best_step"`
	Valid     *float64      `json:"last_valid_loss"`
	Elapsed   time.Duration `json:"elapsed_ns"`
	Trained   time.Duration `json:"trained_ns"` // in updates alone, by the run's clock
	History   history       `json:"history"`
	Carried   bool          `json:"carried_state"`
}

const trainerVersion = 1

// SaveModel writes what is needed to use the model (configuration, weights, tokenizer) to dir, all or nothing.
func (tr *Trainer) SaveModel(dir string) error {
	return checkpoint.WriteDirAtomic(dir, tr.writeModel)
}

func (tr *Trainer) writeModel(dir string) error {
	if err := tr.Model.Save(dir); err != nil {
		return err
	}
	return tr.Data.Tokenizer.Save(dir)
}

// Save writes a checkpoint that Resume continues from to dir. At every moment there is a whole checkpoint on the disk: the
// new one is written beside the old, made durable, and put in its place; only then the old one is removed.
func (tr *Trainer) Save(dir string) error {
	random, err := tr.source.MarshalBinary()
	if err != nil {
		return err
	}
	state := trainerState{
		Version: trainerVersion, Config: tr.Config, Step: tr.step, Updates: tr.opt.Steps(), Data: tr.loader.Cursor(),
		Tokenizer: tr.Data.Tokenizer.Fingerprint(), Random: random, Best: finite(tr.best), BestStep: tr.bestStep,
		Valid:   finite(tr.lastValid),
		Elapsed: tr.elapsed, Trained: tr.budget.used, History: tr.history, Carried: tr.carried != nil,
	}
	return checkpoint.WriteDirAtomic(dir, func(tmp string) error {
		if err := tr.writeModel(tmp); err != nil {
			return err
		}
		var moments []checkpoint.Tensor
		tr.opt.Moments(func(name string, shape []int, x []float32) {
			moments = append(moments, checkpoint.NewTensor(name, shape, x))
		})
		if err := writeTensors(filepath.Join(tmp, optimizerFile), moments); err != nil {
			return err
		}
		if tr.carried != nil {
			if err := writeTensors(filepath.Join(tmp, carriedFile), carriedTensors(tr.carried)); err != nil {
				return err
			}
		}
		text, err := json.MarshalIndent(state, "", "  ")
		if err != nil {
			return err
		}
		return disk.WriteBytes(filepath.Join(tmp, trainerFile), append(text, '\n'))
	})
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func orElse(p *float64, v float64) float64 {
	if p == nil {
		return v
	}
	return *p
}

func writeTensors(path string, tensors []checkpoint.Tensor) error {
	return disk.WriteFile(path, func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, tensors, nil)
	})
}

// ReadRun reads the configuration of the run in folder out, to be changed before the run is resumed.
func ReadRun(out string) (Config, error) {
	s, err := readState(out, checkpoint.SettleDir) // which leaves alone what another process may be writing there
	if err != nil {
		return Config{}, err
	}
	s.Config.Out = out
	return s.Config, nil
}

// readState reads the last checkpoint's trainer.json. recover brings its folders to where they can be read.
func readState(out string, recover func(dir string) error) (trainerState, error) {
	var s trainerState
	for _, sub := range []string{model.LastDir, model.BestDir} {
		if err := recover(filepath.Join(out, sub)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	path := filepath.Join(out, model.LastDir, trainerFile)
	err := disk.ReadJSON(path, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%s: found no checkpoint to resume from (%s), want the folder of a training run", out, path)
	}
	if err != nil {
		return s, err
	}
	if err := s.check(); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// RunTokenizer is the tokenizer that the run in folder out was trained with.
func RunTokenizer(out string) (tokenizer.Tokenizer, error) {
	return tokenizer.Load(filepath.Join(out, model.LastDir))
}

// Restore brings a new trainer to the last checkpoint of the run in folder out.
func (tr *Trainer) Restore(out string) error {
	s, err := readState(out, checkpoint.RecoverDir)
	if err != nil {
		return err
	}
	dir := filepath.Join(out, model.LastDir)
	return checkpoint.ReadDir(dir, func() error {
		if err := loadWeights(tr.Model, dir); err != nil {
			return err
		}
		return tr.restore(s, dir)
	})
}

// resumed makes the trainer of the run in folder cfg.Out as its last checkpoint has it. The shapes of the model are
// compared with the weights before there is memory for more than those.
func resumed(cfg Config, d *Dataset) (tr *Trainer, err error) {
	s, err := readState(cfg.Out, checkpoint.RecoverDir)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cfg.Out, model.LastDir)
	err = checkpoint.ReadDir(dir, func() error {
		tr, err = newTrainer(cfg, d, func(m *model.Model) error {
			if err := loadWeights(m, dir); err != nil {
				return err
			}
			return cfg.checkMemory(d.Tokenizer.VocabSize()) // of a shape that the weights have: for the rest of the run
		})
		if err != nil {
			return err
		}
		return tr.restore(s, dir)
	})
	return tr, err
}

func loadWeights(m *model.Model, dir string) error {
	f, err := checkpoint.OpenSafetensors(filepath.Join(dir, model.WeightsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	return release.Load(m, f)
}

// restore brings a trainer that has the weights of a checkpoint to where it was.
func (tr *Trainer) restore(s trainerState, dir string) error {
	if got := tr.Data.Tokenizer.Fingerprint(); got != s.Tokenizer {
		return fmt.Errorf("%s: found a checkpoint of tokenizer %s, the run now has %s (%s); want the same", dir,
			s.Tokenizer, got, tr.Data.Tokenizer.Kind())
	}
	if err := restoreMoments(tr.opt, filepath.Join(dir, optimizerFile)); err != nil {
		return err
	}
	if err := tr.loader.Seek(s.Data); err != nil {
		return fmt.Errorf("%s: the run cannot go on with other data: %w", filepath.Join(dir, trainerFile), err)
	}
	if err := tr.source.UnmarshalBinary(s.Random); err != nil {
		return fmt.Errorf("%s: random: %w", filepath.Join(dir, trainerFile), err)
	}
	tr.opt.SetSteps(s.Updates)
	tr.step, tr.elapsed, tr.budget.used, tr.history = s.Step, s.Elapsed, s.Trained, s.History
	tr.bestStep = s.BestStep
	tr.best, tr.lastValid = orElse(s.Best, math.Inf(1)), orElse(s.Valid, math.NaN())
	if s.Carried {
		c := &tr.Config.Train
		var err error
		tr.carried, err = readCarried(filepath.Join(dir, carriedFile), tr.Model, c.BatchSize, s.Data.Position*c.SeqLen)
		return err
	}
	return nil
}

// check returns every problem of a state that no run can have saved.
func (s *trainerState) check() error {
	var p config.Problems
	if s.Version != trainerVersion {
		p.Addf("version", "found %d, want %d", s.Version, trainerVersion)
		return p
	}
	switch steps := s.Config.Train.Steps; {
	case s.Step < 0:
		p.Addf("step", "found %d, want 0 or more", s.Step)
	case s.Config.Train.Time == 0 && s.Step > steps:
		p.Addf("step", "found %d, want at most the %d steps of the run (config.train.steps)", s.Step, steps)
	}
	if s.Updates != s.Step {
		p.Addf("optimizer_updates", "found %d, want as many as step, %d", s.Updates, s.Step)
	}
	if s.Elapsed < 0 || s.Trained < 0 {
		p.Addf("elapsed_ns, trained_ns", "found %d, %d, want 0 or more", s.Elapsed, s.Trained)
	}
	if h := &s.History; len(h.Train) != len(h.TrainSteps) || len(h.Valid) != len(h.ValidSteps) {
		p.Addf("history", "found %d and %d losses for %d and %d steps, want one for each", len(h.Train), len(h.Valid),
			len(h.TrainSteps), len(h.ValidSteps))
	}
	return p.Err()
}

// restoreMoments reads the moments of an optimizer from a file.
func restoreMoments(opt *optim.AdamW, path string) error {
	f, err := checkpoint.OpenSafetensors(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = opt.SetMoments(func(name string) ([]float32, error) {
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
