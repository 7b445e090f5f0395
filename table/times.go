package table

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// layouts are the layouts of times that are detected, those with a zone first. All with seconds accept fractions.
var layouts = func() []string {
	days := []string{"2006-01-02", "2006/01/02", "2006.01.02", "02.01.2006", "01/02/2006", "02/01/2006", "02-01-2006",
		"1/2/2006", "2/1/2006", "2.1.2006", "1/2/06", "2/1/06", "02 Jan 2006", "2 Jan 2006", "02-Jan-2006",
		"Jan 2, 2006"}
	hours := []string{"15:04:05", "15:04", "3:04:05 PM", "3:04 PM"}
	zones := []string{"Z07:00", " Z07:00", "Z0700", " -0700", " MST", ""}
	var all []string
	for _, day := range days {
		for _, hour := range hours {
			for _, zone := range zones {
				all = append(all, day+" "+hour+zone)
				if day == days[0] {
					all = append(all, day+"T"+hour+zone)
				}
			}
		}
	}
	all = append(all, days...)
	return append(all, "2006-01", time.RFC1123, time.RFC1123Z, time.ANSIC, "20060102T150405", "20060102T150405Z07:00",
		"02/Jan/2006:15:04:05 -0700")
}()

// findLayout returns the layout that parses all texts and, if others do with different results, one of them. It prefers
// a layout by which the times rise or fall.
func findLayout(texts []string, zone *time.Location) (layout, other string) {
	if len(texts) == 0 || !strings.ContainsAny(texts[0], "-/.: ") {
		return "", ""
	}
	var first []int64
	found := false
	for _, l := range layouts {
		at, ok := readAll(texts, l, zone)
		switch {
		case !ok:
		case !found:
			layout, first, found = l, at, true
		case slices.Equal(at, first):
		case !inOrder(first) && inOrder(at):
			return l, layout
		default:
			return layout, l
		}
	}
	return layout, ""
}

func readAll(texts []string, layout string, zone *time.Location) (at []int64, ok bool) {
	for _, text := range texts {
		t, err := time.ParseInLocation(layout, text, zone)
		if err != nil {
			return nil, false
		}
		at = append(at, t.UnixNano())
	}
	return at, true
}

func inOrder(at []int64) bool {
	if slices.IsSorted(at) {
		return true
	}
	back := slices.Clone(at)
	slices.Reverse(back)
	return slices.IsSorted(back)
}

// unixSeconds converts a number of a column of times to seconds since 1970: by its size it counts seconds,
// milliseconds, microseconds or nanoseconds.
func unixSeconds(x float64) float64 {
	switch size := max(x, -x); {
	case size > 1e17:
		return x / 1e9
	case size > 1e14:
		return x / 1e6
	case size > 1e11:
		return x / 1e3
	}
	return x
}

// parseTime parses a time into seconds since 1970.
func parseTime(text, layout string, zone *time.Location) (float64, error) {
	if seconds, ok := plainTime(text, layout); ok && zone == time.UTC {
		return seconds, nil
	}
	t, err := time.ParseInLocation(layout, text, zone)
	if err != nil {
		return 0, fmt.Errorf("found %.40q, want a time such as %s", text, layout)
	}
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9, nil
}

// plainTime parses the most common times, such as 2026-01-31 23:59:59, as UTC: time.Parse would dominate the time of
// reading a table.
func plainTime(text, layout string) (seconds float64, ok bool) {
	const want = "2006-01-02 15:04:05"
	if len(text) != len(want) || len(layout) != len(want) || layout[:10] != want[:10] || layout[11:] != want[11:] ||
		layout[10] != text[10] {
		return 0, false
	}
	var parts [6]int
	for i, at := range [...]int{0, 5, 8, 11, 14, 17} {
		digits := 2
		if i == 0 {
			digits = 4
		} else if i != 3 && text[at-1] != want[at-1] {
			return 0, false
		}
		for _, c := range []byte(text[at : at+digits]) {
			if c < '0' || c > '9' {
				return 0, false
			}
			parts[i] = 10*parts[i] + int(c-'0')
		}
	}
	at := time.Date(parts[0], time.Month(parts[1]), parts[2], parts[3], parts[4], parts[5], 0, time.UTC)
	if at.Day() != parts[2] || int(at.Month()) != parts[1] || parts[3] > 23 || parts[4] > 59 || parts[5] > 59 {
		return 0, false
	}
	return float64(at.Unix()), true
}
