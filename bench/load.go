package bench

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// loadCases measure a Mamba-130M from its folder to the first token, and the memory of the process: load_s is the time
// to the model and first_token_s that to the token; peak_mb is the peak until then, and rss_mb the memory after a
// prompt of 512 tokens and one more token. The file holds float32 for the precision float32 and bfloat16 for the
// others, including "stored", the precision of the file. packed_mb is the size of the weights in memory.
func loadCases(shrink int) []Case {
	const asStored = "stored"
	var cases []Case
	for _, name := range []string{engine.Float32.String(), asStored, engine.BF16.String(), engine.Int8.String(),
		engine.Int4.String()} {
		stored, load := checkpoint.BF16, release.LoadDirStored
		if p, err := engine.ParsePrecision(name); err == nil {
			load = func(dir string) (*model.Model, string, error) { return release.LoadDirPacked(dir, p) }
		}
		if name == engine.Float32.String() {
			stored = checkpoint.F32
		}
		cases = append(cases, Case{
			ID: Row{{"bench", "load"}, {"model", "Mamba-130M"}, {"precision", name}, {"file", string(stored)}},
			prepare: func(ctx context.Context) (trial, error) {
				dir, err := os.MkdirTemp("", "hippo-bench-load")
				if err != nil {
					return trial{}, err
				}
				if err := saveAs(dir, stored, shrink); err != nil {
					os.RemoveAll(dir)
					return trial{}, err
				}
				l := loading{dir: dir, open: load, prompt: 512 / shrink}
				run := func() error {
					defer os.RemoveAll(dir)
					return l.run(ctx)
				}
				return trial{long: true, runs: []func() error{run}, fields: l.fields}, nil
			},
		})
	}
	return cases
}

// saveAs writes a Mamba-130M with random weights of a type.
func saveAs(dir string, stored checkpoint.DType, shrink int) error {
	m, err := smaller("mamba-130m", shrink)
	if err != nil {
		return err
	}
	if err := m.Save(dir); err != nil {
		return err
	}
	var tensors []checkpoint.Tensor
	for _, x := range m.Tensors() {
		values, err := x.Float32()
		if err != nil {
			return err
		}
		y, err := checkpoint.ConvertTensor(x.Name, stored, x.Shape, values)
		if err != nil {
			return err
		}
		tensors = append(tensors, y)
	}
	return disk.WriteFile(filepath.Join(dir, model.WeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, tensors, nil)
	})
}

// loading is one trial of loadCases.
type loading struct {
	dir                     string
	open                    func(dir string) (*model.Model, string, error)
	prompt                  int
	packed, peak, rss, base uint64
	load, first             time.Duration
}

func (l *loading) run(ctx context.Context) error {
	debug.FreeOSMemory()
	status.ResetPeakRSS()
	l.base = status.RSS()
	start := time.Now()
	m, _, err := l.open(l.dir)
	if err != nil {
		return err
	}
	l.load = time.Since(start)
	s := generate.NewBatch(m, 1)
	ids := randomIDs(rand.New(rand.NewPCG(1, 9)), l.prompt+1, m.Config.VocabSize)
	if err := s.Feed(ctx, ids[:1]); err != nil {
		return err
	}
	l.first, l.peak = time.Since(start), status.PeakRSS()
	for _, part := range [][]int32{ids[1:], ids[:1]} {
		if err := s.Feed(ctx, part); err != nil {
			return err
		}
	}
	l.packed, l.rss = uint64(m.Bytes()), status.RSS()
	return nil
}

func (l *loading) fields([]Timing) Row {
	return Row{{"load_s", rounded(l.load.Seconds())}, {"first_token_s", rounded(l.first.Seconds())},
		{"packed_mb", mebibytes(l.packed)}, {"peak_mb", mebibytes(l.peak)}, {"rss_mb", mebibytes(l.rss)},
		{"rss_start_mb", mebibytes(l.base)}}
}
