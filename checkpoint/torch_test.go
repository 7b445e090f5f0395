package checkpoint

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// pWeights is the pickle of {"w": a vector of 3 numbers from storage "0"}.
var pWeights = pDict(pStr("w"), pVector("0", 3))

func TestTorchElementTypes(t *testing.T) {
	for class, c := range map[string]struct {
		dtype DType
		size  int
		shape []int
	}{
		"DoubleStorage": {F64, 8, []int{3}}, "FloatStorage": {F32, 4, []int{3}}, "HalfStorage": {F16, 2, []int{3}},
		"BFloat16Storage": {BF16, 2, []int{3}}, "LongStorage": {I64, 8, []int{3}}, "IntStorage": {I32, 4, []int{3}},
		"ShortStorage": {I16, 2, []int{3}}, "CharStorage": {I8, 1, []int{3}}, "ByteStorage": {U8, 1, []int{3}},
		"BoolStorage": {Bool, 1, []int{3}}, "UntypedStorage": {U8, 1, []int{3}},
		"ComplexDoubleStorage": {F64, 16, []int{3, 2}}, "ComplexFloatStorage": {F32, 8, []int{3, 2}},
	} {
		value := pDict(pStr("w"), pTensor(pStorage(class, "0", 3), 0, []int{3}, []int{1}))
		data := make([]byte, 3*c.size)
		for i := range data {
			data[i] = byte(i)
		}
		for _, file := range [][]byte{torchZip(t, value, data), torchLegacy(value, []int{3}, data)} {
			f := mustOpen(t, file)
			x, ok := f.Tensor("w")
			if !ok || x.DType != c.dtype || !slices.Equal(x.Shape, c.shape) || !bytes.Equal(x.Data, data) {
				t.Errorf("%s %s: got %v, want %s%v", f.Format(), class, x, c.dtype, c.shape)
			}
		}
	}
}

func TestTorchDtypeArgument(t *testing.T) { // _rebuild_tensor_v3: a storage of bytes and a dtype
	v3 := func(dtype string) string {
		return pDict(pStr("w"),
			pCall(pGlobal("torch._utils", "_rebuild_tensor_v3"), pStorage("UntypedStorage", "0", 12),
				pInt(1), pInts(2), pInts(1), "\x89", pNone, pGlobal("torch", dtype)))
	}
	f := mustOpen(t, torchZip(t, v3("float32"), f32(3)))
	if got := f.values(t, "w"); !slices.Equal(got, []float64{1, 2}) {
		t.Errorf("got %v, want [1 2]", got)
	}
	_, err := Open(writeTemp(t, torchZip(t, v3("float8_e4m3fn"), f32(3))))
	wantError(t, err, `"w"`, "torch.float8_e4m3fn", "not supported", "BF16")
}

func TestTorchStrides(t *testing.T) {
	s := pStorage("FloatStorage", "0", 12)
	for _, c := range []struct {
		offset        int
		shape, stride []int
		want          []float64
		aliases       bool
	}{
		{0, []int{3, 4}, []int{4, 1}, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, true},
		{4, []int{2, 4}, []int{4, 1}, []float64{4, 5, 6, 7, 8, 9, 10, 11}, true},
		{2, []int{1, 1, 3}, []int{99, 7, 1}, []float64{2, 3, 4}, true}, // strides of sizes of 1 do not matter
		{5, nil, nil, []float64{5}, true},
		{0, []int{4, 3}, []int{1, 4}, []float64{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}, false}, // transposed
		{1, []int{2, 2}, []int{8, 2}, []float64{1, 3, 9, 11}, false},
		{3, []int{2, 3}, []int{0, 1}, []float64{3, 4, 5, 3, 4, 5}, false}, // expanded
		{0, []int{2, 3, 2}, []int{1, 4, 2}, []float64{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}, false},
		{12, []int{0, 5}, []int{5, 1}, nil, true}, // empty, whatever its offset
		{99, []int{5, 0}, []int{5, 1}, nil, true},
	} {
		f := mustOpen(t, torchZip(t, pDict(pStr("w"), pTensor(s, c.offset, c.shape, c.stride)), f32(12)))
		x, _ := f.Tensor("w")
		if got := f.values(t, "w"); !slices.Equal(got, c.want) || !slices.Equal(x.Shape, c.shape) {
			t.Errorf("shape %v stride %v offset %d: got %v %v, want %v", c.shape, c.stride,
				c.offset, x.Shape, got, c.want)
		}
		if len(x.Data) > 0 && aliases(f, x) != c.aliases {
			t.Errorf("shape %v stride %v: aliases the file %v, want %v", c.shape, c.stride, aliases(f, x), c.aliases)
		}
	}
}

