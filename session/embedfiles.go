package session

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// FileEmbedding configures the embeddings of files.
type FileEmbedding struct {
	Pooling    string `json:"pooling" enum:"mean,last,none" help:"of the tokens of a text; none: one vector per token"`
	Dimensions int    `json:"dimensions" help:"keep the first n numbers; 0: all" min:"0"`
	Whole      bool   `json:"whole" help:"each file is one text, instead of each line"`
}

// Embed embeds the texts in the named files, or in the input in if there are none. It calls emit for each vector with a
// value that encodes as JSON.
func (o FileEmbedding) Embed(ctx context.Context, m *model.Model, tok tokenizer.Tokenizer, names []string,
	in io.Reader, emit func(any) error) error {
	runner := NewScheduler(m, SchedulerOptions{})
	defer runner.Close()
	e := &embedder{m: m, tok: tok, o: o, runner: runner, emit: emit}
	if len(names) == 0 {
		if err := e.lines(ctx, "", in); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := e.file(ctx, name); err != nil {
			return err
		}
	}
	return e.flush(ctx)
}

// embedded is one line of the output.
type embedded struct {
	File   string    `json:"file,omitempty"`
	Line   int       `json:"line,omitempty"` // from 1
	Tokens int       `json:"tokens,omitempty"`
	Token  int       `json:"token,omitempty"` // from 1; set together with Text if every token has a vector
	Text   string    `json:"text,omitempty"`
	Vector []float32 `json:"embedding"`
}

// embedder embeds texts in batches.
type embedder struct {
	m      *model.Model
	tok    tokenizer.Tokenizer
	o      FileEmbedding
	runner Runner
	emit   func(any) error
	wait   []embedded
	ids    [][]int32
	tokens int // number of tokens of the queued texts
}

func (e *embedder) file(ctx context.Context, name string) error {
	if e.o.Whole {
		text, err := disk.ReadText(name, math.MaxInt32)
		if err != nil {
			return err
		}
		return e.add(ctx, embedded{File: name}, text)
	}
	f, _, err := disk.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // the file was only read
	return e.lines(ctx, name, f)
}

// lines embeds the lines of a file.
func (e *embedder) lines(ctx context.Context, name string, r io.Reader) error {
	if e.o.Whole {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return e.add(ctx, embedded{File: name}, text)
	}
	in := bufio.NewScanner(r)
	in.Buffer(nil, disk.MaxText)
	n := 0
	for in.Scan() {
		n++
		if len(strings.TrimSpace(in.Text())) == 0 {
			continue
		}
		if err := e.add(ctx, embedded{File: name, Line: n}, in.Bytes()); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%sline %d: %w", placeOf(name), n+1, err)
	}
	return nil
}

// placeOf returns the prefix of an error in a file.
func placeOf(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}

// add queues a text, and embeds the batch if it is full.
func (e *embedder) add(ctx context.Context, to embedded, text []byte) error {
	const texts, tokens = 256, 1 << 20 // limits of a batch
	before, _ := tokenizer.Affixes(e.tok)
	ids, err := e.tok.Encode(before[:len(before):len(before)], text)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("found no text")
	}
	if err != nil {
		if to.Line > 0 {
			err = fmt.Errorf("line %d: %w", to.Line, err)
		}
		return fmt.Errorf("%s%w", placeOf(to.File), err)
	}
	if e.o.Pooling == eachToken {
		return e.each(ctx, to, ids)
	}
	to.Tokens = len(ids)
	e.wait, e.ids, e.tokens = append(e.wait, to), append(e.ids, ids), e.tokens+len(ids)
	if len(e.wait) < texts && e.tokens < tokens {
		return nil
	}
	return e.flush(ctx)
}

// eachToken is the pooling that embeds every token.
const eachToken = "none"

// each writes a vector for each token of a text.
func (e *embedder) each(ctx context.Context, to embedded, ids []int32) error {
	o := EmbedOptions{Runner: e.runner, Dimensions: e.o.Dimensions}
	return EmbedTokens(ctx, e.m, o, ids, func(at int, v []float32) error {
		to.Token, to.Text, to.Vector = at+1, string(e.tok.Decode(nil, ids[at:at+1])), v
		return e.emit(to)
	})
}

// flush embeds the queued texts.
func (e *embedder) flush(ctx context.Context) error {
	if len(e.ids) == 0 {
		return nil
	}
	vectors, err := Embed(ctx, e.m, EmbedOptions{
		Runner: e.runner, Pooling: Pooling(e.o.Pooling), Dimensions: e.o.Dimensions,
	}, e.ids...)
	if err != nil {
		return err
	}
	for i, v := range vectors {
		e.wait[i].Vector = v
		if err := e.emit(e.wait[i]); err != nil {
			return err
		}
	}
	e.wait, e.ids, e.tokens = e.wait[:0], e.ids[:0], 0
	return nil
}
