package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// spelled returns flags like those of a command: settings of a configuration, some of which share their last parts, and
// others.
func spelled() (*pflag.FlagSet, any) {
	cfg := &struct {
		MaxTokens int  `json:"max_tokens"`
		Steps     int  `json:"steps"` // the same as the last part of train.steps
		Verbose   bool `json:"verbose"`
		Train     struct {
			Steps     int     `json:"steps"`
			BatchSize int     `json:"batch_size"`
			Every     int     `json:"every"`
			Rate      float64 `json:"rate" max:"1"`
		} `json:"train"`
		Eval struct {
			Every int `json:"every"`
			Inner struct {
				Lists []int `json:"lists"`
			} `json:"inner"`
		} `json:"eval"`
	}{}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Register(fs, cfg)
	fs.Bool("dry-run", false, "")
	fs.Int("samples", 1, "")
	fs.String("resume", "", "folder of the run")
	AcceptSpellings(fs)
	return fs, cfg
}

func TestFlagsInOtherSpellings(t *testing.T) {
	for arg, want := range map[string]string{
		"--max_tokens=7":        "max_tokens",
		"--max-tokens=7":        "max_tokens",
		"--dry-run":             "dry-run",
		"--dry_run":             "dry-run",
		"--train.batch-size=7":  "train.batch_size",
		"--batch-size=7":        "train.batch_size",
		"--batch_size=7":        "train.batch_size",
		"--steps=7":             "steps", // its own name, and the last part of another
		"--train.steps=7":       "train.steps",
		"--lists=7":             "eval.inner.lists",
		"--inner.lists=7":       "eval.inner.lists",
		"--eval.inner.lists=7":  "eval.inner.lists",
		"--train.every=7":       "train.every",
		"--verbose":             "verbose",
		"--rate=.5":             "train.rate",
		"--eval-inner-lists=7":  "", // a dot is not a hyphen
		"--atch_size=7":         "", // half a part is not a part
		"--train.inner.lists=7": "",
	} {
		fs, cfg := spelled()
		err := fs.Parse([]string{arg})
		if err == nil {
			err = Load(cfg, Options{Flags: fs})
		}
		var given []string
		fs.Visit(func(f *pflag.Flag) { given = append(given, f.Name) })
		if got := strings.Join(given, " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: found the flag %q (%v), want %q", arg, got, err, want)
		}
	}
}

func TestOtherSpellingsReachTheConfiguration(t *testing.T) {
	fs, _ := spelled()
	if err := fs.Parse([]string{"--batch-size", "9", "--max-tokens=8", "--lists", "1", "--inner.lists=2"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"train.batch_size": "9", "max_tokens": "8",
		"eval.inner.lists": "1,2", "steps": "0"} {
		if got := fs.Lookup(name).Value.String(); got != want {
			t.Errorf("%s: found %q, want %q", name, got, want)
		}
	}
	if got := fs.Lookup("dry-run").Name; got != "dry-run" || !strings.Contains(Usages(fs, 0), "--dry-run") {
		t.Errorf("found the name %q, want names in help texts as they were registered", got)
	}
}

func TestFlagError(t *testing.T) {
	for arg, want := range map[string]string{
		"--train.stepz=3":  "--train.stepz: unknown flag; did you mean --train.steps?",
		"--batch-siez=3":   "--batch-siez: unknown flag; did you mean --train.batch_size?",
		"--max-toknes=3":   "--max-toknes: unknown flag; did you mean --max_tokens?",
		"--every=3":        "--every: may stand for --train.every or --eval.every: give more of the name",
		"--other":          "--other: unknown flag",
		"-x":               "-x: unknown flag",
		"-samples=3":       "-samples: unknown flag; did you mean --samples, with two hyphens?",
		"-rate":            "-rate: unknown flag; did you mean --train.rate, with two hyphens?",
		"--train.steps":    "--train.steps: found no value, want an integer",
		"--rate":           "--train.rate: found no value, want a number up to 1",
		"--samples=many":   `--samples: found "many", want an integer`,
		"--dry_run=later":  `--dry-run: found "later", want true or false`,
		"--samples":        "--samples: found no value, want an integer",
		"--resume":         "--resume: found no value, want text: folder of the run",
		"--verbose.steps=": "--verbose.steps: unknown flag",
	} {
		fs, _ := spelled()
		err := fs.Parse([]string{arg})
		if err == nil {
			t.Errorf("%s: accepted, want %s", arg, want)
			continue
		}
		if got := FlagError(fs, err).Error(); got != want {
			t.Errorf("%s: got %q, want %q", arg, got, want)
		}
	}
}

func TestSpellingHelp(t *testing.T) {
	fs, _ := spelled()
	want := "Names take - for _, and the last part is enough where no other name ends so: " +
		"--batch_size for --train.batch_size."
	if got := SpellingHelp(fs); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	plain := pflag.NewFlagSet("", pflag.ContinueOnError)
	plain.Bool("json", false, "")
	if got := SpellingHelp(plain); got != "" {
		t.Errorf("got %q of flags that have one spelling only, want nothing", got)
	}
	plain.Bool("top_k", false, "")
	if got := SpellingHelp(plain); got != "Names take - for _, and _ for -." {
		t.Errorf("got %q", got)
	}
}
