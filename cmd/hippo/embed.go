package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// embedOptions are the flags of hippo embed.
type embedOptions struct {
	Precision  string `json:"precision" enum:"stored,float32,bf16,int8,int4,int4min" help:"of the weights"`
	Pooling    string `json:"pooling" enum:"mean,last,none" help:"of the tokens of a text; none: a vector each"`
	Dimensions int    `json:"dimensions" help:"the first so many numbers; 0: all" min:"0"`
	Whole      bool   `json:"whole" help:"each file is one text, instead of each line"`
}

func newEmbed() *cobra.Command {
	opt := embedOptions{Precision: hippo.Stored, Pooling: string(session.PoolMean)}
	cmd := &cobra.Command{
		Use:   "embed MODEL [FILE...]",
		Short: "Turn texts into vectors, to compare them by",
		Long: `Print a vector of length 1 for each line of the files, or of standard input: the mean of the hidden
states after the model's final norm, or the last of them, divided by its length. The product of two vectors, number by
number, says how alike the model finds two texts. Empty lines are left out. With --pooling none each token has a vector
of its own, such as each base of DNA: its hidden state, of it and those before it.

Each vector is a line of JSON with the file, the number of the line, the number of tokens, and the vector; or with the
place of the token, from 1, and its text.`,
		Example: `  hippo embed runs/tiny questions.txt > questions.jsonl
  hippo embed runs/tiny --whole chapter1.txt chapter2.txt --pooling last
  echo "Call me Ishmael." | hippo embed runs/tiny --dimensions 16
  hippo embed runs/genome reads.txt --pooling none             # a vector for each base`,
		Args:              wantArgs(1, math.MaxInt),
		ValidArgsFunction: completeFolders,
	}
	config.Register(cmd.Flags(), &opt)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.Load(&opt, config.Options{Flags: cmd.Flags()}); err != nil {
			return err
		}
		m, err := loadModel(args[0], "", hippo.Precision(opt.Precision))
		if err != nil {
			return err
		}
		return write(cmd, func(out *bufio.Writer) error {
			runner := session.NewScheduler(m.Net(), session.SchedulerOptions{})
			defer runner.Close()
			e := &embedder{m: m, o: opt, runner: runner, out: json.NewEncoder(out)}
			return e.files(cmd.Context(), args[1:])
		})
	}
	return cmd
}

// embedded is a line of the output.
type embedded struct {
	File   string    `json:"file,omitempty"`
	Line   int       `json:"line,omitempty"` // from 1
	Tokens int       `json:"tokens,omitempty"`
	Token  int       `json:"token,omitempty"` // from 1, with its text, where each has a vector
	Text   string    `json:"text,omitempty"`
	Vector []float32 `json:"embedding"`
}

// embedder embeds texts, as many at a time as are read together.
type embedder struct {
	m      *hippo.Model
	o      embedOptions
	runner session.Runner
	out    *json.Encoder
	wait   []embedded
	ids    [][]int32
	tokens int // of those that wait
}

// files embeds what is in files, or else in standard input.
func (e *embedder) files(ctx context.Context, names []string) error {
	if len(names) == 0 {
		if err := e.lines(ctx, "", os.Stdin); err != nil {
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
	defer f.Close() // it was only read
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

// placeOf names a file before a line.
func placeOf(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}

// add has a text embedded, now or later.
func (e *embedder) add(ctx context.Context, to embedded, text []byte) error {
	const texts, tokens = 256, 1 << 20 // that wait at most
	before, _ := tokenizer.Affixes(e.m.Tokenizer())
	ids, err := e.m.Tokenizer().Encode(before[:len(before):len(before)], text)
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

// eachToken has nothing pooled.
const eachToken = "none"

// each writes a vector for each token of a text.
func (e *embedder) each(ctx context.Context, to embedded, ids []int32) error {
	o := session.EmbedOptions{Runner: e.runner, Dimensions: e.o.Dimensions}
	return session.EmbedTokens(ctx, e.m.Net(), o, ids, func(at int, v []float32) error {
		to.Token, to.Text, to.Vector = at+1, string(e.m.Tokenizer().Decode(nil, ids[at:at+1])), v
		return e.out.Encode(to)
	})
}

// flush embeds the texts that wait.
func (e *embedder) flush(ctx context.Context) error {
	if len(e.ids) == 0 {
		return nil
	}
	vectors, err := session.Embed(ctx, e.m.Net(), session.EmbedOptions{
		Runner: e.runner, Pooling: session.Pooling(e.o.Pooling), Dimensions: e.o.Dimensions,
	}, e.ids...)
	if err != nil {
		return err
	}
	for i, v := range vectors {
		e.wait[i].Vector = v
		if err := e.out.Encode(e.wait[i]); err != nil {
			return err
		}
	}
	e.wait, e.ids, e.tokens = e.wait[:0], e.ids[:0], 0
	return nil
}