// aliases reports whether the data of x is a part of the mapped file.
func aliases(f *File, x *Tensor) bool {
	d := f.mapping.data
	for i := range d {
		if &d[i] == &x.Data[0] {
			return true
		}
	}
	return false
}

func TestTorchSharedStorage(t *testing.T) {
	value := pDict(pStr("a"), pVector("0", 3)+"q\x00", pStr("b"), pVector("0", 3), pStr("c"), "h\x00")
	for _, data := range [][]byte{torchZip(t, value, f32(3)), torchLegacy(value, []int{3}, f32(3))} {
		f := mustOpen(t, data)
		a, _ := f.Tensor("a")
		for _, name := range []string{"b", "c"} {
			x, ok := f.Tensor(name)
			if !ok || x.Name != name || &x.Data[0] != &a.Data[0] {
				t.Errorf("%s: %s does not share its memory with a", f.Format(), name)
			}
		}
	}
}

func TestTorchStateDictRules(t *testing.T) {
	inner := pDict(pStr("layer"), pDict(pStr("w"), pVector("0", 3)))
	for name, c := range map[string]struct {
		value string
		root  string
		names []string
		meta  map[string]string
	}{
		"flat": {pWeights, "", []string{"w"}, nil},
		"lightning": {
			pDict(pStr("epoch"), pInt(3), pStr("pytorch-lightning_version"), pStr("1.8.6"), pStr("state_dict"),
				pDict(pStr("model.w"), pVector("0", 3), pStr("extra"), pGlobal("m", "C")),
				pStr("hyper_parameters"), pDict(pStr("d_model"), pInt(64), pStr("attn"),
					"]("+pInt(1)+pStr(`a"`)+"\x88Ne", pStr("lr"), "G\x3f\xe0\x00\x00\x00\x00\x00\x00"),
				pStr("optimizer_states"), "]("+pDict(pStr("exp_avg"), pVector("0", 3))+"e",
				pStr("rng"), pVector("0", 3)),
			"state_dict", []string{"model.w"},
			map[string]string{"epoch": "3", "state_dict.extra": "m.C", "pytorch-lightning_version": "1.8.6",
				"hyper_parameters.d_model": "64",
				"hyper_parameters.attn":    `[1,"a\"",true,null]`, "hyper_parameters.lr": "0.5"},
		},
		"model": {pDict(pStr("model"), inner, pStr("step"), pInt(5)), "model", []string{"layer.w"},
			map[string]string{"step": "5"}},
		"module": {pDict(pStr("module"), inner), "module", []string{"layer.w"}, nil},
		"best first": {pDict(pStr("model"), pWeights, pStr("state_dict"), inner),
			"state_dict", []string{"layer.w"}, nil},
		"no tensors there": {pDict(pStr("model"), pDict(pStr("size"), pInt(1)), pStr("net"), inner), "",
			[]string{"net.layer.w"}, map[string]string{"model.size": "1"}},
		"not a dictionary": {pDict(pStr("model"), pStr("h3"), pStr("w"), pVector("0", 3)), "", []string{"w"},
			map[string]string{"model": "h3"}},
		"nested and lists": {pDict(pStr("a"), inner, pInt(7), pTuple(pVector("0", 3), pVector("0", 3))), "",
			[]string{"a.layer.w", "7.0", "7.1"}, nil},
		"single tensor": {pVector("0", 3), "", []string{"tensor"}, nil},
		"parameter": {pDict(pStr("w"), pCall(pGlobal("torch._utils", "_rebuild_parameter"), pVector("0", 3),
			"\x88", pDict())), "", []string{"w"}, nil},
		"parameter, state": {pDict(pStr("w"), pCall(pGlobal("torch._utils", "_rebuild_parameter_with_state"),
			pVector("0", 3), "\x88", pDict(), pDict())), "", []string{"w"}, nil},
		"subclass of tensor": {pDict(pStr("w"),
			pCall(pGlobal("torch._tensor", "_rebuild_from_type_v2"), pGlobal("torch._utils", "_rebuild_tensor"),
				pGlobal("torch", "Tensor"), pTuple(pStorage("FloatStorage", "0", 3), pInt(0),
					pCall(pGlobal("torch", "Size"), pInts(3)), pInts(1)), pDict())), "", []string{"w"}, nil},
		"subclass of dict": {pCall(pGlobal("utils", "AttributeDict")) + "(" + pStr("w") + pVector("0", 3) + "u",
			"", []string{"w"}, nil},
		"metadata of dict": {pCall(pGlobal("collections", "OrderedDict")) + "(" + pStr("w") + pVector("0", 3) + "u" +
			pDict(pStr("_metadata"), pDict()) + "b", "", []string{"w"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := mustOpen(t, torchZip(t, c.value, f32(3)))
			if f.Root() != c.root || !slices.Equal(f.Names(), c.names) || !maps.Equal(f.Metadata(), c.meta) {
				t.Errorf("root %q, names %q, metadata %q\nwant %q, %q, %q", f.Root(), f.Names(),
					f.Metadata(), c.root, c.names, c.meta)
			}
			for _, name := range c.names {
				if got := f.values(t, name); !slices.Equal(got, []float64{0, 1, 2}) {
					t.Errorf("%s: %v", name, got)
				}
			}
		})
	}
}

