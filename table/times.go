package table

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// layouts lists the layouts of times that are detected, those with a zone first. All layouts with seconds accept
// fractions.
var layouts = func() []string {
	days := []string{"2006-01-02", "2006-1-2", "2006/1/2", "2006.1.2", "2.1.2006", "1/2/2006", "2/1/2006", "2-1-2006",
		"1-2-2006", "1/2/06", "2/1/06", "2.1.06", "2 Jan 2006", "2-Jan-2006", "Jan 2, 2006", "2 January 2006",
		"January 2, 2006"}
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

// timeReading is a candidate layout of a column of times, with properties of the times that it gives.
type timeReading struct {
	layout   string
	n        int    // number of texts that match the layout
	print    uint64 // hash of the times
	last     int64
	up, down bool // whether the times never fall, and whether they never rise
}

// add processes a text of the column.
func (t *timeReading) add(text string) {
	at, err := time.Parse(t.layout, text)
	if err != nil {
		return
	}
	x := at.Unix()
	t.up, t.down = t.up && (t.n == 0 || x >= t.last), t.down && (t.n == 0 || x <= t.last)
	t.n, t.print, t.last = t.n+1, 31*t.print+uint64(x), x
}

// firstTexts is the number of texts of a column on which a layout is tried first.
const firstTexts = 20

// timeReadings returns the layouts that match at least half of the texts of a column and as many as any other layout.
// Of layouts that give the same times, it returns only the first.
func timeReadings(texts []string) (all []timeReading) {
	if len(texts) == 0 || !strings.ContainsAny(texts[0], "-/.: ") {
		return nil
	}
	some := texts[:min(len(texts), firstTexts)]
	for _, layout := range layouts {
		t := timeReading{layout: layout, up: true, down: true}
		for i, text := range some {
			if t.add(text); 2*(t.n+len(some)-i-1) < len(some) {
				break
			}
		}
		if 2*t.n < len(some) {
			continue
		}
		for _, text := range texts[len(some):] {
			t.add(text)
		}
		same := func(other timeReading) bool { return other.n == t.n && other.print == t.print }
		if 2*t.n >= len(texts) && !slices.ContainsFunc(all, same) {
			all = append(all, t)
		}
	}
	return likely(all)
}

// likely returns the layouts that match the most texts.
func likely(all []timeReading) []timeReading {
	most := 0
	for _, t := range all {
		most = max(most, t.n)
	}
	return slices.DeleteFunc(all, func(t timeReading) bool { return t.n < most })
}

// settleTimes sets the layout of a column of texts. If several layouts match all texts, it chooses the one with which
// the times rise, or else fall. It returns an error if there is no single such layout.
func settleTimes(c *Column, all []timeReading, texts []string) error {
	rises := slices.DeleteFunc(slices.Clone(all), func(t timeReading) bool { return !t.up })
	falls := slices.DeleteFunc(slices.Clone(all), func(t timeReading) bool { return !t.down })
	if len(rises) == 1 {
		all = rises
	} else if len(rises) == 0 && len(falls) == 1 {
		all = falls
	}
	c.Kind, c.Layout = Time, all[0].layout
	if len(all) == 1 {
		if !strings.HasPrefix(c.Layout, "2006-") {
			c.Example = texts[0]
		}
		return nil
	}
	other := Column{Layout: all[1].layout}
	at := max(0, slices.IndexFunc(texts, func(text string) bool { return c.day(text) != other.day(text) }))
	text := texts[at]
	return fmt.Errorf("found times such as %.40q, which is %s (--time_format %q) or %s (--time_format %q), "+
		"and nothing in the column that tells which", text, c.day(text), c.Layout, other.day(text), other.Layout)
}

// day returns the date of a time of the column in words.
func (c *Column) day(text string) string {
	at, err := time.Parse(c.Layout, text)
	if err != nil {
		return "no time"
	}
	return at.Format("2 January 2006")
}

// unixSeconds converts a number in a column of times to seconds since 1970. The unit is seconds, milliseconds,
// microseconds or nanoseconds, depending on the size of the number.
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

// parseTime parses a time as seconds since 1970. A time without a zone is local time in the given zone. A day is a
// calendar day in any zone.
func parseTime(text, layout string, zone *time.Location) (float64, error) {
	wall, ok := plainTime(text, layout)
	if !ok {
		in, named := time.UTC, namesZone(layout)
		if named {
			in = zone
		}
		t, err := time.ParseInLocation(layout, text, in)
		switch name, offset := t.Zone(); {
		case err != nil && strings.Contains(err.Error(), "out of range"):
			return 0, fmt.Errorf("found %.40q, which no calendar or clock has, want a time such as %s", text, layout)
		case err != nil:
			return 0, fmt.Errorf("found %.40q, want a time such as %s", text, layout)
		case strings.Contains(layout, "MST") && offset == 0 && t.Location() != in && name != "GMT":
			return 0, fmt.Errorf("found %.40q, whose zone %s can be one of several, want --zone "+
				"with the name of a place, such as Europe/Berlin", text, name)
		}
		if wall = float64(t.Unix()) + float64(t.Nanosecond())/1e9; named {
			return wall, nil
		}
	}
	if zone == time.UTC || !hasClock(layout) {
		return wall, nil
	}
	at, ok := firstTime(wall, zone)
	if !ok {
		return 0, skipped(text, zone)
	}
	return at, nil
}

// skipped returns the error for a time that was skipped when clocks were put forward.
func skipped(text string, zone *time.Location) error {
	return fmt.Errorf("found %.40q, which clocks in %s skipped when they were put forward; "+
		"want the --zone that the times are of, such as UTC or Etc/GMT-1 if they have no summer time", text, zone)
}

// namesZone reports whether times with a layout contain a zone.
func namesZone(layout string) bool {
	return strings.Contains(layout, "Z07") || strings.Contains(layout, "-07") || strings.Contains(layout, "MST")
}

// hasClock reports whether times with a layout contain an hour. Otherwise they are days, months or years.
func hasClock(layout string) bool {
	return strings.Contains(layout, "15") || strings.Contains(layout, "PM")
}

// Days reports whether times of the column are days, months or years.
func (c *Column) Days() bool { return c.Layout != "" && !hasClock(c.Layout) }

// offset returns the number of seconds that clocks in a zone are ahead of UTC.
func offset(seconds float64, zone *time.Location) float64 {
	_, o := time.Unix(int64(math.Floor(seconds)), 0).In(zone).Zone()
	return float64(o)
}

// firstTime returns the first time at which clocks in a zone show the given clock time. ok is false if they never did.
func firstTime(wall float64, zone *time.Location) (at float64, ok bool) {
	const day = 24 * 3600
	a, b := offset(wall-day, zone), offset(wall+day, zone) // before and after the clocks were changed
	for _, o := range []float64{max(a, b), min(a, b)} {
		if offset(wall-o, zone) == o {
			return wall - o, true
		}
	}
	return 0, false
}

// secondTime returns the second time at which clocks in a zone show the same as at a time, if they were put back in
// between.
func secondTime(at float64, zone *time.Location) (again float64, ok bool) {
	_, end := time.Unix(int64(math.Floor(at)), 0).In(zone).ZoneBounds()
	if end.IsZero() {
		return 0, false
	}
	back := offset(at, zone) - offset(float64(end.Unix()), zone)
	return at + back, back > 0 && at+back >= float64(end.Unix())
}

// plainTime parses the most common times, such as 2026-01-31 23:59:59, as UTC. With time.Parse, parsing times would
// dominate the time of reading a table.
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
