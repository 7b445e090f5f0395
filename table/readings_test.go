package table_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// TestNumbersAreRead checks that the notation of numbers is chosen from all values of a column and the separator, and
// is reported.
func TestNumbersAreRead(t *testing.T) {
	plain := func(row string) string { return strings.Repeat(row+"\n", 1500) } // more rows than are read first
	for name, c := range map[string]struct{ text, want, told string }{
		"thousands":            {"t,x\n1,818\n2,\"1,062\"\n", "1 818|2 1062", `column x: "1,062" is 1062`},
		"millions":             {"x\n\"1,234,567\"\n1\n", "1.234567e+06|1", ""},
		"Indian":               {"x,y\n\"12,34,567.5\",1\n", "1.2345675e+06 1", ""},
		"comma in quotes":      {"t,x\n1,\"0,125\"\n2,\"1,062\"\n", "1 0.125|2 1.062", `"1,062" is 1.062`},
		"European":             {"t;x\n1;1.062\n2;1.500,20 €\n", "1 1062|2 1500.2", `"1.062" is 1062`},
		"another column":       {"x;y\n1.062;0,5\n2.000;1\n", "1062 0.5|2000 1", ""},
		"columns differ":       {"x;y\n1.5;0,5\n2.25;1,25\n", "1.5 0.5|2.25 1.25", ""},
		"a later row":          {"x;y\n" + plain("1.062;1") + "1.062,5;1\n", "1062 1|", ""},
		"a later plain row":    {"x;y\n" + plain("7;1") + "1.062;1\n1,5;1\n", "7 1|", ""},
		"a later point":        {"x;y\n" + plain("1.062;1") + "1.0625;1\n", "1.062 1|", ""},
		"currency":             {"x,y\n$5.00,1\n\"($1,200.50)\",2\n-$7,3\n", "5 1|-1200.5 2|-7 3", `"$5.00" is 5 $`},
		"currency codes":       {"x,y\nEUR 5,1\nEUR 6,2\n", "5 1|6 2", `"EUR 5" is 5 EUR`},
		"percent":              {"x,y\n12%,1\n0.5 %,2\n0,3\n", "12 1|0.5 2|0 3", `"12%" is 12 %`},
		"spaces":               {"x;y\n1\u00a0062;1\n2\u2009500,5;2\n3 000;3\n", "1062 1|2500.5 2|3000 3", ""},
		"apostrophes":          {"x;y\n1'062.5;1\n2’500;2\n", "1062.5 1|2500 2", ""},
		"minus":                {"x;y\n−5;1\n(7);2\n", "-5 1|-7 2", `"−5" is -5`},
		"names stay names":     {"x,y\nkr5x,1\n12-5,2\n", "kr5x 1|12-5 2", ""},
		"numbers stay quiet":   {"x,y\n0.12345678901234567,1\n1e-5,2\n", "0.12345678901234566 1|1e-05 2", ""},
		"eight digits, no day": {"x,y\n12345678,1\n", "1.2345678e+07 1", ""},
	} {
		r, err := open(t, "x.csv", c.text, table.DefaultOptions())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rows, err := read(r)
		got, notes := strings.Join(rows, "|"), strings.Join(r.Notes(), "; ")
		quiet := c.told != "" || !strings.Contains(notes, "\" is ") || !strings.HasPrefix(name, "numbers")
		if err != nil || got != c.want && !(strings.HasSuffix(c.want, "|") && strings.HasPrefix(got, c.want)) ||
			!strings.Contains(notes, c.told) || !quiet {
			t.Errorf("%s: found %.60s, %v, notes %q, want %s, %s", name, got, err, notes, c.want, c.told)
		}
		for i := range r.Columns() {
			if err := r.Doubt(i); err != nil {
				t.Errorf("%s: found %v", name, err)
			}
		}
	}
}

// TestNumbersAreRefused checks that an ambiguous notation is an error that shows both readings with an example, and how
// to decide.
func TestNumbersAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"thousands or fractions": {"x;y\n818;1\n1,062;2\n",
			`found "1,062", which is 1062 with a decimal point (--decimal ` +
				`point) or 1.062 with a decimal comma (--decimal comma)`},
		"points":     {"x;y\n45.000;1\n52.500;2\n", `found "45.000", which is 45 with a decimal point`},
		"contrary":   {"x;y;z\n1.062;1.5;1,5\n2.000;2.5;2,5\n", `found "1.062"`},
		"half":       {"x;y\n1.5;1\n1,5;2\n", `found "1.5" and "1,5", want a point before each fraction, or a comma`},
		"currencies": {"x,y\n$5,1\n€6,2\n", `found "€6" beside numbers in $, want one unit`},
		"some %":     {"x,y\n5%,1\n0.06,2\n", `found "0.06" beside percentages`},
	} {
		r, err := open(t, "x.csv", c.text, table.DefaultOptions())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := r.Doubt(0); err == nil || !strings.Contains(err.Error(), "column x: "+c.want) {
			t.Errorf("%s: found %v, want %s", name, err, c.want)
		}
		for _, decimal := range []string{"point", "comma"} {
			opt := table.DefaultOptions()
			opt.Decimal = decimal
			r, err := open(t, "x.csv", c.text, opt)
			if err != nil || strings.HasPrefix(name, "t") && r.Doubt(0) != nil {
				t.Errorf("%s, %s: found %v, %v", name, decimal, err, r.Doubt(0))
			}
		}
	}
}

// TestNumbersOfAColumn checks that a known column is read as before, even if the rows alone suggest otherwise.
func TestNumbersOfAColumn(t *testing.T) {
	for _, c := range []struct {
		text          string
		decimal, mark string
		want          string
	}{
		{"x\n\"1,062\"\n", "comma", "", "1.062"},
		{"x\n\"1,062\"\n", "point", "", "1062"},
		{"x;y\n1.062;1\n", "comma", "", "1062"},
		{"x;y\n1.062;1\n", "auto", "", `found "1.062", which is 1.062 with a decimal point`},
		{"x;y\n7,5;1\n1.062;1\n", "auto", "", "7.5|1062"},
		{"x\n\"1,5\"\n", "point", "", `found "1,5", want a number with a point before its fraction`},
		{"x\n$5\n", "point", "", "want a number without $"},
		{"x\n€5\n", "point", "$", "want a number in $"},
		{"x\n0.05\n", "point", "%", `found "0.05", want a number in %`},
		{"x\n$5\n6\n", "point", "$", "5|6"},
	} {
		r, err := table.Open([]string{"-"}, strings.NewReader(c.text), table.DefaultOptions(),
			[]table.Column{{Name: "x", Kind: table.Number, Decimal: c.decimal, Mark: c.mark}})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := read(r)
		if got := fmt.Sprint(strings.Join(rows, "|"), err); !strings.Contains(got, c.want) {
			t.Errorf("%q as %s %s: found %s, want %s", c.text, c.decimal, c.mark, got, c.want)
		}
	}
}
