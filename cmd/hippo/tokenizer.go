package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

func newTokenizer() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tokenizer",
		Short: "Train, use and describe tokenizers",
		Long: `Train, use and describe tokenizers. SPEC is bytes, dna, gpt2, the path of a tokenizer.json (BPE or
unigram in Hugging Face's format), of a tokenizer.model (SentencePiece), of RWKV's rwkv_vocab_v20230424.txt or of a GGUF
file, or the folder of a model or training run.`,
		Example: `  hippo tokenizer train --data book.txt --merges 2000 --out my
  hippo tokenizer encode gpt2 "Call me Ishmael."
  hippo tokenizer info runs/tiny`,
	}
	cmd.AddCommand(newTokenizerTrain(), newTokenizerEncode(), newTokenizerDecode(), newTokenizerInfo())
	return cmd
}

// withTokenizer completes a command that uses the tokenizer in its first argument. The text is in the further arguments
// or, if there are none, on standard input.
func withTokenizer(cmd *cobra.Command, run func(out *bufio.Writer, tok tokenizer.Tokenizer, in io.Reader) error) {
	cmd.ValidArgsFunction = completeArgs(completeTokenizer)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tok, err := release.FindTokenizer(args[0])
		if err != nil {
			return err
		}
		var in io.Reader = os.Stdin
		if len(args) > 1 {
			in = strings.NewReader(strings.Join(args[1:], " "))
		}
		return write(cmd, func(out *bufio.Writer) error { return run(out, tok, in) })
	}
}

func newTokenizerEncode() *cobra.Command {
	affixes := false
	cmd := &cobra.Command{
		Use:   "encode SPEC [TEXT]",
		Short: "Print the token ids of a text",
		Long:  `Print the ids of the tokens of TEXT, or of standard input, with spaces between them.`,
		Example: `  hippo tokenizer encode gpt2 "Call me Ishmael."
  hippo tokenizer encode runs/tiny < book.txt`,
		Args: wantArgs(1, 2),
	}
	cmd.Flags().BoolVar(&affixes, "affixes", false, "add the tokens that start and end every text")
	withTokenizer(cmd, func(out *bufio.Writer, tok tokenizer.Tokenizer, in io.Reader) error {
		err := encode(out, tok, in, affixes)
		out.WriteByte('\n')
		return err
	})
	return cmd
}

func newTokenizerDecode() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "decode SPEC [ID...]",
		Short: "Print the text of token ids",
		Long: `Print the text of the token ids ID, or of those on standard input with spaces between them, byte for
byte.`,
		Example: `  hippo tokenizer decode gpt2 14134 502
  hippo tokenizer encode gpt2 < book.txt | hippo tokenizer decode gpt2`,
		Args: cobra.MinimumNArgs(1),
	}
	withTokenizer(cmd, func(out *bufio.Writer, tok tokenizer.Tokenizer, in io.Reader) error {
		err := decode(out, tok, in)
		if isTerminal(os.Stdout) { // in a file or pipe the newline would change the text
			out.WriteByte('\n')
		}
		return err
	})
	return cmd
}

// write calls text with a buffered standard output. After Ctrl-C it does not wait for text to return, which may be
// reading from a terminal.
func write(cmd *cobra.Command, text func(out *bufio.Writer) error) error {
	_, err := unlessDone(cmd.Context(), func() (struct{}, error) {
		out := bufio.NewWriter(cmd.OutOrStdout())
		err := text(out)
		return struct{}{}, errors.Join(err, out.Flush())
	})
	return err
}

// encode writes the token ids of the text read from in, separated by spaces. If affixes is set, it also writes those
// that the tokenizer adds around a text.
func encode(out io.Writer, tok tokenizer.Tokenizer, in io.Reader, affixes bool) error {
	space := ""
	write := func(ids []int32) error {
		for _, id := range ids {
			if _, err := fmt.Fprintf(out, "%s%d", space, id); err != nil {
				return err
			}
			space = " "
		}
		return nil
	}
	var before, after []int32
	if affixes {
		before, after = tokenizer.Affixes(tok)
	}
	if err := write(before); err != nil {
		return err
	}
	if err := tokenizer.EncodeReader(tok, in, write); err != nil {
		return err
	}
	return write(after)
}

// decode writes the text of the token ids read from in, which are separated by white space.
func decode(out io.Writer, tok tokenizer.Tokenizer, in io.Reader) error {
	words := bufio.NewScanner(in)
	words.Split(bufio.ScanWords)
	var text []byte
	next := tokenizer.DecodeText // it drops a space that was put before the first word
	for n := 1; words.Scan(); n++ {
		id, err := strconv.ParseInt(words.Text(), 10, 32)
		if err != nil || id < 0 || int(id) >= tok.VocabSize() {
			return fmt.Errorf("id %d: found %q, want a number from 0 to %d", n, words.Text(), tok.VocabSize()-1)
		}
		text = next(tok, text[:0], []int32{int32(id)})
		next = tokenizer.Tokenizer.Decode
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return words.Err()
}

func newTokenizerInfo() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "info SPEC",
		Short:   "Describe a tokenizer",
		Example: "  hippo tokenizer info gpt2\n  hippo tokenizer info runs/tiny",
		Args:    wantArgs(1, 1),
	}
	withTokenizer(cmd, func(out *bufio.Writer, tok tokenizer.Tokenizer, _ io.Reader) error {
		t := status.NewTable(out)
		t.Row("kind", "%s", tok.Kind())
		t.Row("vocab_size", "%d", tok.VocabSize())
		if id, ok := tok.EndOfText(); ok {
			t.Row("end of text", "%d, %q", id, tok.Decode(nil, []int32{id}))
		} else {
			t.Row("end of text", "none")
		}
		if before, after := tokenizer.Affixes(tok); len(before)+len(after) > 0 {
			t.Row("around a text", "%q before, %q after", tok.Decode(nil, before), tok.Decode(nil, after))
		}
		t.Row("fingerprint", "%s", tok.Fingerprint())
		return t.Flush()
	})
	return cmd
}
