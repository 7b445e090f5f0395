package tensor

import "testing"

// TestSparesAreReadyAgain checks that as many pieces as were requested are prepared, within bounds, and that each is
// handed out once.
func TestSparesAreReadyAgain(t *testing.T) {
	var s Spares
	x := New(3 * warmPart / 4)
	room := func() *float32 {
		r := s.Rooms(x, x)
		if len(r) != 2 || len(r[0]) != x.Len() || len(r[1]) != x.Len() {
			t.Fatalf("found memory of %d tensors", len(r))
		}
		return &r[0][0]
	}
	for s.Warm() {
		t.Fatal("memory is made ready that nobody wanted")
	}
	room()
	room()
	calls := 0
	for s.Warm() {
		calls++
	}
	if calls != 2*6 || len(s.ready) != 2 {
		t.Fatalf("%d pieces are ready after %d calls, want 2 after 12", len(s.ready), calls)
	}
	want := &s.ready[1][0]
	if a, b, c := room(), room(), room(); a != want || a == b || b == c || a == c {
		t.Error("what was ready was not given out, or twice")
	}
	for range 100 {
		room()
	}
	for s.Warm() {
	}
	if n := 4 * s.n * len(s.ready); n > spareBytes || n < spareBytes/2 {
		t.Errorf("%d bytes are ready, want at most %d", n, spareBytes)
	}
	if s.Rooms(New(5)); len(s.ready) != 0 {
		t.Error("memory of another size is kept")
	}
	var none *Spares
	if r := none.Rooms(x); none.Warm() || len(r[0]) != x.Len() {
		t.Error("nil gives no memory")
	}
}
