package kernel

import (
	features "golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// systemFeatures are FEAT_I8MM and FEAT_BF16 of arm64. The second is a bit of the kernel's second word of capabilities
// (asm/hwcap.h).
func systemFeatures() (i8mm, bf16 bool) {
	const atHWCAP2, hwcap2BF16 = 26, 1 << 14
	vector, err := unix.Auxv()
	if err != nil {
		return false, false
	}
	for _, entry := range vector {
		if entry[0] == atHWCAP2 {
			bf16 = entry[1]&hwcap2BF16 != 0
		}
	}
	return features.ARM64.HasI8MM, bf16
}
