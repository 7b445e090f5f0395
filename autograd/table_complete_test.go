package autograd_test

import (
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// rowless holds the methods of an engine that have no row of their own, and the reasons.
var rowless = map[string]string{
	"Ahead":      "is a figure that changes no result",
	"KernelTaps": "is a length, which the tape asks for in every convolution",
	"DiagSystem": "prepares what DiagKernel and DiagSSM compute with, whose rows have its parameters",
	"DPLRSystem": "prepares what DPLRKernel and DPLRSSM compute with, whose rows have its parameters",
}

// TestEveryOperationHasARow checks that every method of the contract has a row in the table, where all engines run it.
// The first part of a row's name is its operation.
func TestEveryOperationHasARow(t *testing.T) {
	rows := map[string]bool{}
	for _, r := range table() {
		operation, _, _ := strings.Cut(r.name, "/")
		rows[operation] = true
	}
	all, own := reflect.TypeFor[engine.Engine](), map[string]bool{}
	for _, group := range []reflect.Type{reflect.TypeFor[engine.Memory](), reflect.TypeFor[engine.Gradients]()} {
		for i := range group.NumMethod() {
			own[group.Method(i).Name] = true
		}
	}
	for i := range all.NumMethod() {
		name := all.Method(i).Name
		switch why := rowless[name]; {
		case own[name]:
		case !rows[name] && why == "":
			t.Errorf("%s has no row in the table of operations", name)
		case rows[name] && why != "":
			t.Errorf("%s has a row, but rowless says that it %s", name, why)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("row %s: found no operation of that name", name)
	}
}

// serial holds the large shapes whose work is not shared between cores, and the reasons.
var serial = map[string]string{
	"Activate/none backward": "only hands a gradient on",
	"Append forward":         "copies whole sequences on one core, as fast as memory",
	"Embedding forward":      "copies rows on one core, as fast as memory",
	"Cut/last_equal forward": "copies a position of each row",
	"Cut/last_mixed forward": "copies a position of each row",
	"RealPairs forward":      "runs over parameters, of which there are few",
	"RealPairs backward":     "runs over parameters, of which there are few",
}

// TestLargeShapesSplit checks that the work of a row at its large shape is shared between cores, forward and backward,
// and gives the same bits whichever chunk of work is done first. If nothing were shared, the comparison of one core
// with four would show nothing.
func TestLargeShapesSplit(t *testing.T) {
	defer func() { parallel.OnSplit = nil }()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // products choose their tiles by this number
	for _, r := range table() {
		in := r.random(r.big, 1)
		var splits atomic.Int64
		parallel.OnSplit = func(int, func(int)) bool {
			splits.Add(1)
			return false
		}
		out, forward := r.forwardAndBack(in, func() int64 { return splits.Swap(0) })
		for what, n := range map[string]int64{"forward": forward, "backward": splits.Load()} {
			switch why := serial[r.name+" "+what]; {
			case n == 0 && why == "":
				t.Errorf("%s: none of its loops has more than one chunk at %v", r.name+" "+what, r.big)
			case n > 0 && why != "":
				t.Errorf("%s: %d loops have more than one chunk, but serial says that it %s", r.name+" "+what, n, why)
			}
		}
		parallel.OnSplit = func(chunks int, run func(int)) bool {
			for i := chunks - 1; i >= 0; i-- {
				run(i)
			}
			return true
		}
		if backwards, _ := r.forwardAndBack(in, func() int64 { return 0 }); !same(backwards, out) {
			t.Errorf("%s: results differ with the last chunk of work done first", r.name)
		}
	}
}

// forwardAndBack returns the outputs and gradients of the row at its large shape on the CPU's engine. It calls count
// before forward, after forward, whose count it returns, and before backward.
func (r *row) forwardAndBack(in [][]float64, count func() int64) (out [][]float32, forward int64) {
	tape := autograd.NewTape(cpu.Backend{})
	tape.Record(true)
	x := r.tensors(r.big, in)
	count()
	y := r.op(tape, x)
	forward = count()
	for _, o := range y {
		out = append(out, numbers(o))
		tape.Seed(o, tensor.FromSlice(ramp(o.Len(), func(i int) float32 { return 1 / float32(1+i%31) }), o.Shape()...))
	}
	count()
	tape.BackwardSeeded()
	return append(out, gradients(tape, x)...), forward
}
