//go:build !linux

package status

// PeakRSS returns the most bytes of memory that the Go runtime has had from the system, as RSS.
func PeakRSS() uint64 { return RSS() }

// ResetPeakRSS does nothing: the number of PeakRSS never falls.
func ResetPeakRSS() {}
