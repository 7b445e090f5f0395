package kernel

import "golang.org/x/sys/unix"

// systemFeatures reports whether arm64 has FEAT_I8MM and FEAT_BF16: M2 and newer have both.
func systemFeatures() (i8mm, bf16 bool) {
	has := func(name string) bool {
		v, err := unix.SysctlUint32("hw.optional.arm.FEAT_" + name)
		return err == nil && v != 0
	}
	return has("I8MM"), has("BF16")
}
