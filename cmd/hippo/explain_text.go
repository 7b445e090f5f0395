package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// mostExplained is the maximum size in bytes of a text to explain. No view shows more.
const mostExplained = 64 << 20

// explainTextFlags adds the flags that select the text of a view. tokens is the default of --tokens.
func explainTextFlags(cmd *cobra.Command, tokens int) {
	cmd.Flags().String("text", "", "the text, in place of an argument TEXT; - for standard input")
	cmd.Flags().String("file", "", "file with the text")
	cmd.Flags().Int("tokens", tokens, "number of tokens of the text to read, from its start; 0 for all")
}

// tokensFlag returns the value of --tokens.
func tokensFlag(cmd *cobra.Command) int {
	n, _ := cmd.Flags().GetInt("tokens") // cannot fail: the flag has been parsed
	return n
}

// explainTextGiven reports whether a flag gives a text, for views that need none.
func explainTextGiven(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("text") || cmd.Flags().Changed("file")
}

// explainText returns the text of a view: the first of args, which are the arguments after MODEL, the value of --text,
// or the content of the file --file. The text "-" stands for standard input.
func explainText(cmd *cobra.Command, args []string) (string, error) {
	file, texts := cmd.Flags().Lookup("file").Value.String(), args
	if cmd.Flags().Changed("text") {
		texts = append([]string{cmd.Flags().Lookup("text").Value.String()}, args...)
	}
	var text []byte
	var err error
	switch {
	case len(texts) > 1:
		return "", fmt.Errorf("found both the text %.40q and --text %.40q, want one of them", texts[1], texts[0])
	case file != "" && len(texts) > 0:
		return "", fmt.Errorf("found both the text %.40q and --file %s, want one of them", texts[0], file)
	case file != "":
		text, err = disk.ReadText(file, mostExplained)
	case len(texts) == 0:
		return "", fmt.Errorf("found no text, want one after the model, - for standard input, or --file FILE "+
			"(see %s --help)", cmd.CommandPath())
	case texts[0] == "-":
		text, err = unlessDone(cmd.Context(), func() ([]byte, error) {
			return io.ReadAll(io.LimitReader(cmd.InOrStdin(), mostExplained))
		})
	default:
		text = []byte(texts[0])
		if !cmd.Flags().Changed("text") { // with --text it cannot be meant as a file
			err = noFileName(texts[0], ", or --text for these letters")
		}
	}
	if err == nil && len(text) == 0 {
		err = errors.New("found an empty text, want at least one token")
	}
	return string(text), err
}

// noFileName returns an error if a text is the name of a file, as the user probably means the file's content.
func noFileName(text, or string) error {
	if info, err := os.Stat(text); err == nil && info.Mode().IsRegular() {
		return fmt.Errorf("found the text %s, which is the name of a file: want --file %[1]s for what is in it%s",
			text, or)
	}
	return nil
}
