package engine_test

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// numbered returns n rows of two elements, which count up from first.
func numbered(first, n int) *tensor.Tensor {
	x := make([]float32, 2*n)
	for i := range x {
		x[i] = float32(2*first + i)
	}
	return tensor.FromSlice(x, n, 2)
}

// holds fails the test unless the rows in c are those of numbered from first on, and Run finds each of them.
func holds(t *testing.T, c *engine.RowCache, first, n int) {
	t.Helper()
	if c.Len != n {
		t.Fatalf("%d rows, want %d", c.Len, n)
	}
	if n > 0 && !slices.Equal(c.Rows().Data(), numbered(first, n).Data()) {
		t.Errorf("rows are %v, want those from %d on", c.Rows().Data(), first)
	}
	for i := 0; i < n; {
		x, at, k := c.Run(i)
		if k < 1 || !slices.Equal(x.Data()[2*at:][:2*k], numbered(first+i, k).Data()) {
			t.Fatalf("Run(%d) gives %d rows from %d on of %v", i, k, at, x)
		}
		i += k
	}
}

func TestRowCacheKeepsRowsInOrder(t *testing.T) {
	var c engine.RowCache
	holds(t, &c, 0, 0)
	at := 0
	for _, n := range []int{1, 1, 20, engine.PageRows, 3*engine.PageRows - 5, 1, 7} {
		c.Append(at, numbered(at-3, n+3), 3, n)
		at += n
		holds(t, &c, 0, at)
	}
}

// TestRowCachesForget checks that the remaining rows stay where they are, so that pages still end at multiples of their
// length.
func TestRowCachesForget(t *testing.T) {
	const n = 2*engine.PageRows + 30
	for _, keep := range []int{n, n - 1, n - engine.PageRows, engine.PageRows, 31, 30, 1, 0} {
		var paged, recorded, restored engine.RowCache
		paged.Append(0, numbered(0, n), 0, n)
		recorded.Replace(numbered(0, n))
		paged.Keep(keep)
		recorded.Keep(keep)
		restored.Fill(numbered(n-keep, keep))
		for _, c := range []*engine.RowCache{&paged, &recorded, &restored} {
			c.Append(n, numbered(n, 200), 0, 200)
			holds(t, c, n-keep, keep+200)
			if _, _, k := c.Run(keep); k != min(engine.PageRows-30, 200) {
				t.Errorf("with %d rows kept, the next page ends after %d, want %d", keep, k, engine.PageRows-30)
			}
		}
	}
}

// TestRowCacheClonesGoTheirOwnWay checks that clones share full pages, and nothing that is written later.
func TestRowCacheClonesGoTheirOwnWay(t *testing.T) {
	for _, n := range []int{5, engine.PageRows, 2*engine.PageRows + 40} {
		for _, recorded := range []bool{false, true} {
			var c engine.RowCache
			if recorded {
				c.Replace(numbered(0, n))
			} else {
				c.Append(0, numbered(0, n), 0, n)
			}
			fork := c.Clone()
			second := fork.Clone()
			fork.Append(n, tensor.New(90, 2), 0, 90)
			c.Append(n, numbered(n, 3), 0, 3)
			second.Append(n, numbered(n, 80), 0, 80)
			c.Append(n+3, numbered(n+3, 67), 0, 67)
			if before, _, _ := c.Run(0); !recorded && n >= engine.PageRows {
				if after, _, _ := fork.Run(0); after != before {
					t.Errorf("%d rows: the first page was copied", n)
				}
			}
			holds(t, &c, 0, n+70)
			holds(t, &second, 0, n+80)
			if x, at, _ := fork.Run(n); x.Data()[2*at] != 0 || fork.Len != n+90 {
				t.Errorf("%d rows: the clone has what was put behind the original", n)
			}
		}
	}
}

// TestRowCachesGrowWithoutCopying checks that full pages are not copied, and that short sequences take little memory.
func TestRowCachesGrowWithoutCopying(t *testing.T) {
	var c engine.RowCache
	c.Append(0, numbered(0, 3), 0, 3)
	if c.Bytes() > 16*2*4 {
		t.Errorf("3 rows take %d bytes", c.Bytes())
	}
	c.Append(3, numbered(3, engine.PageRows), 0, engine.PageRows)
	first, _, _ := c.Run(0)
	c.Append(3+engine.PageRows, numbered(3+engine.PageRows, 5*engine.PageRows), 0, 5*engine.PageRows)
	if again, _, _ := c.Run(0); again != first {
		t.Error("a full page was copied")
	}
}
