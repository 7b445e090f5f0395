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

// networkNamed returns the folder or file of a name. If it is the run of a task, networkNamed also returns its network.
func networkNamed(name string) (dir string, n *model.Network, err error) {
	if dir, err = modelPath(name); err == nil && !release.IsGGUF(dir) {
		n, err = model.FindNetwork(dir)
	}
	return dir, n, err
}

// languageNamed reads the network of a task's run, or else a language model. tokens returns its tokenizer. The tokens
// of a network are the numbers of its task.
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

// garbage is about the maximum size of garbage in bytes while a model is examined or trained.
const garbage = 128 << 20

// collectEarly makes the garbage collector run before there is as much garbage as live memory, which is Go's own limit.
// rest is the size in bytes of the live memory, such as weights. What a view computes for one layer is not needed for
// the next, and reused memory is faster than new memory, which the system has to clear. A collection does not scan
// numbers, as they hold no pointers. The variable GOGC takes precedence.
func collectEarly(rest int) {
	if percent := garbage * 100 / max(rest, 1); percent < 100 && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(max(3, percent))
	}
}

// languageAndTokens is like languageNamed, but returns the tokenizer itself.
func languageAndTokens(name string) (*explain.Language, tokenizer.Tokenizer, error) {
	g, tokens, err := languageNamed(name)
	if err != nil {
		return nil, nil, err
	}
	tok, err := tokens()
	return g, tok, err
}

// textView is a model with a text that it reads, for a view of both.
type textView struct {
	language *explain.Language
	tok      tokenizer.Tokenizer
	ids      []int32
}

// drawText makes cmd a command with the arguments MODEL TEXT that draws a view of the first tokens of a text. tokens is
// their maximum number (0 for all). check, if not nil, checks the flags.
func drawText(cmd *cobra.Command, tokens int, check func() error,
	draw func(cmd *cobra.Command, v *textView) (*figure.Page, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = wantArgs(1, 2), completeArgs(completeFolders)
	explainTextFlags(cmd, tokens)
	return drawing(cmd, cmd.Name(), func(cmd *cobra.Command, args []string) (*figure.Page, error) {
		if check != nil {
			if err := check(); err != nil {
				return nil, err
			}
		}
		text, err := explainText(cmd, args[1:])
		if err != nil {
			return nil, err
		}
		v := &textView{}
		if v.language, v.tok, err = languageAndTokens(args[0]); err != nil {
			return nil, err
		}
		note := ""
		if v.ids, note, err = firstTokens(v.tok, text, taken(v.language, tokensFlag(cmd))); err != nil {
			return nil, err
		}
		page, err := draw(cmd, v)
		if err != nil {
			return nil, err
		}
		page.Subtitle = fmt.Sprintf("%s · %d tokens", args[0], len(v.ids))
		if note != "" {
			page.Notes = append(page.Notes, note)
		}
		return page, nil
	})
}

// names returns the texts of the tokens.
func (v *textView) names() []string { return explain.TokenNames(v.tok, v.ids) }

// taken returns the maximum number of tokens of a text to read: most (0 for all), but no more than the model accepts.
func taken(g *explain.Language, most int) int {
	if longest := g.MaxLength(); longest > 0 && (most == 0 || most > longest) {
		return longest
	}
	return most
}

// firstTokens returns the first tokens of a text, at most most (0 for all), and a note if the text has more.
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

// commandLine formats a command for a page, with the name of the program in place of its path.
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

// layersFlag is the flag --layer, which selects layers.
type layersFlag struct{ texts []string }

func (f *layersFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.texts, "layer", nil,
		"layers to look at, counted from 0, such as 0,3 (default all)")
}

// layers returns the selected layers, or nil for all.
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
