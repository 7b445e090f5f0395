package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// sample has every supported type, and the names and nesting of a real configuration.
type sample struct {
	Preset string         `json:"preset" help:"where to start" enum:"tiny,small,h3-125m"`
	Model  sampleModel    `json:"model" help:"shape of the network"`
	Train  sampleTrain    `json:"train" help:"the loop"`
	Hidden map[string]int `json:"-"`
	Extra  map[string]any `json:"extra" config:"-"`
}

type sampleModel struct {
	DModel     int     `json:"d_model" help:"width of the residual stream" min:"1" max:"65536"`
	Layers     int8    `json:"n_layer"`
	Attn       []int   `json:"attn_layers" help:"layers with attention" min:"0"`
	Dropout    float64 `json:"dropout" min:"0" max:"1"`
	UseBias    bool    `json:"use_bias" help:"add a bias"`
	unexported int
}

type sampleTrain struct {
	Optim struct {
		LR    float32 `json:"lr" help:"peak learning rate"`
		Decay string  `json:"decay" enum:"cosine,linear,constant"`
	} `json:"optim" help:"AdamW"`
	Tokens uint64        `json:"tokens"`
	Every  time.Duration `json:"every" help:"time between lines" min:"1s"`
	Files  []string      `json:"files"`
	Note   string        `json:"note"`
}

func defaults() sample {
	var c sample
	c.Preset = "tiny"
	c.Model = sampleModel{DModel: 128, Layers: 4, Attn: []int{1}, Dropout: 0.1, UseBias: true, unexported: 7}
	c.Train.Optim.LR, c.Train.Optim.Decay = 6e-4, "cosine"
	c.Train.Tokens, c.Train.Every = 1000, 10*time.Second
	return c
}

func parsed(t *testing.T, cfg any, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Register(fs, cfg)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestLoadEachLayerIsStrongerThanTheOneBefore(t *testing.T) {
	for name, c := range map[string]struct {
		yaml, env string
		args      []string
		want      int
	}{
		"default": {want: 128},
		"file":    {yaml: "model: {d_model: 1}", want: 1},
		"env":     {yaml: "model: {d_model: 1}", env: "2", want: 2},
		"flag":    {yaml: "model: {d_model: 1}", env: "2", args: []string{"--model.d_model", "3"}, want: 3},
		"twice":   {args: []string{"--model.d_model", "3", "--model.d_model=4"}, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := defaults()
			opt := Options{FileData: []byte(c.yaml), EnvPrefix: "HIPPO_", Flags: parsed(t, &cfg, c.args...)}
			if c.env != "" {
				opt.Environ = []string{"PATH=/bin", "HIPPO_MODEL_D_MODEL=" + c.env}
			}
			if err := Load(&cfg, opt); err != nil {
				t.Fatal(err)
			}
			want := defaults()
			want.Model.DModel = c.want
			if !reflect.DeepEqual(cfg, want) {
				t.Errorf("got %v, want %v", Diff(cfg, want), c.want)
			}
		})
	}
}

