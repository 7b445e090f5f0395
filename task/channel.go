package task

import (
	"fmt"
	"slices"
)

// Channel describes one number of the input or output at each position, and its scaling.
type Channel struct {
	Name, Unit      string
	Low, High       float64 // range of the numbers in the data; both 0 if unknown
	Mean, Deviation float64 // the model is given (x - Mean)/Deviation for a number x
}

// rangeOf returns the channel of the numbers x, with the given mean and deviation.
func rangeOf(name, unit string, x []float64, mean, deviation float64) Channel {
	c := Channel{Name: name, Unit: unit, Mean: mean, Deviation: deviation}
	if len(x) > 0 {
		c.Low, c.High = slices.Min(x), slices.Max(x)
	}
	return c
}

// difference returns the channel of the differences of the numbers of c.
func (c Channel) difference(name string) Channel {
	span := c.High - c.Low
	return Channel{Name: name, Unit: c.Unit, Low: -span, High: span, Deviation: c.Deviation}
}

// pixel returns the channel of gray values.
func pixel(mean, deviation float64) []Channel {
	return []Channel{{Name: "pixel", Low: 0, High: 255, Mean: mean, Deviation: deviation}}
}

// numerals returns the names of n classes that are numbers.
func numerals(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}
