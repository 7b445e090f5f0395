// Package series generates tables of series that follow a known law, to test forecasts. It imports no package of hippo.
package series

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Series is a table and what to forecast from it.
type Series struct {
	Name    string
	Table   string // CSV
	Horizon int
	Series  string   // the column that names the series of a row
	Known   []string // columns known ahead of time
	Zone    string
	// Beyond is true if no baseline can express the truth, so that a network should beat them all.
	Beyond bool
}

// Target is the column to forecast.
const Target = "y"

// All returns all series, with noise drawn from a seed.
func All(seed uint64) []Series {
	var all []Series
	for i, make := range []func(rng *rand.Rand) Series{
		airline, weekly, steps, clocks, gaps, thousands, short, threshold, promotion, regime, product,
	} {
		all = append(all, make(rand.New(rand.NewPCG(seed, uint64(i)))))
	}
	return all
}

// table returns a table of n rows that begin with a time.
func table(head string, n int, row func(i int) string) string {
	var b strings.Builder
	b.WriteString(head + "\n")
	for i := range n {
		b.WriteString(row(i) + "\n")
	}
	return b.String()
}

func day(i int) string { return time.Date(2020, 1, 1+i, 0, 0, 0, 0, time.UTC).Format("2006-01-02") }

func hour(i int) string {
	return time.Date(2021, 3, 1, i, 0, 0, 0, time.UTC).Format("2006-01-02T15:04:05Z")
}

func wave(i, period int, phase float64) float64 {
	return math.Sin(2*math.Pi*float64(i)/float64(period) + phase)
}

// airline returns twelve years of monthly values whose season and noise grow with a trend.
func airline(rng *rand.Rand) Series {
	return Series{Name: "airline", Horizon: 12, Table: table("month,y", 144, func(i int) string {
		x := 110 * math.Exp(0.01*float64(i)+0.18*wave(i, 12, -1.5)+0.06*wave(i, 6, 1)+0.03*rng.NormFloat64())
		return fmt.Sprintf("%s,%.0f", time.Date(1949, time.Month(1+i), 1, 0, 0, 0, 0, time.UTC).Format("2006-01-02"), x)
	})}
}

// weekly returns two years of daily values with a weekly season, a trend and noise.
func weekly(rng *rand.Rand) Series {
	return Series{Name: "weekly", Horizon: 7, Table: table("day,y", 730, func(i int) string {
		return fmt.Sprintf("%s,%.2f", day(i), 50+0.03*float64(i)+8*wave(i, 7, 0.5)+3*rng.NormFloat64())
	})}
}

// steps returns a level that jumps now and then, with a weekly season.
func steps(rng *rand.Rand) Series {
	level := 100.0
	return Series{Name: "steps", Horizon: 7, Table: table("day,y", 900, func(i int) string {
		if rng.Float64() < 0.02 {
			level += 20 * rng.NormFloat64()
		}
		return fmt.Sprintf("%s,%.2f", day(i), level+5*wave(i, 7, 0)+2*rng.NormFloat64())
	})}
}

// clocks returns hourly values in local time over the end of summer time, where one hour occurs twice.
func clocks(rng *rand.Rand) Series {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		zone = time.UTC
	}
	at := time.Date(2022, 9, 1, 0, 0, 0, 0, zone)
	return Series{Name: "clocks", Horizon: 24, Zone: zone.String(), Table: table("time,y", 1800, func(i int) string {
		t := at.Add(time.Duration(i) * time.Hour)
		return fmt.Sprintf("%s,%.2f", t.Format("2006-01-02 15:04"), 20+6*wave(t.Hour(), 24, 1)+rng.NormFloat64())
	})}
}

// gaps returns hourly values with a daily season, where rows and values are missing.
func gaps(rng *rand.Rand) Series {
	var b strings.Builder
	b.WriteString("time,y\n")
	away := 0
	for i := range 1500 {
		x := fmt.Sprintf("%.2f", 20+6*wave(i, 24, 1)+1.5*wave(i, 168, 0)+rng.NormFloat64())
		if away--; away < 0 && rng.Float64() < 0.01 {
			away = 1 + rng.IntN(8)
		}
		if away > 0 && i%2 == 0 {
			continue
		}
		if away > 0 {
			x = ""
		}
		fmt.Fprintf(&b, "%s,%s\n", hour(i), x)
	}
	return Series{Name: "gaps", Horizon: 24, Table: b.String()}
}

