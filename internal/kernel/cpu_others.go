//go:build !linux && !darwin && !windows

package kernel

// systemFeatures are FEAT_I8MM and FEAT_BF16 of arm64, which count as missing where nobody asks the system.
func systemFeatures() (i8mm, bf16 bool) { return false, false }
