package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/buckettest"
	"github.com/hippo-ssm/hippo/session/store"
)

func open(t *testing.T, b store.Shared, term time.Duration) *Store {
	t.Helper()
	s, err := Open(b, Options{Term: term})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOneHistory checks that a record has one history, with every change that was reported as stored and none that was
// reported as not stored. Several servers change the record at the same time, through a bucket that is slow and fails.
// Servers are killed, sleep for longer than their terms, and have clocks that run at different speeds.
func TestOneHistory(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { oneHistory(t, seed) }) })
	}
}

func oneHistory(t *testing.T, seed uint64) {
	const name, servers, changes = "sessions/all/sess_A.json", 5, 12
	b := buckettest.New()
	if err := open(t, b.View(), time.Second).Put(name, []byte("begin")); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	stored, refused := map[string]bool{}, map[string]bool{}
	var all sync.WaitGroup
	for i := range servers {
		view := b.View()
		s := open(t, view, time.Duration(4+3*i)*time.Second)
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		var of sync.Mutex // guards rng
		chance := func(n int) bool { of.Lock(); defer of.Unlock(); return rng.IntN(n) == 0 }
		pause := func(most time.Duration) time.Duration {
			of.Lock()
			defer of.Unlock()
			return time.Duration(rng.Int64N(int64(most)))
		}
		view.Hook(func(string, string) error {
			time.Sleep(pause(400 * time.Millisecond))
			if chance(300) {
				time.Sleep(pause(3 * time.Minute)) // the server sleeps, and wakes as if nothing had happened
			}
			if chance(40) {
				return errors.New("refused")
			}
			return nil
		}, func(string, string) error {
			if chance(40) {
				return errors.New("the answer is lost")
			}
			return nil
		})
		all.Go(func() {
			defer s.Close()
			for n := range changes {
				if i == 0 && n == changes/2 { // killed while it holds the record
					if l, err := s.Lock(name); err == nil {
						view.Cut(true)
						defer l.Release()
					}
					return
				}
				token := fmt.Sprintf("%d.%d", i, n)
				err := changeOnce(s, name, token, pause)
				mu.Lock()
				switch {
				case err == nil:
					stored[token] = true
				case !errors.Is(err, ErrUnavailable):
					refused[token] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	final, err := open(t, b.View(), time.Second).Get(name)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(final))
	for token := range stored {
		if !slices.Contains(got, token) {
			t.Errorf("%s was stored and is lost: %s", token, final)
		}
	}
	for i, token := range got {
		if refused[token] || slices.Contains(got[:i], token) {
			t.Errorf("%s was refused, or is there twice: %s", token, final)
		}
	}
	if len(stored) < servers {
		t.Errorf("only %d changes were stored", len(stored))
	}
}

// changeOnce waits until it holds a record, then appends a token to it.
func changeOnce(s *Store, name, token string, pause func(time.Duration) time.Duration) error {
	for {
		l, err := s.Lock(name)
		if errors.Is(err, ErrHeld) {
			time.Sleep(pause(time.Second))
			continue
		}
		if err != nil {
			return err
		}
		defer l.Release()
		before, err := s.Get(name)
		if err != nil {
			return err
		}
		time.Sleep(pause(8 * time.Second)) // stands for the time in which the model writes
		return s.Put(name, fmt.Appendf(nil, "%s %s", before, token))
	}
}

// TestLeases checks that one server takes a free record, that nobody takes a record whose holder renews the lease, and
// that another server takes one whose holder has not renewed the lease for a term. The holder that has lost the record
// learns of it, and changes nothing.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "responses/all/conv_A.json"
		bucket := buckettest.New()
		view := bucket.View()
		a, b := open(t, view, 10*time.Second), open(t, bucket.View(), 10*time.Second)
		if _, err := a.Lock(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a record that is not there: %v", err)
		}
		if err := errors.Join(a.Put(name, []byte("1"))); err != nil {
			t.Fatal(err)
		}
		if err := b.Put(name, []byte("2")); !errors.Is(err, ErrLost) {
			t.Errorf("created again: %v", err)
		}
		l, err := a.Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := b.Lock(name); !errors.Is(err, ErrHeld) {
				t.Fatalf("taken from one that renews it: %v", err)
			}
			time.Sleep(5 * time.Second)
		}
		view.Cut(true)
		time.Sleep(time.Minute)
		if _, err := b.Lock(name); !errors.Is(err, ErrHeld) { // b has not seen the latest entry before
			t.Fatalf("taken at first sight: %v", err)
		}
		time.Sleep(11 * time.Second)
		m, err := b.Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Put(name, []byte("3")); err != nil {
			t.Fatal(err)
		}
		view.Cut(false)
		if err := a.Put(name, []byte("4")); !errors.Is(err, ErrLost) {
			t.Errorf("a change of what was lost: %v", err)
		}
		select {
		case <-l.Lost():
		default:
			t.Error("it has not heard that the record is lost")
		}
		l.Release()
		m.Release()
		if got, err := a.Get(name); err != nil || string(got) != "3" {
			t.Errorf("got %q, %v", got, err)
		}
		for range 30 { // old entries are deleted
			if l, err = b.Lock(name); err != nil {
				t.Fatal(err)
			}
			l.Release()
		}
		if err := errors.Join(a.Remove(name), a.Remove(name)); err != nil {
			t.Error(err)
		}
		a.Close()
		b.Close()
		if _, err := b.Get(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after it was removed: %v", err)
		}
		if err := b.Put(name, []byte("5")); !errors.Is(err, errPassed) {
			t.Errorf("created after it was removed: %v", err)
		}
		if all, err := b.List("responses/all"); len(all) != 0 || err != nil {
			t.Errorf("the list has %v, %v", all, err)
		}
		if names := bucket.Names(); len(names) != 2 { // the last entry and the gone object
			t.Errorf("left are %q", names)
		}
		time.Sleep(8 * 24 * time.Hour)
		if _, err := b.List("responses/all"); err != nil {
			t.Error(err)
		}
		b.Close()
		if names := bucket.Names(); len(names) != 0 {
			t.Errorf("left are %q", names)
		}
	})
}

