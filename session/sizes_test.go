package session

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
)

// TestSizesOfThePage checks that the sizes of states in docs/sessions.md are those of the models. If they differ, it
// prints the right table.
func TestSizesOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/sessions.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, row := range []struct{ name, preset, layers string }{
		{"H3-125M, all layers H3", "h3-125m", "h3*12"},
		{"H3-125M, a hybrid: one layer of attention", "h3-125m", ""},
		{"Mamba-130M", "mamba-130m", ""},
		{"Mamba-2-130M", "mamba2-130m", ""},
		{"a transformer of H3-125M's shape", "h3-125m", "attention*12"},
		{"Mamba-2.8B", "mamba-2.8b", ""},
	} {
		c, err := model.Preset(row.preset)
		if err != nil {
			t.Fatal(err)
		}
		if row.layers != "" {
			c.Layers = row.layers
		}
		m, err := model.New(c)
		if err != nil {
			t.Fatal(err)
		}
		growth, _ := m.Growth()
		fmt.Fprintf(&table, "| %s |", row.name)
		for _, tokens := range []int{1_000, 10_000, 100_000} {
			fmt.Fprintf(&table, " %.1f MB |", float64(m.NewState().Size()+growth*tokens)/1e6)
		}
		fmt.Fprintln(&table)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("the page has other sizes, want\n%s", table.String())
	}
}
