package library

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/smallengine"
	"github.com/hippo-ssm/hippo/tensor"
)

// card is a small engine that supports packed weights.
type card struct{ smallengine.Backend[float32] }

func (c card) Place(xs ...*tensor.Tensor) {
	for _, x := range xs {
		if w, ok := x.Packed().(engine.Rounding); ok {
			all, d := make([]float32, x.Len()), x.Dim(-1)
			for i := range x.Rows() {
				w.ReadRow(all[i*d:][:d], i)
			}
			x.SetData(all)
		}
	}
	c.Backend.Place(xs...)
}

// TestServeOnADevice checks that models and their adapters compute on a device. When it fails, the request gets 503,
// and the next one gets replies from the reopened device, or 503 if it cannot be opened.
func TestServeOnADevice(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	modelOfWidth(t, base, 16, 1)
	var opened []card
	gone := false
	l := newLibrarian(t, Options{KeepAlive: 5 * time.Minute, Adapters: []string{adapterOf(t, base, "letters", 2)},
		Device: func() (engine.Backend, error) {
			if gone {
				return nil, errors.New("found no device")
			}
			b := card{smallengine.New[float32]()}
			opened = append(opened, b)
			return b, nil
		}}, base)
	names := []string{"base", "base:letters"}
	var want []string
	for _, name := range names {
		want = append(want, l.reply(name))
	}
	if len(opened) != 1 || opened[0].Reads() == 0 || want[0] == want[1] {
		t.Fatalf("%d devices were opened, and the replies are %q, want one device and two replies", len(opened), want)
	}
	ask := func(name string) string {
		return l.ask(http.StatusServiceUnavailable, http.MethodPost, "/v1/completions",
			`{"model":"`+name+`","prompt":"Ask me","max_tokens":4}`)
	}
	for i, name := range names {
		b := opened[len(opened)-1]
		b.FailAt(b.Reads() + 1)
		if said := ask(name); !strings.Contains(said, "device_lost") || !strings.Contains(said, "is lost") {
			t.Errorf("%s on a device that is lost: %s", name, said)
		}
		for j, other := range names {
			if got := l.reply(other); got != want[j] {
				t.Errorf("%s on another device: %s, want %s", other, got, want[j])
			}
		}
		if len(opened) != 2+i {
			t.Errorf("%d devices were opened, want %d", len(opened), 2+i)
		}
	}
	gone = true
	b := opened[len(opened)-1]
	b.FailAt(b.Reads())
	if said := ask("base"); !strings.Contains(said, "found no device") {
		t.Errorf("without a device: %s", said)
	}
}
