package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// mostExplained bounds what is read as a text to explain: more than any view shows.
const mostExplained = 64 << 20

// explainTextFlags adds the flags that explainText reads, which are the same for all views of a text.
func explainTextFlags(cmd *cobra.Command) {
	cmd.Flags().String("text", "", "the text, as the argument TEXT where there is one; - for standard input")
	cmd.Flags().String("file", "", "file with the text")
}

// explainTextGiven tells whether a text is given, of views that need none.
func explainTextGiven(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("text") || cmd.Flags().Changed("file")
}

// explainText is the text that a view is about: the first of args, which are those behind MODEL, or that of --text,
// standard input if it is "-", or what is in the file of --file.
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
		return "", fmt.Errorf("found no text, want one behind the model, - for standard input, or --file FILE "+
			"(see %s --help)", cmd.CommandPath())
	case texts[0] == "-":
		text, err = unlessDone(cmd.Context(), func() ([]byte, error) {
			return io.ReadAll(io.LimitReader(cmd.InOrStdin(), mostExplained))
		})
	default:
		text = []byte(texts[0])
		if !cmd.Flags().Changed("text") { // which says that it is one
			err = noFileName(texts[0], ", or --text for these letters")
		}
	}
	if err == nil && len(text) == 0 {
		err = errors.New("found an empty text, want at least one token")
	}
	return string(text), err
}

// noFileName returns an error for a text that is the name of a file: who gives one means what is in it.
func noFileName(text, or string) error {
	if info, err := os.Stat(text); err == nil && info.Mode().IsRegular() {
		return fmt.Errorf("found the text %s, which is the name of a file: want --file %[1]s for what is in it%s",
			text, or)
	}
	return nil
}
