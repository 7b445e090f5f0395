package session

import (
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// each calls f with 0 to n-1 on all cores and returns the error of the lowest index. Each call may read a mapped file.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	parallel.For(n, 1, func(i, _ int) {
		if fault := disk.Guard(func() { errs[i] = f(i) }); fault != nil {
			errs[i] = fault
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
