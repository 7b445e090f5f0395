package golden

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// rule states which package's tests read certain tensors of golden files, or why none does. The patterns are regular
// expressions that match whole names; the first rule that matches applies.
type rule struct{ file, tensor, by, why string }

var rules = []rule{
	{".*", "out/logits_float32_run", "", "what the official model loses in float32, from which tolerances come"},
	{"0[12]_.*", ".*", "ssm", ""},
	{"03_.*", "grad/.*|G", "mixer", ""},
	{"03_s4d_layer.*", ".*", "mixer", ""},
	{"03_.*", ".*", "ssm", ""},
	{"04_.*_kernel_.*", "grad/.*|G", "mixer", ""},
	{"04_.*_kernel_.*", ".*", "ssm", ""},
	{"(05|06_mamba_lm|12_hyenadna|12_mamba2_lm|13)_.*", ".*", "release", ""},
	{"07_sinkhorn_operator.*", ".*", "ssm", ""},
	{"09_.*", ".*", "ssm", ""},
	{"11_.*", "param/kernel.kernel.L", "ssm", ""},
	{".*", ".*", "mixer", ""},
}

// matches reports whether the rule applies to a tensor.
func (r rule) matches(file, tensor string) bool {
	whole := func(pattern, s string) bool { return regexp.MustCompile("^(" + pattern + ")$").MatchString(s) }
	return whole(r.file, file) && whole(r.tensor, tensor)
}

// seen holds the tensors that tests have read, by file path and tensor name.
var seen = struct {
	sync.Mutex
	tensors map[[2]string]bool
}{tensors: map[[2]string]bool{}}

func saw(path, tensor string) {
	seen.Lock()
	seen.tensors[[2]string{path, tensor}] = true
	seen.Unlock()
}

// Main runs the tests of a package that reads golden files and returns the exit status. TestMain calls it. If the tests
// pass but did not read a tensor that the package must read, Main prints the tensor's name and returns 1.
func Main(m *testing.M, by string, out io.Writer) (status int) {
	status = m.Run()
	set := func(name string) bool {
		f := flag.Lookup("test." + name)
		return f != nil && f.Value.String() != "" && f.Value.String() != "false"
	}
	if status == 0 && !set("run") && !set("skip") && !set("short") && !set("list") && !set("fuzz") {
		unread, err := unread(dir(), by)
		if err != nil {
			unread = append(unread, err.Error())
		}
		for _, line := range unread {
			fmt.Fprintln(out, "golden:", line)
			status = 1
		}
	}
	return status
}

// unread lists the tensors of the golden files in a folder that a package's tests should have read but did not.
func unread(dir, by string) (lines []string, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		f, err := checkpoint.OpenSafetensors(path)
		if err != nil {
			return nil, err
		}
		file := strings.TrimSuffix(filepath.Base(path), ".safetensors")
		var names []string
		for _, name := range f.Names() {
			i := slices.IndexFunc(rules, func(r rule) bool { return r.matches(file, name) })
			if i >= 0 && rules[i].by == by && rules[i].why == "" && !seen.tensors[[2]string{path, name}] {
				names = append(names, name)
			}
		}
		f.Close()
		if len(names) > 0 {
			lines = append(lines, fmt.Sprintf("no test of package %s reads these tensors of %s: %s", by, file,
				strings.Join(names, " ")))
		}
	}
	return lines, nil
}
