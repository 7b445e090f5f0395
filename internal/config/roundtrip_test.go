package config

import (
	"math"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
)

// anySample draws a configuration from all values that Load accepts.
func anySample(t *rapid.T, name string) sample {
	c := sample{Model: sampleModel{unexported: 7}}
	text := rapid.OneOf(rapid.String(),
		rapid.SampledFrom([]string{"", "true", "null", "~", "1e5", "yes", "a b", " a", "a ",
			"a: b", "# c", "- x", `"`, `""`, "'", ",", "a,b", "\n", "\r\n", "\t", "0x10",
			".inf", "{", "[1]", "|", "C:\\x",
			"$HOME", "--a", "é", "\u2028", "\x7f"}))
	c.Preset = rapid.SampledFrom([]string{"tiny", "small", "h3-125m"}).Draw(t, name)
	c.Model.DModel = rapid.IntRange(1, 65536).Draw(t, name)
	c.Model.Layers = rapid.Int8().Draw(t, name)
	c.Model.Attn = rapid.SliceOfN(rapid.IntRange(0, 99), 0, 3).Draw(t, name)
	c.Model.Dropout = rapid.Float64Range(0, 1).Draw(t, name)
	c.Model.UseBias = rapid.Bool().Draw(t, name)
	c.Train.Optim.LR = rapid.Float32().Filter(func(x float32) bool {
		return !math.IsInf(float64(x), 0) && x == x
	}).Draw(t, name)
	c.Train.Optim.Decay = rapid.SampledFrom([]string{"cosine", "linear", "constant"}).Draw(t, name)
	c.Train.Tokens = rapid.Uint64().Draw(t, name)
	c.Train.Every = time.Duration(rapid.Int64Range(1e9, math.MaxInt64).Draw(t, name))
	c.Train.Files = rapid.SliceOfN(text, 0, 3).Draw(t, name)
	c.Train.Note = text.Draw(t, name)
	return c
}

func TestMarshalIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anySample(t, "cfg")
		file, err := Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := defaults()
		if err := Load(&got, Options{FileData: file}); err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%s", Diff(got, want), file)
		}
	})
}

func TestFlagsTurnOneConfigIntoAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, want := anySample(t, "from"), anySample(t, "to")
		flags := Flags(want, &from)
		if len(flags) != len(Diff(from, want)) {
			t.Fatalf("%d flags for %d differences", len(flags), len(Diff(from, want)))
		}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		Register(fs, from)
		if err := fs.Parse(shellWords(strings.Join(flags, " "))); err != nil {
			t.Fatal(err)
		}
		if err := Load(&from, Options{Flags: fs}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(from, want) {
			t.Fatalf("%q leave %v", flags, Diff(from, want))
		}
	})
}

// shellWords splits a command as a POSIX shell does, if it has only single quotes and escaped ones.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	started := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ':
			if started {
				words = append(words, word.String())
			}
			started = false
			word.Reset()
			continue
		case '\'':
			n := strings.IndexByte(line[i+1:], '\'')
			word.WriteString(line[i+1 : i+1+n])
			i += n + 1
		case '\\':
			i++
			word.WriteByte(line[i])
		default:
			word.WriteByte(c)
		}
		started = true
	}
	if started {
		words = append(words, word.String())
	}
	return words
}

// TestQuote asks the shell itself, on systems that have one; elsewhere it uses shellWords.
func TestQuote(t *testing.T) {
	words := []string{"", "a", "a b", "it's", `"x"`, "$HOME", "`ls`", "a;b", "*", "~", "#", "\\",
		"new\nline", "é", "--a=b", "1e-5", "!x"}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	got := shellWords(strings.Join(quoted, " "))
	if !slices.Equal(got, words) {
		t.Errorf("got %q, want %q", got, words)
	}
	if sh, err := exec.LookPath("sh"); err == nil {
		out, err := exec.Command(sh, "-c", `printf '%s\0' `+strings.Join(quoted, " ")).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, words) {
			t.Errorf("sh: got %q, want %q", got, words)
		}
	}
}

func TestListRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.StringMatching(`[a",() \n]{0,4}`)).Draw(t, "items")
		text := joinList(want)
		got, err := splitList(text)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, %v, want %q", text, got, err, want)
		}
	})
}

// TestListOfMixers checks that commas inside parentheses do not end an item, unless a parenthesis is not closed.
func TestListOfMixers(t *testing.T) {
	for text, want := range map[string][]string{
		"model.layers=s4d(measure=diag-rand,bidirectional=true)*2,epochs=3": {
			"model.layers=s4d(measure=diag-rand,bidirectional=true)*2", "epochs=3"},
		"a(b(1,2),3),c": {"a(b(1,2),3)", "c"},
		"a(1,b":         {"a(1", "b"},
		"a),b":          {"a)", "b"},
	} {
		if got, err := splitList(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestMarshalText(t *testing.T) {
	cfg := defaults()
	cfg.Train.Note = "a: b"
	got, err := Marshal(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/defaults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	cfg.Train.Note = "\xff"
	if _, err := Marshal(cfg); err == nil || !strings.Contains(err.Error(), `train.note: found "\xff", want UTF-8`) {
		t.Errorf("not UTF-8: %v", err)
	}
}

func TestDiff(t *testing.T) {
	a, b := defaults(), defaults()
	b.Model.Attn, b.Train.Note, b.Train.Optim.LR = []int{8, 16}, "x", 1e-4
	got := strings.Join(Diff(a, &b), "\n")
	if want := "model.attn_layers: [1] -> [8,16]\ntrain.optim.lr: 0.0006 -> 0.0001\ntrain.note: \"\" -> x"; got !=
		want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestUsages(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	cfg := defaults()
	fs.Bool("dry-run", false, "print what would be done")
	Register(fs, cfg)
	want, err := os.ReadFile("testdata/usages.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := Usages(fs, 100); got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !fs.SortFlags {
		t.Error("SortFlags changed")
	}
}

// FuzzYAML checks that no file makes Load panic, and that every problem names a place in the file.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{"", "model: {d_model: 5}", "a: [1", "- x", "a: &b c", "? [a]\n: b",
		"model:\n  d_model: |\n    5\n",
		"train: {files: [a, \"b\", [c]]}", "<<: *a", "%YAML 1.2\n---\na: b", "a: !!int 5", "\x00", "---\n---\n",
		"'a': \"\\x41\"", "model: \nmodel: "} {
		f.Add([]byte(s))
	}
	place := regexp.MustCompile(`^x(:\d+:\d+)?: `)
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg := defaults()
		err := Load(&cfg, Options{File: "x", FileData: data})
		if err == nil {
			return
		}
		for _, p := range err.(Problems) {
			if !place.MatchString(p) {
				t.Errorf("no place in %q", p)
			}
		}
	})
}

// FuzzText checks that a text that set accepts is written back to the same value.
func FuzzText(f *testing.F) {
	for _, s := range []string{"1", "-1", "1e6", "1.5e1", "0x10", "1_0", "9223372036854775807", "1e300", "true", "3s",
		"a,b", `"a""",b`, "nan", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg, again := defaults(), defaults()
		for i, field := range newSchema(&cfg).fields {
			if field.set(text) != nil {
				continue
			}
			other := newSchema(&again).fields[i]
			if err := other.set(field.text()); err != nil ||
				!reflect.DeepEqual(field.value.Interface(), other.value.Interface()) {
				t.Errorf("%s: %q became %q, read as %v, %v", field.key, text, field.text(), other.value, err)
			}
		}
	})
}
