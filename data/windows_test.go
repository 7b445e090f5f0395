package data

import (
	"fmt"
	"testing"
)

func TestWindows(t *testing.T) {
	for n := 2; n < 40; n++ {
		for batchSize := 1; batchSize <= 4; batchSize++ {
			for seqLen := 1; seqLen <= 12; seqLen++ {
				name := fmt.Sprintf("%d tokens, batch size %d, length %d", n, batchSize, seqLen)
				batches, err := Windows(count(t, n), batchSize, seqLen)
				if err != nil {
					t.Fatal(name, err)
				}
				for range 2 { // the iterator can be used again
					at := 0
					for b, err := range batches {
						if err != nil {
							t.Fatal(name, err)
						}
						if b.Start != at || len(b.Inputs) != b.Rows*b.Len || len(b.Targets) != len(b.Inputs) {
							t.Fatalf("%s: batch %+v at %d", name, b, at)
						}
						full := b.Len == seqLen && b.Rows <= batchSize
						partial := b.Len < seqLen && b.Rows == 1 && b.Start+b.Len == n-1
						if !full && !partial || full && b.Rows < batchSize && n-1-b.Start-len(b.Inputs) >= seqLen {
							t.Fatalf("%s: batch %d×%d at %d", name, b.Rows, b.Len, b.Start)
						}
						for i := range b.Inputs {
							if b.Inputs[i] != int32(at) || b.Targets[i] != int32(at+1) {
								t.Fatalf("%s: pair (%d, %d) at %d", name, b.Inputs[i], b.Targets[i], at)
							}
							at++
						}
					}
					if at != n-1 {
						t.Fatalf("%s: %d targets, want %d", name, at, n-1)
					}
				}
			}
		}
	}
	batches, err := Windows(count(t, 40), 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	for b := range batches {
		if b.Start > 0 {
			t.Fatal("went on after break")
		}
		break
	}
	_, err = Windows(count(t, 1), 1, 3)
	wantError(t, err, "found 1 tokens, want at least 2")
	_, err = Windows(count(t, 10), 0, 3)
	wantError(t, err, "batch_size 0")
}
