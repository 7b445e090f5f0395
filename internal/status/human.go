package status

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count formats a number with about three digits and a decimal unit: 0.5, 999, 1.2K, 126M, 2.7B, 1.5T.
func Count[T int | int64 | uint64 | float64](number T) string {
	n := float64(number)
	if a := math.Abs(n); a < 999.5 {
		if a < 9.95 && a != math.Trunc(a) {
			return threeDigits(n, 1)
		}
		return threeDigits(n, 0)
	}
	return scaled(n, 1000, "K", "M", "B", "T")
}

// Bytes formats a size with a binary unit: 512 B, 1.5 KiB, 482 MiB.
func Bytes[T int | int64 | uint64](n T) string {
	if n < 1024 {
		return strconv.FormatUint(uint64(n), 10) + " B"
	}
	return scaled(float64(n), 1024, " KiB", " MiB", " GiB", " TiB", " PiB", " EiB")
}

// scaled divides n, at least base, by the largest power of base that leaves 1 or more, and appends its unit.
func scaled(n, base float64, units ...string) string {
	unit := 0
	n /= base
	for unit < len(units)-1 && math.Abs(n) >= base-0.5 { // a number that rounds to base is 1.0 of the next unit
		n /= base
		unit++
	}
	return threeDigits(n, 1) + units[unit]
}

// threeDigits formats n with the given number of decimals if it is below 100, otherwise with none.
func threeDigits(n float64, decimals int) string {
	if math.Abs(n) >= 99.95 {
		decimals = 0
	}
	return strconv.FormatFloat(n, 'f', decimals, 64)
}

// Duration formats a time in its two largest units: 850ms, 9.3s, 32s, 1m32s, 2h05m, 3d04h.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + Duration(-max(d, -math.MaxInt64))
	case d < time.Second-500*time.Microsecond:
		return fmt.Sprintf("%dms", d.Round(time.Millisecond).Milliseconds())
	case d < 10*time.Second-50*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	switch s := d.Round(time.Second); {
	case s < time.Minute:
		return fmt.Sprintf("%ds", s/time.Second)
	case s < time.Hour:
		return fmt.Sprintf("%dm%02ds", s/time.Minute, s%time.Minute/time.Second)
	}
	if m := d.Round(time.Minute); m < day {
		return fmt.Sprintf("%dh%02dm", m/time.Hour, m%time.Hour/time.Minute)
	}
	h := d.Round(time.Hour)
	return fmt.Sprintf("%dd%02dh", h/day, h%day/time.Hour)
}

// Bar draws the share of a whole that is done in the given number of columns: [=====>    ].
func Bar(done, total int64, columns int) string {
	inner := max(columns-2, 1)
	full := inner
	if total > 0 {
		full = int(float64(inner) * min(max(float64(done)/float64(total), 0), 1))
	}
	text := strings.Repeat("=", full)
	if full < inner {
		text += ">" + strings.Repeat(" ", inner-full-1)
	}
	return "[" + text + "]"
}

// Minute formats the time of an event in a list: 2006-01-02 15:04.
func Minute(t time.Time) string { return t.Format("2006-01-02 15:04") }

// Percent formats a percentage of targets with enough decimals to show a difference of one target.
func Percent(percent float64, of int) string {
	decimals := 2
	for step := 100 / float64(max(of, 1)); step < math.Pow10(-decimals) && decimals < 8; {
		decimals++
	}
	return fmt.Sprintf("%.*f %%", decimals, percent)
}
