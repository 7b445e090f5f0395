package batch

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzBatch checks that a batch of any file ends, with a line of JSON for each of its requests.
func FuzzBatch(f *testing.F) {
	for _, text := range []string{
		requests(6), "", "\n\n", "{}", "[]\n\xff\n", `{"custom_id":"a","method":"POST","url":"/v1/echo","body":{}}`,
		`{"custom_id":"\u0000\ud800","method":"POST","url":"/v1/echo","body":{"stream":null,"a":[1e999]}}` + "\r\n\r\n",
	} {
		f.Add(text)
	}
	s := open(f, Options{MaxLine: 200, MaxLines: 20})
	f.Fuzz(func(t *testing.T, text string) {
		b := ended(t, s, begin(t, s, "a", text))
		out := read(t, s, "a", b.Output) + read(t, s, "a", b.Errors)
		n := strings.Count(out, "\n")
		if c := b.Counts; b.Status == Completed && (n != c.Total || c.Completed+c.Failed != n) || b.Status == Failed &&
			(n > 0 || len(b.Problems) != 1) || b.Status != Completed && b.Status != Failed {
			t.Errorf("%d lines of %+v", n, b)
		}
		for line := range strings.Lines(out) {
			var r result
			err := json.Unmarshal([]byte(line), &r)
			if err != nil || r.ID == "" || r.Response == nil && r.Error == nil {
				t.Errorf("found %q (%v)", line, err)
			}
		}
		files, _, err := s.Files("a", "", Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := s.DeleteFile("a", f.ID); err != nil {
				t.Error(err)
			}
		}
		if s.total != 0 {
			t.Errorf("%d bytes are counted of no files", s.total)
		}
		s.mu.Lock()
		clear(s.batches)
		s.mu.Unlock()
	})
}

// FuzzJournal checks that the complete records at the start of any data are read, and that writing continues after
// them.
func FuzzJournal(f *testing.F) {
	whole := `{"line":1,"good":true,"result":{"a":1}}` + "\n" + `{"line":3,"good":false,"result":{}}` + "\n"
	for _, text := range []string{"", whole, whole[:50], whole + "\x00\x00\n", whole + whole, "{}\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newMemory()
		m.data["j"] = bytes.Clone(data)
		d, err := readJournal(m, "j")
		if err != nil || d.size > int64(len(data)) || len(d.lines) != len(d.marks) ||
			d.counts.Completed+d.counts.Failed != len(d.marks) {
			t.Fatalf("got %+v, %v", d, err)
		}
		if d.lines[7] {
			return
		}
		j, err := m.extend("j", d.size)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Write([]byte(`{"line":7,"good":true,"result":[7]}` + "\n")); err != nil {
			t.Fatal(err)
		}
		again, err := readJournal(m, "j")
		if err != nil || len(again.marks) != len(d.marks)+1 || !again.lines[7] {
			t.Fatalf("got %+v, %v", again, err)
		}
		var out bytes.Buffer
		if err := again.write(&out, m, "j", true); err != nil || bytes.Count(out.Bytes(), []byte("\n")) !=
			again.counts.Completed {
			t.Fatalf("got %q, %v", out.Bytes(), err)
		}
	})
}
