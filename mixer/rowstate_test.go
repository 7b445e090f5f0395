package mixer

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/tensor"
)

// TestKeepRows checks that after Keep a state has the size of the kept rows, continues like the saved and restored
// state, and differently from the whole state. GAU's state, which uses distances only, continues as if it had never
// seen more.
func TestKeepRows(t *testing.T) {
	const n = 3
	for _, v := range variants() {
		if v.name != "gau" && v.name != "gmlp" {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			u := sequences(10, 2, 8)
			_, whole := chunked(m, u, []int{8}, never)
			one := whole.size() / 8
			s := whole.clone()
			s.keep(9) // more than there are
			if s.size() != 8*one {
				t.Errorf("%d bytes after Keep(9), want all %d", s.size(), 8*one)
			}
			s.keep(n)
			if s.size() != n*one {
				t.Errorf("%d bytes after Keep(%d), want %d", s.size(), n, n*one)
			}
			restored := s.restored(t)
			if err := m.NewState().Restore("start", []int{1}, []float32{-1}); err == nil {
				t.Error("less than no position forgotten is no error")
			}
			got := next(s, 11)
			if !slices.Equal(next(restored, 11), got) {
				t.Error("the restored state goes on differently")
			}
			if slices.Equal(next(whole, 11), got) {
				t.Error("Keep changed nothing")
			}
			if v.name == "gau" {
				_, short := chunked(m, tensor.FromSlice(cut(u.Data(), 2, 8-n, 8), 2*n, dModel), []int{n}, never)
				near(t, "y after Keep", got, next(short, 11), chunkTol)
			}
		})
	}
	m, err := GMLPInfo.New(Config{DModel: dModel, Options: Options{"l_max": "30"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := m.Traits().MaxLength; n != 30 {
		t.Errorf("the longest sequence is %d, want 30", n)
	}
}