// TestTorchUnknownClasses checks that unknown classes and functions become opaque values without an error, and are not
// run.
func TestTorchUnknownClasses(t *testing.T) {
	witness := t.TempDir() + "/ran"
	value := pDict(
		pStr("evil"), pCall(pGlobal("os", "system"), pStr("touch "+witness)),
		pStr("eval"), pCall(pGlobal("builtins", "eval"), pStr("open('"+witness+"', 'w')")),
		pStr("partial"), pCall(pCall(pGlobal("functools", "partial"), pGlobal("os", "system")), pStr("touch "+witness)),
		pStr("array"), pCall(pGlobal("numpy.core.multiarray", "scalar"),
			pCall(pGlobal("numpy", "dtype"), pStr("f8")), pStr("12345678")),
		pStr("built"), pGlobal("__main__", "Config")+")\x81"+pDict(pStr("x"), pInt(1))+"b",
		pStr("sparse"), pCall(pGlobal("torch._utils", "_rebuild_sparse_tensor"), pInt(1)),
		pStr("class"), pGlobal("torch.nn", "Linear"),
		pStr("dtype"), pGlobal("torch", "float32"),
		pStr("w"), pVector("0", 3))
	f := mustOpen(t, torchZip(t, value, f32(3)))
	want := map[string]string{"evil": "<os.system>", "eval": "<builtins.eval>", "partial": "<object>",
		"array": "<numpy.core.multiarray.scalar>",
		"built": "<__main__.Config>", "sparse": "<torch._utils._rebuild_sparse_tensor>",
		"class": "torch.nn.Linear", "dtype": "torch.float32"}
	if !maps.Equal(f.Metadata(), want) || !slices.Equal(f.Names(), []string{"w"}) {
		t.Errorf("metadata %q, names %q, want %q and w", f.Metadata(), f.Names(), want)
	}
	if _, err := openMapping(witness); err == nil {
		t.Error("a function of the file was run")
	}
}

