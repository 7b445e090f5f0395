package kernel

import "golang.org/x/sys/windows"

// systemFeatures reports whether arm64 has FEAT_I8MM and FEAT_BF16, by the numbers of winnt.h.
func systemFeatures() (i8mm, bf16 bool) {
	const (
		i8mmAvailable = 66 // PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE
		bf16Available = 68 // PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE
	)
	return windows.IsProcessorFeaturePresent(i8mmAvailable), windows.IsProcessorFeaturePresent(bf16Available)
}
