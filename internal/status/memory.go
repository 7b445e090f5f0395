package status

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// Memory is the memory that the process can still use, and its limit.
type Memory struct {
	Bytes uint64
	Of    string // "this machine", "the control group" or "GOMEMLIMIT"
}

// FreeMemory returns the memory that is left to the process: the minimum of the limits of the system, its control
// groups and GOMEMLIMIT. It returns false if none of them is known.
func FreeMemory() (Memory, bool) { return freeMemory(os.DirFS("/"), debug.SetMemoryLimit(-1), RSS()) }

// freeMemory is FreeMemory on a system whose files are below root, with a limit of the Go runtime (math.MaxInt64 for
// none), of which used bytes are in use.
func freeMemory(root fs.FS, limit int64, used uint64) (least Memory, ok bool) {
	take := func(m Memory) {
		if !ok || m.Bytes < least.Bytes {
			least, ok = m, true
		}
	}
	if kib, found := field(root, "proc/meminfo", "MemAvailable:"); found {
		take(Memory{kib << 10, "this machine"})
	}
	for _, g := range memoryGroups(root) {
		most, bounded := number(root, g.dir, g.max)
		now, known := number(root, g.dir, g.current)
		if !bounded || !known || most > 1<<60 { // version 1 uses a huge number for "none"
			continue
		}
		cache, _ := field(root, path.Join(g.dir, "memory.stat"), g.cache) // the system drops it when memory is short
		now -= min(now, cache)
		take(Memory{most - min(most, now), "the control group"})
	}
	if limit < math.MaxInt64 {
		take(Memory{uint64(limit) - min(uint64(limit), used), "GOMEMLIMIT"})
	}
	return least, ok
}

// memoryGroup is a control group of Linux with the names of its files: cgroups(7).
type memoryGroup struct{ dir, max, current, cache string }

// memoryGroups returns the groups of the process and their parents.
func memoryGroups(root fs.FS) []memoryGroup {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var all []memoryGroup
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		g := memoryGroup{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}
		switch {
		case parts[1] == "":
		case strings.Contains(","+parts[1]+",", ",memory,"):
			g = memoryGroup{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
				"total_inactive_file"}
		default:
			continue
		}
		// Inside a container the group may be the root that is visible here, whatever its path outside is.
		for below := path.Clean("/" + parts[2]); ; below = path.Dir(below) {
			at := g
			at.dir = path.Join(g.dir, below)
			all = append(all, at)
			if below == "/" {
				break
			}
		}
	}
	return all
}

// number reads a file that holds one number.
func number(root fs.FS, dir, name string) (uint64, bool) {
	text, err := fs.ReadFile(root, path.Join(dir, name))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil // "max" is not a number
}

// field reads the number after a name in a file of lines "name number".
func field(root fs.FS, file, name string) (uint64, bool) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == name {
			n, err := strconv.ParseUint(words[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
