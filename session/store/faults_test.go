package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/session"
)

// TestEveryFlippedBitIsSeen checks that an object, encrypted or not, is refused if a bit of any byte is flipped, if it
// is truncated anywhere, or if it has the name of another.
func TestEveryFlippedBitIsSeen(t *testing.T) {
	for _, secret := range [][]byte{nil, []byte("0123456789abcdef")} {
		m, bucket := language(t, "s4d"), newMemory()
		s := open(t, m, Options{Memory: room, Bucket: bucket, Key: secret})
		g := Reading{Runner: session.Direct{}, Plan: whole(text(1, 30))}
		if _, _, err := s.Score(t.Context(), g, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		names := bucket.names()
		o, ok := parseName(names[0])
		other, ok2 := parseName(names[1])
		if !ok || !ok2 {
			t.Fatalf("names %q", names)
		}
		data := bucket.objects[names[0]]
		if _, logp, err := s.decode(o, data); err != nil || len(logp) == 0 {
			t.Fatalf("as it was written: %d log-probabilities, %v", len(logp), err)
		}
		for i := range data {
			damaged := slices.Clone(data)
			damaged[i] ^= 1 << (i % 8)
			if _, _, err := s.decode(o, damaged); err == nil {
				t.Fatalf("a bit of byte %d of %d is flipped, and nobody sees it", i, len(data))
			}
			if _, _, err := s.decode(o, data[:i]); err == nil {
				t.Fatalf("%d bytes are left of %d, and nobody sees it", i, len(data))
			}
		}
		other.size = o.size
		if _, _, err := s.decode(other, data); !errors.Is(err, session.ErrDamaged) {
			t.Errorf("a mark is taken for another: %v", err)
		}
	}
}

// TestNamesAreRead checks that names are parsed as they were written, and that other strings are refused.
func TestNamesAreRead(t *testing.T) {
	o := &object{model: "0123456789abcdef", key: key{1, 2}, position: 7, size: 9, before: none, written: 3}
	if got, ok := parseName(o.name()); !ok || got.name() != o.name() || got.position != 7 || got.clock != 3 {
		t.Fatalf("%q is read as %+v", o.name(), got)
	}
	for _, name := range []string{
		"", "x", "a/b/c", aside + o.name(), o.name() + "0x", o.name()[:len(o.name())-1] + "-1",
		strings.Replace(o.name(), "/01/", "/02/", 1), strings.Replace(o.name(), "-7-", "-07-", 1),
		strings.Replace(o.name(), "-9-", "-0-", 1), o.name()[:len(o.name())-1] + "9223372036854775807",
	} {
		if got, ok := parseName(name); ok {
			t.Errorf("%q is read as %+v", name, got)
		}
	}
}

// TestEncryptedMarksAreForTheKey checks that a store with another key or none finds nothing, and that the objects do
// not reveal the texts.
func TestEncryptedMarksAreForTheKey(t *testing.T) {
	m, bucket, ids := language(t, hybrid), newMemory(), text(1, 40)
	secret := []byte("0123456789abcdef")
	s := open(t, m, Options{Memory: room, Bucket: bucket, Key: secret})
	want(t, s, m, session.Direct{}, whole(ids))
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, k := range [][]byte{secret, []byte("fedcba9876543210"), nil} {
		found := want(t, open(t, m, Options{Memory: room, Bucket: bucket, Key: k}), m, session.Direct{}, whole(ids))
		if (found.Cached == 40) != (i == 0) {
			t.Errorf("key %d: found %d ids", i, found.Cached)
		}
	}
	for name, data := range bucket.objects {
		if strings.Contains(string(data), magic) || strings.Contains(string(data), "mamba") {
			t.Errorf("%s is not encrypted", name)
		}
	}
}

// TestDamagedObjectIsSetAside checks that a damaged object leads to a re-read, is reported with the name of the store,
// and is quarantined. The number of quarantined objects is limited.
func TestDamagedObjectIsSetAside(t *testing.T) {
	m, dir := language(t, hybrid), t.TempDir()
	for i := range 2 * mostAside {
		plan := whole(text(uint64(i), 40))
		s := open(t, m, Options{Memory: room, Bucket: Folder(dir)})
		want(t, s, m, session.Direct{}, plan)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range files(t, dir) {
			if path := filepath.Join(dir, name); !strings.HasPrefix(name, aside) && i%2 == 0 {
				err := os.Truncate(path, 100)
				if err != nil {
					t.Fatal(err)
				}
			} else if !strings.HasPrefix(name, aside) {
				flip(t, path, 200)
			}
		}
		var told []error
		s = open(t, m, Options{Memory: room, Bucket: Folder(dir), Report: func(err error) {
			told = append(told, err)
		}})
		r := &counting{}
		if want(t, s, m, r, plan); r.took() != 40 {
			t.Fatal("what was damaged was not read again")
		}
		if len(told) == 0 || !strings.Contains(told[0].Error(), "store "+dir) ||
			!strings.Contains(told[0].Error(), "it is damaged") {
			t.Fatalf("told %v", told)
		}
		want(t, s, m, r, plan)
		if n := r.took(); n != 0 {
			t.Fatalf("%d ids were read again", n)
		}
	}
	kept := slices.DeleteFunc(files(t, dir), func(name string) bool { return !strings.HasPrefix(name, aside) })
	if len(kept) != mostAside {
		t.Errorf("%d damaged objects are kept, want %d", len(kept), mostAside)
	}
}

// files returns the names of all files below a folder.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			path, err = filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// flip flips a bit of a file.
func flip(t testing.TB, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		data[at] ^= 4
		err = os.WriteFile(path, data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFullDisk checks that on a full disk the store continues in memory, that the error names the store, and that marks
// are written when there is space again.
func TestFullDisk(t *testing.T) {
	m, bucket := language(t, hybrid), newMemory()
	bucket.full = true
	var told []error
	var mu sync.Mutex
	s := open(t, m, Options{Memory: 60_000, Bucket: bucket, Report: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}})
	for i := range 20 {
		want(t, s, m, session.Direct{}, whole(text(uint64(i%7), 100)))
	}
	s.Close()
	named := func(err error) bool {
		return errors.Is(err, syscall.ENOSPC) && strings.Contains(err.Error(), "store of the test")
	}
	if len(told) == 0 || !named(told[0]) || s.Stats().Lost == 0 {
		t.Fatalf("told %v", told)
	}
	if err := s.Flush(t.Context()); !named(err) {
		t.Errorf("Flush returns %v", err)
	}
	bucket.full = false
	if err := s.Flush(t.Context()); err != nil || len(bucket.objects) != s.Stats().Marks {
		t.Errorf("%d objects of %d marks, %v", len(bucket.objects), s.Stats().Marks, err)
	}
}

// TestFlushWritesWhatOthersRemoved checks that Flush writes a mark again if it was removed from the bucket.
func TestFlushWritesWhatOthersRemoved(t *testing.T) {
	m, bucket := language(t, hybrid), newMemory()
	s := open(t, m, Options{Memory: room, Bucket: bucket, Refresh: -1})
	want(t, s, m, session.Direct{}, whole(text(1, 40)))
	for range 2 {
		if err := s.Flush(t.Context()); err != nil || len(bucket.objects) != s.Stats().Marks {
			t.Fatalf("%d objects of %d marks, %v", len(bucket.objects), s.Stats().Marks, err)
		}
		clear(bucket.objects)
		if found := s.Find(t.Context(), whole(text(1, 50))); found.Cached == 0 { // also lists the bucket
			t.Fatal("what is in memory is not found")
		}
	}
}

// TestManyAtOnce checks that goroutines that open texts in two stores with one folder get the same bits as reading the
// texts alone, within the budgets.
func TestManyAtOnce(t *testing.T) {
	m, dir := language(t, hybrid), t.TempDir()
	common := text(1, 50)
	var plans [][]session.Segment
	var wanted [][]float32
	for i := range 12 {
		plans = append(plans, whole(common[:20+i], text(uint64(i), 60)))
		wanted = append(wanted, plain(t, m, plans[i]))
	}
	o := Options{Memory: 100_000, Bucket: Folder(dir), Disk: 400_000, Refresh: time.Microsecond}
	stores := []*Store{open(t, m, o), open(t, m, o)}
	var g sync.WaitGroup
	for i := range 6 {
		g.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for range 15 {
				k, s := rng.IntN(len(plans)), stores[rng.IntN(2)]
				got, found, err := s.Open(context.Background(), Reading{Runner: session.Direct{}, Plan: plans[k]})
				if err != nil {
					t.Error(err)
					return
				}
				if !slices.Equal(bits(got), wanted[k]) {
					t.Errorf("text %d: other bits after %+v", k, *found)
				}
				if st := s.Stats(); st.Memory > o.Memory {
					t.Errorf("%d bytes in memory, want at most %d", st.Memory, o.Memory)
				}
			}
		})
	}
	g.Wait()
	for _, s := range stores {
		s.Close()
		check(t, s)
	}
	var size int64
	for _, name := range files(t, dir) {
		o, ok := parseName(name)
		if !ok {
			t.Fatalf("found %s", name)
		}
		size += o.size
	}
	if size > o.Disk+o.Disk/8 || size == 0 {
		t.Errorf("%d bytes in the folder, want at most %d", size, o.Disk)
	}
}

