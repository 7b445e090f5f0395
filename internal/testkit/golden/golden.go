// Package golden reads the golden files: inputs, parameters and results of official reference implementations. They are
// safetensors files with the tolerance and the configuration of each case in their metadata
// (testdata/golden/README.md). The package imports package checkpoint and is imported by tests only.
//
// A test selects its cases by the beginning of the file name, and each case is a subtest named after its file. Other
// files of the same form run through the same code unchanged:
//
//	golden.Run(t, "04_h3_layer", func(t *testing.T, c golden.Case) {
//		golden.Close(t, "out/y", layer(c.F32("in/u")), c.F64("out/y"), 1e-5)
//	})
package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// Dir returns the folder of the golden files: the environment variable HIPPO_GOLDEN or, if that is not set,
// testdata/golden at the root of the repository.
func Dir(t testing.TB) string {
	t.Helper()
	d := dir()
	if d == "" {
		t.Fatal("golden: no go.mod above the working directory; set HIPPO_GOLDEN")
	}
	return d
}

// dir returns the folder of the golden files, or "" if there is none.
func dir() string {
	if dir := os.Getenv("HIPPO_GOLDEN"); dir != "" {
		return dir
	}
	dir, _ := os.Getwd() // tests run in the folder of their package
	for dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "testdata", "golden")
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return ""
}

// Of records which mixers, by their names in the registry, a test compares with an official implementation or with
// their definition. A test of the registry reads the calls of Of and requires one for every mixer.
func Of(t testing.TB, mixers ...string) {
	t.Helper()
	if len(mixers) == 0 {
		t.Fatal("golden.Of: found no mixer")
	}
}

// Files returns the sorted paths of the golden files whose name starts with prefix and ends with suffix. It fails the
// test when there are none.
func Files(t testing.TB, prefix, suffix string) []string {
	t.Helper()
	dir := Dir(t)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("golden: %v", err)
	}
	var paths []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	if len(paths) == 0 {
		t.Fatalf("golden: no file %s*%s in %s", prefix, suffix, dir)
	}
	slices.Sort(paths) // directory order differs between file systems
	return paths
}

// Case is one golden file. Its accessors fail the test if the requested value is missing.
type Case struct {
	Name string            // file name without extension
	Path string            // path of the safetensors file
	Meta map[string]string // case, what, source, tolerance, config, notes

	t    testing.TB
	file *checkpoint.File
}

// Cases opens the golden files prefix*.safetensors in the order of their names. They stay open until the test ends.
// Cases fails the test if there are none. The cases report to t; a subtest uses Run or With.
func Cases(t testing.TB, prefix string) []Case {
	t.Helper()
	var cases []Case
	for _, path := range Files(t, prefix, ".safetensors") {
		f, err := checkpoint.OpenSafetensors(path)
		if err != nil {
			t.Fatalf("golden: %v", err)
		}
		t.Cleanup(func() { f.Close() })
		name := strings.TrimSuffix(filepath.Base(path), ".safetensors")
		cases = append(cases, Case{Name: name, Path: path, Meta: f.Metadata(), t: t, file: f})
	}
	return cases
}

// Run runs test as a subtest for every golden file prefix*.safetensors.
func Run(t *testing.T, prefix string, test func(t *testing.T, c Case)) {
	t.Helper()
	for _, c := range Cases(t, prefix) {
		t.Run(c.Name, func(t *testing.T) { test(t, c.With(t)) })
	}
}

// With returns a copy of the case that reports to another test, for subtests.
func (c Case) With(t testing.TB) Case {
	c.t = t
	return c
}

// Has reports whether the case has a tensor of that name.
func (c Case) Has(name string) bool {
	_, ok := c.file.Tensor(name)
	return ok
}

// Names returns the names of all tensors in file order.
func (c Case) Names() []string { return c.file.Names() }

func (c Case) tensor(name string) *checkpoint.Tensor {
	c.t.Helper()
	t, ok := c.file.Tensor(name)
	if !ok {
		c.t.Fatalf("golden: %s has no tensor %q; it has %s", c.Path, name, strings.Join(c.Names(), " "))
	}
	saw(c.Path, name)
	return t
}

// values returns the elements of a tensor as the read function converts them.
func values[T any](c Case, name string, read func(*checkpoint.Tensor) ([]T, error)) []T {
	c.t.Helper()
	v, err := read(c.tensor(name))
	if err != nil {
		c.t.Fatalf("golden: %s: %v", c.Path, err)
	}
	return v
}

// F64 returns the elements of a tensor of any type as float64.
func (c Case) F64(name string) []float64 {
	c.t.Helper()
	return values(c, name, (*checkpoint.Tensor).Float64)
}

// F32 returns the elements of a tensor of any type as float32.
func (c Case) F32(name string) []float32 {
	c.t.Helper()
	return values(c, name, (*checkpoint.Tensor).Float32)
}

// I64 returns the elements of an integer tensor.
func (c Case) I64(name string) []int64 {
	c.t.Helper()
	return values(c, name, (*checkpoint.Tensor).Int64)
}

// Shape returns the shape of a tensor.
func (c Case) Shape(name string) []int {
	c.t.Helper()
	return slices.Clone(c.tensor(name).Shape)
}

// Config reads the configuration of the case into v as json.Unmarshal does.
func (c Case) Config(v any) {
	c.t.Helper()
	text, ok := c.Meta["config"]
	if !ok {
		c.t.Fatalf("golden: %s has no config in its metadata", c.Path)
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		c.t.Fatalf("golden: config of %s: %v", c.Path, err)
	}
}

// Weights returns the names of the weight files that belong to the case: the file that its configuration names as the
// checkpoint, or else all weight files in its folder.
func (c Case) Weights() (names []string) {
	c.t.Helper()
	var config struct{ Checkpoint string }
	c.Config(&config)
	folder, file := filepath.Split(filepath.FromSlash(config.Checkpoint))
	if file != "" {
		return []string{file}
	}
	if folder == "" {
		folder = c.Name
	}
	entries, err := os.ReadDir(filepath.Join(filepath.Dir(c.Path), folder))
	if err != nil {
		c.t.Fatalf("golden: %s: %v", c.Name, err)
	}
	for _, e := range entries {
		if slices.Contains([]string{".pt", ".bin", ".ckpt", ".safetensors"}, filepath.Ext(e.Name())) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		c.t.Fatalf("golden: %s: no file of weights in %s", c.Name, folder)
	}
	return names
}

// File returns the path of a file that belongs to the case, such as model.pt in the folder named after the case.
func (c Case) File(name string) string {
	c.t.Helper()
	path := filepath.Join(strings.TrimSuffix(c.Path, ".safetensors"), name)
	if _, err := os.Stat(path); err != nil {
		c.t.Fatalf("golden: %s: %v", c.Name, err)
	}
	return path
}
