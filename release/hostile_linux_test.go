package release

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// childFolder is the variable with the folder that the test program, run again, opens under a memory limit.
const childFolder = "HIPPO_TEST_HOSTILE_FOLDER"

// TestHostileFolderUnderALimit opens folders in a process with an address space of 4 GB, like a server in a container.
// It must not be killed.
func TestHostileFolderUnderALimit(t *testing.T) {
	if dir := os.Getenv(childFolder); dir != "" {
		limit := unix.Rlimit{Cur: 4 << 30, Max: 4 << 30}
		if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
			t.Fatal(err)
		}
		for _, err := range openAll(t, dir) {
			t.Log(err)
		}
		return
	}
	for _, size := range []string{"1000000000", "200000000"} {
		for _, field := range []string{`"d_model": 8`, `"vocab_size": 16`, `"pad_vocab_size_multiple": 8`,
			`"d_inner": 0`, `"max_position_embeddings": 0`} {
			dir, config, network, header := hostileFolder(t, "h3,attention")
			name, _, _ := strings.Cut(field, " ")
			config = bytes.Replace(config, []byte(field), []byte(name+" "+size), 1)
			if !bytes.Contains(config, []byte(size)) {
				t.Fatalf("%s is not in %s", field, config)
			}
			writeFolder(t, dir, config, network, header)
			child := exec.Command(os.Args[0], "-test.run=^TestHostileFolderUnderALimit$", "-test.v")
			child.Env = append(os.Environ(), childFolder+"="+dir)
			out, err := child.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("want shape")) && !bytes.Contains(out, []byte("want [")) &&
				!bytes.Contains(out, []byte("want a model of at most")) {
				t.Errorf("%s %s: %v\n%.2000s", name, size, err, out)
			}
		}
	}
}
