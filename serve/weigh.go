package serve

import (
	"bytes"
	"context"
	"io"
	"reflect"
)

// manyBodies is how many bodies of the largest size all requests may have together: they are read before it is known
// whether the request may run.
const manyBodies = 8

// weigh is how much of a body may be read, given how much is there of others: each call asks for more.
func (s *Server) weigh(ctx context.Context) func(n int) error {
	w, _ := ctx.Value(watchKey{}).(*watch)
	return func(n int) error {
		if w == nil {
			return nil
		}
		w.body.Add(int64(n))
		if most := manyBodies * s.o.MaxBody; s.bodies.Add(int64(n)) > most {
			return busy("the bodies of all requests have more than %d bytes", most)
		}
		return nil
	}
}

// weighed is a body of which every part is counted.
type weighed struct {
	io.Reader
	more func(n int) error
}

func (b *weighed) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if heavy := b.more(n); heavy != nil {
		return 0, heavy
	}
	return n, err
}

// maxItems is the most that a list or an object of a request may have, except for numbers: in memory an empty item is
// many times as large as in JSON.
const maxItems = 1 << 18

// maxFields is the most fields that a request may have.
const maxFields = 1024

// checkItems returns an error if a field of a type has more items than a request may.
func checkItems(name string, raw []byte, t reflect.Type) error {
	if t == reflect.TypeFor[prompts]() { // which looks itself
		return nil
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() >= reflect.Int && t.Elem().Kind() <= reflect.Float64 {
		return nil
	}
	if n := items(raw); n > maxItems {
		return wrong(name, "found a list of %d, want at most %d", n, maxItems)
	}
	return nil
}

// items is how many items a list or object of JSON has, roughly where it is none.
func items(raw []byte) int {
	n, depth, quoted := 1, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 1:
			n++
		}
	}
	return n
}

// firstOf is the first byte of what stands in a list, 0 where there is no list.
func firstOf(raw []byte) byte {
	if !bytes.HasPrefix(raw, []byte{'['}) {
		return 0
	}
	rest := bytes.TrimLeft(raw[1:], " \t\r\n")
	if len(rest) == 0 {
		return 0
	}
	return rest[0]
}
