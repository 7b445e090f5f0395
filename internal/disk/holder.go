package disk

import (
	"os"
	"path/filepath"
)

// HeldBy reports which process of this machine has locked the folder dir, from what that process wrote there. It does
// not try the lock, so it disturbs nobody. A process that was killed leaves its note behind: it counts only while a
// process of that number runs. The lock of another machine, on a shared disk, counts for as long as the note is there.
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
