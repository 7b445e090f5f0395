package store

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hippo-ssm/hippo/generate"
	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tensor"
)

const (
	vocab  = 64
	hybrid = "mamba,attention,s4d"
	chunk  = 16
)

// language returns a small model of these layers whose probabilities differ clearly.
func language(t testing.TB, layers string) *model.Model {
	t.Helper()
	return toymodel.New(t, layers, vocab)
}

// text returns n random ids.
func text(seed uint64, n int) []int32 { return toymodel.Text(seed, n, vocab) }

// whole returns the plan of ids that are read as one segment.
func whole(ids ...[]int32) []session.Segment { return []session.Segment{{IDs: slices.Concat(ids...)}} }

// counting is a Runner that counts the ids read.
type counting struct {
	mu   sync.Mutex
	read int
}

func (c *counting) Run(ctx context.Context, r *session.Request) error {
	c.mu.Lock()
	for _, s := range r.Segments {
		c.read += len(s.IDs)
	}
	c.mu.Unlock()
	return session.Direct{}.Run(ctx, r)
}

// took returns the number of ids read since the last call.
func (c *counting) took() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.read
	c.read = 0
	return n
}

// bits returns the logits and the state of a session, for comparison.
func bits(s *generate.Batch) []float32 {
	out := slices.Clone(s.Logits(0))
	s.State(0).Tensors(func(_ string, x *tensor.Tensor) {
		data := make([]float32, x.Len())
		x.CopyTo(data)
		out = append(out, data...)
	})
	return out
}

// plain returns the bits of reading a plan without a store.
func plain(t interface{ Fatal(...any) }, m *model.Model, plan []session.Segment) []float32 {
	s := generate.NewBatch(m, 1)
	s.Chunk = chunk
	if err := (session.Direct{}).Run(context.Background(), &session.Request{Session: s, Segments: plan}); err != nil {
		t.Fatal(err)
	}
	return bits(s)
}

// room is a budget that no test reaches.
const room = 1 << 30

// open returns a store. Without o.Report, an error of its bucket fails the test.
func open(t testing.TB, m *model.Model, o Options) *Store {
	t.Helper()
	o.Model = m
	if o.Identity == (session.Identity{}) {
		o.Identity.Chunk = chunk
	}
	if o.Report == nil {
		o.Report = func(err error) { t.Error(err) }
	}
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// want opens a text, checks that it has the same bits as without a store, and returns what the store found.
func want(t testing.TB, s *Store, m *model.Model, r session.Runner, plan []session.Segment) *Found {
	t.Helper()
	got, found, err := s.Open(t.Context(), Reading{Runner: r, Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(bits(got), plain(t, m, plan)) {
		t.Fatalf("other bits after %+v", *found)
	}
	if used := s.Stats().Memory; used > s.o.Memory {
		t.Fatalf("%d bytes in memory, want at most %d", used, s.o.Memory)
	}
	return found
}

// memory is a Bucket in memory that can simulate a full disk.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	full    bool
	most    int64 // maximum number of bytes held so far, without quarantined objects
}

func newMemory() *memory { return &memory{objects: map[string][]byte{}} }

func (b *memory) Get(_ context.Context, name string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.objects[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return slices.Clone(data), nil
}

func (b *memory) Put(_ context.Context, name string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full {
		return syscall.ENOSPC
	}
	b.objects[name] = slices.Clone(data)
	b.most = max(b.most, b.bytes())
	return nil
}

func (b *memory) bytes() (n int64) {
	for name, data := range b.objects {
		if !strings.HasPrefix(name, aside) {
			n += int64(len(data))
		}
	}
	return n
}

func (b *memory) Delete(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, name)
	return nil
}

func (b *memory) List(_ context.Context, visit func(name string)) error {
	for _, name := range b.names() {
		visit(name)
	}
	return nil
}

func (b *memory) String() string { return "of the test" }

// names returns the names of all objects, sorted.
func (b *memory) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.objects))
}
