package table_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// TestReadingIsBounded checks that reading a file needs memory only for what is read at a time, even if the file
// unpacks to a large size.
func TestReadingIsBounded(t *testing.T) {
	const size = 64 << 20
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for _, name := range []string{"x", "y"} {
		w, err := z.Create(name + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		shape := fmt.Sprintf("%d, 16", size/64)
		if name == "y" {
			shape = fmt.Sprintf("%d,", size/64)
		}
		fmt.Fprint(w, npy("<f4", shape, []byte{}))
		for range size / 64 / 64 {
			fmt.Fprint(w, strings.Repeat("\x00", map[string]int{"x": 64 * 64, "y": 4 * 64}[name]))
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	list := `{"x": [` + strings.Repeat("1,", 1<<19) + "1]}\n"
	for name, text := range map[string]string{"zeros.npz": packed.String(), "lists.jsonl": strings.Repeat(list, 16),
		"short.jsonl": strings.Repeat(`{"a": {"b": [1, 2, null, "4"]}}`+"\n", 10)} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, err := table.Open([]string{path}, nil, table.DefaultOptions(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var v table.Values
		for range 10 {
			if err := r.Next(&v); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if live := int64(after.HeapAlloc) - int64(before.HeapAlloc); live > size/4 {
			t.Errorf("%s: found %d bytes in use, want at most %d", name, live, size/4)
		}
		r.Close()
	}
}
