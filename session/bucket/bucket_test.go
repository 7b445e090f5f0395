package bucket

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// urls returns the URL of a bucket for every driver that is linked without tags.
func urls(t *testing.T) []string { return []string{"mem://", "file://" + t.TempDir()} }

// TestBucket checks that an object can be put, listed, read and deleted.
func TestBucket(t *testing.T) {
	for _, url := range urls(t) {
		b, err := Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		check(t, b)
		if b.String() != url {
			t.Errorf("it is called %s", b)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(t.Context(), "nothing://x"); err == nil {
		t.Error("opened a bucket without a driver")
	}
}

// check tests operations on an empty bucket.
func check(t *testing.T, b *Bucket) {
	t.Helper()
	ctx := t.Context()
	names := func() (out []string) {
		if err := b.List(ctx, func(name string) { out = append(out, name) }); err != nil {
			t.Errorf("%s: %v", b, err)
		}
		slices.Sort(out)
		return out
	}
	if _, err := b.Get(ctx, "a/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: what is not there: %v", b, err)
	}
	for _, name := range []string{"a/b", "a/c-1"} {
		if err := b.Put(ctx, name, []byte(name)); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
	}
	if data, err := b.Get(ctx, "a/b"); err != nil || string(data) != "a/b" {
		t.Errorf("%s: got %q, %v", b, data, err)
	}
	if got := names(); !slices.Equal(got, []string{"a/b", "a/c-1"}) {
		t.Errorf("%s has %q", b, got)
	}
	for range 2 { // the second time it does not exist
		if err := b.Delete(ctx, "a/b"); err != nil {
			t.Errorf("%s: %v", b, err)
		}
	}
	if got := names(); !slices.Equal(got, []string{"a/c-1"}) {
		t.Errorf("%s has %q", b, got)
	}
	if err := b.Delete(ctx, "a/c-1"); err != nil {
		t.Errorf("%s: %v", b, err)
	}
}

// TestStoresShareABucket checks that a store continues from a text that another store has read, with the same bits.
func TestStoresShareABucket(t *testing.T) {
	for _, url := range urls(t) {
		b, err := Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		share(t, b)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// share reads a text in one store of a bucket. It checks that another store continues from it, only in the same scope.
func share(t *testing.T, b *Bucket) {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState = 16, 64, "mamba,attention", 2, 8
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	ids := make([]int32, 150)
	for i := range ids {
		ids[i] = int32(i * i % 64)
	}
	plan := []session.Segment{{IDs: ids}}
	read := func(scope string) (*generate.Batch, *store.Found) {
		s, err := store.New(t.Context(), store.Options{
			Model: m, Identity: session.Identity{Model: "test", Chunk: session.Chunk(m)}, Memory: 1 << 30, Bucket: b,
			Report: func(err error) { t.Error(err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		out, found, err := s.Scope(scope).Open(t.Context(), store.Reading{Runner: session.Direct{}, Plan: plan})
		if err == nil {
			err = s.Flush(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return out, found
	}
	first, _ := read("alice")
	second, found := read("alice")
	if found.Cached != len(ids) || !slices.Equal(first.Logits(0), second.Logits(0)) {
		t.Errorf("%s: the other store found %d of %d ids: %v", b, found.Cached, len(ids), found.Miss)
	}
	for _, scope := range []string{"", "mallory"} {
		if _, found := read(scope); found.Cached > 0 || found.Miss.Reason != store.Nothing {
			t.Errorf("%s: the scope %q found %d ids of another: %v", b, scope, found.Cached, found.Miss)
		}
	}
}
