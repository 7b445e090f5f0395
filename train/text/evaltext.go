package text

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// evalTexts holds the text that a model is measured on and the text that the baseline is counted in.
type evalTexts struct {
	opt   ModelEvalOptions
	run   Config // configuration of the training run, if isRun
	isRun bool
	chat  map[string][]byte // chat files of the model, from release.ChatTexts

	name         string
	valid, train *data.Tokens   // train only if the baseline is requested
	baseline     *data.Baseline // nil before it is counted
	notes        []string
	closers      []io.Closer
}

// check returns the problems of the options that can be found before anything is read.
func (e *evalTexts) check() error {
	var p config.Problems
	o := &e.opt
	ownText := e.isRun && len(o.Data) == 0
	if ownText && o.ValidFraction > 0 {
		p.Addf("valid_fraction", "found it without data, want data: the training run has its own validation part")
	}
	if ownText && slices.Contains(append(slices.Clone(e.run.Data), e.run.Valid...), "-") {
		p.Addf("data", "found nothing, want a text: the run was trained on standard input, which cannot be read again")
	}
	if o.Positions > 0 && o.Stream {
		p.Addf("positions", "found it together with stream, want one of them: a stream is one window")
	}
	switch {
	case len(o.TrainData) > 0 && !o.Baseline:
		p.Addf("train_data", "found it without baseline, want both")
	case len(o.TrainData) > 0 && o.ValidFraction > 0:
		p.Addf("train_data", "found it together with valid_fraction, want one of them")
	case o.Baseline && !e.isRun && len(o.TrainData) == 0 && o.ValidFraction == 0:
		p.Addf("baseline", "found no text to count in, as the model is not of a training run; want train_data, "+
			"or a valid_fraction of data such as 0.1 to count in the rest")
	}
	return p.Err()
}

// open opens the texts as tokens of tok.
func (e *evalTexts) open(ctx context.Context, tok tokenizer.Tokenizer) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	o := &e.opt
	switch {
	case e.isRun && len(o.Data) == 0:
		d, err := e.openRun(ctx, tok)
		if err != nil {
			return err
		}
		e.valid, e.train = d.Valid, d.Train
		e.name = "validation part of " + d.Name
		if len(e.run.Valid) > 0 {
			e.name = strings.Join(e.run.Valid, ", ")
		}
	default:
		tokens, name, err := e.read(ctx, tok, o.Data)
		if err != nil {
			return err
		}
		e.valid, e.name = tokens, name
		if o.ValidFraction > 0 {
			if e.train, e.valid, err = tokens.Split(o.ValidFraction); err != nil {
				return err
			}
			e.name = "last part of " + name
		}
	}
	return e.openTrain(ctx, tok)
}

// openTrain opens the text of the baseline if it is not part of the measured text.
func (e *evalTexts) openTrain(ctx context.Context, tok tokenizer.Tokenizer) error {
	if !e.opt.Baseline {
		return nil
	}
	if len(e.opt.TrainData) > 0 {
		tokens, _, err := e.read(ctx, tok, e.opt.TrainData)
		e.train = tokens
		return err
	}
	if e.train == nil {
		d, err := e.openRun(ctx, tok)
		if err != nil {
			return err
		}
		e.train = d.Train
	}
	return nil
}

// openRun opens the texts of the training run.
func (e *evalTexts) openRun(ctx context.Context, tok tokenizer.Tokenizer) (*Dataset, error) {
	run := e.run
	if e.opt.Cache != "" {
		run.Cache = e.opt.Cache
	}
	if e.opt.CacheLimit != "" {
		run.CacheLimit = e.opt.CacheLimit
	}
	run.Documents, run.chat = cmp.Or(e.opt.Documents, run.Documents), e.chat
	d, err := run.OpenData(ctx, tok)
	if err != nil {
		return nil, err
	}
	e.notes, e.closers = append(e.notes, d.Notes...), append(e.closers, d)
	return d, nil
}

func (e *evalTexts) read(ctx context.Context, tok tokenizer.Tokenizer, specs []string) (*data.Tokens, string, error) {
	tokens, corpus, notes, err := Tokenize(ctx, tok, specs, ReadOptions{
		TextField: e.opt.TextField, Binary: true, Cache: e.opt.Cache, CacheLimit: e.opt.CacheLimit,
		Join: cmp.Or(e.opt.Documents, e.run.Documents) == documentsJoin, Chat: e.chat,
	})
	e.notes = append(e.notes, notes...)
	if err != nil {
		return nil, "", err
	}
	e.closers = append(e.closers, tokens, corpus)
	return tokens, corpus.Name(), nil
}

func (e *evalTexts) close() error { return closeAll(e.closers) }

// in returns the text of e as tokens of other. tok is the tokenizer of e.
func (e *evalTexts) in(ctx context.Context, tok, other tokenizer.Tokenizer) (texts *evalTexts, err error) {
	o := e.opt
	o.Baseline, o.TrainData = false, nil
	// A part of a text is defined by tokens, not bytes, so write it to a file.
	if len(o.Data) == 0 || o.ValidFraction > 0 || slices.Contains(o.Data, "-") {
		dir, err := os.MkdirTemp("", "hippo-eval-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "text.txt")
		f, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(e.valid.WriteText(f, tok), f.Close()); err != nil {
			return nil, err
		}
		o.Data, o.ValidFraction, o.Cache = []string{path}, 0, data.CacheNone
	}
	texts = &evalTexts{opt: o}
	return texts, texts.open(ctx, other)
}

// count returns the number of tokens, by the tokenizer that spec names, that a model would predict in the text: all but
// the first.
func (e *evalTexts) count(ctx context.Context, tok tokenizer.Tokenizer, spec string) (n int, err error) {
	other, err := release.ParseTokenizer(spec)
	if err != nil {
		return 0, fmt.Errorf("per: %w", err)
	}
	texts, err := e.in(ctx, tok, other)
	if err != nil {
		return 0, err
	}
	return texts.valid.Len() - 1, texts.close()
}
