//go:build gpu

package vulkan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// openTest opens the first device with the validation layer, which must have reported nothing when the device is
// closed.
func openTest(t *testing.T) (*Instance, *Device) {
	in, err := Open(true)
	if err != nil {
		t.Fatal(err)
	}
	d, err := in.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		in.Close()
		if said := in.Messages(); len(said) > 0 {
			t.Errorf("as the device is closed the validation layer says %q", said)
		}
	})
	return in, d
}

// TestCopies checks that bytes arrive on the device and come back in order, in more submissions than may be in flight.
// However many bytes there are, each submission may use only mostStaging pieces of staging memory.
func TestCopies(t *testing.T) {
	in, d := openTest(t)
	const size = (mostStaging+1)*stagingBytes + 4096
	a, err := d.Allocate(size, OnDevice)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free()
	b, err := d.Allocate(size, OnDevice) // freed as the device is closed
	if err != nil {
		t.Fatal(err)
	}
	data, got := make([]byte, size), make([]byte, size)
	for round := range 2 * inFlight {
		for i := range data {
			data[i] = byte(i*7 + i>>12 + round)
		}
		if err := d.Write(a, 0, data); err != nil {
			t.Fatal(err)
		}
		d.Copy(b, 0, a, 0, size)
		if err := d.Submit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Read(b, 0, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("bytes differ after a copy to the device and back (%v)", err)
	}
	for _, c := range d.commands {
		if len(c.memory) > mostStaging {
			t.Errorf("a command buffer has %d pieces of memory, want at most %d", len(c.memory), mostStaging)
		}
	}
	if said := in.Messages(); len(said) > 0 {
		t.Errorf("the validation layer says %q", said)
	}
}

// TestReplays checks that equal commands are recorded once for each submission in flight, and that a replay copies what
// the host has written now. After memory was freed, commands must be recorded again, as they may use that memory.
func TestReplays(t *testing.T) {
	_, d := openTest(t)
	m, err := d.Allocate(4096, OnDevice)
	if err != nil {
		t.Fatal(err)
	}
	other, err := d.Allocate(4096, OnDevice)
	if err != nil {
		t.Fatal(err)
	}
	round := func(b byte) (replayed int) {
		_, before := d.Submissions()
		data, got := bytes.Repeat([]byte{b}, 4096), make([]byte, 4096)
		if err := errors.Join(d.Write(m, 0, data), d.Read(m, 0, got)); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("round %d: bytes differ (%v)", b, err)
		}
		_, after := d.Submissions()
		return after - before
	}
	for i := range byte(3 * inFlight) {
		if replayed := round(i); replayed == 1 != (i >= inFlight) {
			t.Errorf("round %d: %d of its submissions were recorded before", i, replayed)
		}
	}
	other.Free()
	if round(99) > 0 {
		t.Error("what was recorded before memory was freed is submitted again")
	}
}

// TestMisuseIsTold checks that messages of the validation layer arrive.
func TestMisuseIsTold(t *testing.T) {
	in, d := openTest(t)
	m, err := d.Allocate(4096, OnDevice)
	if err != nil {
		t.Fatal(err)
	}
	d.Copy(m, 0, m, 2048, 4096) // beyond the end of m
	d.recordedAs(d.now)         // recorded but not submitted
	if said := in.Messages(); len(said) == 0 {
		t.Error("the validation layer says nothing of a copy beyond the end of memory")
	}
	m.Free()
	in.Messages()
}

// TestNoLoader checks that the error says so if there is no loader.
func TestNoLoader(t *testing.T) {
	before := libraries
	defer func() { libraries = before }()
	libraries = map[string][]string{"": {"libnothing.so.7"}, runtime.GOOS: {"libnothing.so.7"}}
	if _, err := Open(false); err == nil || !strings.Contains(err.Error(), "found no Vulkan loader") {
		t.Errorf("the error is %v, want that there is no loader", err)
	}
}

// TestNoDriver checks that the error says so if there is a loader but no driver. It runs in a child process, because
// the loader reads the environment when a process starts.
func TestNoDriver(t *testing.T) {
	const child = "HIPPO_TEST_NO_DRIVER"
	if os.Getenv(child) != "" {
		_, err := Open(false)
		os.Stdout.WriteString("error: " + err.Error() + "\n")
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNoDriver$")
	cmd.Env = append(os.Environ(), child+"=1", "VK_ICD_FILENAMES=/nothing.json", "VK_DRIVER_FILES=/nothing.json")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "error: found a Vulkan loader, but no driver") {
		t.Errorf("found %q (%v), want that there is no driver", out, err)
	}
}

// TestLacks checks that a device that lacks required features lists all of them by name, and that opening a device that
// does not exist fails.
func TestLacks(t *testing.T) {
	in, _ := openTest(t)
	p := in.describe(0)
	if len(p.Lacks) > 0 {
		t.Fatalf("this device lacks %v", p.Lacks)
	}
	all := p.ask(in)
	all.on[int64Feature], p.features.on[addressesFeature] = 0, 0
	p.missing(1<<22|1<<12, all, false)
	told := strings.Join(p.Lacks, ", ")
	for _, want := range []string{"Vulkan 1.2 (it has 1.1.0)", "a queue", "shaderInt64", "bufferDeviceAddress"} {
		if !strings.Contains(told, want) {
			t.Errorf("found it lacks %q, want %q among that", told, want)
		}
	}
	if len(p.Lacks) != 4 {
		t.Errorf("found it lacks %q, want 4 things", told)
	}
	if _, err := in.Open(99); err == nil || !strings.Contains(err.Error(), "99") {
		t.Errorf("device 99 gives %v, want an error with its number", err)
	}
}

// TestBrokenKernel checks that invalid code gives an error that names the kernel, and that calls after a failure of the
// device return errors.
func TestBrokenKernel(t *testing.T) {
	in, d := openTest(t)
	if _, err := d.Kernel("empty", nil); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("no code gives %v, want an error with the kernel's name", err)
	}
	d.Launch(nil, binary.LittleEndian.AppendUint64(nil, 1), [3]uint32{1, 1, 1})
	d.fail("a test", Lost)
	if err := d.Write(nil, 0, []byte{1}); err == nil || !strings.Contains(err.Error(), "the device was lost") {
		t.Errorf("a write to a lost device gives %v", err)
	}
	if err := d.Submit(); err == nil {
		t.Error("a lost device takes a submission")
	}
	in.Messages()
}
