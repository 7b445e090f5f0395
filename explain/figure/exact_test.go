package figure_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// TestExportsAreExact: JSON and NPZ have every bit of a number, in figures of every kind and in the cells of tables; a
// page shows cells with few digits.
func TestExportsAreExact(t *testing.T) {
	x := figure.Floats{1. / 3, -2e-7 / 3, 1e300 / 7, 0.1 + 0.2, float64(float32(1. / 3)), 5e-324, 0, 12345.678901234567}
	var rows [][]string
	for _, v := range x {
		rows = append(rows, []string{figure.Number(v), figure.Share(v)})
	}
	names := strings.Split("abcdefgh", "")
	p := &figure.Page{Title: "t", Figures: []*figure.Figure{{Name: "f", Title: "f", Frames: []figure.Frame{{
		Panels: []figure.Panel{
			{Lines: &figure.Lines{Series: []figure.Series{{Name: "s", X: x, Y: x, Low: x, High: x}}}},
			{Map: &figure.Map{Rows: 2, Cols: 4, Values: x}},
			{Table: &figure.Table{Columns: []string{"x", "y"}, Rows: rows}},
			{Text: &figure.Text{Tokens: names, Values: x, Mark: -1}},
			{Bars: &figure.Bars{Names: names, Series: []figure.Series{{Name: "s", Y: x}}}},
		}}}}}}
	var text, page, npz bytes.Buffer
	if err := errors.Join(p.WriteJSON(&text), p.WriteNPZ(&npz), p.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := figure.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(npz.Bytes()), int64(npz.Len()))
	if err != nil {
		t.Fatal(err)
	}
	panels := got.Figures[0].Frames[0].Panels
	all := map[string]figure.Floats{"lines": panels[0].Lines.Series[0].Y, "map": panels[1].Map.Values,
		"text": panels[3].Text.Values, "bars": panels[4].Bars.Series[0].Y}
	for _, name := range []string{"f/0/s/y", "f/0/s/low", "f/1/map", "f/3/values", "f/4/s"} {
		r, err := z.Open(name + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_, all[name], _ = readNPY(t, data)
	}
	for i := range x {
		v, err := strconv.ParseFloat(panels[2].Table.Rows[i][0], 64)
		if err != nil {
			t.Fatal(err)
		}
		all["table"] = append(all["table"], v)
	}
	for name, got := range all {
		if !slices.Equal(got, x) {
			t.Errorf("%s: found %v, want %v", name, got, x)
		}
	}
}
