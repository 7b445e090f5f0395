//go:build ignore

// Command make writes the data of docs/fit.md to a folder: a machine's sensors, words made of tones, two kinds of
// genes, a chromosome, sales of three shops. All data is synthetic and the same on every machine.
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("want: go run docs/fit/make.go FOLDER")
	}
	for name, text := range map[string]string{
		"machine.csv": machine(1, 20_000, false), "today.csv": machine(2, 3000, true), "sales.csv": sales(),
		"chromosome.txt": chromosome(6, 1000), "read.txt": chromosome(7, 2),
	} {
		write(filepath.Join(os.Args[1], name), text)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range 60 {
		for word, tones := range map[string][3]float64{"up": {300, 400, 500}, "down": {500, 400, 300}, "flat": {400,
			400, 400}} {
			write(filepath.Join(os.Args[1], "words", word, fmt.Sprintf("%02d.wav", i)), recording(i, tones))
		}
	}
	for kind, share := range map[string]float64{"rich": 0.6, "poor": 0.4} {
		var b strings.Builder
		for i := range 120 {
			fmt.Fprintf(&b, ">%s%d\n", kind, i)
			for range 100 + rng.IntN(60) {
				if rng.Float64() < share {
					b.WriteByte("GC"[rng.IntN(2)])
				} else {
					b.WriteByte("AT"[rng.IntN(2)])
				}
			}
			b.WriteByte('\n')
		}
		write(filepath.Join(os.Args[1], "genes", kind, "genes.fa"), b.String())
	}
}

func write(path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		log.Fatal(err)
	}
}

// machine returns a log of a machine: its load, and a temperature and a vibration that depend on it. With faults, the
// bearing runs dry for a minute now and then and vibrates more than its load explains.
func machine(seed uint64, rows int, faults bool) string {
	rng := rand.New(rand.NewPCG(seed, seed))
	var b strings.Builder
	b.WriteString("time,load,temperature,vibration\n")
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	load, heat := 0.0, 50.0
	for i := range rows {
		load = 0.95*load + 0.3*rng.NormFloat64()
		heat += 0.02 * (50 + 8*load - heat)
		shake := 1 + 0.3*math.Sin(float64(i)/5) + 0.1*load + 0.03*rng.NormFloat64()
		if faults && i%1000 > 940 {
			shake += 0.8 * math.Abs(rng.NormFloat64())
		}
		fmt.Fprintf(&b, "%s,%.3f,%.3f,%.3f\n", at.Format(time.DateTime), load, heat, shake)
		at = at.Add(time.Second)
	}
	return b.String()
}

// recording returns three tones, one after another, in noise: 16-bit samples at 2 kHz.
func recording(seed int, tones [3]float64) string {
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(tones[0])))
	var samples []int16
	phase, pitch, loud := 0.0, 0.9+0.2*rng.Float64(), 4000+8000*rng.Float64()
	for _, tone := range tones {
		for range 300 + rng.IntN(60) {
			phase += 2 * math.Pi * tone * pitch / 2000
			samples = append(samples, int16(loud*math.Sin(phase)+1000*rng.NormFloat64()))
		}
	}
	b := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	b = binary.LittleEndian.AppendUint32(b, 2000)
	b = binary.LittleEndian.AppendUint32(b, 4000)
	b = append(b, "\x02\x00\x10\x00data"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(2*len(samples)))
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-8))
	return string(b)
}

// chromosome returns one line of random letters with a gene now and then. A gene begins with ATG, has 60 codons that
// prefer G and C as their third letter, and ends with TAA.
func chromosome(seed uint64, genes int) string {
	rng := rand.New(rand.NewPCG(seed, seed))
	var b strings.Builder
	letters := func(from string, n int) {
		for range n {
			b.WriteByte(from[rng.IntN(len(from))])
		}
	}
	for range genes {
		letters("ACGT", 40+rng.IntN(120))
		b.WriteString("ATG")
		for range 60 {
			letters("AC", 1) // no stop codon begins with A or C
			letters("ACGT", 1)
			letters("GGGCCCAT", 1)
		}
		b.WriteString("TAA")
	}
	letters("ACGT", 60)
	return b.String() + "\n"
}

// sales returns the sales of three shops of different sizes for three years, with weekly cycles, and days of a lower
// price that are known in advance. The last four weeks have prices but no sales.
func sales() string {
	rng := rand.New(rand.NewPCG(5, 5))
	var b strings.Builder
	b.WriteString("day,shop,price,sold\n")
	start := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	week := []float64{0.6, 0.9, 0.9, 1, 1.1, 1.4, 1.6}
	const days = 3 * 365
	for d := range days + 28 {
		for shop, size := range []float64{20, 80, 300} {
			at := start.AddDate(0, 0, d)
			price := 5.0
			if rng.IntN(8) == 0 {
				price = 4
			}
			mean := size * week[at.Weekday()] * math.Pow(5/price, 2) * (1 + 0.2*math.Sin(2*math.Pi*float64(d)/365))
			sold := fmt.Sprint(math.Round(max(0, mean*(1+0.1*rng.NormFloat64()))))
			if d >= days {
				sold = ""
			}
			fmt.Fprintf(&b, "%s,shop %d,%g,%s\n", at.Format(time.DateOnly), shop+1, price, sold)
		}
	}
	return b.String()
}
