package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/hippo-ssm/hippo/internal/config"
)

// TestProgramIsStatic checks that the program, built as dist/Dockerfile does, needs no interpreter and no library.
func TestProgramIsStatic(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "hippo")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program has a segment %v", p.Type)
		}
	}
}

// TestFilesOfDist checks that each variable in dist/ is one of hippo serve and, on machines with systemd, that systemd
// accepts the unit.
func TestFilesOfDist(t *testing.T) {
	t.Parallel()
	var known []string
	newServe().Flags().VisitAll(func(f *pflag.Flag) { known = append(known, config.Variable("HIPPO_SERVE_", f.Name)) })
	text := map[string]string{}
	for _, name := range []string{"hippo.service", "Dockerfile", "kubernetes.yaml"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "dist", name))
		if err != nil {
			t.Fatal(err)
		}
		text[name] = string(data)
		found := regexp.MustCompile(`HIPPO_SERVE_[A-Z_]+`).FindAllString(text[name], -1)
		if len(found) == 0 {
			t.Errorf("dist/%s sets nothing", name)
		}
		for _, v := range found {
			if !slices.Contains(known, v) {
				t.Errorf("dist/%s has %s, which is the variable of no flag", name, v)
			}
		}
	}
	for _, line := range []string{"Type=notify", "DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict"} {
		if !strings.Contains(text["hippo.service"], "\n"+line+"\n") {
			t.Errorf("dist/hippo.service does not have %s", line)
		}
	}
	for _, line := range []string{"FROM scratch", "USER 65534:65534"} {
		if !strings.Contains(text["Dockerfile"], "\n"+line+"\n") {
			t.Errorf("dist/Dockerfile does not have %s", line)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "hippo.service") // names a program that exists
	here := strings.ReplaceAll(text["hippo.service"], "/usr/local/bin/hippo", program)
	if err := os.WriteFile(unit, []byte(here), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
