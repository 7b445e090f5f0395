package cpu

import (
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestBucketAttentionWork checks that the number of scores grows with the length, not with its square, and is a small
// part of causal attention's at 8k positions. The time is proportional to these numbers.
func TestBucketAttentionWork(t *testing.T) {
	const l = 8192
	once, twice := bucketScores(64, 2, l), bucketScores(64, 2, 2*l)
	if dense := l * l / 2; once > dense/5 {
		t.Errorf("it computes %d scores, causal attention %d", once, dense)
	}
	if twice > once*11/5 {
		t.Errorf("it computes %d scores, and %d of twice the length", once, twice)
	}
}

// bucketScores counts the scores, including those of the sort net.
func bucketScores(bucket, top, l int) (n int) {
	r := engine.EqualRows(1, l)
	o := engine.BucketOptions{Heads: 2, Bucket: bucket, Top: top, Temperature: 1}
	s := bucketed{BucketOptions: o, rows: r, hd: 1}
	s.q, s.kv = seen{x: tensor.New(l, 2), rows: r}, seen{x: tensor.New(l, 4), rows: r}
	s.NullK, s.NullV = tensor.New(2, 1), tensor.New(2, 1)
	g := s.head(0, 0)
	defer g.done()
	g.sort()
	g.each(func(_ int, w *queries) { n += w.rows * w.columns })
	return n + g.count*g.count
}
