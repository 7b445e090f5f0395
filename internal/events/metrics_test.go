package events

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type point struct {
	Loss    Float  `json:"loss"`
	LR      Float  `json:"lr"`
	ValLoss *Float `json:"val_loss,omitempty"`
	A       string `json:"a"`
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	m, err := OpenMetrics(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	val := Float(2.5)
	for i, v := range []any{point{Loss: 3.25, LR: 6e-4, A: "x\ny"}, point{Loss: Float(math.NaN()), ValLoss: &val},
		map[string]any{"z": 1, "b": Float(math.Inf(-1))}, struct{}{}} {
		if err := m.Append(int64(i), v); err != nil {
			t.Fatal(err)
		}
	}
	for v, want := range map[any]string{
		math.NaN(): "step 7: json: unsupported value: NaN",
		3:          "step 7: found int, want a struct or a map",
	} {
		if err := m.Append(7, v); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	want := `{"step":0,"loss":3.25,"lr":0.0006,"a":"x\ny"}
{"step":1,"loss":null,"lr":0,"val_loss":2.5,"a":""}
{"step":2,"b":null,"z":1}
{"step":3}
`
	if got := read(t, path); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestOpenMetricsPurges(t *testing.T) {
	const old = "{\"step\":0,\"loss\":3}\n{\"step\":10}\n{\"loss\":2,\"step\":20}\n{\"step\":30}\n"
	const kept = "{\"step\":0,\"loss\":3}\n{\"step\":10}\n"
	for name, c := range map[string]struct {
		old   string
		first int64
		want  string
	}{
		"later steps":     {old, 11, kept},
		"nothing":         {old, 31, old},
		"new run":         {old, 0, ""},
		"torn line":       {kept + `{"step":2`, 31, kept},
		"torn late line":  {old + `{"step":2`, 15, kept},
		"lost line end":   {kept + `{"step":12}`, 31, kept},
		"zeros at end":    {kept + "\x00\x00\n", 31, kept},
		"only torn":       {"{", 31, ""},
		"empty":           {"", 31, ""},
		"stale in middle": {"{\"step\":5}\n{\"step\":99}\n{\"step\":6}\n", 7, "{\"step\":5}\n{\"step\":6}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "metrics.jsonl")
			if err := os.WriteFile(path, []byte(c.old), 0o640); err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			m, err := OpenMetrics(path, c.first)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Append(c.first, map[string]int{"x": 1}); err != nil {
				t.Fatal(err)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			var added bytes.Buffer
			if err := json.NewEncoder(&added).Encode(struct {
				Step int64 `json:"step"`
				X    int   `json:"x"`
			}{c.first, 1}); err != nil {
				t.Fatal(err)
			}
			if got := read(t, path); got != c.want+added.String() {
				t.Errorf("got\n%swant\n%s", got, c.want+added.String())
			}
			after, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if after.Mode() != before.Mode() {
				t.Errorf("mode %v, was %v", after.Mode(), before.Mode())
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
				t.Errorf("files left: %v, %v", files, err)
			}
		})
	}
}

func TestOpenMetricsErrorsLeaveTheFile(t *testing.T) {
	for name, c := range map[string]struct{ old, want string }{
		"not JSON": {"{\"step\":1}\nhello\n{\"step\":2}\n",
			`metrics.jsonl:2: found "hello", want a JSON object with an integer "step"`},
		"no step":    {"{\"loss\":1}\n{\"step\":2}\n", `metrics.jsonl:1: found "{\"loss\":1}"`},
		"text step":  {"{\"step\":\"1\"}\n{\"step\":2}\n", "metrics.jsonl:1: "},
		"empty line": {"\n{\"step\":2}\n", "metrics.jsonl:1: "},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "metrics.jsonl")
			if err := os.WriteFile(path, []byte(c.old), 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenMetrics(path, 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if got := read(t, path); got != c.old {
				t.Errorf("the file became %q", got)
			}
		})
	}
	if _, err := OpenMetrics(t.TempDir(), 0); err == nil {
		t.Error("a folder: found no error")
	}
}

// FuzzKeep checks that purging keeps whole lines of the old file with earlier steps, and that purging again changes
// nothing.
func FuzzKeep(f *testing.F) {
	f.Add([]byte("{\"step\":0}\n{\"step\":1}\n"), int64(1))
	f.Add([]byte("{\"step\":0}\n{\"st"), int64(1))
	f.Add([]byte("\n"), int64(0))
	f.Add([]byte("{\"step\":1e3}\n{\"step\":-1}\n"), int64(5))
	f.Fuzz(func(t *testing.T, old []byte, first int64) {
		kept, err := earlier(old, first)
		if err != nil {
			return
		}
		again, err := earlier(kept, first)
		if err != nil || !bytes.Equal(again, kept) {
			t.Errorf("a second time: %q, %v", again, err)
		}
		for line := range bytes.Lines(kept) {
			var at struct{ Step int64 }
			if err := json.Unmarshal(line, &at); err != nil || at.Step >= first || !bytes.Contains(old, line) {
				t.Errorf("kept %q: %v", line, err)
			}
		}
	})
}
