package kernel

import x86 "golang.org/x/sys/cpu"

// machineLevels returns the levels that processor and operating system support, in ascending order.
func machineLevels() []level {
	has := []level{generic}
	f := &x86.X86
	if !f.HasAVX2 || !f.HasFMA || !f.HasBMI2 {
		return has
	}
	has = append(has, avx2)
	if !f.HasAVX512F || !f.HasAVX512BW || !f.HasAVX512DQ || !f.HasAVX512VL {
		return has
	}
	has = append(has, avx512)
	if f.HasAVX512BF16 && f.HasAVX512VNNI {
		has = append(has, avx512bf16)
	}
	return has
}
