package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/spf13/cobra"
)

// languageAndTokens is languageIn with the tokenizer of the folder: that of a language model, or the numbers of a task.
func languageAndTokens(name string) (*explain.Language, tokenizer.Tokenizer, error) {
	dir, err := modelPath(name)
	if err != nil {
		return nil, nil, err
	}
	if !release.IsGGUF(dir) {
		n, err := model.FindNetwork(dir)
		if err != nil {
			return nil, nil, err
		}
		if n != nil {
			g, err := explain.OfNetwork(n)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", dir, err)
			}
			return g, tokenizer.IDs(n.Config.Vocab), nil
		}
	}
	m, dir, err := release.LoadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	tok, err := release.LoadTokenizer(dir, &m.Config)
	return explain.OfModel(m), tok, err
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
