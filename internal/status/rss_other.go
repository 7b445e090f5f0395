//go:build !linux

package status

import "runtime/metrics"

// RSS returns the number of bytes of memory that the Go runtime has from the system: an upper bound of what the process
// holds of it, without memory-mapped files. It is MemStats.Sys, read without stopping the program.
func RSS() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
