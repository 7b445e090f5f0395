package golden

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// recorder is a test that records its failures instead of reporting them.
type recorder struct {
	testing.TB
	failures []string
}

type stopped struct{}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(f string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(f, args...))
}
func (r *recorder) Fatalf(f string, args ...any) { r.Errorf(f, args...); panic(stopped{}) }

// failure runs f and returns the failures it recorded, or "".
func failure(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != (stopped{}) {
				panic(v)
			}
		}()
		f(r)
	}()
	return strings.Join(r.failures, "\n")
}

func wantFailure(t *testing.T, got string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(got, w) {
			t.Errorf("the failure %q does not say %q", got, w)
		}
	}
}

// writeCase writes a golden file into the folder dir.
func writeCase(t *testing.T, dir, name string, meta map[string]string) {
	t.Helper()
	err := disk.WriteFile(filepath.Join(dir, name), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, []checkpoint.Tensor{
			checkpoint.NewTensor("in/ids", []int{1, 2}, []int64{3, 4}),
			checkpoint.NewTensor("out/y", []int{2}, []float64{0.5, 1e-3}),
		}, meta)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCases(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HIPPO_GOLDEN", dir)
	writeCase(t, dir, "04_b.safetensors", map[string]string{"config": `{"d_model": 8}`, "tolerance": "1e-5"})
	writeCase(t, dir, "04_a.safetensors", nil)
	writeCase(t, dir, "05_a.safetensors", nil)
	if err := os.Mkdir(filepath.Join(dir, "04_b"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "04_b", "model.pt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	cases := Cases(t, "04_")
	if len(cases) != 2 || cases[0].Name != "04_a" || cases[1].Name != "04_b" ||
		cases[1].Path != filepath.Join(dir, "04_b.safetensors") {
		t.Fatalf("cases %v, want 04_a and 04_b", cases)
	}
	a, b := cases[0], cases[1]
	if b.Meta["tolerance"] != "1e-5" || !b.Has("out/y") || b.Has("out/x") ||
		!slices.Equal(b.Names(), []string{"in/ids", "out/y"}) {
		t.Errorf("metadata %q, names %q", b.Meta, b.Names())
	}
	if f64, f32 := b.F64("out/y"), b.F32("out/y"); !slices.Equal(f64, []float64{0.5, 1e-3}) ||
		!slices.Equal(f32, []float32{0.5, 1e-3}) {
		t.Errorf("out/y is %v, %v", f64, f32)
	}
	if ids, shape := b.I64("in/ids"), b.Shape("in/ids"); !slices.Equal(ids, []int64{3, 4}) ||
		!slices.Equal(shape, []int{1, 2}) {
		t.Errorf("in/ids is %v%v", shape, ids)
	}
	var config struct {
		DModel int `json:"d_model"`
	}
	if b.Config(&config); config.DModel != 8 {
		t.Errorf("config %+v, want d_model 8", config)
	}
	if got, want := b.File("model.pt"), filepath.Join(dir, "04_b", "model.pt"); got != want {
		t.Errorf("file %q, want %q", got, want)
	}
	var seen []string
	Run(t, "0", func(t *testing.T, c Case) {
		seen = append(seen, t.Name())
		if c.t != testing.TB(t) {
			t.Error("the case reports to another test")
		}
	})
	if want := []string{"TestCases/04_a", "TestCases/04_b", "TestCases/05_a"}; !slices.Equal(seen, want) {
		t.Errorf("subtests %q, want %q", seen, want)
	}

	fail := func(f func(Case)) string {
		return failure(t, func(r testing.TB) { f(a.With(r)) })
	}
	wantFailure(t, fail(func(c Case) { c.F64("out/x") }), "04_a", `"out/x"`, "in/ids out/y")
	wantFailure(t, fail(func(c Case) { c.Shape("out/x") }), "04_a", `"out/x"`)
	wantFailure(t, fail(func(c Case) { c.I64("out/y") }), "04_a", `"out/y"`, "0.5", "whole number")
	wantFailure(t, fail(func(c Case) { c.Config(&config) }), "04_a", "no config")
	wantFailure(t, fail(func(c Case) { c.File("model.pt") }), "04_a", "model.pt")
	wantFailure(t, failure(t, func(r testing.TB) { Cases(r, "99_") }), "99_*.safetensors", dir)
	if err := os.WriteFile(filepath.Join(dir, "06_broken.safetensors"), []byte("broken"), 0o666); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, failure(t, func(r testing.TB) { Cases(r, "06_") }), "06_broken.safetensors", "found 6 bytes")
}

// TestRepository checks that the files of this repository are found from a package folder if the variable is not set.
func TestRepository(t *testing.T) {
	t.Setenv("HIPPO_GOLDEN", "")
	if cases := Cases(t, "04_h3_layer"); len(cases) < 3 || cases[0].Meta["config"] == "" {
		t.Errorf("found %d cases, the first with metadata %q", len(cases), cases[0].Meta)
	}
	if files := Files(t, "10_gpt2_bpe", ".json"); len(files) == 0 {
		t.Error("no JSON file")
	}
}

// TestUnread checks that unread lists the tensors that no test of a package has read, as the rules require.
func TestUnread(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HIPPO_GOLDEN", dir)
	for _, name := range []string{"02_x.safetensors", "06_hyena_x.safetensors"} {
		writeCase(t, dir, name, nil)
	}
	list := func(by string) string {
		t.Helper()
		lines, err := unread(dir, by)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	if got, want := list("ssm"), "no test of package ssm reads these tensors of 02_x: in/ids out/y"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	c := Cases(t, "02_")[0]
	c.Shape("in/ids")
	if got := list("ssm"); !strings.HasSuffix(got, "02_x: out/y") {
		t.Errorf("found %q, want out/y alone", got)
	}
	if c.F32("out/y"); list("ssm") != "" || !strings.Contains(list("mixer"), "06_hyena_x: in/ids out/y") {
		t.Errorf("found %q and %q, want nothing, and what mixer has not read", list("ssm"), list("mixer"))
	}
}

// TestEveryRuleHolds checks that each package that must read golden files ends its tests with Main.
func TestEveryRuleHolds(t *testing.T) {
	for _, r := range rules {
		if (r.by == "") != (r.why != "") {
			t.Errorf("%s %s: found package %q and reason %q, want one of them", r.file, r.tensor, r.by, r.why)
		}
		if r.by == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", "..", r.by, "golden_main_test.go"))
		if err != nil || !strings.Contains(string(text), `golden.Main(m, "`+r.by+`", `) {
			t.Errorf("package %s does not call golden.Main: %v", r.by, err)
		}
	}
}

func TestClose(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		got, want []float64
		relative  string // part of Close's failure message with tolerance 0.01, - for none
		absolute  string // the same for CloseAbs with tolerance 0.1
	}{
		{[]float64{100.9, 0.5}, []float64{100, 0}, "-", "element 0"},
		{[]float64{100, 1.1}, []float64{100, 0}, "element 1: got 1.1, want 0", "element 1: got 1.1, want 0"},
		{[]float64{0.05}, []float64{0}, "element 0", "-"},
		{[]float64{0, 0}, []float64{0, 0}, "-", "-"},
		{[]float64{1, nan, 5}, []float64{1, 1, 1}, "element 1", "element 1"},
		{[]float64{1, nan}, []float64{1, nan}, "element 1", "element 1"},
		{[]float64{1, 5}, []float64{nan, 5}, "element 0", "element 0"},
		{[]float64{1, inf}, []float64{1, 1}, "element 1", "element 1"},
		{[]float64{1}, []float64{1, 2}, "got 1 elements, want 2", "got 1 elements, want 2"},
		{nil, []float64{1}, "got 0 elements, want 1", "got 0 elements, want 1"},
		{nil, nil, "-", "-"},
	} {
		check := func(kind, got, want string) {
			t.Helper()
			if want == "-" && got != "" || want != "-" && !strings.Contains(got, want) {
				t.Errorf("%s of %v and %v: failure %q, want %q", kind, c.got, c.want, got, want)
			}
		}
		check("Close", failure(t, func(r testing.TB) { Close(r, "y", c.got, c.want, 0.01) }), c.relative)
		check("CloseAbs", failure(t, func(r testing.TB) { CloseAbs(r, "y", c.got, c.want, 0.1) }), c.absolute)
	}
	if f := failure(t, func(r testing.TB) { Close(r, "y", []float32{1, 2}, []float64{1, 2}, 0) }); f != "" {
		t.Errorf("float32: %s", f)
	}
}
