package serve

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A record is a line of JSON and one with its SHA-256, so that a bit that has flipped is seen.

// errDamaged is the error of a record that is not as it was written.
var errDamaged = errors.New("the record is damaged")

// putRecord puts a value on a shelf.
func putRecord(to shelf, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return to.put(name, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s\n%s\n", data, sum(data))
		return err
	})
}

// getRecord reads what putRecord has put there.
func getRecord(from shelf, name string, into any) error {
	all, err := from.get(name)
	if err != nil {
		return err
	}
	data, check, ok := bytes.Cut(all, []byte{'\n'})
	if !ok || string(check) != sum(data)+"\n" {
		return fmt.Errorf("%s: %s: %w", from, name, errDamaged)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %s: %w: %w", from, name, errDamaged, err)
	}
	return nil
}

// sum is the checksum of a record.
func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// asideEnding is the ending of what is damaged, and kept for a while to be looked at.
const asideEnding = ".damaged"

// setAside puts what is damaged under another name, and removes it under its own.
func setAside(on shelf, name string) error {
	data, err := on.get(name)
	if err != nil {
		return err
	}
	err = on.put(name+asideEnding, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	return errors.Join(err, on.remove(name))
}
