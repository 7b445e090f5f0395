package constrain

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The expected results for a document in testdata/suite.jsonl.
const (
	invalid   = iota
	taken     // valid, and can be written
	notTaken  // valid, but cannot be written, for reasons in docs/server.md
	falselyTo // invalid, but can be written, since oneOf is treated as anyOf
)

// TestSuite runs the tests of json-schema.org for draft 2020-12. It checks that all invalid documents are refused,
// except those that only oneOf excludes, that valid documents are accepted in some order of their properties as the
// file says, and that the error for an unsupported schema names the keyword.
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

// takesOrdered reports whether a grammar accepts a value with its properties in any order.
func takesOrdered(t *testing.T, g *Grammar, data []byte) bool {
	t.Helper()
	for _, text := range spellings(parseJSON("", data)) {
		if accepts(t, g, text) {
			return true
		}
	}
	return false
}

// spellings returns a value with its properties in all orders, up to a maximum number.
func spellings(v any) []string {
	const most = 600
	// join concatenates the spellings of parts.
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
