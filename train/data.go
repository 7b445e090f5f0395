package train

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Dataset is a tokenizer with the training and validation tokens made by it.
type Dataset struct {
	Tokenizer    tokenizer.Tokenizer
	Train, Valid *data.Tokens
	Name         string   // what the text is called
	Hash         string   // of the content of the training text
	Notes        []string // what the user should know: rebuilt caches, empty files
	close        []io.Closer
}

// Close lets go of the token files.
func (d *Dataset) Close() error {
	var errs []error
	for _, c := range d.close {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// streaming adds the tokenizer's exact streaming to what package data asks of an encoder.
type streaming struct{ tokenizer.Tokenizer }

func (s streaming) EncodeReader(r io.Reader, emit func([]int32) error) error {
	return tokenizer.EncodeReader(s.Tokenizer, r, emit)
}

// Tokenize turns text into tokens by tok, through the cache. specs and the options are those of data.Open.
func Tokenize(ctx context.Context, tok tokenizer.Tokenizer, specs []string, textField, cache string) (*data.Tokens, *data.Corpus, []string, error) {
	corpus, err := data.Open(specs, data.SourceOptions{TextField: textField, AllowNUL: tok.Kind() == "bytes", CacheDir: cache})
	if err != nil {
		return nil, nil, nil, err
	}
	tokens, notes, err := data.Tokenize(ctx, corpus, streaming{tok}, data.TokenOptions{CacheDir: cache})
	notes = append(corpus.Notes(), notes...)
	if err != nil {
		corpus.Close()
		return nil, nil, notes, err
	}
	return tokens, corpus, notes, nil
}

// OpenData makes the data set that a configuration describes. tok is the tokenizer to use, nil to make the one it names.
func (c *Config) OpenData(ctx context.Context, tok tokenizer.Tokenizer) (d *Dataset, err error) {
	d = &Dataset{Tokenizer: tok}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.Tokenizer == nil {
		if d.Tokenizer, err = c.makeTokenizer(); err != nil {
			return nil, err
		}
	}
	open := func(specs []string) (*data.Tokens, *data.Corpus, error) {
		tokens, corpus, notes, err := Tokenize(ctx, d.Tokenizer, specs, c.TextField, c.Cache)
		d.Notes = append(d.Notes, notes...)
		if err == nil {
			d.close = append(d.close, tokens, corpus)
		}
		return tokens, corpus, err
	}
	all, corpus, err := open(c.Data)
	if err != nil {
		return nil, err
	}
	d.Name, d.Hash = corpus.Name(), corpus.Hash()
	if len(c.Valid) > 0 {
		d.Train = all
		if d.Valid, _, err = open(c.Valid); err != nil {
			return nil, fmt.Errorf("validation text: %w", err)
		}
		return d, nil
	}
	d.Train, d.Valid, err = all.Split(c.ValidFraction)
	return d, err
}

func (c *Config) makeTokenizer() (tokenizer.Tokenizer, error) {
	if c.Tokenizer != "chars" {
		return tokenizer.Parse(c.Tokenizer)
	}
	corpus, err := data.Open(append(append([]string(nil), c.Data...), c.Valid...), data.SourceOptions{TextField: c.TextField, CacheDir: c.Cache})
	if err != nil {
		return nil, err
	}
	defer corpus.Close()
	return charactersOf(corpus)
}

// charactersOf collects the alphabet of all documents of a corpus.
func charactersOf(corpus *data.Corpus) (tokenizer.Tokenizer, error) {
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(corpus.Each(func(_ string, text io.Reader) error {
			_, err := io.Copy(w, text)
			return err
		}))
	}()
	tok, err := tokenizer.Characters(r)
	r.Close() // ends the goroutine when Characters gave up early
	return tok, err
}

// VocabSize is the size of the vocabulary of the configured tokenizer.
func (c *Config) VocabSize() (int, error) {
	tok, err := c.makeTokenizer()
	if err != nil {
		return 0, err
	}
	return tok.VocabSize(), nil
}
