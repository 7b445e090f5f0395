package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// networkNamed is the network of a task's run, nil where there is something else, and the folder or file of a name.
func networkNamed(name string) (dir string, n *model.Network, err error) {
	if dir, err = modelPath(name); err == nil && !release.IsGGUF(dir) {
		n, err = model.FindNetwork(dir)
	}
	return dir, n, err
}

// languageNamed reads the network of a task's run, or else a language model. tokens is its tokenizer: of a network the
// numbers of its task.
func languageNamed(name string) (g *explain.Language, tokens func() (tokenizer.Tokenizer, error), err error) {
	dir, n, err := networkNamed(name)
	if err != nil {
		return nil, nil, err
	}
	if n != nil {
		if g, err = explain.OfNetwork(n); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", dir, err)
		}
		return g, func() (tokenizer.Tokenizer, error) { return tokenizer.IDs(n.Config.Vocab), nil }, nil
	}
	m, dir, err := release.LoadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	collectEarly(m.Bytes())
	return explain.OfModel(m), func() (tokenizer.Tokenizer, error) { return release.LoadTokenizer(dir, &m.Config) }, nil
}

// garbage is about how much of it there is at most beside the weights of a model that is looked at.
const garbage = 128 << 20

// collectEarly has garbage collected before there is as much of it as weights, which is when Go does by itself. What a
// view makes of one layer is not needed for the next: memory that is used again is faster than that which is new, which
// the system has to clear. A collection overlooks weights: they point to nothing. GOGC, where it is set, has its way.
func collectEarly(weights int) {
	if percent := garbage * 100 / max(weights, 1); percent < 100 && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(max(10, percent))
	}
}

// languageAndTokens is languageNamed with the tokenizer.
func languageAndTokens(name string) (*explain.Language, tokenizer.Tokenizer, error) {
	g, tokens, err := languageNamed(name)
	if err != nil {
		return nil, nil, err
	}
	tok, err := tokens()
	return g, tok, err
}

// textView is a model and the text that it is shown to read.
type textView struct {
	name     string // of the model
	language *explain.Language
	tok      tokenizer.Tokenizer
	text     string
	ids      []int32
	note     string // what of the text was left out
}

// openText reads the text of a view and its model, which is the first argument.
func openText(cmd *cobra.Command, args []string) (*textView, error) {
	text, err := explainText(cmd, args[1:])
	if err != nil {
		return nil, err
	}
	g, tok, err := languageAndTokens(args[0])
	return &textView{name: args[0], language: g, tok: tok, text: text}, err
}

// take makes tokens of the text, most of them at most and no more than the model takes: see firstTokens.
func (v *textView) take(most int) (err error) {
	v.ids, v.note, err = firstTokens(v.tok, v.text, taken(v.language, most))
	return err
}

// head says on a page what it is of.
func (v *textView) head(page *figure.Page) {
	page.Subtitle = fmt.Sprintf("%s · %d tokens", v.name, len(v.ids))
	page.Command = commandLine(os.Args)
	if v.note != "" {
		page.Notes = append(page.Notes, v.note)
	}
}

// firstTokens are the tokens of a text, the first most of them (0 for all), with a note where there are more.
func firstTokens(tok tokenizer.Tokenizer, text string, most int) (ids []int32, note string, err error) {
	if most < 0 {
		return nil, "", fmt.Errorf("--tokens: found %d, want 0 or more", most)
	}
	ids, err = tok.Encode(nil, []byte(text))
	if all := len(ids); err == nil && most > 0 && all > most {
		ids, note = ids[:most], fmt.Sprintf("The text has %d tokens, of which the first %d were read: see --tokens.",
			all, most)
	}
	return ids, note, err
}

// commandLine is a command as a page tells it, with the name of the program in the place of its path.
func commandLine(args []string) string {
	parts := []string{"hippo"}
	for _, a := range args[1:] {
		if strings.ContainsAny(a, " \t\n\"'$&|;<>()*") || a == "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		parts = append(parts, a)
	}
	return strings.Join(parts, " ")
}

// layersFlag is a flag for layers to look at.
type layersFlag struct{ texts []string }

func (f *layersFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.texts, "layer", nil,
		"layers to look at, counted from 0, such as 0,3 (default all)")
}

// layers are those that are given, nil for all.
func (f *layersFlag) layers() (all []int, err error) {
	for _, text := range f.texts {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("--layer: found %.40q, want numbers of layers, such as 0,3", text)
		}
		all = append(all, n)
	}
	return all, nil
}
