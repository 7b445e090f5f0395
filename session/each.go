package session

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// each calls f of 0 to n-1 on all cores, and returns the error of the lowest. Each call may read a mapped file.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			if fault := disk.Guard(func() { errs[i] = f(int(i)) }); fault != nil {
				errs[i] = fault
			}
		}
	}
	var others sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
