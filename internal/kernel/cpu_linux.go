package kernel

import (
	"runtime"

	features "golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// systemFeatures reports whether arm64 has FEAT_I8MM and FEAT_BF16. The second is a bit of the kernel's second word of
// capabilities (asm/hwcap.h).
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

// tilesAllowed asks the system to let the process use tiles of AMX, and reports whether it does. The system must save 8
// KB more for a thread that has used them (arch_prctl of asm/prctl.h).
func tilesAllowed() bool {
	const archPrctl, requestPermission, tileData = 158, 0x1023, 18
	if runtime.GOARCH != "amd64" {
		return false
	}
	_, _, errno := unix.RawSyscall(archPrctl, requestPermission, tileData, 0)
	return errno == 0
}