// TestReadAsItIsLost checks that a server gets the new content if it reads its record while it finds out that another
// server has changed it.
func TestReadAsItIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "a/conv_A"
		bucket := buckettest.New()
		view := bucket.View()
		a, b := open(t, view, 10*time.Second), open(t, bucket.View(), 10*time.Second)
		if err := a.Put(name, []byte("1")); err != nil {
			t.Fatal(err)
		}
		l, err := a.Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Change(name, func([]byte) ([]byte, error) { return []byte("2"), nil }); err != nil {
			t.Fatal(err)
		}
		view.Hook(func(string, string) error { time.Sleep(time.Second); return nil }, nil)
		time.Sleep(2500 * time.Millisecond) // in the middle of renewing the lease
		if got, err := a.Get(name); err != nil || string(got) != "2" {
			t.Errorf("got %q, %v", got, err)
		}
		<-l.Lost()
		l.Release()
		a.Close()
		b.Close()
	})
}

// TestLostAnswers checks that a server that does not learn whether the bucket has stored its entry finds out, and
// continues from that entry.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view := buckettest.New().View()
		s := open(t, view, time.Minute)
		if err := s.Put("a/conv_A", []byte("1")); err != nil {
			t.Fatal(err)
		}
		l, err := s.Lock("a/conv_A")
		if err != nil {
			t.Fatal(err)
		}
		view.Hook(nil, func(string, string) error { return errors.New("the answer is lost") })
		if err := l.Put([]byte("2"), false); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		view.Hook(nil, nil)
		if err := l.Put([]byte("3"), false); err != nil {
			t.Errorf("it has not found its own entry: %v", err)
		}
		if got, err := open(t, view, time.Minute).Get("a/conv_A"); err != nil || string(got) != "3" {
			t.Errorf("got %q, %v", got, err)
		}
		l.Release()
		s.Close()
	})
}

// replacing is a bucket that ignores conditions.
type replacing struct{ *buckettest.View }

func (r replacing) Create(ctx context.Context, name string, data []byte) error {
	return r.Put(ctx, name, data)
}

// TestBucketWithoutConditions checks that Open refuses a bucket without conditional writes, and a bucket that fails.
func TestBucketWithoutConditions(t *testing.T) {
	view := buckettest.New().View()
	if _, err := Open(replacing{view}, Options{}); err == nil || !strings.Contains(err.Error(), "If-None-Match") {
		t.Errorf("got %v", err)
	}
	view.Cut(true)
	if _, err := Open(view, Options{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// TestFolderIsShared checks that a folder has the guarantees that a bucket must have.
func TestFolderIsShared(t *testing.T) {
	b, err := store.Connect(t.Context(), "file://"+t.TempDir()+"/new")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, b, time.Second)
	var all sync.WaitGroup
	var mu sync.Mutex
	wins := 0
	for i := range 20 {
		all.Go(func() {
			if err := s.Add("a/b", fmt.Append(nil, i)); err == nil {
				mu.Lock()
				wins++
				mu.Unlock()
			} else if !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if wins != 1 {
		t.Errorf("%d have created one object", wins)
	}
	var names []string
	if err := s.Find("a/", func(e store.Entry) { names = append(names, e.Name) }); err != nil || len(names) != 1 ||
		names[0] != "a/b" {
		t.Errorf("found %q, %v", names, err)
	}
	for _, url := range []string{"file://relative/x", "s3://bucket", "x", "file:///a?b"} {
		if _, err := store.Connect(t.Context(), url); err == nil {
			t.Errorf("%s: no error", url)
		}
	}
}
