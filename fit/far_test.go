package fit_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/fit"
)

// loud writes a recording of floats.
func loud(t *testing.T, path string, samples []float32) {
	t.Helper()
	data := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x03\x00\x01\x00\x40\x1f\x00\x00" +
		"\x00\x7d\x00\x00\x04\x00\x20\x00data")
	data = binary.LittleEndian.AppendUint32(data, uint32(4*len(samples)))
	for _, x := range samples {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestNumbersTooLarge checks that a number whose square does not fit into 32 bits ends a run before training, with the
// place of the number.
func TestNumbersTooLarge(t *testing.T) {
	for x, want := range map[float32]string{1e38: "sample 6, column sample: found 1e+38, want numbers of at most",
		1e30: "sample 6, column sample: found 1e+30, which is"} {
		dir := t.TempDir()
		for i := range 24 {
			samples := make([]float32, 64)
			for k := range samples {
				samples[k] = float32(math.Sin(float64(k*(1+i%2)) / 5))
			}
			if i == 23 {
				samples[5] = x
			}
			loud(t, filepath.Join(dir, fmt.Sprint("class", i%2), fmt.Sprint(i, ".wav")), samples)
		}
		found := 0
		for seed := range uint64(6) { // the recording can be in any part
			c := small(t, dir, func(c *fit.Config) { c.Seed, c.Epochs, c.Spectrum = seed, 1, "none" })
			_, err := fit.Run(context.Background(), c, nil, fit.Events{})
			if err != nil && strings.Contains(err.Error(), "23.wav, "+want) {
				found++
				continue
			}
			if err != nil || x == 1e38 {
				t.Errorf("%g, seed %d: found %v, want %s", x, seed, err, want)
			}
		}
		if found == 0 {
			t.Errorf("%g: found no error, want %s", x, want)
		}
	}
}

// TestOutlierIsNoBase checks that a single huge number in the first rows, which some devices write for a missing value,
// does not remove the fractions of all other numbers. If it is too large, the error names it.
func TestOutlierIsNoBase(t *testing.T) {
	text := func(outlier string) string {
		var b strings.Builder
		b.WriteString("a,s\n")
		for i := range 400 {
			x := fmt.Sprintf("%.3f", 20+math.Sin(float64(i)/5))
			if i == 7 {
				x = outlier
			}
			fmt.Fprintf(&b, "%s,%d\n", x, i%2)
		}
		return b.String()
	}
	res := run(t, small(t, write(t, "outlier.csv", text("1e9")), func(c *fit.Config) {
		c.Task, c.Target, c.Epochs, c.Length = fit.Next, []string{"a"}, 1, 20
	}))
	told := "outlier.csv, line 9, column a: the number there is 7e+08 times as far away as most are from each other"
	if c := res.Plan.Columns[0]; c.Base != 0 || !strings.Contains(strings.Join(res.Notes, "; "), told) {
		t.Errorf("found the base %g, notes %q", c.Base, res.Notes)
	}
	_, err := fit.Run(context.Background(), small(t, write(t, "huge.csv", text("1e308")), func(c *fit.Config) {
		c.Task, c.Target, c.Epochs, c.Length = fit.Next, []string{"a"}, 1, 20
	}), nil, fit.Events{})
	want := "huge.csv, line 9, column a: found a number that is too large for 32 bits, want"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("found %v", err)
	}
}
