//go:build !linux

package status

// PeakRSS returns the largest number of bytes of memory that the Go runtime has had from the system, like RSS.
func PeakRSS() uint64 { return RSS() }

// ResetPeakRSS does nothing, because the result of PeakRSS never falls.
func ResetPeakRSS() {}
