package checkpoint

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// python returns a value in Python's notation.
func python(v any) string {
	list := func(items []any) string {
		var s []string
		for _, x := range items {
			s = append(s, python(x))
		}
		return strings.Join(s, ", ")
	}
	switch v := v.(type) {
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case *big.Int:
		return v.String()
	case string:
		return fmt.Sprintf("%+q", v)
	case pyBytes:
		return "b:" + hex.EncodeToString([]byte(v))
	case *pyTuple:
		return "(" + list(v.items) + ")"
	case *pyList:
		return "[" + list(v.items) + "]"
	case *pyDict:
		var s []string
		for i, k := range v.keys {
			s = append(s, python(k)+": "+python(v.vals[i]))
		}
		return "{" + strings.Join(s, ", ") + "}"
	}
	return describe(v)
}

// TestPickleProtocols reads files that CPython 3.11 wrote: pickle.dumps(o, protocol) of an OrderedDict with values of
// all kinds, in every protocol, and of a list of bytes and sets, which the older protocols write as calls of functions.
func TestPickleProtocols(t *testing.T) {
	plain :=
		`{"int": 1, "neg": -5, "word": 70000, "byte": 200, "big": 1180591620717411303424, ` +
			`"negbig": -1180591620717411303424, ` +
			`"long": -1099511627776, "float": 1.5, "text": "\u00fc\n\\u\U0001f600", "bools": [True, False, None], ` +
			`"tuples": ((), (1), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "dict": {"a": {}, 3: "three"}, ` +
			`"shared": [[1], [1]], ` +
			`"complex": <__builtin__.complex>}`
	binary := `[b:00ff, b:6162, [7], [8], "` + strings.Repeat("x", 300) + `"]`
	for p := range 6 {
		want := plain
		if p >= 3 {
			want = strings.ReplaceAll(plain, "__builtin__", "builtins")
		}
		testPickleFile(t, fmt.Sprintf("plain_protocol%d", p), want)
	}
	testPickleFile(t, "binary_protocol4", strings.Replace(binary, "b:6162", "<builtins.bytearray>", 1))
	testPickleFile(t, "binary_protocol5", binary)
}

func testPickleFile(t *testing.T, name, want string) {
	t.Run(name, func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join("testdata", "pickle", name+".pkl"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := newUnpickler(data).load()
		if got := python(v); err != nil || got != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
		// Shared values remain one value.
		if d := asDict(v); d != nil {
			if s := d.get("shared").(*pyList); s.items[0] != s.items[1] {
				t.Error("a value that is there twice became two")
			}
		}
		for n := range data { // cut at every byte
			if v, err := newUnpickler(data[:n]).load(); err == nil {
				t.Fatalf("the first %d of %d bytes give %s", n, len(data), python(v))
			}
		}
	})
}

// TestPickleOpcodes checks the opcodes that CPython no longer writes. An empty result stands for an error.
func TestPickleOpcodes(t *testing.T) {
	for pickle, want := range map[string]string{
		"S'it\\'s \\x41\\n\\\\'\n.":         `"it's A\n\\"`,
		"S\"a'b\"\n.":                       `"a'b"`,
		"U\x02hi.":                          `"hi"`,
		"T\x02\x00\x00\x00hi.":              `"hi"`,
		"V\\u00e9\\U0001F600\\x\xe9\n.":     `"\u00e9\U0001f600\\x\u00e9"`,
		"I00\n.":                            "False",
		"I7\n.":                             "7",
		"L7\n.":                             "7",
		"\x8a\x00.":                         "0",
		"\x8b\x02\x00\x00\x00\xff\xff.":     "-1",
		"(K\x01K\x02d.":                     "{1: 2}",
		"K\x01(K\x021.":                     "1",
		"K\x01(0.":                          "1", // POP of a mark
		"K\x01(20.":                         "",
		"(cos\nsystem\nK\x01o.":             "<os.system>",
		"(K\x01ios\nsystem\n.":              "<os.system>",
		"cos\nsystem\n)}\x92.":              "<os.system>",
		"cos\nsystem\n)\x81}(K\x01K\x02ub.": "<os.system>",
		"\x82\x01.":                         "<object>",
		"Pid\n.":                            "<object>",
		"K\x01\x94K\x02\x940h\x00.":         "1",
		"K\x07r\xff\xff\xff\xff0j\xff\xff\xff\xff.":                 "7",
		"cbuiltins\ndict\n(](K\x01K\x02\x86etR.":                    "{1: 2}",
		"ccollections\nOrderedDict\n(}K\x01K\x02stR.":               "{1: 2}",
		"ccollections\ndefaultdict\ncbuiltins\nlist\n\x85RK\x01]s.": "{1: []}",
		"\x8f(K\x01\x90.": "[1]",
		"]K\x01a.":        "[1]",
		"N\x98.":          "None",
	} {
		v, err := newUnpickler([]byte(pickle)).load()
		if want == "" {
			if err == nil {
				t.Errorf("%q gives %s, want an error", pickle, python(v))
			}
			continue
		}
		if got := python(v); err != nil || got != want {
			t.Errorf("%q gives %s, %v, want %s", pickle, got, err, want)
		}
	}
}

