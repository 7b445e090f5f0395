package disk

import (
	"os"
	"path/filepath"
)

// HeldBy reports which process has locked the folder dir, according to what that process wrote there. It does not try
// the lock, so that it disturbs no process. The entry of a killed process remains, but counts only while a process with
// that number is running. The entry of another machine, on a shared disk, always counts.
func HeldBy(dir string) (h Holder, held bool) {
	h = readHolder(filepath.Join(dir, LockFile))
	if h.PID == 0 {
		return Holder{}, false
	}
	if host, err := os.Hostname(); err == nil && host == h.Host && !alive(h.PID) {
		return Holder{}, false
	}
	return h, true
}
