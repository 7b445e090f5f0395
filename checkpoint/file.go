package checkpoint

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/fault"
)

// The values of File.Format.
const (
	FormatSafetensors = "safetensors"
	FormatTorchZip    = "pytorch-zip"    // torch.save since 1.6, and Lightning
	FormatTorchLegacy = "pytorch-legacy" // torch.save before 1.6
	FormatGGUF        = "gguf"           // llama.cpp
)

// File is an open file of tensors. Its whole content was checked when it was opened. Several goroutines may call its
// methods, except Close, concurrently.
type File struct {
	path      string
	format    string
	root      string
	names     []string
	tensors   map[string]*Tensor
	meta      map[string]string
	keyValues map[string]any // of a GGUF file
	mapping   *mapping
	shards    []*File // files of an index or parts of a file; f itself has no mapping then
}

// Open opens a file of tensors in any of the formats that this package reads, which it recognizes by the first bytes.
// It also opens the index of several safetensors files, which it recognizes by its name.
func Open(path string) (*File, error) {
	if strings.HasSuffix(path, IndexSuffix) {
		return OpenIndex(path)
	}
	f, err := open(path, func(f *File) {
		d := f.mapping.data
		switch {
		case len(d) > 8 && d[8] == '{', strings.HasSuffix(path, ".safetensors"):
			f.readSafetensors()
		case isTorch(d):
			f.readTorch()
		case strings.HasPrefix(string(d[:min(len(d), 4)]), ggufMagic):
			f.readGGUF()
		default:
			fault.Raisef("found %s, want safetensors, GGUF, a zip archive of torch.save or a pickle of torch.save",
				beginning(d))
		}
	})
	if err == nil && f.format == FormatGGUF {
		return f.withParts()
	}
	return f, err
}

// OpenSafetensors opens a safetensors file. It returns an error if the header is inconsistent or does not fit the size
// of the file; the error says what was found and what was wanted.
func OpenSafetensors(path string) (*File, error) { return open(path, (*File).readSafetensors) }

// OpenTorch opens a file of torch.save or PyTorch Lightning. It executes nothing in the file.
//
// The tensors come from the state dict. That is the first of the entries "state_dict", "model_state_dict", "model" and
// "module" of the saved object that is a dictionary with a tensor in it, or else the whole saved object; Root returns
// which. Nested dictionaries and lists are flattened: keys and indexes are joined with "." and nothing is stripped, so
// names in a Lightning checkpoint start with "model.". A single saved tensor is named "tensor". Complex tensors get a
// trailing axis of size 2 for the real and the imaginary part. Tensors that share memory in the file share it here.
//
// Metadata returns the other values of the saved object, with names flattened in the same way: text, numbers, true and
// false, null, lists of these as JSON, and objects of unknown classes as <module.class>. These include entries of the
// state dict that are not tensors, or are tensors of an unsupported kind (sparse, quantized).
func OpenTorch(path string) (*File, error) { return open(path, (*File).readTorch) }

// open maps the file and calls read to set the other fields.
func open(path string, read func(*File)) (*File, error) {
	m, err := openMapping(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	f := &File{path: path, mapping: m, tensors: map[string]*Tensor{}, meta: map[string]string{}}
	lost := disk.Guard(func() {
		err = fault.Catch(func() {
			fault.Check(notTensors(m.data))
			read(f)
		})
	})
	err = cmp.Or(lost, err)
	m.release(m.data) // the checksums have read all of it
	if err != nil {
		m.unmap()
		return nil, brief.Error(fmt.Errorf("checkpoint: %s: %w", path, err))
	}
	return f, nil
}

// notTensors returns an error for files that are often found in place of a file of tensors.
func notTensors(d []byte) error {
	begins := func(with string) bool {
		return len(d) >= len(with) && strings.EqualFold(string(d[:len(with)]), with)
	}
	switch {
	case begins("version https://git-lfs"):
		return errors.New("found a pointer of Git LFS in place of the file, want the file itself, " +
			"as git lfs pull or hippo pull fetches it")
	case begins("<!doctype html"), begins("<html"):
		return errors.New("found a web page in place of the file: was its address not that of a download?")
	}
	return nil
}

// beginning describes the first bytes of a file.
func beginning(d []byte) string {
	d = d[:min(len(d), 40)]
	isText := func(r rune) bool { return r >= ' ' || strings.ContainsRune("\t\r\n", r) }
	if end := d[:max(0, len(d)-3)]; utf8.Valid(end) && !strings.ContainsFunc(string(end), func(r rune) bool {
		return !isText(r)
	}) {
		return fmt.Sprintf("a text that starts with %.20q", d)
	}
	return fmt.Sprintf("a file that starts with % x", d[:min(len(d), 10)])
}

// brokenOff is appended to errors about a file that ends too soon.
const brokenOff = " (is it an incomplete download?)"

// add appends a tensor. Two tensors of the same name are an error.
func (f *File) add(t *Tensor) error {
	if f.tensors[t.Name] != nil {
		return fmt.Errorf("two tensors are named %q", t.Name)
	}
	f.names = append(f.names, t.Name)
	f.tensors[t.Name] = t
	if t.home == nil { // otherwise it belongs to one of several files
		t.home = f.mapping
	}
	return nil
}

// Path returns the path that the file was opened with.
func (f *File) Path() string { return f.path }

// Size returns the number of bytes of the file, or of all files of an index or all parts.
func (f *File) Size() int {
	if f.mapping != nil {
		return len(f.mapping.data)
	}
	n := 0
	for _, shard := range f.shards {
		n += shard.Size()
	}
	return n
}

// Format returns FormatSafetensors, FormatTorchZip, FormatTorchLegacy or FormatGGUF.
func (f *File) Format() string { return f.format }

// Root returns the key of the state dict inside a PyTorch file, such as "state_dict", or "" if it is the whole file.
func (f *File) Root() string { return f.root }

// Names returns the names of all tensors in the order of the file.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Tensor returns the tensor of the given name.
func (f *File) Tensor(name string) (*Tensor, bool) {
	t, ok := f.tensors[name]
	return t, ok
}

// Metadata returns the text entries of the file that are not tensors.
func (f *File) Metadata() map[string]string { return maps.Clone(f.meta) }

// Close unmaps the file. No Tensor of the file may be used afterwards.
func (f *File) Close() error {
	if f.mapping == nil {
		var errs []error
		for _, shard := range f.shards {
			errs = append(errs, shard.Close())
		}
		return errors.Join(errs...)
	}
	unmap := f.mapping.unmap
	f.mapping.unmap = func() error { return nil }
	if err := unmap(); err != nil {
		return fmt.Errorf("checkpoint: %s: closing: %w", f.path, err)
	}
	return nil
}

// uint64At reads a little-endian number at d[at:]. It returns false if d is too short.
func uint64At(d []byte, at int) (uint64, bool) {
	if at < 0 || at > len(d)-8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(d[at:]), true
}