// TestClockChangesDoNoHarm checks that the choice of objects to evict does not depend on the times of files, and that
// no object is overlooked after the clock of the machine was set back.
func TestClockChangesDoNoHarm(t *testing.T) {
	m := language(t, hybrid)
	var left [2][]string
	for k := range left {
		dir := t.TempDir()
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 12 {
			s := open(t, m, Options{Memory: 9000, Bucket: Folder(dir), Disk: 150_000, Refresh: -1})
			want(t, s, m, session.Direct{}, whole(text(uint64(i%5), 60)))
			for _, name := range files(t, dir) {
				when := time.Unix(rng.Int64N(1<<32), 0)
				if err := os.Chtimes(filepath.Join(dir, name), when, when); k == 1 && err != nil {
					t.Fatal(err)
				}
			}
		}
		left[k] = files(t, dir)
	}
	if !slices.Equal(left[0], left[1]) || len(left[0]) == 0 {
		t.Errorf("left are %q, with other times %q", left[0], left[1])
	}
}

// TestOtherIdentityIsNotFound checks that marks of another model or with other pieces are not found and stay.
func TestOtherIdentityIsNotFound(t *testing.T) {
	m, bucket := language(t, hybrid), newMemory()
	ids := []session.Identity{{Model: "a", Chunk: chunk}, {Model: "b", Chunk: chunk}, {Model: "a", Chunk: chunk + 1}}
	for i, id := range ids {
		s := open(t, m, Options{Identity: id, Memory: room, Bucket: bucket})
		if found := want(t, s, m, session.Direct{}, whole(text(1, 40))); found.Cached != 0 {
			t.Errorf("found %d ids of another model", found.Cached)
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := (i + 1) * s.Stats().Marks; len(bucket.objects) != want {
			t.Errorf("%d objects, want %d", len(bucket.objects), want)
		}
	}
}

// TestDebrisIsSwept checks that listing a folder removes the temporary files of killed writers.
func TestDebrisIsSwept(t *testing.T) {
	m, dir := language(t, "s4d"), t.TempDir()
	for _, name := range []string{"a", "a/aa"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(path, "x"+disk.TmpMark+"0123456789abcdef")
		if err := os.WriteFile(path, []byte("torn"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	open(t, m, Options{Memory: room, Bucket: Folder(dir)})
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}
