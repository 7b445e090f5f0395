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

// Origin says where and when a result was made, and by which version of the program.
type Origin struct {
	Machine string `json:"machine"`
	Version string `json:"version"`
	Date    string `json:"date"`
}

// Here is the origin of what this process makes at this moment.
func Here() Origin {
	return Origin{machine(), Commit(), time.Now().UTC().Format(time.RFC3339)}
}

// Commit is the version of the program: what the build recorded, or the work tree that it runs in.
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

// recorded is the version that a build says: of the source, else of the module, "" for none.
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

// Build identifies the program that runs: by the version that the build says, where that is of unchanged source, else
// by a hash of the file.
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

// machine describes the machine, as closely as the system tells, and the level of its features that is in use.
func machine() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	if p := processor(); p != "" {
		name += ", " + p
	}
	return fmt.Sprintf("%s, %s, %d of %d cores", name, model.CPULevel(), runtime.GOMAXPROCS(0), runtime.NumCPU())
}

// processor is the name of the processor, or of the board that it is on, or "".
func processor() string {
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	if board, err := os.ReadFile("/sys/firmware/devicetree/base/model"); err == nil { // of arm64
		return strings.Trim(string(board), "\x00 \n")
	}
	return processorName()
}

// Maker describes the machine and the program that made a result.
type Maker struct {
	Machine string `json:"machine"`
	Version string `json:"version"` // of hippo
}

// ThisMaker is this machine and program.
func ThisMaker() Maker { return Maker{machine(), Commit()} }
