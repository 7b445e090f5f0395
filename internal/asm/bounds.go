package main

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// modelled lists the processors for which llvm-mca computes bounds. LLVM 19 has one model for Apple's cores, that of an
// old core with three vector units.
var modelled = []struct {
	name, cpu string
	i8mm      bool
}{
	{"Neoverse N1", "neoverse-n1", false}, {"Neoverse V2", "neoverse-v2", true}, {"Apple M1", "apple-m1", false},
}

// llvmTool returns the path of a program of LLVM, or "".
func llvmTool(name string) string {
	for _, n := range []string{name + "-19", name} {
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
	}
	return ""
}

// writeBounds writes a Markdown table of the inner loops for arm64: what they compute and read, how many cycles
// llvm-mca gives them if all data is in the nearest cache, and which fraction of these the products alone need.
func writeBounds(w io.Writer, files []*armFile) error {
	mca := llvmTool("llvm-mca")
	if mca == "" {
		return fmt.Errorf("llvm-mca, of Debian's llvm-19, is not here")
	}
	fmt.Fprint(w, "| inner loop | level | work | instructions | bytes |")
	for _, m := range modelled {
		fmt.Fprintf(w, " %s |", m.name)
	}
	fmt.Fprintf(w, "\n|---|---|---|---|---|%s\n", strings.Repeat("---|", len(modelled)))
	for _, file := range files {
		for _, f := range file.functions {
			for _, l := range f.loops {
				text := f.armText(l)
				var products []string
				count := 0
				for _, instruction := range strings.Split(strings.TrimSpace(text), "\n") {
					name, _, _ := strings.Cut(instruction, " ")
					if strings.HasSuffix(name, ":") {
						continue
					}
					if count++; slices.Contains(l.instructions, name) {
						products = append(products, instruction)
					}
				}
				fmt.Fprintf(w, "| %s | `%s` | %d %s | %.3g each | %.3g each |", l.name, f.isa.feature(), l.work, l.unit,
					float64(count)/float64(l.work), float64(l.bytes)/float64(l.work))
				for _, m := range modelled {
					if f.isa == i8mmISA && !m.i8mm {
						fmt.Fprint(w, " lacks it |")
						continue
					}
					all, err := cycles(mca, m.cpu, text)
					if err != nil {
						return err
					}
					least, err := throughput(mca, m.cpu, strings.Join(products, "\n"))
					if err != nil {
						return err
					}
					fmt.Fprintf(w, " %.0f cycles, %.0f %% |", all, 100*least/all)
				}
				fmt.Fprintln(w)
			}
		}
	}
	return nil
}

// cycles returns how many cycles an iteration takes, including waiting for results of the one before.
func cycles(mca, cpu, text string) (float64, error) {
	const iterations = 100
	total, err := modelSays(mca, cpu, text, "Total Cycles", iterations)
	return total / iterations, err
}

// throughput returns how many cycles an iteration takes the units of the processor if no instruction waits for another.
func throughput(mca, cpu, text string) (float64, error) {
	return modelSays(mca, cpu, text, "Block RThroughput", 1)
}

func modelSays(mca, cpu, text, what string, iterations int) (float64, error) {
	command := exec.Command(mca, "-mtriple=aarch64", "-mcpu="+cpu, fmt.Sprintf("-iterations=%d", iterations))
	command.Stdin = strings.NewReader(text)
	out, err := command.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("llvm-mca for %s: %w: %s", cpu, err, out)
	}
	found := regexp.MustCompile(what + `:\s+([0-9.]+)`).FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("llvm-mca for %s does not say %s", cpu, what)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