func TestTorchCompressed(t *testing.T) {
	value := pDict(pStr("a"), pVector("0", 3000), pStr("b"), pVector("0", 3000))
	f := mustOpen(t, zipped(t,
		zipEntry{"data.pkl", []byte(pickled(value)), zip.Deflate}, // also without a folder
		zipEntry{"byteorder", []byte("little"), zip.Store},
		zipEntry{"data/0", f32(3000), zip.Deflate}))
	a, b := f.values(t, "a"), f.values(t, "b")
	if !slices.Equal(a, b) || len(a) != 3000 || a[2999] != 2999 {
		t.Errorf("wrong numbers, the last of %d is %v", len(a), a[len(a)-1])
	}
}

// TestTorchCompressedLies changes the size that the directory of an archive states for a deflated entry.
func TestTorchCompressedLies(t *testing.T) {
	for _, c := range []struct {
		size int
		word string
	}{{11, "m/data/0"}, {13, "m/data/0: unpacking 13 bytes: unexpected EOF"}} {
		file := zipped(t, zipEntry{"m/data.pkl", []byte(pickled(pWeights)), zip.Store},
			zipEntry{"m/data/0", f32(3), zip.Deflate})
		entry := bytes.LastIndex(file, []byte("PK\x01\x02")) // of the last entry; its size is at 24
		binary.LittleEndian.PutUint32(file[entry+24:], uint32(c.size))
		_, err := OpenTorch(writeTemp(t, file))
		wantError(t, err, `"w"`, c.word)
	}
}

