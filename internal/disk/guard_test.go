package disk

import (
	"os"
	"testing"
)

// TestGuardPassesPanics checks that only memory faults become errors.
func TestGuardPassesPanics(t *testing.T) {
	for _, bad := range []func(){
		func() { panic("mistake") },
		func() { var p *os.File; _ = p.Name() },
		func() { var s []int; _ = s[len(os.Args)+5] },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("Guard swallowed a panic")
				}
			}()
			t.Errorf("Guard returned %v", Guard(bad))
		}()
	}
}
