package task

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// readECG reads the record under dir. The samples are in millivolts.
func readECG(from origin, dir string) ([]float64, error) {
	const raw = "ecg_mV_float32.raw"
	path, err := from.find(dir, "ecg.dat", "ecg/ecg.dat", raw+".gz", "ecg/"+raw+".gz", raw, "ecg/"+raw)
	if err != nil {
		return nil, err
	}
	var volts []float64
	if !strings.HasSuffix(path, ".dat") {
		err := from.read(path, func(r io.Reader) (err error) { volts, err = readFloats(r); return err })
		return volts, err
	}
	// A NumPy archive is a zip file of arrays.
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, from.damaged(path, "%w", err)
	}
	defer archive.Close()
	entry, err := archive.Open("ecg.npy")
	if err != nil {
		return nil, from.damaged(path, "%w", err)
	}
	defer entry.Close()
	if volts, err = readSteps(entry); err != nil {
		return nil, from.damaged(path, "ecg.npy: %w", err)
	}
	return volts, nil
}

// readFloats reads little-endian 32-bit floats.
func readFloats(r io.Reader) ([]float64, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if len(data)%4 != 0 {
		return nil, fmt.Errorf("found %d bytes, want whole numbers of 4: the file is cut off", len(data))
	}
	x := make([]float64, len(data)/4)
	for i := range x {
		x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
		if math.IsNaN(x[i]) || math.IsInf(x[i], 0) {
			return nil, fmt.Errorf("at offset %d: found %g, want a finite number", 4*i, x[i])
		}
	}
	return x, nil
}

var npyShape = regexp.MustCompile(`'shape': \((\d+),\)`)

// readSteps reads a NumPy array of one dimension with unsigned 16-bit numbers. They are the values of the database's
// converter, in which a millivolt is 200 steps and zero is 1024.
func readSteps(r io.Reader) ([]float64, error) {
	start, err := readExactly(r, 10)
	if err != nil {
		return nil, err
	}
	if string(start[:8]) != "\x93NUMPY\x01\x00" {
		return nil, errors.New("found no array of NumPy's format 1.0")
	}
	head, err := readExactly(r, int64(binary.LittleEndian.Uint16(start[8:])))
	if err != nil {
		return nil, err
	}
	shape := npyShape.FindSubmatch(head)
	if shape == nil || !strings.Contains(string(head), "'descr': '<u2'") {
		return nil, fmt.Errorf("found the array %q, want one dimension of '<u2'", head)
	}
	n, err := strconv.ParseInt(string(shape[1]), 10, 32)
	if err != nil {
		return nil, err
	}
	data, err := readExactly(r, 2*n)
	if err != nil {
		return nil, err
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = (float64(binary.LittleEndian.Uint16(data[2*i:])) - 1024) / 200
	}
	return x, nil
}
