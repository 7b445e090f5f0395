package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/explain/paths"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

func newExplainPaths() *cobra.Command {
	var sessions sessionsFlags
	var saved, files, trace bool
	var fromFiles []string
	most := 0
	cmd := &cobra.Command{
		Use:   "paths MODEL TEXT1 TEXT2",
		Short: "Show where a model's memory of two texts diverges, and at which token",
		Long: `Read two texts that begin alike with the model, or the texts of two sessions such as two forks of one.
Show where its states diverge, by layer and channel, at which token, how far the predictions move apart, and what the
prediction becomes if one layer continues from the state of the other text. --trace exchanges what each layer adds at
each token, and what it carries when that token is read: what of the other text makes the difference, and where.`,
		Example: `  hippo explain paths models/h3-125m "The dog ran to the" "The cat ran to the"
  hippo explain paths models/h3-125m "Rome is in the land of" "Bonn is in the land of" --trace
  hippo explain paths models/h3-125m --file one.txt --file two.txt --tokens 2000
  hippo session fork whales question
  hippo explain paths models/h3-125m whales question --sessions`,
		Args:              wantArgs(1, 3),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	sessions.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&saved, "sessions", false, "TEXT1 and TEXT2 are names of saved sessions (hippo session list)")
	f.BoolVar(&files, "files", false, "TEXT1 and TEXT2 are files")
	f.StringArrayVar(&fromFiles, "file", nil, "file with a text, after those that are arguments; twice for both")
	f.BoolVar(&trace, "trace", false, "exchange what each layer adds, and carries, at each token: for texts of the "+
		"same number of tokens")
	f.IntVar(&most, "tokens", 1024, "number of tokens of each text to read, from its start; 0 for all; sessions are "+
		"read as a whole")
	cmd.MarkFlagsMutuallyExclusive("sessions", "files")
	return drawing(cmd, "paths", func(cmd *cobra.Command, args []string) (*figure.Page, error) {
		texts, err := pathTexts(args[1:], fromFiles, saved, files)
		if err != nil {
			return nil, err
		}
		g, tok, err := languageAndTokens(args[0])
		if err != nil {
			return nil, err
		}
		page := &figure.Page{Title: "Two paths"}
		var ids [2][]int32
		for i, text := range texts {
			note := ""
			if saved {
				ids[i], err = sessionTokens(&sessions, text, tok)
			} else {
				ids[i], note, err = firstTokens(tok, text, taken(g, most))
			}
			if err != nil {
				return nil, fmt.Errorf("path %d: %w", i+1, err)
			}
			if note != "" {
				page.Notes = append(page.Notes, fmt.Sprintf("Path %d: %s", i+1, note))
			}
		}
		r, err := paths.Compare(cmd.Context(), g, ids[0], ids[1])
		if err != nil {
			return nil, err
		}
		page.Subtitle = fmt.Sprintf("%s · %d and %d tokens, the first %d the same", args[0], len(ids[0]), len(ids[1]),
			r.Common)
		page.Figures = r.Figures(tok)
		if !trace {
			return page, nil
		}
		p := newProgress("trace, layers and tokens:")
		t, err := paths.Trace(cmd.Context(), g, ids[0], ids[1], p.update)
		p.close()
		if err == nil {
			page.Figures = append(t.Figures(tok), page.Figures...)
		}
		return page, err
	})
}

// pathTexts returns the two texts, those given as arguments before those in files, or the names of two sessions.
func pathTexts(given, files []string, saved, named bool) (texts []string, err error) {
	if n := len(given) + len(files); n != 2 {
		return nil, fmt.Errorf("found %d texts and %d files, want two of them: hippo explain paths MODEL TEXT1 TEXT2, "+
			"or --file FILE1 --file FILE2 (see hippo explain paths --help)", len(given), len(files))
	}
	if saved {
		if len(files) > 0 {
			return nil, fmt.Errorf("found --file %s beside --sessions, want the names of two sessions", files[0])
		}
		return given, nil
	}
	if named {
		given, files = nil, append(given, files...)
	}
	for _, text := range given {
		if err := noFileName(text, ""); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	for _, file := range files {
		text, err := disk.ReadText(file, mostExplained)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// sessionTokens returns the tokens of a saved session, which must have the same tokenizer.
func sessionTokens(sessions *sessionsFlags, name string, tok tokenizer.Tokenizer) ([]int32, error) {
	folder, key, err := sessions.open()
	if err != nil {
		return nil, err
	}
	path, err := folder.Path(name)
	if err != nil {
		return nil, err
	}
	ids, info, err := session.TextOf(path, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("found no session %s (%s), want one that hippo session list shows", name, path)
	}
	if err != nil {
		return nil, err
	}
	if of := info.Identity.Tokenizer; of != tok.Fingerprint() {
		return nil, fmt.Errorf("session %s: found the tokens of another tokenizer (%s), want those of "+
			"the model (%s)", name, of, tok.Fingerprint())
	}
	return ids, nil
}