// TestTorchMetadataLimits checks that metadata that would be far larger than the file is left out, and that the tensors
// are still read.
func TestTorchMetadataLimits(t *testing.T) {
	long := pStr(strings.Repeat("x", 1<<16)) + "q\x00"
	for name, other := range map[string]string{
		"a text in a list many times": "](" + long + strings.Repeat("h\x00", 50_000) + "e",
		"a list in a list many times": "](](" + strings.Repeat("K\x01", 50_000) + "eq\x00" +
			strings.Repeat("h\x00", 50_000) + "e",
		"a text as a key many times":    pDict(long, strings.Repeat("}(h\x00", 50)+"N"+strings.Repeat("u", 50)),
		"an integer of 512 KiB":         "\x8b\x00\x00\x08\x00" + strings.Repeat("\x7f", 512<<10),
		"a list in itself":              "]q\x00h\x00a",
		"a number that JSON lacks":      "G\x7f\xf8\x00\x00\x00\x00\x00\x00",
		"an integer of more than int64": "\x8a\x09" + strings.Repeat("\x00", 8) + "\x01",
	} {
		t.Run(name, func(t *testing.T) {
			file := torchZip(t, pDict(pStr("state_dict"), pWeights, pStr("other"), other), f32(3))
			path := writeTemp(t, file)
			bounded(t, len(file), func() {
				f, err := OpenTorch(path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				want := map[string]string{"a number that JSON lacks": "NaN",
					"an integer of more than int64": "18446744073709551616"}[name]
				if got := f.Metadata()["other"]; got != want || f.Path() != path ||
					!slices.Equal(f.Names(), []string{"w"}) {
					t.Errorf("path %s, metadata %.100q, names %q, want %s, %q, w", f.Path(), got, f.Names(), path, want)
				}
			})
		})
	}
}

func TestTorchLegacyView(t *testing.T) {
	view := func(offset, n int) string {
		s := pTuple(pStr("storage"), pGlobal("torch", "FloatStorage"), pStr("0"), pStr("cpu"), pInt(8),
			pTuple(pStr("v"), pInt(offset), pInt(n))) + "Q"
		return pDict(pStr("w"), pTensor(s, 1, []int{2}, []int{1}))
	}
	f := mustOpen(t, torchLegacy(view(3, 4), []int{8}, f32(8)))
	if got := f.values(t, "w"); !slices.Equal(got, []float64{4, 5}) || f.Format() != FormatTorchLegacy {
		t.Errorf("%s: got %v, want [4 5]", f.Format(), got)
	}
	_, err := Open(writeTemp(t, torchLegacy(view(6, 4), []int{8}, f32(8))))
	wantError(t, err, `"w"`, "4 elements from 6", "only 8")
	_, err = Open(writeTemp(t, torchLegacy(view(3, 2), []int{8}, f32(8)))) // the tensor does not fit into the view
	wantError(t, err, `"w"`, "has 2 elements")
}

func TestTorchBadFiles(t *testing.T) {
	tensor := func(offset int, shape, stride []int) string {
		return pDict(pStr("w"), pTensor(pStorage("FloatStorage", "0", 12), offset, shape, stride))
	}
	laughs := pDict(pStr("x"), pVector("0", 3)) // each dictionary contains the one before it twice
	for range 60 {
		laughs = pDict(pStr("a"), laughs+"q\x00", pStr("b"), "h\x00")
	}
	expanded := ""
	for i := range 40 {
		expanded += pStr(fmt.Sprint(i)) + pTensor(pStorage("FloatStorage", "0", 12), 0, []int{1 << 18}, []int{0})
	}
	bomb := make([]byte, 80<<20)
	stored := func(name, data string) zipEntry { return zipEntry{name, []byte(data), zip.Store} }
	pickle := stored("m/data.pkl", pickled(pWeights))
	encrypted := torchZip(t, pWeights, f32(3))
	encrypted[bytes.LastIndex(encrypted, []byte("PK\x01\x02"))+8] |= 1 // a flag of the last entry
	for name, c := range map[string]struct {
		file  []byte
		words []string
	}{
		"encrypted": {encrypted, []string{`"w"`, "m/data/0", "encrypted"}},
		"neither format": {[]byte("hello, world, this is text"),
			[]string{"a text that starts with \"hello", "safetensors", "zip", "pickle"}},
		"plain pickle":     {[]byte(pickled(pDict(pStr("w"), pInt(1)))), []string{"a dictionary", "magic number"}},
		"no pickle inside": {zipped(t, stored("m/x", "y")), []string{"no entry NAME/data.pkl"}},
		"two pickles":      {zipped(t, pickle, stored("n/data.pkl", "N.")), []string{"m/data.pkl", "n/data.pkl"}},
		"an entry twice": {zipped(t, pickle, stored("m/data/0", "a"), stored("m/data/0", "b")),
			[]string{"two entries", "m/data/0"}},
		"big-endian zip": {zipped(t, pickle, stored("m/byteorder", "big"),
			zipEntry{"m/data/0", f32(3), zip.Store}), []string{"byteorder", `"big"`, "little"}},
		"big-endian legacy": {bytes.Replace(torchLegacy(pWeights, []int{3}, f32(3)), []byte("little_endian\x88"),
			[]byte("little_endian\x89"), 1), []string{"little-endian"}},
		"legacy version": {bytes.Replace(torchLegacy(pWeights, []int{3}, f32(3)), []byte("M\xe9\x03"),
			[]byte("M\xea\x03"), 1), []string{"1002", "1001"}},
		"no tensors": {torchZip(t, pDict(pStr("a"), pInt(1))), []string{"no tensors", "a dictionary"}},
		"a saved module": {torchZip(t, pGlobal("torch.nn", "Linear")+")\x81"+pDict()+"b"),
			[]string{"no tensors", "<torch.nn.Linear>", "state_dict()"}},
		"storage missing": {torchZip(t, pWeights), []string{`"w"`, "no entry", "m/data/0"}},
		"storage short": {torchZip(t, pWeights, f32(2)),
			[]string{`"w"`, "m/data/0", "8 bytes", "3 elements of float32"}},
		"storage long": {torchZip(t, pWeights, f32(4)), []string{`"w"`, "16 bytes", "3 elements"}},
		"numel overflows": {
			torchZip(t, pDict(pStr("w"), pTensor(pStorage("FloatStorage", "0", 1<<62+3), 0, []int{3}, []int{1})),
				f32(3)), []string{`"w"`, "12 bytes"}},
		"numel negative": {
			torchZip(t, pDict(pStr("w"), pTensor(pStorage("FloatStorage", "0", -3), 0, []int{3}, []int{1})), f32(3)),
			[]string{"-3"}},
		"beyond the storage": {torchZip(t, tensor(0, []int{13}, []int{1}), f32(12)),
			[]string{`"w"`, "[13]", `storage "0"`, "12 elements"}},
		"offset beyond":    {torchZip(t, tensor(10, []int{3}, []int{1}), f32(12)), []string{`"w"`, "element 10"}},
		"offset negative":  {torchZip(t, tensor(-1, []int{3}, []int{1}), f32(12)), []string{"offset", "-1"}},
		"offset overflows": {torchZip(t, tensor(1<<63-1, []int{3}, []int{1}), f32(12)), []string{`"w"`, "outside"}},
		"stride beyond":    {torchZip(t, tensor(0, []int{2, 2}, []int{11, 1}), f32(12)), []string{`"w"`, "[11 1]"}},
		"stride negative":  {torchZip(t, tensor(3, []int{2}, []int{-1}), f32(12)), []string{"stride", "-1"}},
		"stride overflows": {torchZip(t, tensor(0, []int{3}, []int{1 << 62}), f32(12)), []string{`"w"`, "outside"}},
		"fewer strides": {torchZip(t, tensor(0, []int{3, 1}, []int{1}), f32(12)),
			[]string{"2 sizes and 1 strides"}},
		"size negative": {torchZip(t, tensor(0, []int{-3}, []int{1}), f32(12)), []string{"size", "-3"}},
		"size overflows": {torchZip(t, tensor(0, []int{1 << 40, 1 << 40}, []int{0, 0}), f32(12)),
			[]string{`"w"`, "not possible"}},
		"expanded too far": {torchZip(t, tensor(0, []int{1 << 40}, []int{0}), f32(12)),
			[]string{`"w"`, "copy of 4398046511104 bytes"}},
		"expanded too often": {torchZip(t, pDict(expanded), f32(12)), []string{`"16"`, "copies of one file"}},
		"unknown storage": {
			torchZip(t, pDict(pStr("w"), pTensor(pStorage("QInt8Storage", "0", 12), 0, []int{3}, []int{1})), f32(3)),
			[]string{`"w"`, "QInt8Storage", "not supported"}},
		"unknown, legacy": {
			torchLegacy(pDict(pStr("w"), pTensor(pStorage("QInt8Storage", "0", 12), 0, []int{3}, []int{1})), []int{12},
				f32(3)), []string{"QInt8Storage"}},
		"storage key": {torchZip(t, pDict(pStr("w"), pVector(strings.Repeat("x", 101), 3)), f32(3)),
			[]string{"at most 100 bytes"}},
		"two of a name": {torchZip(t, pDict(pStr("a.b"), pVector("0", 3), pStr("a"),
			pDict(pStr("b"), pVector("0", 3))), f32(3)), []string{"two tensors", `"a.b"`}},
		"exponential nesting":  {torchZip(t, laughs, f32(3)), []string{"too large"}},
		"dictionary in itself": {torchZip(t, "}q\x00("+pStr("")+"h\x00u", f32(3)), []string{"deeper than 64"}},
		"deep nesting": {torchZip(t, strings.Repeat("]", 100_000)+strings.Repeat("a", 99_999)),
			[]string{"deeper than 64"}},
		"zip bomb": {zipped(t, zipEntry{"m/data.pkl", []byte(pickled(pDict(pStr("w"), pVector("0", 20<<20)))),
			zip.Store}, zipEntry{"m/data/0", bomb, zip.Deflate}), []string{"m/data/0", "83886080"}},
		"legacy count": {torchLegacy(pWeights, []int{1 << 62}, f32(3)),
			[]string{`"0"`, "4611686018427387904", "12 bytes"}},
		"legacy count differs": {torchLegacy(pWeights, []int{2}, f32(3)), []string{`"w"`, "2 elements", "wants 3"}},
		"legacy key unused": {torchLegacy(pDict(pStr("a"), pInt(1)), []int{3}, f32(3)),
			[]string{`"0"`, "not known"}},
		"legacy no storage": {torchLegacy(pWeights, nil), []string{`"w"`, `no storage "0"`}},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeTemp(t, c.file)
			bounded(t, len(c.file), func() {
				_, err := Open(path)
				wantError(t, err, append(c.words, path)...)
			})
		})
	}
}

