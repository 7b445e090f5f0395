package constrain

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// What a test of testdata/suite.jsonl says of a document.
const (
	invalid   = iota
	taken     // it is valid, and can be written
	notTaken  // it is valid, and what is written is less: the reasons are in docs/server.md
	falselyTo // it is invalid, and can be written: of oneOf, which is read as anyOf
)

// TestSuite: of the tests of json-schema.org for draft 2020-12, all invalid documents are refused but for those that
// oneOf excludes, and valid ones are taken, in some order of their properties, as the file says; what is not supported
// is refused by the keyword's name.
func TestSuite(t *testing.T) {
	file, err := os.Open("testdata/suite.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	counts, refused := [4]int{}, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var c struct {
			File, Name, Refused string
			Schema              json.RawMessage
			Tests               [][2]json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		g, err := Schema(c.Schema)
		if c.Refused != "" {
			if refused++; err == nil || !strings.Contains(err.Error(), c.Refused) {
				t.Errorf("%s, %s: got %v, want an error about %s", c.File, c.Name, err, c.Refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s, %s: %v", c.File, c.Name, err)
			continue
		}
		for _, test := range c.Tests {
			want := int(test[1][0] - '0')
			counts[want]++
			if got := takesOrdered(t, g, test[0]); got != (want == taken || want == falselyTo) {
				t.Errorf("%s, %s: %s: got %v, want %d", c.File, c.Name, test[0], got, want)
			}
			if want == falselyTo && c.File != "oneOf" {
				t.Errorf("%s, %s: %s is invalid, and taken", c.File, c.Name, test[0])
			}
		}
	}
	t.Logf("%d invalid documents refused, %d valid ones taken, %d not, %d falsely; %d schemas refused", counts[invalid],
		counts[taken], counts[notTaken], counts[falselyTo], refused)
	if counts[invalid] < 500 || counts[taken] < 400 || refused < 100 {
		t.Error("that is not all of it")
	}
}

// takesOrdered reports whether a grammar takes a value with its properties in some order.
func takesOrdered(t *testing.T, g *Grammar, data []byte) bool {
	t.Helper()
	for _, text := range spellings(parseJSON("", data)) {
		if accepts(t, g, text) {
			return true
		}
	}
	return false
}

// spellings are a value with its properties in each order, up to a bound.
func spellings(v any) []string {
	const most = 600
	// join puts the spellings of parts one after another.
	join := func(parts [][]string, open, end string) []string {
		all := []string{open}
		for i, part := range parts {
			var next []string
			for _, before := range all {
				if i > 0 {
					before += ","
				}
				for _, one := range part {
					next = append(next, before+one)
				}
			}
			all = next[:min(len(next), most)]
		}
		for i := range all {
			all[i] += end
		}
		return all
	}
	var parts [][]string
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			parts = append(parts, spellings(one))
		}
		return join(parts, "[", "]")
	case *object:
		for _, key := range v.keys {
			var one []string
			for _, text := range spellings(v.values[key]) {
				one = append(one, `"`+quoted(key)+`":`+text)
			}
			parts = append(parts, one)
		}
		var all []string
		var order func(i int)
		order = func(i int) {
			if i >= len(parts)-1 || len(parts) > 6 {
				all = append(all, join(parts, "{", "}")...)
				return
			}
			for j := i; j < len(parts) && len(all) < most; j++ {
				parts[i], parts[j] = parts[j], parts[i]
				order(i + 1)
				parts[i], parts[j] = parts[j], parts[i]
			}
		}
		order(0)
		return all
	}
	return []string{scalar(v)}
}
