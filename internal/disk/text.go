package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/hippo-ssm/hippo/internal/brief"
)

// MaxText is larger than any of hippo's own text files and any published tokenizer.json.
const MaxText = 64 << 20

// Open opens a regular file, or a link to one. For a folder, a pipe or a device it returns an error that names the
// kind: a pipe would wait for a writer, and a device may never end.
func Open(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path) // before opening, which may block
	if err == nil {
		err = checkRegular(path, info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = checkRegular(path, info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func checkRegular(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s: found %s, want a regular file", path, kindOf(info.Mode()))
}

// kindOf names the kind of a file that is not regular.
func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a " + m.Type().String()
}

// ReadText reads a regular file of at most limit bytes.
func ReadText(path string, limit int64) ([]byte, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > limit { // it may be a corpus, by mistake
		return nil, fmt.Errorf("%s: found %d bytes, want a file of at most %d", path, info.Size(), limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit { // it has grown, or its size was unknown, as in /proc
		err = fmt.Errorf("%s: found more than %d bytes, want at most that", path, limit)
	}
	return data, err
}

// WriteJSON writes v as indented JSON: see WriteFile.
func WriteJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteBytes(path, append(text, '\n'))
}

// ReadJSON reads a regular file of at most MaxText bytes into v. Errors name the file.
func ReadJSON(path string, v any) error {
	text, err := ReadText(path, MaxText)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return brief.Error(fmt.Errorf("%s: %w", path, err))
	}
	return nil
}

// IsFolder reports whether there is a folder at a path, or a link to one.
func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Exists reports whether a path exists, readable or not.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
