package batch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestOwnersSeeTheirOwn checks that an owner cannot find, list, read, use, cancel or delete what belongs to another.
func TestOwnersSeeTheirOwn(t *testing.T) {
	s := open(t, Options{})
	b := ended(t, s, begin(t, s, "alice", requests(3)))
	f, err := s.upload("bob", requests(1))
	if err != nil {
		t.Fatal(err)
	}
	files, _, _ := s.Files("bob", "", Page{Limit: 100})
	batches, _, _ := s.Batches("bob", false, Page{Limit: 100})
	if len(files) != 1 || files[0].ID != f.ID || len(batches) != 0 {
		t.Errorf("bob sees %v and %v", files, batches)
	}
	for name, err := range map[string]error{
		"file":   func() error { _, err := s.File("bob", b.Input); return err }(),
		"open":   func() error { _, _, err := s.OpenFile("bob", b.Output); return err }(),
		"delete": s.DeleteFile("bob", b.Input),
		"batch":  func() error { _, err := s.Batch("bob", b.ID, false); return err }(),
		"cancel": func() error { _, err := s.Cancel("bob", b.ID, false); return err }(),
		"use": func() error {
			_, err := s.AddBatch("bob", Wish{Input: b.Input, Endpoint: endpoint, Window: "24h"})
			return err
		}(),
		"after": func() error { _, _, err := s.Files("bob", "", Page{After: b.Input, Limit: 1}); return err }(),
		"path":  func() error { _, _, err := s.OpenFile("bob", "../"+f.ID); return err }(),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestLimits checks that files and batches that are too large or too many are refused, and leave nothing behind.
func TestLimits(t *testing.T) {
	vaults(t, func(t *testing.T, o Options) {
		stand := make(chan struct{})
		o.MaxFile, o.MaxTotal, o.MaxOwner, o.MaxFiles, o.MaxBatches = 1000, 3500, 2500, 4, 1
		o.Do = func(ctx context.Context, q Request) (Response, error) { <-stand; return echo(ctx, q) }
		s := open(t, o)
		defer close(stand)
		if _, err := s.upload("a", strings.Repeat("x", 1001)); !errors.Is(err, ErrLimit) ||
			strings.Contains(err.Error(), "/") {
			t.Errorf("a large file: %v", err)
		}
		if _, err := s.AddFile("a", func(w io.Writer) (string, error) {
			io.WriteString(w, "some")
			return "", errors.New("gone")
		}); err == nil || err.Error() != "gone" || s.total != 0 {
			t.Errorf("a client that goes: %v, %d bytes are left", err, s.total)
		}
		for i, want := range []error{nil, nil, ErrLimit} {
			if _, err := s.upload("a", strings.Repeat("x", 1000)); !errors.Is(err, want) {
				t.Errorf("file %d of an owner: %v", i, err)
			}
		}
		f, err := s.upload("b", requests(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.upload("b", strings.Repeat("x", 1000)); err != nil {
			t.Error(err)
		}
		if _, err := s.upload("b", strings.Repeat("x", 1000)); !errors.Is(err, ErrLimit) {
			t.Errorf("all files: %v", err)
		}
		w := Wish{Input: f.ID, Endpoint: endpoint, Window: "1h"}
		for i, want := range []error{nil, ErrLimit} {
			if _, err := s.AddBatch("b", w); !errors.Is(err, want) {
				t.Errorf("batch %d of an owner: %v", i, err)
			}
		}
		if err := s.DeleteFile("b", f.ID); !errors.Is(err, ErrInUse) {
			t.Errorf("a file that is read: %v", err)
		}
		for i, bad := range []Wish{
			{Endpoint: endpoint, Window: "1h"}, {Input: f.ID, Endpoint: "/etc", Window: "1h"},
			{Input: f.ID, Endpoint: endpoint, Window: "soon"}, {Input: f.ID, Endpoint: endpoint, Window: "-1h"},
			{Input: f.ID, Endpoint: endpoint, Window: "1000h"},
			{Input: f.ID, Endpoint: endpoint, Window: "1h", Metadata: map[string]string{"k": strings.Repeat("v", 513)}},
		} {
			var field *FieldError
			if _, err := s.AddBatch("b", bad); !errors.As(err, &field) {
				t.Errorf("batch %d that is wrong: %v", i, err)
			}
		}
	})
}

// TestFullStore checks that a batch whose answers exceed the space fails, with the reason and the answers that did fit.
func TestFullStore(t *testing.T) {
	s := open(t, Options{MaxTotal: 6000, Together: 1, Do: func(context.Context, Request) (Response, error) {
		return Response{http.StatusOK, []byte(`"` + strings.Repeat("x", 2000) + `"`)}, nil
	}})
	b := ended(t, s, begin(t, s, "", requests(5)))
	if b.Status != Failed || b.Problems[0].Code != "storage_limit_exceeded" {
		t.Errorf("got %+v", b)
	}
	if out := read(t, s, "", b.Output); b.Counts.Completed < 1 || strings.Count(out, "\n") != b.Counts.Completed {
		t.Errorf("%d are done, and the output has %d bytes", b.Counts.Completed, len(out))
	}
	var all int64
	files, _, err := s.Files("", "", Page{Limit: 9})
	for _, f := range files {
		all += f.Bytes
	}
	if err != nil || s.Used() != all {
		t.Errorf("%d bytes are counted, want %d (%v)", s.Used(), all, err)
	}
}

// TestPages checks that a list is the same in pages of any size, oldest or newest first.
func TestPages(t *testing.T) {
	s := open(t, Options{})
	var all []string
	for range 7 {
		f, err := s.upload("a", "x")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f.ID)
	}
	for _, ascending := range []bool{true, false} {
		for size := 1; size < 9; size++ {
			var got []string
			p := Page{Limit: size, Ascending: ascending}
			for more := true; more; {
				var files []File
				var err error
				if files, more, err = s.Files("a", PurposeBatch, p); err != nil || len(files) == 0 {
					t.Fatal(files, err)
				}
				for _, f := range files {
					got = append(got, f.ID)
				}
				p.After = got[len(got)-1]
			}
			if !ascending {
				slices.Reverse(got)
			}
			if !slices.Equal(got, all) {
				t.Errorf("in pages of %d: %v, want %v", size, got, all)
			}
		}
	}
}

// TestNames checks that a client's name for a file is shown without unprintable characters, and is not used as a path.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	f, err := s.AddFile("a", func(io.Writer) (string, error) {
		return "../../x\x00\x1b[31m\u202e海" + strings.Repeat("é", 500), nil
	})
	if err != nil || !strings.HasPrefix(f.Name, "../../x__[31m_海éé") || len(f.Name) > maxName {
		t.Errorf("got %q, %v", f.Name, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 { // including the lock
		t.Errorf("the folder has %v (%v)", entries, err)
	}
}
