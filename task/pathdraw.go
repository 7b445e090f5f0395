package task

import (
	"math"
	"math/rand/v2"
)

// pathKind holds the parameters for drawing pictures of one size. Lengths are in pixels.
type pathKind struct {
	side                int
	dashes              int     // dashes in each of the two long paths
	distractors         int     // number of short paths
	short               int     // dashes in each short path
	dash, margin, thick float64 // length of a dash, the space around it, its thickness
	turn                float64 // maximum angle between consecutive dashes in radians
	radius              float64 // radius of a dot
	apart               float64 // distance between the beginnings of the long paths
	contrast            float64 // contrast of dashes; dots are white
}

// pathKinds maps side lengths to parameters, which are those of the arena's own pictures
// (lra_benchmarks/data/pathfinder.py of google-research/long-range-arena).
var pathKinds = map[int]pathKind{
	32:  {32, 14, 5, 4, 2, 1, 0.5, 1.0, 1.5, 7, 0.75},
	64:  {64, 14, 5, 4, 5, 1, 1.0, 1.8, 2.5, 12, 0.8},
	128: {128, 14, 7, 4, 5, 2, 1.5, 1.8, 3, 20, 0.9},
}

// drawnPaths returns a Split of pictures like those of Linsley et al. 2018 (arXiv:1805.08315, §3): two long dashed
// paths and several short ones, which do not touch, and two dots. In half of the pictures the dots are at the two ends
// of one long path. In the others, each long path has one dot. There is no other difference: the paths are drawn before
// the positions of the dots are chosen.
func drawnPaths(kind pathKind, tokens bool, seed, stream uint64, n int) Split {
	return &drawn{n, seed, stream, func(rng *rand.Rand, _ int, ex *Example) {
		p := pathPen{pathKind: kind, rng: rng}
		label := int32(0)
		if p.draw() {
			label = 1
		}
		ex.addGray(p.pixels, tokens, 127.5, 127.5)
		ex.Targets = append(ex.Targets, label)
	}}
}

// pathPoint is a point in a picture, with x to the right and y down.
type pathPoint struct{ x, y float64 }

func (p pathPoint) add(length, angle float64) pathPoint {
	return pathPoint{p.x + length*math.Cos(angle), p.y + length*math.Sin(angle)}
}

// stroke is the set of points whose distance from the line from a to b is less than reach: a dash, or a dot if a equals
// b.
type stroke struct {
	a, b  pathPoint
	reach float64
}

// pathPen draws a picture.
type pathPen struct {
	pathKind
	rng    *rand.Rand
	placed []stroke // strokes of finished paths, with dots at all ends of long paths, drawn or not
	pixels []byte
}

const (
	pathTries   = 24 // attempts to continue a dash, and to place a whole path
	pictureFail = 40 // failed pictures before paths get shorter
)

// draw places the paths, then draws them with two dots. It reports whether one path connects the dots.
func (p *pathPen) draw() (joined bool) {
	for fails := 0; ; fails++ {
		p.placed = p.placed[:0]
		long := max(p.dashes-fails/pictureFail, 1)
		first := p.path(p.anywhere, long, true)
		if first == nil {
			continue
		}
		second := p.path(func() pathPoint { return first[0].a.add(p.apart, 2*math.Pi*p.rng.Float64()) }, long, true)
		if second == nil {
			continue
		}
		drawn := append(first, second...)
		for range p.distractors { // a path that does not fit is omitted
			drawn = append(drawn, p.path(p.anywhere, p.short, false)...)
		}
		if p.rng.IntN(2) == 1 {
			first, second = second, first
		}
		from, to := first[0].a, first[len(first)-1].b
		if joined = p.rng.IntN(2) == 1; !joined {
			to = second[len(second)-1].b
		}
		p.paint(drawn, from, to)
		return joined
	}
}

func (p *pathPen) anywhere() pathPoint {
	return pathPoint{p.rng.Float64() * float64(p.side), p.rng.Float64() * float64(p.side)}
}

// path places a path of n dashes away from all others, with space for dots at its ends if dots is set. It returns nil
// if it finds none.
func (p *pathPen) path(start func() pathPoint, n int, dots bool) []stroke {
tries:
	for range pathTries {
		var path []stroke
		at, angle := start(), 2*math.Pi*p.rng.Float64()
		for len(path) < n {
			next, ok := p.goOn(path, &at, &angle)
			if !ok {
				continue tries
			}
			path = append(path, next)
		}
		with := path
		if dots {
			a, b := path[0].a, path[n-1].b
			ends := [2]stroke{{a, a, p.radius}, {b, b, p.radius}}
			if !p.clear(ends[0], p.placed, 2) || !p.clear(ends[1], p.placed, 2) || !p.clear(ends[0], ends[1:], 1) {
				continue
			}
			with = append(path[:n:n], ends[:]...)
		}
		p.placed = append(p.placed, with...)
		return path
	}
	return nil
}

