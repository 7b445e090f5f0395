package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
)

// trainTokenizerOptions holds the flags of hippo tokenizer train.
type trainTokenizerOptions struct {
	Data         []string `json:"data" help:"text to learn from: files, folders, globs or -; empty: Moby Dick"`
	TextField    string   `json:"text_field" help:"field of a JSONL line that holds the text"`
	VocabSize    int      `json:"vocab_size" min:"0" help:"<|endoftext|>, 256 bytes and merges; 0 without merges: 4096"`
	Merges       int      `json:"merges" min:"0" help:"merges to learn, in place of vocab_size"`
	MinFrequency int      `json:"min_frequency" min:"1" help:"occurrences that a pair of tokens needs to be merged"`
	Out          string   `json:"out" help:"the tokenizer.json to write, or the folder for it"`
	Force        bool     `json:"force" help:"replace the file"`
}

// defaultVocab suits the preset small.
const defaultVocab = 4096

func newTokenizerTrain() *cobra.Command {
	opt := trainTokenizerOptions{TextField: data.DefaultTextField, MinFrequency: 2}
	cmd := &cobra.Command{
		Use:   "train --out FILE_OR_DIR",
		Short: "Learn a byte-level BPE tokenizer from text",
		Long: `Learn a byte-level BPE tokenizer from text: start from the 256 bytes, and repeatedly make a token of the
pair of adjacent tokens that occurs most often within words. The result is a tokenizer.json in Hugging Face's format.`,
		Example: `  hippo tokenizer train --data book.txt --merges 2000 --out my
  hippo tokenizer train --data 'corpus/**/*.jsonl.zst' --vocab_size 32000 --out corpus.json
  hippo train --data book.txt --tokenizer my`,
		Args: wantArgs(0, 0),
	}
	return configured(cmd, &opt, func(cmd *cobra.Command, _ []string) error { return trainTokenizer(cmd, opt) })
}

// check returns the path of the file to write, and an error that lists every problem of the flags.
func (o *trainTokenizerOptions) check() (path string, err error) {
	var p config.Problems
	if o.VocabSize > 0 && o.Merges > 0 {
		p.Addf("merges", "found %d together with vocab_size %d, want one of them", o.Merges, o.VocabSize)
	}
	if o.Out == "" {
		p.Addf("out", "found nothing, want the file or folder to write")
		return "", p.Err()
	}
	path = o.Out
	if !strings.HasSuffix(path, ".json") {
		path = filepath.Join(path, tokenizer.FileName)
	}
	if disk.Exists(path) && !o.Force {
		p.Addf("out", "found %s, want a new file (--force replaces it)", path)
	}
	return path, p.Err()
}

func trainTokenizer(cmd *cobra.Command, opt trainTokenizerOptions) error {
	path, err := opt.check()
	if err != nil {
		return err
	}
	if opt.VocabSize == 0 && opt.Merges == 0 {
		opt.VocabSize = defaultVocab
	}
	corpus, err := data.Open(opt.Data, data.SourceOptions{TextField: opt.TextField, CacheDir: data.CacheNone})
	if err != nil {
		return err
	}
	defer corpus.Close()
	for _, text := range corpus.Notes() {
		note(text)
	}
	began := time.Now()
	tok, err := learn(cmd.Context(), corpus, opt)
	if err != nil {
		return err
	}
	if err := tokenizer.WriteFile(path, tok); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d tokens learned from %s (%s) in %s\n", path, tok.VocabSize(),
		corpus.Name(), status.Bytes(corpus.Bytes()), status.Duration(time.Since(began)))
	return err
}

// learn trains a tokenizer on the documents of a corpus. It ends each with <|endoftext|>, so that no merge spans two
// documents.
func learn(ctx context.Context, corpus *data.Corpus, opt trainTokenizerOptions) (tokenizer.Tokenizer, error) {
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(corpus.Each(func(_ string, text io.Reader) error {
			if _, err := io.Copy(w, text); err != nil {
				return err
			}
			_, err := io.WriteString(w, tokenizer.EndOfTextToken)
			return err
		}))
	}()
	defer r.Close() // ends the goroutine if training fails
	p := newProgress("merges:")
	defer p.close()
	return unlessDone(ctx, func() (tokenizer.Tokenizer, error) {
		return bpe.Train(r, bpe.TrainOptions{
			VocabSize: opt.VocabSize, Merges: opt.Merges, MinFrequency: opt.MinFrequency, Progress: p.update,
		})
	})
}
