package hugepage

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// TestSystemTakesAdvice checks that if the system grants huge pages on request, the memory of a large slice is marked
// for them.
func TestSystemTakesAdvice(t *testing.T) {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	offered := err == nil && !strings.Contains(string(mode), "[never]")
	large := Make[float32](16 << 20)
	if got := advised(t, &large[8<<20]); got != offered {
		t.Errorf("a large slice is marked for huge pages: %v, want %v (the system says %q)", got, offered, mode)
	}
}

// advised reports whether the mapping of p has the flag "hg", according to proc_pid_smaps(5).
func advised(t *testing.T, p *float32) bool {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var from, to uintptr
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); err == nil {
			at := uintptr(unsafe.Pointer(p))
			inside = from <= at && at < to
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && inside {
			return strings.Contains(flags+" ", " hg ")
		}
	}
	t.Fatal("found no mapping of the slice with flags")
	return false
}