// goOn finds the next dash of a path that has reached at in the direction angle. It updates both.
func (p *pathPen) goOn(path []stroke, at *pathPoint, angle *float64) (stroke, bool) {
	for range pathTries {
		from, to := *at, *angle
		if len(path) > 0 { // half of the turn is made in the gap
			turn := p.turn * (2*p.rng.Float64() - 1)
			from, to = from.add(p.margin+p.thick, to+turn/2), to+turn
		}
		next := stroke{from, from.add(p.dash, to), p.thick / 2}
		if p.inside(next) && p.clear(next, p.placed, 2) && p.clear(next, path[:max(len(path)-1, 0)], 1) {
			*at, *angle = next.b, to
			return next, true
		}
	}
	return stroke{}, false
}

// inside reports whether there is space for a dot at both ends of a dash.
func (p *pathPen) inside(s stroke) bool {
	low, high := p.radius+0.5, float64(p.side)-p.radius-0.5
	return min(s.a.x, s.a.y, s.b.x, s.b.y) >= low && max(s.a.x, s.a.y, s.b.x, s.b.y) <= high
}

// clear reports whether the distance of a stroke from others is at least the given number of margins. Two margins are
// more than the gaps of a path, so that the eye can tell which dash continues it.
func (p *pathPen) clear(s stroke, others []stroke, margins float64) bool {
	for _, o := range others {
		want := s.reach + o.reach + margins*p.margin
		if far := want + 2*p.dash; math.Abs(s.a.x-o.a.x) > far || math.Abs(s.a.y-o.a.y) > far {
			continue
		}
		if squaredDistance(s, o) < want*want {
			return false
		}
	}
	return true
}

// paint draws dashes and two dots into a picture of 8-bit gray values.
func (p *pathPen) paint(dashes []stroke, from, to pathPoint) {
	p.pixels = append(p.pixels[:0], make([]byte, p.side*p.side)...)
	for _, s := range dashes {
		p.fill(s, p.contrast)
	}
	p.fill(stroke{from, from, p.radius}, 1)
	p.fill(stroke{to, to, p.radius}, 1)
}

// fill paints a stroke over darker pixels. The brightness of a pixel at its edge is roughly proportional to the covered
// part.
func (p *pathPen) fill(s stroke, value float64) {
	edge := s.reach + 1
	left, right := pixelRange(min(s.a.x, s.b.x)-edge, max(s.a.x, s.b.x)+edge, p.side)
	top, bottom := pixelRange(min(s.a.y, s.b.y)-edge, max(s.a.y, s.b.y)+edge, p.side)
	for y := top; y < bottom; y++ {
		for x := left; x < right; x++ {
			center := pathPoint{float64(x) + 0.5, float64(y) + 0.5}
			covered := min(max(s.reach+0.5-math.Sqrt(squaredFrom(center, s)), 0), 1, 2*s.reach)
			at := &p.pixels[y*p.side+x]
			*at = max(*at, byte(math.Round(255*value*covered)))
		}
	}
}

// pixelRange returns the range of pixels that an interval touches.
func pixelRange(low, high float64, side int) (first, end int) {
	return max(int(math.Floor(low)), 0), min(int(math.Ceil(high)), side)
}

// squaredFrom returns the squared distance from a point to the line of a stroke.
func squaredFrom(p pathPoint, s stroke) float64 {
	dx, dy := s.b.x-s.a.x, s.b.y-s.a.y
	along := 0.0
	if square := dx*dx + dy*dy; square > 0 {
		along = min(max(((p.x-s.a.x)*dx+(p.y-s.a.y)*dy)/square, 0), 1)
	}
	x, y := p.x-s.a.x-along*dx, p.y-s.a.y-along*dy
	return x*x + y*y
}

// squaredDistance returns the squared distance between the lines of two strokes: 0 if they cross, otherwise the
// distance from an end of one to the other.
func squaredDistance(s, o stroke) float64 {
	side := func(s stroke, p pathPoint) float64 {
		return (s.b.x-s.a.x)*(p.y-s.a.y) - (s.b.y-s.a.y)*(p.x-s.a.x)
	}
	if side(s, o.a)*side(s, o.b) < 0 && side(o, s.a)*side(o, s.b) < 0 {
		return 0
	}
	return min(squaredFrom(s.a, o), squaredFrom(s.b, o), squaredFrom(o.a, s), squaredFrom(o.b, s))
}
