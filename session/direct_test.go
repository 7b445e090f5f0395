package session

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
)

const (
	vocab  = 256
	hybrid = "h3,attention,mamba"
)

// language returns a small model of these layers that predicts bytes with clearly different probabilities.
func language(t testing.TB, layers string) *model.Model {
	t.Helper()
	return toymodel.New(t, layers, vocab)
}

// text returns n random ids.
func text(seed uint64, n int) []int32 { return toymodel.Text(seed, n, vocab) }

// TestDirectReadsSegments checks that Direct reads segments like generate, calls Each with the logits after each id,
// and reads the ids that Next returns.
func TestDirectReadsSegments(t *testing.T) {
	m := language(t, hybrid)
	ids := text(1, 700)
	want := generate.NewBatch(m, 1)
	want.Chunk = Chunk(m)
	var at []int
	each := make([][]float32, 699)
	r := &Request{
		Session:  (&Snapshot{State: m.NewState()}).Session(m),
		Segments: []Segment{{IDs: ids[:600]}, {IDs: ids[600:640], Drawn: true}, {IDs: ids[640:699]}},
		Each:     func(i int, logits []float32) { each[i] = slices.Clone(logits) },
	}
	var told []string
	r.Progress = func(read, total int) { told = append(told, fmt.Sprintf("%d/%d", read, total)) }
	next := ids[699:]
	r.Next = func(logits []float32) (int32, bool, error) {
		if at = append(at, r.Session.Position()); len(next) == 0 {
			return 0, false, nil
		}
		id := next[0]
		next = next[1:]
		return id, true, nil
	}
	if err := (Direct{}).Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	read := func(n int) {
		if err := want.Feed(context.Background(), ids[want.Position():][:n]); err != nil {
			t.Fatal(err)
		}
		if i := want.Position() - 1; i < 699 && !slices.Equal(each[i], want.Logits(0)) {
			t.Errorf("other logits are told after id %d", i)
		}
	}
	for _, n := range []int{256, 256, 88} {
		read(n)
	}
	for range 40 {
		read(1)
	}
	read(59)
	read(1)
	if !slices.Equal(r.Session.Logits(0), want.Logits(0)) || len(each) != 699 {
		t.Errorf("got other logits, or those after %d ids, want 699", len(each))
	}
	if fmt.Sprint(at) != "[699 700]" {
		t.Errorf("Next was called at %v", at)
	}
	calls := 3 + (40+generate.StepRows-1)/generate.StepRows + 1
	if len(told) != calls || told[0] != "256/699" || told[calls-1] != "699/699" {
		t.Errorf("%d calls of Progress: %v", len(told), told)
	}
}
