package events

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"
)

// An event is a result of readEvents: the step, and "version X", "start", "tag = value" or "tag: text".
type event struct {
	wallTime float64
	step     int64
	what     string
}

// readEvents reads an event file back, with the checks of TensorBoard's reader.
func readEvents(t *testing.T, path string) []event {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var events []event
	for len(data) > 0 {
		n := binary.LittleEndian.Uint64(data)
		if c := binary.LittleEndian.Uint32(data[8:]); c != maskedCRC(data[:8]) {
			t.Fatalf("event %d: CRC of the length: found %08x", len(events), c)
		}
		body := data[12 : 12+n]
		if c := binary.LittleEndian.Uint32(data[12+n:]); c != maskedCRC(body) {
			t.Fatalf("event %d: CRC of the data: found %08x", len(events), c)
		}
		data = data[16+n:]
		f := fields(t, body)
		e := event{math.Float64frombits(f[1].number), int64(f[2].number), ""}
		switch {
		case f[3].bytes != nil:
			e.what = "version " + string(f[3].bytes)
		case f[7].bytes != nil:
			if fields(t, f[7].bytes)[1].number == 1 {
				e.what = "start"
			}
		case f[5].bytes != nil:
			e.what = summary(t, f[5].bytes)
		}
		events = append(events, e)
	}
	return events
}

func summary(t *testing.T, data []byte) string {
	value := fields(t, fields(t, data)[1].bytes)
	tag := string(value[1].bytes)
	if value[8].bytes == nil {
		return fmt.Sprint(tag, " = ", math.Float32frombits(uint32(value[2].number)))
	}
	tensor := fields(t, value[8].bytes)
	dim := fields(t, fields(t, tensor[2].bytes)[2].bytes)
	metadata := fields(t, value[9].bytes)
	plugin := fields(t, metadata[1].bytes)[1].bytes
	if tensor[1].number != 7 || dim[1].number != 1 || metadata[4].number != 2 || string(plugin) != "text" {
		t.Errorf("text: type %d, size %d, class %d, plugin %q", tensor[1].number,
			dim[1].number, metadata[4].number, plugin)
	}
	return tag + ": " + string(tensor[8].bytes)
}

type protoField struct {
	number uint64
	bytes  []byte
}

// fields splits a message into its fields; of a repeated field it keeps the last.
func fields(t *testing.T, data []byte) map[uint64]protoField {
	t.Helper()
	m := map[uint64]protoField{}
	for len(data) > 0 {
		key, n := binary.Uvarint(data)
		data = data[n:]
		var f protoField
		switch key & 7 {
		case wireVarint:
			f.number, n = binary.Uvarint(data)
		case wireFixed64:
			f.number, n = binary.LittleEndian.Uint64(data), 8
		case wireFixed32:
			f.number, n = uint64(binary.LittleEndian.Uint32(data)), 4
		case wireBytes:
			size, m := binary.Uvarint(data)
			f.bytes, n = data[m:m+int(size)], m+int(size)
		default:
			t.Fatalf("wire type %d", key&7)
		}
		data = data[n:]
		m[key>>3] = f
	}
	return m
}

// eventFiles returns the files of a folder in TensorBoard's order.
func eventFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*tfevents*"))
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(files)
	return files
}

func clock(seconds float64) func() time.Time {
	return func() time.Time { return time.Unix(0, int64(seconds*1e9)) }
}

func TestWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "tb")
	w, err := NewWriter(dir, 0, clock(1700000000.5))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("Call me Ishmael. ", 1000)
	longTag := strings.Repeat("t", 200) // its length takes two bytes, in three nested messages
	err = errors.Join(w.Scalar(0, "loss", 3.25), w.Scalar(math.MaxInt64, "loss", math.NaN()), w.Text(2, "sample", long),
		w.Text(3, "sample", ""), w.Scalar(4, "", -1e-3), w.Scalar(5, longTag, 1), w.Flush())
	if err != nil {
		t.Fatal(err)
	}
	want := []event{{step: 0, what: "version brain.Event:2"}, {step: 0, what: "start"}, {step: 0, what: "loss = 3.25"},
		{step: math.MaxInt64, what: "loss = NaN"}, {step: 2, what: "sample: " + long}, {step: 3, what: "sample: "},
		{step: 4, what: " = -0.001"}, {step: 5, what: longTag + " = 1"}}
	for i := range want {
		want[i].wallTime = 1700000000.5
	}
	files := eventFiles(t, dir)
	if len(files) != 1 {
		t.Fatalf("files %q, want one", files)
	}
	if got := readEvents(t, files[0]); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %.300v\nwant %.300v", got, want)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Scalar(6, "loss", 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestBytesOfOfficialEncoder compares with the bytes that Google's Python protobuf 3.21 makes of these events with
// TensorBoard's event.proto.
func TestBytesOfOfficialEncoder(t *testing.T) {
	at := func(step int64) []byte { return appendEventHead(nil, 1.5, step) }
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"version": {appendFileVersion(at(0), fileVersion), "09000000000000f83f1a0d627261696e2e4576656e743a32"},
		"start":   {appendSessionStart(at(300)), "09000000000000f83f10ac023a020801"},
		"scalar":  {appendScalar(at(300), "loss", 3.25), "09000000000000f83f10ac022a0d0a0b0a046c6f73731500005040"},
		"text": {appendText(at(300), "sample", "It was"), "09000000000000f83f10ac022a280a260a0673616d706c65" +
			"4210080712041202080142064974207761734a0a0a060a04746578742002"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestCRC(t *testing.T) {
	// CRC-32C of 32 zero bytes is 8a9136aa (RFC 3720, B.4); masked by hand.
	c := uint32(0x8a9136aa)
	if got, want := maskedCRC(make([]byte, 32)), (c>>15|c<<17)+0xa282ead8; got != want {
		t.Errorf("got %08x, want %08x", got, want)
	}
}

func TestEveryStartIsANewFileAfterTheOthers(t *testing.T) {
	dir := t.TempDir()
	var starts []int64
	for i, second := range []float64{1000, 1000, 500, 2000} { // the same second, and a clock set back
		w, err := NewWriter(dir, int64(10*i), clock(second))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range eventFiles(t, dir) {
		e := readEvents(t, f)
		if len(e) != 2 || e[1].what != "start" {
			t.Fatalf("%s: %v", f, e)
		}
		starts = append(starts, e[1].step)
	}
	if want := []int64{0, 10, 20, 30}; !reflect.DeepEqual(starts, want) {
		t.Errorf("starts in TensorBoard's order: %d, want %d", starts, want)
	}
}

func TestNewWriterErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := NewWriter(file, 0, time.Now); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file for a folder: %v", err)
	}
	if _, err := NewWriter(t.TempDir(), -1, time.Now); err == nil || !strings.Contains(err.Error(), "found -1") {
		t.Errorf("negative step: %v", err)
	}
}

func TestWriteErrorStays(t *testing.T) {
	w, err := NewWriter(t.TempDir(), 0, clock(0))
	if err != nil {
		t.Fatal(err)
	}
	w.file.Close() // like a full disk, this makes the next flush fail
	if err := w.Scalar(1, "a", 1); err != nil {
		t.Errorf("before the flush: %v", err)
	}
	if w.Flush() == nil || w.Scalar(2, "a", 1) == nil || w.Close() == nil {
		t.Error("found no error, want the same one again")
	}
}

func TestScalarAllocatesNothing(t *testing.T) {
	w := &Writer{wallTime: clock(0)}
	w.event = w.start(0)
	if n := testing.AllocsPerRun(100, func() { w.event = appendScalar(w.start(1e9), "train/loss", 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRecordReportsWriteErrors(t *testing.T) {
	for calls := range 3 {
		if err := writeRecord(&failAfter{calls}, []byte("x")); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("write %d fails: %v", calls+1, err)
		}
	}
}

type failAfter struct{ calls int }

func (f *failAfter) Write(p []byte) (int, error) {
	if f.calls--; f.calls < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}
