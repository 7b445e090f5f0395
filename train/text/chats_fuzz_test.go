package text

import (
	"strings"
	"testing"
)

// FuzzChats checks that any line of a file of chats is an error, or gives documents that each begin with a given part
// and have something to learn.
func FuzzChats(f *testing.F) {
	for _, line := range []string{
		`{"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}`,
		`{"messages": [{"role": "user", "content": [{"text": "Q"}]}, {"role": "assistant", "content": "A"}]}`,
		`{"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "tool_calls": [1]}], "tools": [1]}`,
		`{"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]}`,
		`{"prompt": "Q", "completion": "A"}`, `{"prompt": [{"role": "user", "content": "Q"}], "response": []}`,
		`{"messages": null, "prompt": 1}`, `{}`, `[]`, `null`, "\xff",
	} {
		f.Add([]byte(line))
	}
	c, err := newChats(map[string][]byte{"chat_template.jinja": []byte(templates["forgets"] + "{{ tools }}")}, "", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		documents, err := c.Read(line)
		if err != nil {
			return
		}
		for _, parts := range documents {
			if !parts[0].Given {
				t.Errorf("%s: a document begins with %q, which counts", line, parts[0].Text)
			}
			some := false
			for _, p := range parts {
				some = some || !p.Given && strings.TrimSpace(p.Text) != ""
			}
			if !some && !strings.Contains(string(line), "completion") && !strings.Contains(string(line), "response") {
				t.Errorf("%s: nothing counts in %+v", line, parts)
			}
		}
	})
}
