package task

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// ettColumns lists the column names in the first line of the files of ETDataset. OT is the oil temperature, the others
// are loads.
var ettColumns = []string{"date", "HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"}

// readHourly reads the first hours of a file of ETDataset: a line of column names, then one line per hour with a date
// and seven numbers. It returns an error for other columns, fewer hours, hours that are not consecutive, and values
// that are not finite numbers.
func readHourly(r io.Reader, hours int) (*hourly, error) {
	lines := csv.NewReader(r)
	lines.ReuseRecord = true
	lines.FieldsPerRecord = -1 // checked below, to report the expected number
	head, err := lines.Read()
	if err == io.EOF {
		return nil, errors.New("found an empty file")
	}
	if err != nil {
		return nil, err
	}
	if !slices.Equal(head, ettColumns) {
		return nil, fmt.Errorf("line 1: found the columns %q, want %q", head, ettColumns)
	}
	h := &hourly{raw: make([][7]float64, 0, hours)}
	for len(h.raw) < hours {
		fields, err := lines.Read()
		if err == io.EOF {
			return nil, fmt.Errorf("found %d hours, want %d: the file is cut off", len(h.raw), hours)
		}
		if err != nil {
			return nil, err
		}
		line, _ := lines.FieldPos(0)
		if err := h.add(fields); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	return h, nil
}

// add appends the hour of a line.
func (h *hourly) add(fields []string) error {
	if len(fields) != len(ettColumns) {
		return fmt.Errorf("found %d columns, want %d", len(fields), len(ettColumns))
	}
	at, err := time.Parse(time.DateTime, fields[0])
	if err != nil {
		return fmt.Errorf("found the date %q, want one such as 2016-07-01 00:00:00", fields[0])
	}
	if len(h.raw) == 0 {
		h.start = at
	}
	if want := h.start.Add(time.Duration(len(h.raw)) * time.Hour); !at.Equal(want) {
		return fmt.Errorf("found the date %s, want %s, an hour after the line before",
			fields[0], want.Format(time.DateTime))
	}
	var row [7]float64
	for i := range row {
		if row[i], err = strconv.ParseFloat(fields[i+1], 64); err != nil || math.IsNaN(row[i]) ||
			math.Abs(row[i]) > math.MaxFloat32 {
			return fmt.Errorf("column %s: found %q, want a finite number", ettColumns[i+1], fields[i+1])
		}
	}
	h.raw = append(h.raw, row)
	return nil
}
