package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func lines(in, field string) (texts, names []string, err error) {
	err = eachLine(strings.NewReader(in), "x.jsonl", textLines{field}, func(d document) error {
		b, err := io.ReadAll(d.text)
		texts, names = append(texts, string(b)), append(names, d.name)
		return err
	})
	return texts, names, err
}

func TestJSONL(t *testing.T) {
	long := strings.Repeat("long line ", 20_000) // longer than the buffer
	in := "\ufeff" + `{"text": "a\nb", "id": 1}` + "\r\n\n  \t\n" +
		`{"meta": {"text": "not this"}, "text": "ünï 🐋 \ud83d\udc0b \ud800"}` + "\n" +
		`{"text": ""}` + "\n" +
		`{"text": "` + long + `"}` + "\n" +
		`{"Text": "other case", "text": "last"}`
	texts, names, err := lines(in, "text")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a\nb", "ünï 🐋 🐋 \ufffd", long, "last"}; !slices.Equal(texts, want) {
		t.Errorf("texts %.60q", texts)
	}
	if want := []string{"x.jsonl:1", "x.jsonl:4", "x.jsonl:6", "x.jsonl:7"}; !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
	if texts, _, err := lines(`{"body": "b"}`, "body"); err != nil || !slices.Equal(texts, []string{"b"}) {
		t.Errorf("%q, %v", texts, err)
	}
}

func TestJSONLErrors(t *testing.T) {
	for bad, want := range map[string][]string{
		`{"txt": "a", "id": 3}`: {`no field "text"`, `"id", "txt"`},
		`{}`:                    {`no field "text"`, "empty object"},
		`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}`: {`"h", …`},
		`{"text": 12}`:         {`field "text"`, `found "12"`, "want a string"},
		`{"text": null}`:       {`found "null"`, "want a string"},
		`{"text": ["a"]}`:      {`found "[\"a\"]"`, "want a string"},
		`["text"]`:             {"found a JSON array", "want an object"},
		`"text"`:               {"found a JSON string", "want an object"},
		`null`:                 {"found null", "want an object"},
		`{"text": "a"`:         {"unexpected end of JSON", `{\"text\"`},
		`{"text": "a"} {}`:     {"not a JSON object"},
		`plain text`:           {"not a JSON object", "plain text"},
		"{\"text\": \"\xff\"}": {"not UTF-8"},
	} {
		_, _, err := lines("{\"text\": \"good\"}\n\n"+bad+"\n{\"text\": \"good\"}\n", "text")
		wantError(t, err, append(want, "x.jsonl:3: ")...)
	}
	for _, none := range []string{"\n\n", "{\"text\": \"\"}\n"} {
		_, _, err := lines(none, "text")
		wantError(t, err, "x.jsonl", "no line has text")
	}
}

// endless is a reader of a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestJSONLLineTooLong(t *testing.T) {
	defer func(old int) { maxLine = old }(maxLine)
	maxLine = 1 << 20
	err := eachLine(endless{}, "x.jsonl", textLines{"text"}, func(document) error { return nil })
	wantError(t, err, "x.jsonl:1: line longer than 1048576 bytes")
}

// FuzzJSONL checks eachLine against encoding/json line by line: it accepts objects with a string, and nothing else.
func FuzzJSONL(f *testing.F) {
	for _, seed := range []string{
		"{\"text\": \"a\"}\n", "\ufeff{\"text\": \"a\\nb\"}\r\n\r\n{\"text\": \"\"}", `{"text": 1}`,
		`[]`, "\n", "{\"text\":\"\xff\"}",
		`{"text": "\ud800"}`, `{"text": "a", "text": "b"}`, `{"TEXT": "a"}`, "{\"text\"\n: \"a\"}", `{"text" : "a"}x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		texts, _, err := lines(string(in), "text")
		var want []string
		bad := false
		for i, line := range bytes.Split(bytes.TrimPrefix(in, []byte("\ufeff")), []byte("\n")) {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			var object map[string]any
			text, ok := "", false
			if utf8.Valid(line) && json.Unmarshal(line, &object) == nil {
				text, ok = object["text"].(string)
			}
			if !ok {
				bad = true
				if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("data: x.jsonl:%d: ", i+1)) {
					t.Fatalf("line %d %q: error %v", i+1, line, err)
				}
				break
			}
			if text != "" {
				want = append(want, text)
			}
		}
		if !slices.Equal(texts, want) {
			t.Fatalf("texts %q, want %q", texts, want)
		}
		if !bad && (err == nil) != (len(want) > 0) {
			t.Fatalf("%d texts and error %v", len(want), err)
		}
	})
}
