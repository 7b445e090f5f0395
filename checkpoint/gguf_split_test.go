package checkpoint

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// splitFiles returns the parts of a file by their names. Each part has a tensor.
func splitFiles(t testing.TB, name string, parts, tensors int) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for i := range parts {
		values := []GGUFValue{{"split.no", uint32(i)}, {"split.count", uint32(parts)},
			{"split.tensors.count", int32(tensors)}}
		if i == 0 {
			values = append(values, GGUFValue{"general.architecture", "mamba"})
		}
		var out bytes.Buffer
		own := []Tensor{NewTensor(fmt.Sprintf("%s.%d", name, i), []int{2}, []float32{float32(i), 5})}
		if err := WriteGGUF(&out, values, own); err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprintf("%s-%05d-of-%05d.gguf", name, i+1, parts)] = out.Bytes()
	}
	return files
}

func writeFiles(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSplitGGUF checks that a file in several parts opens as one file, whichever part is named.
func TestSplitGGUF(t *testing.T) {
	dir := t.TempDir()
	files := splitFiles(t, "x", 3, 3)
	writeFiles(t, dir, files)
	size := 0
	for _, data := range files {
		size += len(data)
	}
	for name := range files {
		for what, open := range map[string]func(string) (*File, error){"OpenGGUF": OpenGGUF, "Open": Open} {
			f, err := open(filepath.Join(dir, name))
			if err != nil {
				t.Fatalf("%s, %s: %v", what, name, err)
			}
			if !slices.Equal(f.Names(), []string{"x.0", "x.1", "x.2"}) || f.Size() != size ||
				f.Format() != FormatGGUF || f.Values()["general.architecture"] != "mamba" ||
				f.Metadata()["general.architecture"] != "mamba" {
				t.Errorf("%s, %s: found %q, %d bytes, %v", what, name, f.Names(), f.Size(), f.Values())
			}
			x, _ := f.Tensor("x.2")
			if v, err := x.Float32(); err != nil || v[0] != 2 {
				t.Errorf("%s, %s: found %v, %v", what, name, v, err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSplitGGUFProblems checks that parts that are missing, of other files or under other names are reported.
func TestSplitGGUFProblems(t *testing.T) {
	const first, second, third = "x-00001-of-00003.gguf", "x-00002-of-00003.gguf", "x-00003-of-00003.gguf"
	outside := filepath.Join(t.TempDir(), second)
	for what, c := range map[string]struct {
		change func(files map[string][]byte)
		link   bool
		want   []string
	}{
		"missing": {func(files map[string][]byte) {
			delete(files, second)
			delete(files, third)
		}, false, []string{second + ": missing, want 3 parts", third + ": missing"}},
		"in another order": {func(files map[string][]byte) {
			files[second], files[third] = files[third], files[second]
		}, false, []string{second + ": found part 3 in it, want part 2", third + ": found part 2 in it"}},
		"twice the same": {func(files map[string][]byte) {
			files[third] = bytes.Replace(files[second], []byte("split.no\x04\x00\x00\x00\x01"),
				[]byte("split.no\x04\x00\x00\x00\x02"), 1)
		}, false, []string{`two tensors are named "x.1"`, "a part of another file"}},
		"of another number of parts": {func(files map[string][]byte) {
			files[second] = splitFiles(t, "x", 2, 2)["x-00002-of-00002.gguf"]
		}, false, []string{second + ": split.count: found 2, want 3"}},
		"with fewer tensors": {func(files map[string][]byte) {
			maps.Copy(files, splitFiles(t, "x", 3, 4))
		}, false, []string{"split.tensors.count: found 3 tensors in all parts, want 4"}},
		"no part": {func(files map[string][]byte) {
			files[second], _ = ggufSample(t)
		}, false, []string{second + ": split.count: found 0, want 3"}},
		"no GGUF": {func(files map[string][]byte) { files[second] = []byte("text") }, false, []string{second}},
		"a link to elsewhere": {func(files map[string][]byte) { delete(files, second) }, true,
			[]string{"a link to " + outside}},
	} {
		dir, files := t.TempDir(), splitFiles(t, "x", 3, 3)
		if c.link {
			if err := os.WriteFile(outside, files[second], 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, filepath.Join(dir, second)); err != nil {
				t.Fatal(err)
			}
		}
		c.change(files)
		writeFiles(t, dir, files)
		_, err := OpenGGUF(filepath.Join(dir, first))
		for _, want := range append(c.want, first) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", what, err, want)
			}
		}
	}
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{"y.gguf": splitFiles(t, "x", 3, 3)[second]})
	_, err := OpenGGUF(filepath.Join(dir, "y.gguf"))
	if want := "found part 2 of 3, want it under the name NAME-00002-of-00003.gguf"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("renamed: error %v, want one with %q", err, want)
	}
}

// FuzzSplitGGUF checks that any file in the place of a part either opens with the others or is an error.
func FuzzSplitGGUF(f *testing.F) {
	files := splitFiles(f, "x", 2, 2)
	const first, second = "x-00001-of-00002.gguf", "x-00002-of-00002.gguf"
	for _, seed := range [][]byte{files[second], files[first], files[second][:90], []byte("GGUF\x03\x00\x00\x00")} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, named bool) {
		writeFiles(t, dir, map[string][]byte{first: files[first], second: data})
		path := filepath.Join(dir, first)
		if named {
			path = filepath.Join(dir, second)
		}
		x, err := OpenGGUF(path)
		if err != nil {
			return
		}
		defer x.Close()
		for _, name := range x.Names() {
			tensor, _ := x.Tensor(name)
			if _, err := tensor.Float32(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
