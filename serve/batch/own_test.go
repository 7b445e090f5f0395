package batch

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// addOwn starts a batch with its own files.
func addOwn(t *testing.T, s *Store, n int) Batch {
	t.Helper()
	b, err := s.AddOwn("", endpoint, n, func(w io.Writer) (err error) {
		for i := range n {
			_, err = fmt.Fprintf(w, `{"custom_id":"%d","method":"POST","url":%q,"body":{"n":%d}}`+"\n", i, endpoint, i)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOwnFiles checks that a batch with its own files continues after a restart, and that its files are removed with
// it, even if the process ends in between.
func TestOwnFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	b := ended(t, s, addOwn(t, s, 3))
	if b.Counts != (Counts{Total: 3, Completed: 3}) || strings.Count(read(t, s, "", b.Output), "\n") != 3 {
		t.Fatalf("got %+v", b)
	}
	if files, _, err := s.Files("", "", Page{Limit: 9}); err != nil || len(files) != 0 {
		t.Errorf("the files are in the list: %v, %v", files, err)
	}
	if all, _, err := s.Batches("", false, Page{Limit: 9}); err != nil || len(all) != 0 {
		t.Errorf("got %v, %v", all, err)
	}
	used := s.Used()
	s.Close()
	s = open(t, Options{Dir: dir})
	if again, err := s.Batch("", b.ID, true); err != nil || again.Output != b.Output || s.Used() != used || used == 0 {
		t.Errorf("after a restart: %+v, %v, %d bytes of %d", again, err, s.Used(), used)
	}
	if err := s.vault.remove(b.ID + described); err != nil { // like a process that ends at this point
		t.Fatal(err)
	}
	s.Close()
	s = open(t, Options{Dir: dir})
	names, err := s.vault.names()
	left := slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, ".") })
	if err != nil || len(left) != 0 || s.Used() != 0 {
		t.Errorf("left are %v, %v, %d bytes", left, err, s.Used())
	}
}

// TestDeleteOwn checks that only a batch with its own files can be deleted, and only by its owner.
func TestDeleteOwn(t *testing.T) {
	s := open(t, Options{})
	b := ended(t, s, addOwn(t, s, 2))
	c := begin(t, s, "", `{"custom_id":"a"}`)
	ended(t, s, c)
	for id, want := range map[string]bool{c.ID: false, "msgbatch_": false, b.ID: true} {
		if err := s.DeleteOwn("", id); (err == nil) != want {
			t.Errorf("%s: got %v", id, err)
		}
	}
	if err := s.DeleteOwn("bob", b.ID); err == nil {
		t.Error("another deleted it")
	}
}
