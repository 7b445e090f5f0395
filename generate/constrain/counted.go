package constrain

// counted writes the states of an object whose properties are counted as far as minProperties and maxProperties
// require.
type counted struct {
	b           *builder
	least, most int
	last        int // the largest count that has states of its own; larger counts share them
}

// newCounted returns a counted for an object that names some properties and may have others. The names of other
// properties are not remembered, so a name may be repeated. Only the first is sure to be a different property.
func newCounted(b *builder, all []*node, named int, others bool) *counted {
	c := &counted{b: b}
	c.least, c.most = lengths(all, "minProperties", "maxProperties")
	b.path = where(all, "minProperties", "maxProperties")
	sure := named
	if others {
		sure++
	} else if c.most >= named {
		c.most = unlimited
	}
	if c.least > sure && c.least <= c.most {
		fail(where(all, "minProperties"), "found %d, want at most %d, the properties that are named and, where others "+
			"are allowed, one of them: a grammar does not remember which names were written", c.least, sure)
	}
	if c.last = c.most; c.most == unlimited {
		c.last = max(c.least, 1)
	}
	if c.last > maxStates {
		fail(b.path, "found %d, want at most %d", c.last, maxStates)
	}
	return c
}

// end writes states that accept the end of an object of n properties.
func (c *counted) end(n int) int32 {
	if n < c.least {
		return c.b.nothing()
	}
	return c.b.space(c.b.text("}", final))
}

// comma writes states that accept the separator between n properties and the next.
func (c *counted) comma(n int, next int32) int32 {
	if n == 0 {
		return next
	}
	return c.b.text(",", next)
}

// others returns for each n the state after n named properties, which accepts the end or other properties. one writes
// states that accept one other property.
func (c *counted) others(one func(later int32) int32) []int32 {
	b := c.b
	// The states after n properties, some of them not named: [1] if the minimum is reached, otherwise [0].
	later, first := make([][2]int32, c.last+1), make([][2]int32, c.last+1)
	for n := range later {
		for enough := range 2 {
			if n > 0 && (enough == 1 || c.least > 1) {
				later[n][enough] = b.reserve()
				first[n][enough] = one(later[n][enough])
			}
		}
	}
	// another writes states that accept one more property after n, if one is permitted.
	another := func(n, enough int) int32 {
		if n >= c.most {
			return b.nothing()
		}
		return c.comma(n, first[min(n+1, c.last)][enough])
	}
	after := make([]int32, c.last+1)
	for n := range after {
		if n > 0 {
			b.set(later[n][1], b.either(c.end(c.least), another(n, 1)))
		}
		if n > 0 && c.least > 1 {
			b.set(later[n][0], another(n, 0))
		}
		enough := 0
		if n+1 >= c.least {
			enough = 1
		}
		after[n] = b.either(c.end(n), another(n, enough))
	}
	return after
}
