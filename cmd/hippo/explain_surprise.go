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

func newExplainSurprise() *cobra.Command {
	var out explainOutput
	opt := surprise.DefaultOptions()
	text := text.ReadOptions{TextField: data.DefaultTextField, Binary: true, Cache: os.Getenv("HIPPO_CACHE"),
		CacheLimit: os.Getenv("HIPPO_CACHE_LIMIT")}
	most, words := 0, ""
	var files []string
	cmd := &cobra.Command{
		Use:   "surprise MODEL FILE...",
		Short: "Show what in a text surprises a model, and whether it knows what it does not know",
		Long: `Let the model predict the text in FILE (files, folders, globs, or - for standard input) and show the
surprise -log p of its tokens along the text, the entropy of the predictions, how sure the model is and how often it is
right (a reliability diagram and the expected calibration error), the worst predicted passages in their context, and
the tokens that cost most. The mean surprise is the loss that hippo eval measures with the same windows. Memory does not
grow with the text.`,
		Example: `  hippo explain surprise runs/tiny notes.txt
  hippo explain surprise models/h3-125m book.txt --tokens 100000 --seq_len 2048
  hippo explain surprise models/h3-125m book.txt --stream --out surprise.json
  hippo explain surprise runs/tiny --text "Call me Ishmael. Some years ago"`,
		Args:              wantArgs(1, 1<<20),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	out.register(cmd, "surprise")
	flags := cmd.Flags()
	flags.StringArrayVar(&files, "file", nil, "file with the text, as the argument FILE; several times for several")
	flags.StringVar(&words, "text", "", "the text itself, instead of files; - for standard input")
	flags.IntVar(&most, "tokens", 65536, "the first so many tokens of the text; 0 for all")
	flags.IntVar(&opt.SeqLen, "seq_len", opt.SeqLen, "tokens of a window or (--stream) piece")
	flags.BoolVar(&opt.Stream, "stream", false, "carry the state through the whole text, in place of separate windows")
	flags.IntVar(&opt.Bins, "bins", opt.Bins, "of the calibration")
	flags.IntVar(&opt.Passage, "passage", opt.Passage, "tokens of a passage")
	flags.IntVar(&opt.Worst, "worst", opt.Worst, "passages to show")
	flags.StringVar(&text.TextField, "text_field", text.TextField, "field of a JSONL line that holds the text")
	flags.StringVar(&text.Cache, "cache", text.Cache, "folder of tokenized data; empty: the user's; none: memory")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if most < 0 {
			return fmt.Errorf("--tokens: found %d, want 0 or more", most)
		}
		files, err := surpriseFiles(cmd, append(args[1:], files...), words)
		if err != nil {
			return err
		}
		g, tok, err := languageAndTokens(args[0])
		if err != nil {
			return err
		}
		if !g.IsModel() {
			return surprise.ErrNoLanguage
		}
		page := &figure.Page{Title: "Surprise", Command: commandLine(os.Args)}
		r, name, err := surprises(cmd.Context(), g, tok, files, words, most, opt, text, page)
		if err != nil {
			return err
		}
		page.Subtitle = fmt.Sprintf("%s · %s · %d tokens", args[0], name, r.Tokens)
		page.Figures = r.Figures(tok)
		return out.write(cmd, page)
	}
	return cmd
}

// surpriseFiles are the files whose text is predicted; none where there is a text itself.
func surpriseFiles(cmd *cobra.Command, files []string, words string) ([]string, error) {
	switch {
	case words != "" && len(files) > 0:
		return nil, fmt.Errorf("found both --text %.40q and the file %s, want one of them", words, files[0])
	case words == "-":
		return []string{"-"}, nil
	case words != "":
		return nil, nil
	case len(files) == 0:
		return nil, fmt.Errorf("found no file, want one behind the model, --file FILE, --text TEXT, or - for standard "+
			"input (see %s --help)", cmd.CommandPath())
	}
	for _, file := range files {
		found, _ := filepath.Glob(file)
		if _, err := os.Stat(file); file != "-" && err != nil && len(found) == 0 {
			return nil, fmt.Errorf("found no file, folder or glob %.60q; a text itself is given by --text %.60[1]q",
				file)
		}
	}
	return files, nil
}

// surpriseTokens are those of files, or else of words, with their name; what a reader must know is noted on the page.
func surpriseTokens(ctx context.Context, g *explain.Language, tok tokenizer.Tokenizer, files []string, words string,
	reading text.ReadOptions, page *figure.Page) (tokens *data.Tokens, name string, closed func() error, err error) {
	if len(files) > 0 {
		tokens, corpus, notes, err := text.Tokenize(ctx, tok, files, reading)
		if err != nil {
			return nil, "", nil, err
		}
		page.Notes = notes
		return tokens, strings.TrimSpace(corpus.Name()), func() error {
			return errors.Join(tokens.Close(), corpus.Close())
		}, nil
	}
	ids, err := tok.Encode(nil, []byte(words))
	if err == nil {
		tokens, err = data.FromIDs(ids, g.Vocab())
	}
	if err != nil {
		return nil, "", nil, err
	}
	return tokens, "a text", tokens.Close, nil
}

// surprises reads files with a model, or else words.
func surprises(ctx context.Context, g *explain.Language, tok tokenizer.Tokenizer, files []string, words string,
	most int, opt surprise.Options, reading text.ReadOptions, page *figure.Page) (r *surprise.Report,
	name string, err error) {
	tokens, name, closed, err := surpriseTokens(ctx, g, tok, files, words, reading, page)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, closed()) }()
	part := tokens
	if most > 0 && tokens.Len() > most {
		part = tokens.Slice(0, most)
		page.Notes = append(page.Notes, fmt.Sprintf("The text has %d tokens, of which the first %d were read: see "+
			"--tokens.", tokens.Len(), most))
	}
	if longest := g.MaxLength(); longest > 0 && opt.SeqLen > longest && !opt.Stream {
		opt.SeqLen = longest
	}
	if opt.Stream {
		page.Notes = append(page.Notes, "Each token is predicted from all before it: the state is carried on.")
	} else {
		page.Notes = append(page.Notes, fmt.Sprintf("Windows of %d tokens, each from an empty state: the first "+
			"tokens of a window surprise more.", opt.SeqLen))
	}
	p := newProgress("surprise, tokens:")
	opt.Progress = p.update
	r, err = surprise.Measure(ctx, g, part, opt)
	p.close()
	return r, name, err
}
