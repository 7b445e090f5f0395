package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// conversing is a hippo run on a terminal on which a test types.
type conversing struct {
	*pty
	t    *testing.T
	seen int // bytes of its output that the test has read
}

func converseWith(t *testing.T, dir string, args ...string) *conversing {
	t.Helper()
	cmd := command(dir, append([]string{"run"}, args...)...)
	cmd.Stdin = keyboard
	return &conversing{pty: onTerminal(t, cmd), t: t}
}

// typed types text after the next prompt.
func (c *conversing) typed(text string) {
	c.t.Helper()
	c.after(">>> ")
	c.key(text)
}

func (c *conversing) key(text string) {
	c.t.Helper()
	if _, err := c.keys.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// after waits for text in the output since the last call, and returns the output before it.
func (c *conversing) after(text string) string {
	c.t.Helper()
	var before string
	c.waitFor(text, func() (found bool) {
		before, _, found = strings.Cut(c.text()[c.seen:], text)
		return found
	})
	c.seen += len(before) + len(text)
	return before
}

// TestConverse checks a conversation on a terminal, with every command and lines of every kind.
func TestConverse(t *testing.T) {
	t.Parallel()
	dir := oneStep(t)
	// The model's reply is one token, always the same. The template shows roles and contents.
	const source = `{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}`
	if err := os.WriteFile(filepath.Join(dir, "chat.jinja"), []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	c := converseWith(t, dir, "run", "--template", "chat.jinja", "--max_tokens", "2", "--temperature", "0")
	c.typed("/help\r")
	c.after("/save FILE")
	c.typed("one\r")
	c.typed("two \\\r")
	c.after("... ")
	c.key("lines\r")
	c.typed("\"\"\"three\r")
	c.after("... ")
	c.key("\r")
	c.after("... ")
	c.key("more\"\"\"\r")
	c.typed("/system Be brief.\r")
	c.typed("/save chat.json\r")
	c.after("wrote 7 messages to chat.json")
	saved, err := os.ReadFile(filepath.Join(dir, "chat.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"one"`, `"two \nlines"`, `"three\n\nmore"`, `"Be brief."`} {
		if !strings.Contains(string(saved), want) {
			t.Errorf("the file lacks %s: %s", want, saved)
		}
	}
	c.typed("/stats\r")
	c.after("7 messages, ")
	c.typed("/undo\r")
	c.typed("/fork other\r")
	if before := c.after(">>> "); !strings.HasSuffix(before, "other") {
		t.Errorf("the prompt of a fork does not name it: %q", before)
	}
	c.key("/undo\r")
	c.typed("/save other.json\r")
	c.after("wrote 3 messages")
	c.typed("/fork main\r")
	c.typed("/save main.json\r")
	c.after("wrote 5 messages")
	c.typed("/load chat.json\r")
	c.after("read 7 messages")
	c.typed("/load nothing.json\r")
	c.after("nothing.json")
	c.typed("/nonsense\r")
	c.after("/nonsense, want one of /help")
	c.typed("/set\r")
	c.after("temperature          0 ")
	c.typed("/set temperature much\r")
	c.after(`/set: temperature: found "much", want a number`)
	c.typed("/set temperatur 1\r")
	c.after("did you mean temperature")
	c.typed("/set max_tokens 1\r")
	c.typed("/set\r")
	c.after("max_tokens           1 ")
	c.typed("/retry\r")
	c.typed("/save again.json\r")
	c.after("wrote 7 messages")
	if again, err := os.ReadFile(filepath.Join(dir, "again.json")); err != nil ||
		strings.Count(string(again), `"three\n\nmore"`) != 1 {
		t.Errorf("/retry: %v\n%s", err, again)
	}
	c.typed("/undo\r")
	c.typed("/undo\r")
	c.typed("/undo\r")
	c.typed("/undo\r")
	c.after("no message to remove")
	c.typed("/retry\r")
	c.after("no message to reply to")
	c.typed("/undo\r")
	c.after("no message to remove")
	c.typed("/undo\r")
	c.after("no message to remove")
	c.typed("\x1b[A\x1b[A\r") // the last line but one: /undo
	c.after("no message to remove")
	c.typed("/bye\r")
	c.wantEnd(0)
}

// TestConverseKeys checks that Ctrl-C stops a reply but not the program, that a second Ctrl-C or Ctrl-D ends the
// program, and that no control characters of a model reach the terminal.
func TestConverseKeys(t *testing.T) {
	t.Parallel()
	dir := oneStep(t)
	args := []string{"run", "--temperature", "2", "--top_k", "0", "--seed", "1", "--max_tokens", "100000000"}
	c := converseWith(t, dir, args...)
	c.after("The model has no chat template: it continues your text.")
	c.typed("red\r")
	c.after(`\x`)
	c.key("\x03")
	reply := c.after("(stopped)")
	if found := regexp.MustCompile(`[^\P{Cc}\n\t]`).FindString(strings.TrimLeft(reply, "\r")); found != "" {
		t.Errorf("the terminal gets %q of a reply: %q", found, reply)
	}
	c.typed("/stats\r")
	c.after("2 messages, ")
	c.typed("blue\r")
	c.after(`\x`)
	c.key("\x03")
	c.after("(stopped)")
	c.typed("\x03")
	c.wantEnd(0)

	c = converseWith(t, dir, args...)
	c.typed("not sent\x03")
	c.after("Ctrl-C again")
	c.typed("/stats\r") // so that the next Ctrl-C counts as a first one
	c.after("0 messages")
	c.typed("\x03")
	c.after("Ctrl-C again")
	c.typed("\x04")
	c.wantEnd(0)

	c = converseWith(t, dir, args...)
	c.after(">>> ")
	c.signal(os.Interrupt) // not typed on the terminal
	c.wantEnd(130)
}

// TestConversePaste checks that lines that are pasted together are one message.
func TestConversePaste(t *testing.T) {
	t.Parallel()
	dir := oneStep(t)
	c := converseWith(t, dir, "run", "--max_tokens", "2")
	c.typed("\x1b[200~one\rtwo\rthree\x1b[201~")
	c.after("three")
	c.key("\r")
	c.typed("/save chat.json\r")
	c.after("wrote 2 messages")
	c.typed("\x04")
	c.wantEnd(0)
	saved, err := os.ReadFile(filepath.Join(dir, "chat.json"))
	if err != nil || !strings.Contains(string(saved), `"one\ntwo\nthree"`) {
		t.Errorf("got %s, %v", saved, err)
	}
}