func TestLoadEveryType(t *testing.T) {
	want := defaults()
	want.Preset = "h3-125m"
	want.Model = sampleModel{DModel: 768, Layers: -3, Attn: []int{8, 16}, Dropout: 0.25, UseBias: false, unexported: 7}
	want.Train.Optim.LR = 1e-4
	want.Train.Tokens = 15e9
	want.Train.Every = 90 * time.Minute
	want.Train.Files = []string{"a b.txt", "c,d", `e"f`, ""}
	want.Train.Note = "1.10"

	file := `
# A comment.
preset: h3-125m
model:
  d_model: 768
  n_layer: -3
  attn_layers: [8, 16]
  dropout: .25
  use_bias: false
train:
  optim: {lr: 1e-4}
  tokens: 15e9
  every: 1h30m
  files:
    - a b.txt
    - "c,d"
    - 'e"f'
    - ""
  note: 1.10
`
	env := []string{"HIPPO_PRESET=h3-125m", "HIPPO_MODEL_D_MODEL=768", "HIPPO_MODEL_N_LAYER=-3",
		"HIPPO_MODEL_ATTN_LAYERS=8,16", "HIPPO_MODEL_DROPOUT=0.25", "HIPPO_MODEL_USE_BIAS=0",
		"HIPPO_TRAIN_OPTIM_LR=1e-4", "HIPPO_TRAIN_TOKENS=15000000000", "HIPPO_TRAIN_EVERY=90m",
		`HIPPO_TRAIN_FILES=a b.txt,"c,d","e""f",""`, "HIPPO_TRAIN_NOTE=1.10"}
	args := []string{"--preset=h3-125m", "--model.d_model=768", "--model.n_layer", "-3", "--model.attn_layers", "8,16",
		"--model.dropout", "25e-2", "--model.use_bias=false", "--train.optim.lr", "0.0001", "--train.tokens", "1.5e10",
		"--train.every", "1h30m0s", "--train.files", `a b.txt,"c,d","e""f",`, "--train.note", "1.10"}

	dotted := "preset: h3-125m\nmodel.d_model: 768\nmodel.n_layer: -3\nmodel.attn_layers: 8,16\n" +
		"model: {dropout: 0.25, use_bias: false}\n" +
		"train.optim: {lr: 1e-4}\ntrain: {tokens: 15000000000, every: 90m}\n" +
		"train.files: [a b.txt, 'c,d', 'e\"f', '']\ntrain.note: |-\n  1.10\n"
	d := defaults()
	for name, opt := range map[string]Options{
		"file":   {FileData: []byte(file)},
		"dotted": {FileData: []byte(dotted)},
		"json": {
			FileData: []byte(
				`{"preset": "h3-125m", "model": {"d_model": 768, "n_layer": -3, "attn_layers": [8, 16], "dropout": ` +
					`0.25, "use_bias": false}, "train": {"optim": {"lr": 0.0001}, "tokens": 15000000000, "every": ` +
					`"90m", "files": ["a b.txt", "c,d", "e\"f", ""], "note": "1.10"}}`)},
		"env":   {EnvPrefix: "HIPPO_", Environ: env},
		"flags": {Flags: parsed(t, &d, args...)},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := defaults()
			if err := Load(&cfg, opt); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(cfg, want) {
				t.Errorf("differs:\n%s", strings.Join(Diff(cfg, want), "\n"))
			}
		})
	}
}

func TestLoadReportsAllProblemsOfAllLayers(t *testing.T) {
	cfg := defaults()
	file := filepath.Join(t.TempDir(), "hippo.yaml")
	text := `preset: tny
modle: {d_model: 5}
model:
  d_modl: 256
  n_layer: 300
  attn_layers: [1, -1]
  dropout:
  use_bias: {a: 1}
train:
  optim: 5
  tokens: -1
  every: 90
  note: kept
  note: again
d_model: 3
5: b
`
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	err := Load(&cfg, Options{
		File:      file,
		EnvPrefix: "HIPPO_",
		Environ: []string{"HIPPO_CPU=generic", "HIPPO_D_MODEL=5", "HIPPO_MODEL_DMODEL=5", "HIPPO_MODEL_DROPOUT=2",
			"HIPPO_TRAIN_TOKENS=20000000000000000000",
			"HIPPO_MODEL_ATTN_LAYERS=1.5", "HIPPOS=1"},
		Ignore: []string{"HIPPO_CPU", "HIPPO_GOLDEN"},
		Flags: parsed(t, &cfg, "--model.d_model=0", "--train.optim.lr=NaN", "--train.files=\"a",
			"--train.every=1ms", "--model.use_bias"),
	})
	want := []string{
		`hippo.yaml:1:9: preset: found "tny", want one of tiny, small, h3-125m; did you mean tiny?`,
		`hippo.yaml:2:1: modle: unknown key; did you mean model?`,
		`hippo.yaml:4:3: model.d_modl: unknown key; did you mean model.d_model?`,
		`hippo.yaml:5:12: model.n_layer: found "300", want an integer that fits 8 bits`,
		`hippo.yaml:6:16: model.attn_layers: element 2: found "-1", want an integer from 0 up`,
		`hippo.yaml:7:11: model.dropout: found nothing, want a number from 0 to 1`,
		`hippo.yaml:8:13: model.use_bias: found a mapping, want true or false`,
		`hippo.yaml:10:10: train.optim: found "5", want keys and values`,
		`hippo.yaml:11:11: train.tokens: found "-1", want an integer from 0 up`,
		`hippo.yaml:12:10: train.every: found "90", want a duration such as 90s or 1h30m from 1s up`,
		`hippo.yaml:14:3: train.note: found a second value, want one; the first is at 13:3`,
		`hippo.yaml:15:1: d_model: unknown key; did you mean model.d_model?`,
		`hippo.yaml:16:1: found the key "5", want a plain name`,
		`HIPPO_D_MODEL: unknown variable; did you mean HIPPO_MODEL_D_MODEL?`,
		`HIPPO_MODEL_DMODEL: unknown variable; did you mean HIPPO_MODEL_D_MODEL?`,
		`HIPPO_MODEL_DROPOUT: found "2", want a number from 0 to 1`,
		`HIPPO_TRAIN_TOKENS: found "20000000000000000000", want an integer from 0 up that fits 64 bits`,
		`HIPPO_MODEL_ATTN_LAYERS: element 1: found "1.5", want an integer from 0 up`,
		`--model.d_model: found "0", want an integer from 1 to 65536`,
		`--train.optim.lr: found "NaN", want a number`,
		`--train.every: found "1ms", want a duration such as 90s or 1h30m from 1s up`,
		`--train.files: found "\"a", want a closing " before the next comma or the end`,
	}
	var got Problems
	if !errors.As(err, &got) {
		t.Fatalf("found the error %v, want a Problems", err)
	}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], file, "hippo.yaml")
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	wantCfg := defaults()
	wantCfg.Train.Note = "kept" // well-formed values have been applied
	if !reflect.DeepEqual(cfg, wantCfg) {
		t.Errorf("values: %v", Diff(wantCfg, cfg))
	}
}