// thousands returns daily values around 1,000, in a file with commas between columns and in numbers.
func thousands(rng *rand.Rand) Series {
	return Series{Name: "thousands", Horizon: 7, Table: table("day,y", 600, func(i int) string {
		x := int(900 + 150*wave(i, 7, 1) + 60*wave(i, 200, 0) + 20*rng.NormFloat64())
		text := fmt.Sprint(x)
		if x >= 1000 {
			text = fmt.Sprintf("\"%d,%03d\"", x/1000, x%1000)
		}
		return day(i) + "," + text
	})}
}

// short returns three years of monthly values for each of twelve shops.
func short(rng *rand.Rand) Series {
	level := make([]float64, 12)
	for k := range level {
		level[k] = 50 + 100*rng.Float64()
	}
	return Series{Name: "short", Horizon: 6, Series: "shop", Table: table("month,shop,y", 12*40, func(i int) string {
		k, t := i%12, i/12
		x := level[k] * (1 + 0.005*float64(t) + 0.2*wave(t, 12, 1) + 0.05*rng.NormFloat64())
		return fmt.Sprintf("%s,shop %d,%.1f", time.Date(2019, time.Month(1+t), 1, 0, 0, 0, 0, time.UTC).Format(
			"2006-01-02"), k, x)
	})}
}

// threshold returns a self-exciting threshold autoregression: it grows below the threshold and falls above it. Its
// values do not repeat, and their correlation is near zero.
func threshold(rng *rand.Rand) Series {
	x := 0.0
	return Series{Name: "threshold", Horizon: 3, Beyond: true, Table: table("time,y", 3000, func(i int) string {
		if x > 0 {
			x = 1 - 1.7*x
		} else {
			x = 1 + 1.7*x
		}
		x += 0.02 * rng.NormFloat64()
		return fmt.Sprintf("%s,%.3f", hour(i), x)
	})}
}

// promotion returns daily sales that depend on a known price, a known promotion and the combination of both.
func promotion(rng *rand.Rand) Series {
	return Series{Name: "promotion", Horizon: 7, Known: []string{"price", "promotion"}, Beyond: true,
		Table: table("day,price,promotion,y", 1200, func(i int) string {
			price, promotion := 1+float64(rng.IntN(5))/4, float64(rng.IntN(3)/2)
			x := 40 + 10*wave(i, 7, 0) - 15*(price-1.5) + 30*promotion*(2.2-price) + 2*rng.NormFloat64()
			return fmt.Sprintf("%s,%.2f,%.0f,%.2f", day(i), price, promotion, x)
		})}
}

// regime returns hourly values of a machine whose mode is known: in one mode it swings, in the other it decays.
func regime(rng *rand.Rand) Series {
	x, before, mode := 1.0, 0.0, 0
	return Series{Name: "regime", Horizon: 6, Known: []string{"mode"}, Beyond: true,
		Table: table("time,mode,y", 3000, func(i int) string {
			if rng.Float64() < 0.1 {
				mode = 1 - mode
			}
			next := 1.7*x - 0.95*before // swings
			if mode == 1 {
				next = 5 + 0.6*(x-5)
			}
			x, before = next+0.2*rng.NormFloat64(), x
			return fmt.Sprintf("%s,%d,%.3f", hour(i), mode, x)
		})}
}

// product returns a level times the product of two known inputs.
func product(rng *rand.Rand) Series {
	level := 10.0
	return Series{Name: "product", Horizon: 5, Known: []string{"a", "b"}, Beyond: true,
		Table: table("time,a,b,y", 2000, func(i int) string {
			a, b := 2*rng.Float64()-1, 2*rng.Float64()-1
			level += 0.1 * (10 - level)
			level += 0.2 * rng.NormFloat64()
			return fmt.Sprintf("%s,%.3f,%.3f,%.3f", hour(i), a, b, level+6*a*b+0.3*rng.NormFloat64())
		})}
}
