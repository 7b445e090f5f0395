package text

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Dataset holds a tokenizer and the training and validation tokens that it made.
type Dataset struct {
	Tokenizer    tokenizer.Tokenizer
	Train, Valid *data.Tokens
	Name         string   // name of the text
	Hash         string   // hash of the content of the training text
	Notes        []string // messages for the user, such as rebuilt caches or empty files
	close        []io.Closer
}

// Close releases the token files.
func (d *Dataset) Close() error { return closeAll(d.close) }

func closeAll(all []io.Closer) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// streaming makes a tokenizer a data.StreamEncoder, so that its exact streaming is used.
type streaming struct{ tokenizer.Tokenizer }

func (s streaming) EncodeReader(r io.Reader, emit func([]int32) error) error {
	return tokenizer.EncodeReader(s.Tokenizer, r, emit)
}

// ReadOptions define how texts are read and where their tokens are kept, like the settings of the same names.
type ReadOptions struct {
	TextField  string
	Binary     bool // accept data that does not look like text, with a note
	Cache      string
	CacheLimit string
	Join       bool              // treat all documents as one text
	Chat       map[string][]byte // the chat template and related files, as from release.ChatTexts
	ReplyEnd   string            // ends a reply if the template writes no end
}

// text returns the options by which the run reads its texts.
func (c *Config) text() ReadOptions {
	return ReadOptions{
		TextField: c.TextField, Binary: c.Binary, Cache: c.Cache, CacheLimit: c.CacheLimit,
		Join: c.Documents == documentsJoin, ReplyEnd: c.ReplyEnd,
	}
}

// openText opens the text that specs name (see data.Open). It allows NUL bytes and binary data only for the bytes
// tokenizer. tok is nil if the tokenizer is made from the text.
func openText(specs []string, kind string, tok tokenizer.Tokenizer, o ReadOptions) (*data.Corpus, error) {
	bytes := kind == "bytes"
	chats, err := newChats(o.Chat, o.ReplyEnd, tok)
	if err != nil {
		return nil, err
	}
	return data.Open(specs, data.SourceOptions{TextField: o.TextField, AllowNUL: bytes, Binary: bytes && o.Binary,
		CacheDir: o.Cache, Chats: chats})
}

// Tokenize turns text into tokens by tok, through the cache. specs are as for data.Open.
func Tokenize(ctx context.Context, tok tokenizer.Tokenizer, specs []string,
	o ReadOptions) (*data.Tokens, *data.Corpus, []string, error) {
	corpus, err := openText(specs, tok.Kind(), tok, o)
	if err != nil {
		return nil, nil, nil, err
	}
	tokens, notes, err := tokenize(ctx, tok, corpus, o)
	if err != nil {
		corpus.Close()
		return nil, nil, notes, err
	}
	return tokens, corpus, notes, nil
}

func tokenize(ctx context.Context, tok tokenizer.Tokenizer, corpus *data.Corpus,
	o ReadOptions) (*data.Tokens, []string, error) {
	limit, err := data.ParseSize(o.CacheLimit)
	if err != nil {
		return nil, nil, fmt.Errorf("cache_limit: %w", err)
	}
	opt := data.TokenOptions{CacheDir: o.Cache, CacheLimit: limit}
	tokens, notes, err := data.Tokenize(ctx, corpus, streaming{tok}, opt)
	if err == nil && !o.Join {
		tokens = tokens.Apart()
	}
	return tokens, append(corpus.Notes(), notes...), err
}

// OpenData returns the data set that the configuration describes. tok is the tokenizer to use, or nil to make the
// configured one.
func (c *Config) OpenData(ctx context.Context, tok tokenizer.Tokenizer) (*Dataset, error) {
	d := &Dataset{Tokenizer: tok}
	if err := c.fill(ctx, d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// fill opens the texts of the configuration into d. After an error d may hold some of them. Each text is opened once,
// since standard input can be read only once.
func (c *Config) fill(ctx context.Context, d *Dataset) (err error) {
	kind, o := c.Tokenizer, c.text()
	if d.Tokenizer != nil {
		kind = d.Tokenizer.Kind()
		o.Binary = true // no note, as the run was started with this text
	} else if c.Tokenizer != "chars" || c.Base.tok != nil {
		if d.Tokenizer, err = c.makeTokenizer(nil); err != nil {
			return err
		}
	}
	if o.Chat, err = c.chatTexts(); err != nil {
		return err
	}
	text, err := openText(c.Data, kind, d.Tokenizer, o)
	if err != nil {
		return err
	}
	d.close = append(d.close, text)
	corpora := []*data.Corpus{text}
	if len(c.Valid) > 0 {
		valid, err := openText(c.Valid, kind, d.Tokenizer, o)
		if err != nil {
			return fmt.Errorf("validation text: %w", err)
		}
		d.close = append(d.close, valid)
		corpora = append(corpora, valid)
	}
	if d.Tokenizer == nil {
		if d.Tokenizer, err = c.makeTokenizer(corpora); err != nil {
			return err
		}
	}
	var tokens []*data.Tokens
	for _, corpus := range corpora {
		t, notes, err := tokenize(ctx, d.Tokenizer, corpus, o)
		d.Notes = append(d.Notes, notes...)
		if err != nil {
			return err
		}
		d.close = append([]io.Closer{t}, d.close...)
		tokens = append(tokens, t)
	}
	d.Name, d.Hash = text.Name(), text.Hash()
	if len(tokens) == 2 {
		d.Train, d.Valid = tokens[0], tokens[1]
		return nil
	}
	d.Train, d.Valid, err = tokens[0].Split(c.ValidFraction)
	return err
}

// makeTokenizer returns the configured tokenizer. The chars tokenizer takes its alphabet from the texts.
func (c *Config) makeTokenizer(corpora []*data.Corpus) (tokenizer.Tokenizer, error) {
	if c.Base.tok != nil {
		return c.Base.tok, nil
	}
	if c.Tokenizer != "chars" {
		return release.ParseTokenizer(c.Tokenizer)
	}
	return charactersOf(corpora)
}

// charactersOf returns a tokenizer whose alphabet is that of all documents of the texts.
func charactersOf(corpora []*data.Corpus) (tokenizer.Tokenizer, error) {
	r, w := io.Pipe()
	go func() {
		var err error
		for _, corpus := range corpora {
			err = errors.Join(err, corpus.Each(func(_ string, text io.Reader) error {
				_, err := io.Copy(w, text)
				return err
			}))
		}
		w.CloseWithError(err)
	}()
	tok, err := tokenizer.Characters(r)
	r.Close() // ends the goroutine when Characters gave up early
	return tok, err
}

// VocabSize returns the size of the configured tokenizer's vocabulary.
func (c *Config) VocabSize() (int, error) {
	var corpora []*data.Corpus
	if c.Base.tok == nil && c.Tokenizer == "chars" {
		o, err := c.text(), error(nil)
		if o.Chat, err = c.chatTexts(); err != nil {
			return 0, err
		}
		text, err := openText(slices.Concat(c.Data, c.Valid), c.Tokenizer, nil, o)
		if err != nil {
			return 0, err
		}
		defer text.Close()
		corpora = append(corpora, text)
	}
	tok, err := c.makeTokenizer(corpora)
	if err != nil {
		return 0, err
	}
	return tok.VocabSize(), nil
}

// likelyVocab returns VocabSize, but 256 for the chars tokenizer, as it does not read the text.
func (c *Config) likelyVocab() int {
	var p config.Problems // already reported by Check
	if n := checkTokenizer(&p, c.Tokenizer); n > 0 {
		return n
	}
	return 256
}
