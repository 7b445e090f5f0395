package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// The phases of resumeCases. Each runs in a process of its own.
const (
	resumeCold     = "cold"
	resumeRestored = "restored"
)

// resumeCases measure how long it takes to continue a text: first_ms is the wall time to the logits after 16 more ids.
// In the phase cold, the mode cold first reads the text, and saves it to a folder for the other phase; warm has it in
// memory; edited has it in memory followed by 16 other ids, as if the last message was changed. In the phase restored
// the text is loaded from its file: load_ms is that part of first_ms, and check_ms the part for the checksum of all
// weights, which a process computes once. The arguments are the phase, the folder, the number of ids of the text, and
// files or folders of models.
func resumeCases(args []string, shrink int) (cases []Case, err error) {
	if len(args) < 3 || args[0] != resumeCold && args[0] != resumeRestored {
		return nil, fmt.Errorf("found the arguments %q, want %s or %s, a folder, a number of tokens and models", args,
			resumeCold, resumeRestored)
	}
	n, err := strconv.Atoi(args[2])
	if err != nil || n < 1 {
		return nil, fmt.Errorf("found %q tokens, want a number of at least 1", args[2])
	}
	files, err := modelFiles(args[3:], shrink)
	for _, f := range files {
		r := &resuming{modelFile: f, n: max(1, n/shrink)}
		r.path = filepath.Join(args[1], fmt.Sprintf("%s-%d.session",
			strings.TrimSuffix(filepath.Base(f.path), ".gguf"), r.n))
		if args[0] == resumeRestored {
			cases = append(cases, r.measured(resumeRestored, r.restored))
			continue
		}
		cases = append(cases, r.measured(resumeCold, r.cold), r.measured("warm", r.warm),
			r.measured("edited", r.edited))
	}
	return cases, err
}

// resuming is a text that a model continues.
type resuming struct {
	*modelFile
	n    int              // number of ids of the text
	path string           // file of the text
	text *session.Session // session after the text, once it has been read
}

// resumeMore is the number of ids that are read after the text, and resumeTurns the number of repetitions.
const resumeMore, resumeTurns = 16, 5

// measured returns a case that run measures. run returns the fields of its row.
func (r *resuming) measured(mode string, run func(context.Context) (Row, error)) Case {
	id := r.id("resume", Row{{"mode", mode}, {"context", float64(r.n)}, {"n", float64(resumeMore)}})
	return Case{ID: id, prepare: func(ctx context.Context) (trial, error) {
		if err := r.load(); err != nil {
			return trial{}, fmt.Errorf("%s: %w", r.modelFile.path, err)
		}
		var row Row
		return trial{long: true, fields: func([]Timing) Row { return row }, runs: []func() error{func() (err error) {
			row, err = run(ctx)
			return err
		}}}, nil
	}}
}

// ids returns random ids, for the text or after it.
func (r *resuming) ids(seed uint64, n int) []int32 {
	return randomIDs(rand.New(rand.NewPCG(seed, 12)), n, r.net.Config.VocabSize)
}

// cold reads the text and saves it.
func (r *resuming) cold(ctx context.Context) (Row, error) {
	begun := time.Now()
	s := session.New(r.net, tokenizer.IDs(r.net.Config.VocabSize), session.Options{})
	if err := s.Append(ctx, r.ids(0, r.n)); err != nil {
		return nil, err
	}
	read := time.Since(begun)
	r.text = s
	more, err := r.reads(ctx, s.Fork(), 1)
	if err != nil {
		return nil, err
	}
	r.net.Fingerprint() // its time is measured when the text is restored
	begun = time.Now()
	if err := s.Save(r.path, session.FileOptions{}); err != nil {
		return nil, err
	}
	saved := time.Since(begun)
	info, err := os.Stat(r.path)
	if err != nil {
		return nil, err
	}
	return Row{{"first_ms", milliseconds(read + more)}, {"save_ms", milliseconds(saved)},
		{"file_mb", rounded(float64(info.Size()) / 1e6)}}, nil
}

func milliseconds(d time.Duration) float64 { return rounded(d.Seconds() * 1e3) }

// reads returns the time that a session takes to read more ids.
func (r *resuming) reads(ctx context.Context, s *session.Session, seed uint64) (time.Duration, error) {
	ids, begun := r.ids(seed, resumeMore), time.Now()
	err := s.Append(ctx, ids)
	return time.Since(begun), err
}

// turns returns the median time of some turns after the text, each in a session of its own.
func (r *resuming) turns(turn func(s *session.Session) (time.Duration, error)) (Row, error) {
	if r.text == nil {
		return nil, fmt.Errorf("found no text that was read, want mode %s first", resumeCold)
	}
	var took []float64
	for range resumeTurns {
		one, err := turn(r.text.Fork())
		if err != nil {
			return nil, err
		}
		took = append(took, one.Seconds()*1e3)
	}
	return Row{{"first_ms", rounded(median(took))}}, nil
}

func (r *resuming) warm(ctx context.Context) (Row, error) {
	return r.turns(func(s *session.Session) (time.Duration, error) { return r.reads(ctx, s, 1) })
}

func (r *resuming) edited(ctx context.Context) (Row, error) {
	return r.turns(func(s *session.Session) (time.Duration, error) {
		if _, err := r.reads(ctx, s, 1); err != nil {
			return 0, err
		}
		begun := time.Now()
		if _, err := s.Rewind(ctx, r.n); err != nil {
			return 0, err
		}
		back := time.Since(begun)
		read, err := r.reads(ctx, s, 2)
		return back + read, err
	})
}

// restored continues the text from the file.
func (r *resuming) restored(ctx context.Context) (Row, error) {
	begun := time.Now()
	r.net.Fingerprint() // Load needs the fingerprint, which is cached
	checked, begun := time.Since(begun), time.Now()
	s, err := session.Load(r.path, r.net, tokenizer.IDs(r.net.Config.VocabSize), session.Options{}, nil)
	if err != nil {
		return nil, err
	}
	loaded := time.Since(begun)
	read, err := r.reads(ctx, s, 1)
	return Row{{"first_ms", milliseconds(checked + loaded + read)}, {"load_ms", milliseconds(loaded)},
		{"check_ms", milliseconds(checked)}}, err
}
