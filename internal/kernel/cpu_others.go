//go:build !linux && !darwin && !windows

package kernel

// systemFeatures returns false for FEAT_I8MM and FEAT_BF16 of arm64, because on this system hippo does not ask for
// them.
func systemFeatures() (i8mm, bf16 bool) { return false, false }
