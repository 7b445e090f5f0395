package task

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// bases returns n random bases for a seed.
func bases(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, n)
	for i := range b {
		b[i] = "ACGT"[rng.IntN(4)]
	}
	return b
}

// fasta returns a file of sequences in lines of 60 letters.
func fasta(sequences ...[]byte) []byte {
	var b strings.Builder
	for _, s := range sequences {
		b.WriteString(">a name of it\n")
		for len(s) > 0 {
			n := min(60, len(s))
			b.Write(s[:n])
			b.WriteString("\r\n")
			s = s[n:]
		}
	}
	return []byte(b.String())
}

func TestDNA(t *testing.T) {
	dir := t.TempDir()
	one, two, three := bases(1, 1000), bases(2, 500), bases(3, 700)
	putFile(t, dir, "genome/a.fa", fasta(one, two))
	putFile(t, dir, "genome/b.fna.gz", fasta(three))
	putFile(t, dir, "genome/readme.txt", []byte("no genome"))
	set, err := openTask(t, DNA, dir, func(o *dnaOptions) { o.Length, o.Stride = 100, 50 })
	if err != nil {
		t.Fatal(err)
	}
	// The parts have 800, 400 and 560 bases, in steps of 50. The test parts have 100, 50 and 70.
	if set.Train.Len() != 15+7+11 || set.Valid.Len() != 3 || set.Test.Len() != 3 ||
		set.MaxLength != 100 || set.Vocab != 12 ||
		set.Outputs != 12 {
		t.Fatalf("found %d, %d, %d contexts, %+v; want 33, 3, 3", set.Train.Len(), set.Valid.Len(), set.Test.Len(), set)
	}
	var ex Example
	tok := tokenizer.DNA()
	check := func(split Split, i int, want []byte) {
		t.Helper()
		split.Example(i, &ex)
		if n := split.(Lengths).Length(i); n != len(want)-1 {
			t.Errorf("found the length %d, want %d", n, len(want)-1)
		}
		if got := string(tok.Decode(nil, ex.Tokens)); got != string(want[:len(want)-1]) {
			t.Errorf("found the tokens of %s, want %s", got, want[:len(want)-1])
		}
		if got := string(tok.Decode(nil, ex.Targets)); got != string(want[1:]) {
			t.Errorf("found the targets of %s, want %s", got, want[1:])
		}
	}
	check(set.Train, 1, one[50:151])
	check(set.Train, 14, one[700:800])
	check(set.Valid, 1, two[400:450])
	check(set.Test, 2, three[630:700])

	held, err := openTask(t, DNA, dir, func(o *dnaOptions) { o.Length, o.Stride, o.Test = 100, 100, "b.*" })
	if err != nil {
		t.Fatal(err)
	}
	check(held.Test, 0, three[:101])
	check(held.Valid, 0, one[900:1000])
	check(held.Train, 0, one[:101])

	_, err = openTask(t, DNA, dir, func(o *dnaOptions) { o.Files = "c*" })
	wantError(t, err, "task dna", "found none of genome/c*.fa", "ncbi")
	_, err = openTask(t, DNA, dir, func(o *dnaOptions) { o.Files = "[" })
	wantError(t, err, "task dna: files", "pattern")
	_, err = openTask(t, DNA, dir, func(o *dnaOptions) { o.Test = "*" })
	wantError(t, err, "found 0 bases to train, 0 to validate, 2200 to test")
	putFile(t, dir, "genome/c.fasta", []byte(">x\nACGJ\n"))
	_, err = openTask[dnaOptions](t, DNA, dir, nil)
	wantError(t, err, "task dna", "c.fasta", `line 2, letter 4: found 'J', want a base`)
}

func TestReadFASTA(t *testing.T) {
	got, err := readFASTA(strings.NewReader(">one\nacgu\n\nRN-t\n>two\nGG"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || string(got[0]) != "ACGTNNNT" || string(got[1]) != "GG" {
		t.Errorf("found %q, want ACGTNNNT and GG", got)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":   {"", "no sequence"},
		"no name": {"ACGT\n", `line 1: found "ACGT", want a line such as >name`},
		"nothing": {">one\n>two\nA", "line 2: found the next name"},
		"last":    {">one\nA\n>two\n", "no sequence after the last name"},
		"protein": {">one\nAC\nMEL\n", "line 3, letter 2: found 'E'"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readFASTA(strings.NewReader(c.text))
			wantError(t, err, c.want)
		})
	}
}

func TestDNAUnknownBases(t *testing.T) {
	var d dnaContexts
	d.add([]byte("ACNGT"), 10, 10)
	var ex Example
	d.Example(0, &ex)
	if len(ex.Targets) != 4 || ex.Targets[1] != Ignore || ex.Targets[0] == Ignore || ex.Targets[2] == Ignore {
		t.Errorf("found the targets %v, want none at N alone", ex.Targets)
	}
}

func TestMarkov(t *testing.T) {
	m := newMarkov([][]byte{[]byte("ACACACAC"), []byte("GNA")}, 2)
	// Order 0: A 5, C 4, G 1 of 10, plus 4 counts distributed evenly.
	if p := m.chances(0, 0); math.Abs(p[0]-6.0/14) > 1e-12 || math.Abs(p[3]-1.0/14) > 1e-12 {
		t.Errorf("found the chances %v, want 6/14 for A and 1/14 for T", p)
	}
	// Order 1, after A: C 4 of 4; C has 5/14 under order 0.
	if p := m.chances(0, 1); math.Abs(p[1]-(4+4*5.0/14)/8) > 1e-12 {
		t.Errorf("found the chances %v, want %g for C", p, (4+4*5.0/14)/8)
	}
	for order := range 3 {
		p := m.chances(0b0100, order)
		if sum := p[0] + p[1] + p[2] + p[3]; math.Abs(sum-1) > 1e-12 {
			t.Errorf("order %d: the chances sum to %g", order, sum)
		}
	}
	// In a sequence with period 5, the last 2 bases determine the next base. The last base alone does so except after
	// A, which is two fifths of the bases.
	text := []byte(strings.Repeat("AACGT", 400))
	m = newMarkov([][]byte{text}, 3)
	for order, least := range []float64{1.33, .4 * math.Ln2, .01, .01} {
		if loss, _ := m.score([][]byte{text[:1000]}, order); math.Abs(loss-least) > .012 {
			t.Errorf("order %d: found the loss %v, want about %v", order, loss, least)
		}
	}
	// The order is the one that is best on the validation part, whatever the test part is.
	for _, c := range []struct{ valid, want string }{
		{"AACGT", "a Markov model of order 8"}, {"TTTTT", "a Markov model of order 0"},
	} {
		got := markovBaseline([][]byte{text}, [][]byte{[]byte(strings.Repeat(c.valid, 200))}, [][]byte{text[:1000]})
		if len(got) != 1 || got[0].Name != c.want {
			t.Errorf("validated on %s: found %+v, want %s", c.valid, got, c.want)
		}
	}
	if got := markovBaseline([][]byte{text}, [][]byte{[]byte("NNN")}, [][]byte{text}); got != nil {
		t.Errorf("without a base to validate on: found %+v, want none", got)
	}
}

func FuzzReadFASTA(f *testing.F) {
	f.Add(fasta(bases(1, 100)))
	f.Add([]byte(">\n>\nA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := readFASTA(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		for _, s := range all {
			if len(s) == 0 || len(strings.Trim(string(s), "ACGTN")) > 0 {
				t.Errorf("found the sequence %q", s)
			}
		}
	})
}