// TestCheck checks that values that a program has set are refused as Load refuses them, and are not changed.
func TestCheck(t *testing.T) {
	good := defaults()
	if err := Check(&good); err != nil {
		t.Error(err)
	}
	bad := defaults()
	bad.Preset, bad.Model.DModel, bad.Model.Attn, bad.Model.Dropout = "tny", 65537, []int{1, -1}, math.NaN()
	bad.Train.Every, bad.Train.Files = time.Second/2, []string{`a,"b`}
	before := bad
	err := Check(bad)
	if want := `5 problems:
  preset: found "tny", want one of tiny, small, h3-125m; did you mean tiny?
  model.d_model: found "65537", want an integer from 1 to 65536
  model.attn_layers: element 2: found "-1", want an integer from 0 up
  model.dropout: found "NaN", want a number from 0 to 1
  train.every: found "500ms", want a duration such as 90s or 1h30m from 1s up`; err == nil || err.Error() != want {
		t.Errorf("found %v, want %s", err, want)
	}
	if Check(&bad); fmt.Sprint(bad) != fmt.Sprint(before) {
		t.Errorf("found %+v afterwards, want %+v", bad, before)
	}
	old := struct {
		N int `json:"n" min:"1" config:"old"`
	}{}
	if err := Check(old); err != nil {
		t.Errorf("an old key without a value: %v", err)
	}
	if old.N = -1; Check(old) == nil {
		t.Error("a wrong value of an old key is no problem")
	}
}