func TestPickleBad(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct{ pickle, word string }{
		"empty":              {"", "STOP"},
		"no value":           {".", "too few"},
		"unknown opcode":     {"\xff.", "0xff"},
		"protocol 6":         {"\x80\x06N.", "protocol 6"},
		"text too long":      {"X\xff\xff\xff\xffab.", "4294967295"},
		"text far too long":  {"\x8d\xff\xff\xff\xff\xff\xff\xff\xffab.", "18446744073709551615"},
		"bytes too long":     {"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fab.", "9223372036854775807"},
		"long too long":      {"\x8b\xff\xff\xff\xff\x01.", "4294967295"},
		"frame too long":     {"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", "frame"},
		"number cut":         {"M\x01", "ends here"},
		"line without end":   {"cos", "end of line"},
		"bad integer":        {"Ix\n.", "integer"},
		"long integer":       {"L" + strings.Repeat("9", 1000) + "L\n.", "100 digits"},
		"bad float":          {"Fx\n.", "number"},
		"bad string":         {"Sx\n.", "quotes"},
		"bad escape":         {"S'\\q'\n.", "escape"},
		"bad unicode escape": {"V\\u12\n.", "escape"},
		"memo not set":       {"h\x05.", "memo 5"},
		"memo not a number":  {"g-1\n.", "memo"},
		"memo of nothing":    {"q\x00.", "too few"},
		"no mark":            {"t.", "mark"},
		"below the mark":     {"K\x01(\x85N.", "too few"},
		"tuple of too few":   {"N\x87.", "too few"},
		"append to a number": {"K\x01K\x02a.", "want a list"},
		"set in a list":      {"]K\x01K\x02s.", "want a dictionary"},
		"odd items":          {"}(K\x01u.", "without a value"},
		"call without tuple": {"cos\nsystem\nK\x01R.", "tuple of arguments"},
		"name not text":      {"K\x01K\x02\x93.", "module"},
		"buffer outside":     {"\x97.", "outside"},
		"object of nothing":  {"(o.", "too few"},
		"many steps":         {strings.Repeat("N0", maxPickleSteps), "steps"},
		"many long keys": {"X\x00\x00\x10\x00" + big + "q\x00}" + strings.Repeat("h\x00Ns", 5000) + ".",
			"steps"},
		"copies of a large list": {pList(10000) + "q\x000" +
			strings.Repeat(pGlobal("builtins", "dict")+"h\x00\x85R0", 2000) + "N.", "steps"},
		"too many sizes":     {manyTensors(65, 1), "at most 64"},
		"shape of many":      {manyTensors(64, 40_000), "steps"},
		"itself as argument": {nestedFromType(100_000), "its own argument"},
	} {
		t.Run(name, func(t *testing.T) {
			bounded(t, len(c.pickle), func() {
				_, err := newUnpickler([]byte(c.pickle)).load()
				wantError(t, err, c.word)
			})
		})
	}
}

// pList returns a list of n pairs.
func pList(n int) string { return "](" + strings.Repeat("NN\x86", n) + "e" }

// manyTensors returns n tensors that have one tuple as shape and as strides.
func manyTensors(dims, n int) string {
	return pTuple(strings.Repeat("K\x01", dims)) + "q\x00" + pStorage("FloatStorage", "0", 1) + "q\x01" +
		pGlobal("torch._utils", "_rebuild_tensor") + "q\x02" + strings.Repeat("h\x02(h\x01K\x00h\x00h\x00tR0", n) + "N."
}

// nestedFromType returns _rebuild_from_type_v2(_rebuild_from_type_v2, None, (_rebuild_from_type_v2, None, (...))).
func nestedFromType(n int) string {
	return pGlobal("torch._tensor", "_rebuild_from_type_v2") + "q\x00" + strings.Repeat("h\x00N", n) + "N" +
		strings.Repeat("\x87", n) + "R."
}

// bounded runs f and checks that its memory is proportional to the size of its input, and that it does not take long.
func bounded(t *testing.T, size int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	// A value of one byte takes at most some 200 bytes: a slot on the stack, which is moved as it grows, and a struct.
	if n, limit := after.TotalAlloc-before.TotalAlloc, uint64(16<<20+256*size); n > limit {
		t.Errorf("an input of %d bytes made %d bytes of garbage, want at most %d", size, n, limit)
	}
	if took > 20*time.Second { // generous: the purpose is to detect quadratic time, not to measure
		t.Errorf("an input of %d bytes took %v", size, took)
	}
}

func FuzzPickle(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("testdata", "pickle", "*.pkl"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(pickled(pDict(pStr("w"), pVector("0", 3)))))
	f.Add([]byte(nestedFromType(2)))
	f.Fuzz(func(t *testing.T, data []byte) {
		u := newUnpickler(data)
		v, err := u.load()
		if err != nil {
			return
		}
		if u.pos > len(data) {
			t.Fatalf("read %d of %d bytes", u.pos, len(data))
		}
		describe(v)
		var tensors []namedTensor
		if fault.Catch(func() { tensors = flatten(v, len(data)) }) == nil {
			storage := make([]byte, 64)
			budget := copyBudget{limit: 1 << 16}
			for _, n := range tensors {
				var x *Tensor
				if fault.Catch(func() { x = materialize(n.tensor, storage, &budget) }) == nil {
					if _, err := x.check(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		scalars(v, len(data))
	})
}
