package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestTextsOfExplain checks that all views take a text and files by the same flags, and that their errors name these
// flags.
func TestTextsOfExplain(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HIPPO_CACHE", "none")
	m := toymodel.New(t, "h3,attention", 256)
	if err := errors.Join(os.Mkdir("m", 0o777), m.Save("m"), tokenizer.Bytes().Save("m"),
		os.WriteFile("one.txt", []byte("Call me Ishmael"), 0o666),
		os.WriteFile("two.txt", []byte("Call me Ahab"), 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct{ command, want string }{ // the error, "" for none
		{"influence m Call", ""},
		{"influence m --text Call", ""},
		{"influence m --text one.txt", ""},
		{"influence m --file one.txt --gradient", ""},
		{"influence m -", ""},
		{"influence m one.txt", "want --file one.txt for what is in it, or --text"},
		{"influence m Call --text me", `found both the text "Call" and --text "me"`},
		{"influence m Call --file one.txt", `found both the text "Call" and --file one.txt`},
		{"influence m", "--file FILE"},
		{"memory m one.txt", "want --file one.txt"},
		{"memory m --text Call", ""},
		{"lens m one.txt", "want --file one.txt"},
		{"lens m --file one.txt --tokens 4", ""},
		{"model m --file one.txt --time=false", ""},
		{"model m --text Call --tokens 2 --time=false", ""},
		{"compare m m --file one.txt", ""},
		{"compare m m --text Call --file one.txt", "want one of them"},
		{"surprise m one.txt", ""},
		{"surprise m --file one.txt --file two.txt", ""},
		{"surprise m --text Call", ""},
		{"surprise m Call", `a text itself is given by --text "Call"`},
		{"surprise m", "--file FILE, --text TEXT"},
		{"surprise m one.txt --text Call", "want one of them"},
		{"paths m Call Cold", ""},
		{"paths m --file one.txt --file two.txt", ""},
		{"paths m one.txt two.txt --files", ""},
		{"paths m Cold --file one.txt", ""},
		{"paths m one.txt two.txt", "want --file one.txt for what is in it"},
		{"paths m Call", "found 1 texts and 0 files, want two"},
		{"paths m a b --file one.txt", "found 2 texts and 1 files, want two"},
		{"paths m Call --sessions --file one.txt", "beside --sessions"},
	} {
		root := newRoot()
		root.SetArgs(append(append([]string{"explain"}, strings.Fields(of.command)...), "--out", "out.json"))
		root.SetIn(strings.NewReader("Call me"))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		err := root.ExecuteContext(t.Context())
		if (err == nil) != (of.want == "") || err != nil && !strings.Contains(err.Error(), of.want) {
			t.Errorf("%s: found the error %v, want %q", of.command, err, of.want)
		}
	}
}
