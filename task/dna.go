package task

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// DNA asks for the next base at each base of a genome, like the training of HyenaDNA (arXiv:2306.15794). Genomes are
// FASTA files. Their letters are the tokens of tokenizer.DNA. The last tenth of each sequence is the test part and the
// tenth before it the validation part, unless whole files are reserved for testing.
//
// The baseline is the score of a Markov model, which counts the bases that follow the last k bases.
var DNA = &Task{
	Name: "dna", Group: "streams",
	About:  "bases of genomes; at each of them, the next one",
	Source: "HyenaDNA, arXiv:2306.15794",
	Files: "FASTA files (.fa, .fasta, .fna, compressed or not) such as those of " +
		dnaOrigin.url + ", as they are or in the folders genome or dna; all of one folder are read",
	Options: func() any { return &dnaOptions{Length: 1024, Stride: 512, Files: "*"} },
	Open: func(ctx context.Context, dir string, options any) (*Set, error) {
		return openDNA(ctx, dir, options.(*dnaOptions))
	},
}

var dnaOrigin = origin{task: "dna", data: "NCBI's nucleotide sequences", url: "https://www.ncbi.nlm.nih.gov/nuccore"}

// dnaOptions holds the options of DNA.
type dnaOptions struct {
	Length int    `json:"length" min:"2" max:"1048576" help:"bases of a context"`
	Stride int    `json:"stride" min:"1" max:"1048576" help:"bases between training contexts; others do not overlap"`
	Files  string `json:"files" help:"pattern of the names of files to read, such as MT-*"`
	Test   string `json:"test" help:"pattern of the names of files used for testing only"`
}

// openDNA reads the genomes under dir and divides them into contexts.
func openDNA(ctx context.Context, dir string, o *dnaOptions) (*Set, error) {
	if o.Length < 2 || o.Stride < 1 {
		return nil, fmt.Errorf("task dna: length %d, stride %d: want 2 or more, 1 or more", o.Length, o.Stride)
	}
	paths, err := findGenomes(dir, o.Files)
	if err != nil {
		return nil, err
	}
	var train, valid, test dnaContexts
	for _, file := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var genome [][]byte
		err := dnaOrigin.read(file, func(r io.Reader) (err error) { genome, err = readFASTA(r); return err })
		if err != nil {
			return nil, err
		}
		held, err := path.Match(o.Test, filepath.Base(file))
		if err != nil {
			return nil, fmt.Errorf("task dna: test: %w", err)
		}
		for _, bases := range genome {
			n := len(bases)
			lo, hi := n*8/10, n*9/10
			switch {
			case held:
				lo, hi = 0, 0
			case o.Test != "":
				lo, hi = n*9/10, n
			}
			train.add(bases[:lo], o.Length, o.Stride)
			valid.add(bases[lo:hi], o.Length, o.Length)
			test.add(bases[hi:], o.Length, o.Length)
		}
	}
	if len(train.at) == 0 || len(valid.at) == 0 || len(test.at) == 0 {
		return nil, fmt.Errorf("task dna: found %d bases to train, %d to validate, %d to test in %s: want some of each",
			train.bases(), valid.bases(), test.bases(), strings.Join(paths, ", "))
	}
	vocab := tokenizer.DNA().VocabSize()
	return &Set{
		Vocab: vocab, Outputs: vocab, Everywhere: true, Classes: dnaNames(vocab),
		MaxLength: max(longest(&train), longest(&valid), longest(&test)),
		Train:     &train, Valid: &valid, Test: &test,
		Simple: markovBaseline(train.parts, valid.parts, test.parts),
		Notes: []string{fmt.Sprintf("%d files: %d bases to train, %d to validate, %d to test", len(paths),
			train.bases(), valid.bases(), test.bases())},
	}, nil
}

// dnaNames returns the texts of the tokens.
func dnaNames(vocab int) []string {
	names := make([]string, vocab)
	for id := range names {
		names[id] = string(tokenizer.DNA().Decode(nil, []int32{int32(id)}))
	}
	return names
}

// findGenomes returns the FASTA files whose names match pattern, in the first folder that has any.
func findGenomes(dir, pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("task dna: files: %w", err)
	}
	folders := []string{"genome", "dna", "."}
	for _, folder := range folders {
		entries, _ := os.ReadDir(filepath.Join(dir, folder)) // a missing folder has no entries
		var paths []string
		for _, entry := range entries {
			matched, _ := path.Match(pattern, entry.Name()) // checked above
			ext := path.Ext(strings.TrimSuffix(entry.Name(), ".gz"))
			if matched && !entry.IsDir() && slices.Contains([]string{".fa", ".fasta", ".fna"}, ext) {
				paths = append(paths, filepath.Join(dir, folder, entry.Name()))
			}
		}
		if len(paths) > 0 {
			return paths, nil
		}
	}
	return nil, dnaOrigin.missing(dir, "genome/"+pattern+".fa", "dna/"+pattern+".fa",
		pattern+".fa (or .fasta, .fna, each with .gz)")
}

// dnaContexts is a Split of contexts that are taken from parts of genomes.
type dnaContexts struct {
	parts  [][]byte
	length int
	at     []dnaPlace
}

// dnaPlace is the start of a context.
type dnaPlace struct{ part, from int }

// add divides a part into contexts. The last one may be shorter.
func (d *dnaContexts) add(part []byte, length, stride int) {
	d.length = length
	d.parts = append(d.parts, part)
	for from := 0; from+1 < len(part); from += stride {
		d.at = append(d.at, dnaPlace{len(d.parts) - 1, from})
		if from+length+1 >= len(part) {
			return
		}
	}
}

// bases returns the number of bases in all parts.
func (d *dnaContexts) bases() int {
	n := 0
	for _, part := range d.parts {
		n += len(part)
	}
	return n
}

// Len returns the number of contexts.
func (d *dnaContexts) Len() int { return len(d.at) }

// Length returns the number of tokens of context i.
func (d *dnaContexts) Length(i int) int {
	return min(d.length, len(d.parts[d.at[i].part])-d.at[i].from-1)
}

// Example fills ex with context i. Unknown bases are not targets.
func (d *dnaContexts) Example(i int, ex *Example) {
	ex.Reset()
	part := d.parts[d.at[i].part][d.at[i].from:]
	part = part[:min(d.length+1, len(part))]
	ids, err := tokenizer.DNA().Encode(ex.Targets, part)
	if err != nil {
		panic(err) // the tokenizer accepts all letters
	}
	ex.Tokens = append(ex.Tokens, ids[:len(ids)-1]...)
	for j, base := range part[1:] {
		ids[j] = ids[j+1]
		if base == 'N' {
			ids[j] = Ignore
		}
	}
	ex.Targets = ids[:len(ids)-1]
}
