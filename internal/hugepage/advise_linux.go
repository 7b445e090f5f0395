package hugepage

import "golang.org/x/sys/unix"

// advise asks for huge pages under b. Untouched pages become huge when they are first touched. Touched ones (the
// garbage collector reuses memory and clears it) are collapsed at once, which Linux supports since 6.1. If the kernel
// refuses, there are no huge pages.
func advise(b []byte) {
	if unix.Madvise(b, unix.MADV_HUGEPAGE) == nil {
		_ = unix.Madvise(b, unix.MADV_COLLAPSE)
	}
}
