//go:build gpu

package autograd_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/hippo-ssm/hippo/engine/gpu"
)

// TestMain also runs the table on device 0, a graphics card or a driver that computes on the processor, with the
// validation layer, which must not report anything.
func TestMain(m *testing.M) {
	b, err := gpu.Open(0, true, 0)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	engines["gpu"] = b
	status := m.Run()
	if err := b.Err(); err != nil {
		fmt.Println(err)
		status = 1
	}
	b.Close()
	os.Exit(status)
}
