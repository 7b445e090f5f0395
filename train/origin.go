package train

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/model"
)

// Origin records where and when a result was made, and by which version of the program.
type Origin struct {
	Machine string `json:"machine"`
	Version string `json:"version"`
	Date    string `json:"date"`
}

// Here returns the origin of a result that this process makes now.
func Here() Origin {
	return Origin{machine(), Commit(), time.Now().UTC().Format(time.RFC3339)}
}

// Commit returns the version of the program: the one that the build recorded, or else the commit of the work tree that
// it runs in.
func Commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := recorded(info); v != "" {
			return v
		}
	}
	if out, err := exec.Command("git", "rev-parse", "HEAD").Output(); err == nil {
		return strings.TrimSpace(string(out)) + " (of the current folder)"
	}
	return "unknown"
}

// recorded returns the version that the build recorded: that of the source, else that of the module, else "".
func recorded(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	if v := info.Main.Version; v != "(devel)" {
		return v
	}
	return ""
}

// Build returns an identifier of the running program: the version that the build recorded if its source was unmodified,
// else a hash of the executable.
func Build() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok && !slices.Contains(info.Settings, debug.BuildSetting{Key: "vcs.modified",
		Value: "true"}) {
		if v := recorded(info); v != "" {
			return v, nil
		}
	}
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)[:16]), err
}

// machine describes the machine as far as the system tells, and the CPU feature level in use.
func machine() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	if p := processor(); p != "" {
		name += ", " + p
	}
	return fmt.Sprintf("%s, %s, %d of %d cores", name, model.CPULevel(), runtime.GOMAXPROCS(0), runtime.NumCPU())
}

// processor returns the name of the processor or of its board, or "".
func processor() string {
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	if board, err := os.ReadFile("/sys/firmware/devicetree/base/model"); err == nil { // on arm64
		return strings.Trim(string(board), "\x00 \n")
	}
	return processorName()
}

// Maker describes the machine and the program that made a result.
type Maker struct {
	Machine string `json:"machine"`
	Version string `json:"version"` // of hippo
}

// ThisMaker describes this machine and program.
func ThisMaker() Maker { return Maker{machine(), Commit()} }