func TestLoadBadFiles(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, maxFileSize+1), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		opt  Options
		want string
	}{
		"missing": {Options{File: filepath.Join(dir, "none.yaml")}, "none.yaml: "},
		"folder":  {Options{File: dir}, dir},
		"large":   {Options{File: large}, "large.yaml: found 65537 bytes, want a file of at most 65536"},
		"data":    {Options{File: "x", FileData: make([]byte, maxFileSize+1)}, "x: found 65537 bytes"},
		"syntax":  {Options{File: "x", FileData: []byte("a: [1\n")}, "x:1:4: sequence end token ']' not found"},
		"list":    {Options{File: "x", FileData: []byte("- a\n")}, "x:1:1: found a sequence, want keys and values"},
		"scalar":  {Options{FileData: []byte("hello")}, `configuration:1:1: found "hello", want keys and values`},
		"two": {Options{File: "x", FileData: []byte("preset: tiny\n---\npreset: small\n")},
			"x:3:7: found a second YAML document, want one"},
		"binary": {Options{File: "x", FileData: []byte("a: \xff")}, "x: found bytes that are not UTF-8"},
		"anchor": {Options{File: "x", FileData: []byte("preset: &a tiny")},
			"x:1:9: preset: found a YAML anchor, alias or tag, want one of"},
		"merge": {Options{File: "x", FileData: []byte("<<: {a: b}")}, "x:1:1: found the key"},
		"null":  {Options{File: "x", FileData: []byte("preset: ~")}, "x:1:9: preset: found nothing, want one of"},
		"element": {Options{File: "x", FileData: []byte("train: {files: [a, [b]]}")},
			"x:1:20: train.files: element 2: found a sequence, want text"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := defaults()
			err := Load(&cfg, c.opt)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if d := Diff(cfg, defaults()); d != nil {
				t.Errorf("values changed: %v", d)
			}
		})
	}
}

func TestLoadEmptyFileAndEmptyGroupChangeNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# only a comment\n", "model:\n", "---\n", "model: {}\n"} {
		cfg := defaults()
		if err := Load(&cfg, Options{FileData: []byte(text)}); err != nil || Diff(cfg, defaults()) != nil {
			t.Errorf("%q: %v, %v", text, err, Diff(cfg, defaults()))
		}
	}
}

func TestLoadDoesNotWriteIntoSharedSlices(t *testing.T) {
	base := defaults()
	cfg := base // shares base's slices
	if err := Load(&cfg, Options{FileData: []byte("model: {attn_layers: [7]}")}); err != nil {
		t.Fatal(err)
	}
	if base.Model.Attn[0] != 1 || cfg.Model.Attn[0] != 7 {
		t.Errorf("base %v, cfg %v", base.Model.Attn, cfg.Model.Attn)
	}
}

func TestStructsThatCannotBeConfiguredPanic(t *testing.T) {
	for name, cfg := range map[string]any{
		"map":        &struct{ M map[string]any }{},
		"pointer":    &struct{ P *int }{},
		"float list": &struct{ F []float64 }{},
		"bad bound": &struct {
			N int `min:"x"`
		}{},
		"string min": &struct {
			S string `min:"1"`
		}{},
		"not struct": new(int),
		"same name": &struct {
			A_B int
			A   struct{ B int }
		}{},
		"nil pointer": (*sample)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if msg, _ := recover().(string); !strings.HasPrefix(msg, "config: ") {
					t.Errorf("panic %q, want one that starts with config:", msg)
				}
			}()
			newSchema(cfg)
		})
	}
}

func TestEmbeddedStructIsFlat(t *testing.T) {
	type Common struct {
		Seed uint64 `json:"seed"`
	}
	var cfg struct {
		Common
		Named Common `json:"named"`
	}
	if err := Load(&cfg, Options{FileData: []byte("seed: 1\nnamed: {seed: 2}")}); err != nil ||
		cfg.Seed != 1 || cfg.Named.Seed != 2 {
		t.Errorf("%v, %+v", err, cfg)
	}
}

func TestProblems(t *testing.T) {
	var p Problems
	if p.Err() != nil {
		t.Errorf("no problems: %v", p.Err())
	}
	p.Addf("model.d_model", "found %d, want a multiple of %d", 10, 4)
	if got, want := p.Err().Error(), "model.d_model: found 10, want a multiple of 4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Add(nil)
	p.Add(errors.New("other"))
	p.Add(errors.Join(Problems{"x: one", "y: two"}.Err()))
	want := "4 problems:\n  model.d_model: found 10, want a multiple of 4\n  other\n  x: one\n  y: two"
	if got := p.Err().Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"model", "model.d_model", "model.d_state", "train.lr", "x"}
	for name, want := range map[string]string{
		"model.d_modle": "model.d_model", "d_state": "model.d_state", "mdoel": "model", "trainlr": "train.lr",
		"lr": "train.lr", "y": "", "something": "", "": "",
	} {
		if want != "" {
			want = "; did you mean --" + want + "?"
		}
		if got := didYouMean("--", name, known); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
