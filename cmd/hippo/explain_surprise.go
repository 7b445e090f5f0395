package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/explain/surprise"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train/text"
)

// surpriseFlags holds the flags of hippo explain surprise.
type surpriseFlags struct {
	surprise.Options
	reading text.ReadOptions
	files   []string
	words   string // the text, in place of files
	tokens  int
}

func newExplainSurprise() *cobra.Command {
	f := surpriseFlags{Options: surprise.DefaultOptions(), reading: text.ReadOptions{
		TextField: data.DefaultTextField, Binary: true, Cache: os.Getenv("HIPPO_CACHE"),
		CacheLimit: os.Getenv("HIPPO_CACHE_LIMIT"),
	}}
	cmd := &cobra.Command{
		Use:   "surprise MODEL FILE...",
		Short: "Show what in a text surprises a model, and whether it knows what it does not know",
		Long: `Predict the text in FILE (files, folders, globs, or - for standard input) with the model. Show the
surprise -log p of its tokens along the text, the entropy of the predictions, how confident the model is and how often
it is right (a reliability diagram and the expected calibration error), the worst predicted passages in their context,
and the tokens that cost most. The mean surprise is the loss that hippo eval measures with the same windows. Memory
does not grow with the text.`,
		Example: `  hippo explain surprise runs/tiny notes.txt
  hippo explain surprise models/h3-125m book.txt --tokens 100000 --seq_len 2048
  hippo explain surprise models/h3-125m book.txt --stream --out surprise.json
  hippo explain surprise runs/tiny --text "Call me Ishmael. Some years ago"`,
		Args:              wantArgs(1, 1<<20),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.files, "file", nil, "file with the text, as the argument FILE; repeat for several")
	flags.StringVar(&f.words, "text", "", "the text itself, instead of files; - for standard input")
	flags.IntVar(&f.tokens, "tokens", 65536, "number of tokens of the text to read, from its start; 0 for all")
	flags.IntVar(&f.SeqLen, "seq_len", f.SeqLen, "tokens of a window or (--stream) piece")
	flags.BoolVar(&f.Stream, "stream", false, "carry the state through the whole text, in place of separate windows")
	flags.IntVar(&f.Bins, "bins", f.Bins, "bins of the calibration")
	flags.IntVar(&f.Passage, "passage", f.Passage, "tokens of a passage")
	flags.IntVar(&f.Worst, "worst", f.Worst, "passages to show")
	read := &f.reading
	flags.StringVar(&read.TextField, "text_field", read.TextField, "field of a JSONL line that holds the text")
	flags.StringVar(&read.Cache, "cache", read.Cache, "folder of tokenized texts; empty: the user's; none: in memory")
	return drawing(cmd, "surprise", func(cmd *cobra.Command, args []string) (*figure.Page, error) {
		if f.tokens < 0 {
			return nil, fmt.Errorf("--tokens: found %d, want 0 or more", f.tokens)
		}
		f.files = append(args[1:], f.files...)
		if err := f.check(cmd.CommandPath()); err != nil {
			return nil, err
		}
		g, tok, err := languageAndTokens(args[0])
		if err != nil {
			return nil, err
		}
		if !g.IsModel() {
			return nil, surprise.ErrNoLanguage
		}
		return f.page(cmd.Context(), args[0], g, tok)
	})
}

// check returns an error unless there is a text, in files or in f.words.
func (f *surpriseFlags) check(command string) error {
	switch {
	case f.words != "" && len(f.files) > 0:
		return fmt.Errorf("found both --text %.40q and the file %s, want one of them", f.words, f.files[0])
	case f.words == "-":
		f.files = []string{"-"}
	case f.words == "" && len(f.files) == 0:
		return fmt.Errorf("found no file, want one after the model, --file FILE, --text TEXT, or - for standard "+
			"input (see %s --help)", command)
	}
	for _, file := range f.files {
		found, _ := filepath.Glob(file)
		if _, err := os.Stat(file); file != "-" && err != nil && len(found) == 0 {
			return fmt.Errorf("found no file, folder or glob %.60q; a text itself is given by --text %.60[1]q", file)
		}
	}
	return nil
}

// page draws the surprise of the text.
func (f *surpriseFlags) page(ctx context.Context, model string, g *explain.Language,
	tok tokenizer.Tokenizer) (page *figure.Page, err error) {
	page = &figure.Page{Title: "Surprise"}
	var tokens *data.Tokens
	name := "a text"
	if len(f.files) > 0 {
		var corpus *data.Corpus
		if tokens, corpus, page.Notes, err = text.Tokenize(ctx, tok, f.files, f.reading); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, corpus.Close()) }()
		name = strings.TrimSpace(corpus.Name())
	} else {
		ids, err := tok.Encode(nil, []byte(f.words))
		if err == nil {
			tokens, err = data.FromIDs(ids, g.Vocab())
		}
		if err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, tokens.Close()) }()
	part, opt := tokens, f.Options
	if f.tokens > 0 && tokens.Len() > f.tokens {
		part = tokens.Slice(0, f.tokens)
		page.Notes = append(page.Notes, fmt.Sprintf("The text has %d tokens, of which the first %d were read: see "+
			"--tokens.", tokens.Len(), f.tokens))
	}
	if longest := g.MaxLength(); longest > 0 && opt.SeqLen > longest && !opt.Stream {
		opt.SeqLen = longest
	}
	how := "Each token is predicted from all before it: the state is carried on."
	if !opt.Stream {
		how = fmt.Sprintf("Windows of %d tokens, each from an empty state: the first tokens of a window surprise more.",
			opt.SeqLen)
	}
	page.Notes = append(page.Notes, how)
	p := newProgress("surprise, tokens:")
	opt.Progress = p.update
	r, err := surprise.Measure(ctx, g, part, opt)
	p.close()
	if err != nil {
		return nil, err
	}
	page.Subtitle = fmt.Sprintf("%s · %s · %d tokens", model, name, r.Tokens)
	page.Figures = r.Figures(tok)
	return page, nil
}
