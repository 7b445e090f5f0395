package table

import (
	"fmt"
	"slices"
	"time"
)

// AsTime interprets a column of numbers as times: days such as 20260131, months such as 202601, or else seconds since
// 1970 or fractions of seconds.
func (r *Reader) AsTime(column int) {
	c := &r.columns[column]
	if c.Kind != Number {
		return
	}
	for _, layout := range []string{"20060102", "200601"} {
		seen, days := r.Seen(column, sampleRows), 0
		for x := range seen {
			at, err := time.Parse(layout, categoryText(x))
			if err == nil && at.Year() >= 1900 && at.Year() < 2100 {
				days++
				c.Example = categoryText(x)
			}
		}
		if days > 1 && days == len(seen) {
			c.Kind, c.Layout = Time, layout
			r.notes = append(r.notes, fmt.Sprintf("column %s: %s", c.Name, c.Reading()))
			return
		}
	}
	c.Kind, c.Example = Time, ""
}

// Again returns the second time at which clocks show the same as at a time of a column, if the clocks are put back
// between the two and the column does not distinguish them.
func (r *Reader) Again(column int, seconds float64) (again float64, ok bool) {
	if !r.Unclear(column) || seconds != seconds {
		return 0, false
	}
	return secondTime(seconds, r.zone)
}

// Unclear reports whether the times of a column are local times in a zone in which clocks may be put back.
func (r *Reader) Unclear(column int) bool { return r.zone != time.UTC && r.local(column) }

// local reports whether times of a column have an hour but no zone.
func (r *Reader) local(column int) bool {
	c := &r.columns[column]
	if at := r.from[column]; c.Layout == "" {
		about := r.src.About()
		return at >= 0 && slices.Contains(about.Local, about.Columns[at])
	}
	return hasClock(c.Layout) && !namesZone(c.Layout)
}

// changes lists the months in which clocks are put back in some zone.
var changes = []time.Month{time.March, time.April, time.September, time.October, time.November}

// SummerTime returns advice on a time that comes after a later one, if the reason can be the end of summer time; else
// "".
func (r *Reader) SummerTime(column int, before, now float64) string {
	at := time.Unix(int64(now), 0).UTC()
	if r.opt.Zone != "" || !r.local(column) || before-now > 3600 || at.Hour() > 3 ||
		!slices.Contains(changes, at.Month()) {
		return ""
	}
	return "; an hour occurs twice at the end of summer time: --zone, such as --zone Europe/Berlin, " +
		"tells the two apart by the order of rows"
}
