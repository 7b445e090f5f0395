package watch_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/watch"
)

// texts returns the texts of lines.
func texts(lines []watch.Line) (all []string) {
	for _, l := range lines {
		all = append(all, string(l.Text))
	}
	return all
}

// TestPipe checks that lines keep every byte, that long lines are cut and their cut bytes counted even if they exceed
// the buffer, and that text after the last newline is a line, too.
func TestPipe(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	in := "one\n\n\x00\xff\r\n" + long + "\nlast"
	to := make(chan watch.Line, 16)
	r := &watch.Reader{MaxLine: 8, Lines: to}
	s := &watch.Stream{}
	if err := r.Pipe(t.Context(), s, strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	close(to)
	var got []watch.Line
	for l := range to {
		got = append(got, l)
	}
	want := []string{"one\n", "\n", "\x00\xff\r\n", "xxxxxxxx\n", "last"}
	if !slices.Equal(texts(got), want) || got[3].Cut != 200_000-8 || got[0].Cut != 0 {
		t.Errorf("lines %q, %d bytes cut", texts(got), got[3].Cut)
	}
}

// write appends text to a file.
func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFollow checks that a followed file is read as it grows, across a rotation without losing a line and across a
// truncation, and that reading continues from a place unless the file is another one.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	to := make(chan watch.Line, 16)
	var notes []string
	r := &watch.Reader{MaxLine: 100, Follow: true, Lines: to, Note: func(text string) { notes = append(notes, text) }}
	s := &watch.Stream{}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.File(ctx, s, path, watch.Place{}) }()
	var last watch.Place
	next := func(want string) {
		t.Helper()
		select {
		case l := <-to:
			if last = l.Place; string(l.Text) != want {
				t.Fatalf("found %q, want %q", l.Text, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("found no line, want %q", want)
		}
	}
	write(t, path, "a\nhalf")
	next("a\n")
	write(t, path, " of it\n")
	next("half of it\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, path+".1", "late\n")
	write(t, path, "new, and longer than before\n")
	next("late\n")
	next("new, and longer than before\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write(t, path, "again\n")
	next("again\n")
	end()
	if err := <-done; err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
	if text := strings.Join(notes, " "); !strings.Contains(text, "was truncated") {
		t.Errorf("notes %q, want that of a file that was truncated", notes)
	}

	write(t, path, "more\n")
	r.Follow = false
	if err := r.File(t.Context(), s, path, last); err != nil {
		t.Fatal(err)
	}
	next("more\n")
	if err := os.WriteFile(path, []byte("other\nmore\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := r.File(t.Context(), s, path, last); err != nil {
		t.Fatal(err)
	}
	next("other\n")
	next("more\n")
}
