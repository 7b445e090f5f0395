package table

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/brief"
)

// clues holds what the cells of a column show about its type and the form of its texts.
type clues struct {
	evidence
	instants int           // number of cells that are not texts
	first    string        // text
	seen     []string      // the first texts
	times    []timeReading // if the texts are not numbers
	named    bool          // the setting --time_format can read them
}

// take processes the cells of the first rows.
func (k *clues) take(r *Reader, texts []string, instants int) {
	k.instants = instants
	for _, text := range texts {
		k.add(text)
	}
	if len(texts) == 0 || k.isNumber() || instants > 0 {
		return
	}
	k.first, k.seen = texts[0], texts
	if layout := r.opt.TimeFormat; layout != "" {
		_, err := time.ParseInLocation(layout, k.first, r.zone)
		k.named = err == nil
	}
	if !k.named {
		k.times = timeReadings(texts)
	}
}

// open reports whether more rows could decide how a column is written.
func (r *Reader) open(k clues) bool {
	return k.isNumber() && k.own() == decimalAuto && r.opt.Decimal == decimalAuto &&
		(k.either != "" || r.src.About().Separator != "" && !r.src.About().plain()) || len(k.times) > 1
}

// scan reads the data again, for the columns that the first rows leave undecided, until all are decided. A pipe cannot
// be read twice, so its first rows must suffice.
func (r *Reader) scan(paths []string, all []clues) error {
	for _, path := range paths {
		if info, err := os.Stat(path); path == "-" || err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			return nil
		}
	}
	src, err := openSource(paths, nil, &r.opt)
	if err != nil {
		return err
	}
	defer src.Close()
	var left []int
	for i := range all {
		if r.open(all[i]) {
			left = append(left, i)
			for t := range all[i].times { // all rows are read again
				all[i].times[t] = timeReading{layout: all[i].times[t].layout, up: true, down: true}
			}
			if len(all[i].times) == 0 {
				all[i].evidence = evidence{}
			}
		}
	}
	var row Row
	for n := 0; len(left) > 0; n++ {
		err := src.Next(&row)
		var bad *RowError
		if errors.As(err, &bad) {
			continue
		} else if err != nil { // the error occurs again when the rows are read
			return nil
		}
		left = slices.DeleteFunc(left, func(i int) bool {
			k := &all[i]
			text := strings.TrimSpace(row.Cells[i].Text)
			if row.Cells[i].Form != Text || r.opt.isMissing(text) {
				return false
			}
			if len(k.times) == 0 {
				k.add(text)
				return n > sampleRows && k.own() != decimalAuto
			}
			for t := range k.times {
				k.times[t].add(text)
			}
			k.times = likely(k.times)
			return n > sampleRows && len(k.times) == 1
		})
	}
	return nil
}

// settle decides the types of the columns and how their texts are read.
func (r *Reader) settle(all []clues) error {
	about := r.src.About()
	for _, name := range r.opt.Categories {
		if !slices.Contains(about.Columns, name) {
			return fmt.Errorf("categories: found %q, want columns among %s", name, brief.List(about.Columns, ", "))
		}
	}
	usual, fixed := r.opt.Decimal, r.opt.Decimal != decimalAuto
	if !fixed {
		usual = agreed(all)
	}
	if usual == decimalAuto && about.plain() {
		usual = decimalPoint
	}
	for i, name := range about.Columns {
		c, k := Column{Name: name, Kind: Number}, &all[i]
		if about.Units != nil {
			c.Unit = about.Units[i]
		}
		var doubt error
		switch {
		case slices.Contains(r.opt.Categories, name):
			c.Kind = Category
		case k.instants > 0:
			c.Kind = Time
		case k.texts == 0:
			c.Decimal = usual
		case k.isNumber():
			doubt = k.settle(&c, usual, fixed)
		case k.named:
			c.Kind, c.Layout = Time, r.opt.TimeFormat
		case len(k.times) > 0:
			doubt = settleTimes(&c, k.times, k.seen)
		default:
			c.Kind = Category
		}
		if doubt != nil {
			doubt = fmt.Errorf("column %s: %w", name, doubt)
		}
		r.columns, r.from, r.doubts = append(r.columns, c), append(r.from, i), append(r.doubts, doubt)
	}
	r.noteReadings()
	return nil
}

// noteReadings reports how texts were read, if it is not obvious.
func (r *Reader) noteReadings() {
	var all []string
	comma := false
	for i := range r.columns {
		c := &r.columns[i]
		if text := c.Reading(); text != "" && r.doubts[i] == nil {
			all = append(all, fmt.Sprintf("column %s: %s", c.Name, text))
			comma = comma || c.Kind == Number && c.Decimal == decimalComma
		}
	}
	if comma {
		r.notes = append(r.notes,
			"numbers are read with a comma before the fraction, as in 1,5 (--decimal point otherwise)")
	}
	if len(all) > 0 {
		r.notes = append(r.notes, brief.List(all, "; "))
	}
}