// TestTorchTruncated cuts files of both layouts at every byte, and flips every byte of the zip file. The result may be
// an error, but not a crash.
func TestTorchTruncated(t *testing.T) {
	for _, file := range [][]byte{torchZip(t, pWeights, f32(3)), torchLegacy(pWeights, []int{3}, f32(3))} {
		for n := range file {
			f := &File{path: "cut", mapping: &mapping{data: file[:n]}, tensors: map[string]*Tensor{}}
			if err := fault.Catch(f.readTorch); err == nil {
				t.Fatalf("the first %d of %d bytes open as a whole file %q", n, len(file), f.Names())
			}
			f = &File{path: "flipped", mapping: &mapping{data: slices.Clone(file)}, tensors: map[string]*Tensor{}}
			f.mapping.data[n] ^= 0xff
			if fault.Catch(f.readTorch) == nil {
				checkTensors(t, f, 0)
			}
		}
	}
}

func fuzzTorch(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		file := &File{path: "fuzz", mapping: &mapping{data: data}, tensors: map[string]*Tensor{}}
		if fault.Catch(file.readTorch) == nil {
			checkTensors(t, file, 0)
		}
	})
}

func FuzzTorchZip(f *testing.F) {
	f.Add(torchZip(f, pWeights, f32(3)))
	f.Add(withoutChecksums(f, torchZip(f, pWeights, f32(3)))) // so that changes are not already found by the checksum
	f.Add(torchZip(f, pDict(pStr("state_dict"), pWeights, pStr("epoch"), pInt(1)), f32(3)))
	f.Add(zipped(f, zipEntry{"m/data.pkl", []byte(pickled(pWeights)), zip.Deflate},
		zipEntry{"m/data/0", f32(3), zip.Deflate}))
	f.Add(torchZip(f, pDict(pStr("w"), pTensor(pStorage("FloatStorage", "0", 12), 0, []int{4, 3}, []int{1, 4})),
		f32(12)))
	fuzzTorch(f)
}

func FuzzTorchLegacy(f *testing.F) {
	f.Add(torchLegacy(pWeights, []int{3}, f32(3)))
	f.Add(torchLegacy(pDict(pStr("a"), pVector("0", 3), pStr("b"), pVector("1", 2)), []int{3, 2}, f32(3), f32(2)))
	fuzzTorch(f)
}

// TestTorchChecksums checks that one flipped bit in any entry is an error that names the entry, and that a checksum of
// 0 counts as none.
func TestTorchChecksums(t *testing.T) {
	data := bytes.Repeat([]byte("hippo"), 3)[:12]
	file := torchZip(t, pWeights, data)
	at := bytes.Index(file, data)
	file[at+5] ^= 4
	_, err := Open(writeTemp(t, file))
	wantError(t, err, "data/0: found the checksum", "the file is damaged")

	mustOpen(t, withoutChecksums(t, file))
}

// withoutChecksums removes the checksums from the directory of an archive, where they are read from.
func withoutChecksums(t testing.TB, file []byte) []byte {
	r, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	out := bytes.Clone(file)
	for _, e := range r.File {
		copy(out[bytes.LastIndex(out, binary.LittleEndian.AppendUint32(nil, e.CRC32)):], make([]byte, 4))
	}
	return out
}
