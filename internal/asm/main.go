// Command asm generates the assembly of package kernel (with avo for amd64), the Go declarations of its functions, and
// the choice between the levels of processor features for which a kernel has code:
//
//	go run . ../kernel
//	go run . -bounds      # the bounds that llvm-mca computes for the inner loops of arm64
//
// It is a separate module so that its dependencies are not dependencies of hippo. Its test fails if a committed file
// differs from the generated one.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

//go:generate go run . ../kernel

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: asm DIRECTORY, or asm -bounds for what llvm-mca says of the code for arm64")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "asm:", err)
		os.Exit(1)
	}
}

func run(what string) error {
	if what != "-bounds" {
		return generate(what)
	}
	scratch, err := os.MkdirTemp("", "asm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	all, err := generateAMD64(scratch)
	if err != nil {
		return err
	}
	return writeBounds(os.Stdout, generateArm(all))
}

// files lists the generated files by the first part of their names: each makes a NAME_amd64.s and a NAME_amd64.go.
var files = []struct {
	name string
	emit func(*build.Context)
}{
	{"gemm_avx512", func(c *build.Context) { gemm(c, avx512) }},
	{"gemm_avx2", func(c *build.Context) { gemm(c, avx2) }},
	{"gemm_bf16", func(c *build.Context) { gemm(c, pairs) }},
	{"round_bf16", roundings},
	{"dots_avx512", func(c *build.Context) { dots(c, avx512) }},
	{"dots_avx2", func(c *build.Context) { dots(c, avx2) }},
	{"attend_avx512", func(c *build.Context) { attend(c, avx512) }},
	{"attend_avx2", func(c *build.Context) { attend(c, avx2) }},
	{"shiftstep_avx512", func(c *build.Context) { shiftStep(c, avx512) }},
	{"shiftstep_avx2", func(c *build.Context) { shiftStep(c, avx2) }},
	{"packed_avx512", func(c *build.Context) { packed(c, avx512) }},
	{"packed_avx2", func(c *build.Context) { packed(c, avx2) }},
	{"packed_bf16", packedPairs},
	{"groups_vnni", func(c *build.Context) { asm{c, vnni}.groups() }},
	{"groups_avxvnni", func(c *build.Context) { asm{c, vnniAVX2}.groups() }},
	{"groups_vnnivl", func(c *build.Context) { asm{c, vnniVL}.groups() }},
	{"groups_avx512", func(c *build.Context) { asm{c, avx512}.groups() }},
	{"groups_avx2", func(c *build.Context) { asm{c, avx2}.groups() }},
	{"gemm_amx", gemmTiles},
	{"rowtile_amx", amx},
	{"rowtile_vnni", func(c *build.Context) { asm{c, vnni}.tiles() }},
	{"rowtile_avxvnni", func(c *build.Context) { asm{c, vnniAVX2}.tiles() }},
	{"rowtile_vnnivl", func(c *build.Context) { asm{c, vnniVL}.tiles() }},
	{"rowtile_avx2", func(c *build.Context) { asm{c, avx2}.tiles() }},
	{"halves_avx512", func(c *build.Context) { halves(c, avx512) }},
	{"halves_avx2", func(c *build.Context) { halves(c, avx2) }},
	{"quantize_avx512", func(c *build.Context) { quantize(c, avx512) }},
	{"quantize_avx2", func(c *build.Context) { quantize(c, avx2) }},
	{"pack_avx2", pack},
	{"copy_avx2", copyPanels},
	{"conv_avx512", func(c *build.Context) { conv(c, avx512) }},
	{"conv_avx2", func(c *build.Context) { conv(c, avx2) }},
	{"transpose_avx2", transpose},
	{"rows_avx2", rows},
	{"cauchy_avx512", func(c *build.Context) { cauchy(c, avx512) }},
	{"cauchy_avx2", func(c *build.Context) { cauchy(c, avx2) }},
	{"vector_avx512", func(c *build.Context) { vectors(c, avx512) }},
	{"vector_avx2", func(c *build.Context) { vectors(c, avx2) }},
}

// armFiles lists the generated files of arm64.
var armFiles = []struct {
	name string
	emit func(*armFile)
}{
	{"gemm_neon", gemmNEON},
	{"groups_neon", groupsNEON},
	{"pack_neon", packNEON},
	{"packed_neon", packedNEON},
	{"quantize_neon", quantizeNEON},
	{"elementwise_neon", elementwiseNEON},
	{"gradients_neon", gradientsNEON},
	{"sums_neon", sumsNEON},
	{"attend_neon", attendNEON},
	{"states_neon", statesNEON},
	{"scan_neon", scanNEON},
	{"delta_neon", deltaNEON},
	{"filters_neon", filtersNEON},
	{"norm_neon", normNEON},
	{"conv_neon", convNEON},
	{"rowtile_neon", tileNEON},
}

// generate writes all files into dir.
func generate(dir string) error {
	all, err := generateAMD64(dir)
	if err != nil {
		return err
	}
	for _, file := range generateArm(all) {
		for suffix, text := range map[string]string{".s": file.text(), ".go": file.stubs()} {
			if err := os.WriteFile(filepath.Join(dir, file.name+"_arm64"+suffix), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	return all.write(dir)
}

// generateArm generates the files of arm64, for kernels that amd64 has.
func generateArm(all kernels) (files []*armFile) {
	for _, f := range armFiles {
		file := &armFile{name: f.name, kernels: all}
		f.emit(file)
		files = append(files, file)
	}
	return files
}

// generateAMD64 writes the files of amd64 into dir and returns its kernels.
func generateAMD64(dir string) (all kernels, err error) {
	for _, f := range files {
		c := build.NewContext()
		f.emit(c)
		code, err := c.Result()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if err := pass.Compile.Execute(code); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if err := all.add(code); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		cfg := printer.Config{Name: "internal/asm", Pkg: "kernel"}
		for suffix, p := range map[string]printer.Printer{".s": printer.NewGoAsm(cfg), ".go": printer.NewStubs(cfg)} {
			text, err := p.Print(code)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			if err := os.WriteFile(filepath.Join(dir, f.name+"_amd64"+suffix), text, 0o644); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
