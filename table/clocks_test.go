package table_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/table"
)

// TestTimesAreRead checks that the layout is chosen from all times of a column, that days do not depend on the zone,
// and that an ambiguous local time is read as the first of both.
func TestTimesAreRead(t *testing.T) {
	for name, c := range map[string]struct{ zone, text, want, told string }{
		"day first":      {"", "01/02/2026|13/02/2026", "2026-02-01 00:00|2026-02-13 00:00", `is 1 February 2026`},
		"month first":    {"", "01/02/2026|01/13/2026", "2026-01-02 00:00|2026-01-13 00:00", `is 2 January 2026`},
		"dashes, months": {"", "01-31-2026|02-01-2026", "2026-01-31 00:00|2026-02-01 00:00", ""},
		"a later row": {"", strings.Repeat("01/02/2026|", 1500) + "13/02/2026", "2026-02-01 00:00", "is 1 February " +
			"2026"},
		"in order": {"", "30/11/25 10:00|05/12/25 10:00|07/12/25 10:00", "2025-11-30 10:00|2025-12-05 10:00", ""},
		"order decides": {"", "05/01/2026|06/01/2026|04/02/2026", "2026-01-05 00:00|2026-01-06 00:00|2026-02-04 00:00",
			"is 5 January 2026"},
		"two digits":    {"", "31.12.25|01.01.26", "2025-12-31 00:00|2026-01-01 00:00", "31 December 2025"},
		"leap day":      {"", "2024-02-28|2024-02-29|2024-03-01", "2024-02-28 00:00|2024-02-29 00:00", ""},
		"days of zones": {"America/New_York", "2026-03-08|2026-03-09", "2026-03-08 00:00|2026-03-09 00:00", ""},
		"offsets": {"", "2026-10-25T02:30:00+02:00|2026-10-25T02:30:00+01:00|2026-10-25T02:30:00Z",
			"2026-10-25 00:30|2026-10-25 01:30|2026-10-25 02:30", ""},
		"summer and winter": {"Europe/Berlin", "2026-07-01 12:00|2026-12-01 12:00", "2026-07-01 10:00|2026-12-01 11:00",
			""},
		"twice": {"Europe/Berlin", "2026-10-25 02:30:00|2026-10-25 03:00:00",
			"2026-10-25 00:30|2026-10-25 02:00", ""},
		"put forward": {"Europe/Berlin", "2026-03-29 01:59|2026-03-29 03:00", "2026-03-29 00:59|2026-03-29 01:00", ""},
		"south": {"America/Santiago", "2026-04-04 23:30|2026-04-05 00:00", "2026-04-05 02:30|2026-04-05 04:00",
			""},
		"names of zones": {"Europe/Berlin", "2026-10-25 02:30 CEST|2026-10-25 02:30 CET",
			"2026-10-25 00:30|2026-10-25 01:30", ""},
	} {
		opt := table.DefaultOptions()
		opt.Zone = c.zone
		r, err := open(t, "x.csv", "t\n"+strings.ReplaceAll(c.text, "|", "\n"), opt)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = table.Each(r, func(v *table.Values) error {
			got = append(got, time.Unix(int64(v.Numbers[0]), 0).UTC().Format("2006-01-02 15:04"))
			return nil
		})
		if all := strings.Join(got, "|"); err != nil || r.Doubt(0) != nil || !strings.HasPrefix(all, c.want) ||
			!strings.Contains(strings.Join(r.Notes(), "; "), c.told) {
			t.Errorf("%s: found %.60s, %v, %v, %q, want %s", name, all, err, r.Doubt(0), r.Notes(), c.want)
		}
	}
}

// TestTimesAreRefused checks that ambiguous times and times that do not exist are errors. The errors show both readings
// or the reason.
func TestTimesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ zone, text, want string }{
		"day or month": {"", "01/02/2026|01/03/2026|01/04/2026",
			`found times such as "01/02/2026", which is 2 January ` +
				`2026 (--time_format "1/2/2006") or 1 February 2026 (--time_format "2/1/2006")`},
		"the first is one day": {"", "01/01/2026|02/01/2026", `found times such as "02/01/2026", which is 1 February `},
		"no such day": {"", "2023-02-28|2023-02-29|2023-03-01",
			`line 3, column t: found "2023-02-29", which no calendar`},
		"skipped": {"Europe/Berlin", "2026-03-29 01:30|2026-03-29 02:30",
			`found "2026-03-29 02:30", which clocks in `},
		"names of zone": {"", "2026-10-25 02:30 CEST|2026-10-25 02:30 CET", "whose zone CEST can be one of several"},
		"some": {"", "2026-01-01|soon|2026-01-03|2026-01-04", `line 3, column t: found "soon", want a time such as ` +
			`2006-01-02`},
	} {
		opt := table.DefaultOptions()
		opt.Zone = c.zone
		r, err := open(t, "x.csv", "t\n"+strings.ReplaceAll(c.text, "|", "\n"), opt)
		if err != nil {
			t.Fatal(err)
		}
		if err = r.Doubt(0); err == nil {
			_, err = read(r)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, want %s", name, err, c.want)
		}
	}
}

// TestDaysThatAreNumbers checks that 20260131 is read as a day, not as a third of a year after 1970.
func TestDaysThatAreNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"20260131|20260201": "2026-01-31|2026-02-01", "202601|202602": "2026-01-01|2026-02-01",
		"1767225600|1767225601": "2026-01-01|2026-01-01", "20260131|20260299": "1970-08-23|1970-08-23",
	} {
		r, err := open(t, "x.csv", "date\n"+strings.ReplaceAll(text, "|", "\n"), table.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		r.AsTime(0)
		var got []string
		err = table.Each(r, func(v *table.Values) error {
			got = append(got, time.Unix(int64(v.Numbers[0]), 0).UTC().Format("2006-01-02"))
			return nil
		})
		if all := strings.Join(got, "|"); err != nil || all != want {
			t.Errorf("%s: found %s, %v, want %s", text, all, err, want)
		}
	}
}
