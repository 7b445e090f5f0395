//go:build gpu

package vulkan

import (
	"encoding/binary"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hippo-ssm/hippo/internal/gpukernel"
)

// BenchmarkRecording measures the processor time of this thread for a launch, with a list that was submitted before and
// with a new one.
func BenchmarkRecording(b *testing.B) {
	in, err := Open(false)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	d, err := in.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	k, err := d.Kernel("reduce", gpukernel.Code("reduce"))
	if err != nil {
		b.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const launches = 315 // a token of Mamba-130M
	for _, again := range []bool{true, false} {
		name := map[bool]string{true: "again", false: "anew"}[again]
		b.Run(name, func(b *testing.B) {
			spent := int64(0)
			for i := range b.N {
				args := make([]byte, PushBytes) // of no elements
				if !again {
					binary.LittleEndian.PutUint64(args, uint64(i))
				}
				before := threadTime(b)
				for range launches {
					d.Launch(k, args, [3]uint32{1, 1, 1})
				}
				if err := d.Submit(); err != nil {
					b.Fatal(err)
				}
				spent += threadTime(b) - before
			}
			b.ReportMetric(float64(spent)/float64(b.N*launches), "ns-CPU/launch")
		})
	}
}

func threadTime(b *testing.B) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}
