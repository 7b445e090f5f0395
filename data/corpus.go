package data

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"strings"
)

// DefaultTextField is the field of a JSONL line that holds the text when SourceOptions.TextField is empty.
const DefaultTextField = "text"

// Format defines how a file is split into documents.
type Format string

const (
	// FormatAuto is FormatJSONL for names ending in .jsonl or .ndjson (before .gz or .zst), else FormatText.
	FormatAuto  Format = ""
	FormatText  Format = "text"  // the whole file is one document
	FormatJSONL Format = "jsonl" // each line is a JSON object with the document in one of its fields
	// FormatChat is JSONL of chats, or of prompts with their completions, which a ChatReader turns into documents. With
	// FormatAuto a JSONL file has this format if its first object has the fields of a chat but no text field.
	FormatChat Format = "chat"
)

// SourceOptions are the options of Open. The zero value is the usual choice.
type SourceOptions struct {
	TextField string    // field of a JSONL line that holds the text; "" means DefaultTextField
	Format    Format    // format of every file; FormatAuto decides by the name (standard input: text)
	AllowNUL  bool      // accept occasional NUL bytes, which otherwise indicate a binary file
	Binary    bool      // accept data that does not look like text, with a note, and NUL bytes
	CacheDir  string    // folder of the index of content hashes: "" means DefaultCacheDir, CacheNone to always hash
	Stdin     io.Reader // source of the spec "-"; nil means os.Stdin
	TempDir   string    // folder to which standard input is spooled; "" means os.TempDir
	Chats     ChatReader
}

// Corpus is an ordered list of files, each of one or more documents. Each reads it, as often as needed.
type Corpus struct {
	name    string
	field   string // JSONL text field
	chats   ChatReader
	sources []source
	notes   []string
	hash    [sha256.Size]byte
}

// Source describes one file of a corpus.
type Source struct {
	Name   string // relative to the named folder, with slashes
	Path   string // path as opened, for messages
	Format Format
	Bytes  int64  // after decompression
	SHA256 string // of these bytes, in hex
}

// Open finds and checks the files that specs name, in the order of specs, and hashes their content.
//
// A spec is a file; a folder (see folderSuffixes for the files it contributes); a glob, where ** stands for any number
// of folders; or "-", standard input, which is copied to a temporary file because it is read more than once. Files
// ending in .gz and .zst are decompressed; so is standard input that starts like such a file. Without specs the corpus
// is Embedded.
//
// It is an error if a spec matches nothing; if a file is named twice, unreadable, empty, truncated or, unless Binary is
// set, binary, which includes UTF-16; or if a compressed file unpacks to very much more than its size. Empty files
// inside a folder or glob are left out and named in Notes. Close the corpus after use.
func Open(specs []string, opt SourceOptions) (*Corpus, error) {
	if len(specs) == 0 {
		return Embedded(), nil
	}
	switch opt.Format {
	case FormatAuto, FormatText, FormatJSONL, FormatChat:
	default:
		return nil, fmt.Errorf("data: unknown format %q (want %q, %q or %q)", opt.Format, FormatText,
			FormatJSONL, FormatChat)
	}
	c := &Corpus{name: strings.Join(specs, ", "), field: opt.TextField, chats: opt.Chats}
	if c.field == "" {
		c.field = DefaultTextField
	}
	if err := c.open(specs, opt); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Corpus) open(specs []string, opt SourceOptions) error {
	namedBy := map[string]string{} // absolute path → spec
	for _, spec := range specs {
		found, err := findSources(spec, opt)
		if err != nil {
			return err
		}
		for _, s := range found {
			id := spec
			if spec != "-" {
				if id, err = filepath.Abs(s.path); err != nil {
					return fmt.Errorf("data: %s: %w", s.path, err)
				}
			}
			if first, twice := namedBy[id]; twice {
				return fmt.Errorf("data: %s is named twice, by %q and by %q", s.path, first, spec)
			}
			namedBy[id] = spec
			c.sources = append(c.sources, s)
		}
	}
	return c.scan(opt)
}

// scan fills in the size and hash of every source and the hash of the corpus.
func (c *Corpus) scan(opt SourceOptions) error {
	index := openIndex(opt.CacheDir)
	kept := c.sources[:0]
	for _, s := range c.sources {
		var err error
		if s.content, err = index.contentOf(s, opt); err != nil {
			return err
		}
		if err := s.content.check(s.path, opt); err != nil {
			return err
		}
		if remark := s.content.Look.remark(); remark != "" {
			c.notes = append(c.notes, s.path+" "+remark)
		}
		if s.content.Bytes == 0 {
			if !s.lenient {
				return fmt.Errorf("data: %s is empty (0 bytes), want text", s.path)
			}
			c.notes = append(c.notes, s.path+" is empty and was left out")
			continue
		}
		if err := c.settle(&s, opt); err != nil {
			return err
		}
		kept = append(kept, s)
	}
	c.sources = kept
	if len(kept) == 0 {
		return fmt.Errorf("data: %s: every file is empty, want text", c.name)
	}
	c.hash = c.contentHash()
	if err := index.save(); err != nil {
		c.notes = append(c.notes, fmt.Sprintf("index of content hashes not saved: %v", err))
	}
	return nil
}

// contentHash returns the SHA-256 over the format, field (see fieldOf), size and SHA-256 of every file, in order. It
// does not depend on the names, paths or compression of the files.
func (c *Corpus) contentHash() [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintln(h, "hippo corpus 2")
	for _, s := range c.sources {
		fmt.Fprintf(h, "%s %q %d %x\n", s.format, c.fieldOf(s), s.content.Bytes, s.content.SHA256)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// namedHash returns the contentHash of earlier versions, which included the names of files. Runs of these versions have
// stored it.
func (c *Corpus) namedHash() [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintln(h, "hippo corpus 1")
	for _, s := range c.sources {
		fmt.Fprintf(h, "%q %s %q %d %x\n", s.name, s.format, c.fieldOf(s), s.content.Bytes, s.content.SHA256)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// fieldOf returns the field that holds the text of a source, for chats the fingerprint of their reader, for a text file
// "".
func (c *Corpus) fieldOf(s source) string {
	switch s.format {
	case FormatJSONL:
		return c.field
	case FormatChat:
		return c.chats.Fingerprint()
	}
	return ""
}

// Name returns the name of the corpus in reports: its specs, or "moby-dick".
func (c *Corpus) Name() string { return c.name }

// Hash returns a hash of the content, in hex. It is equal for equal documents under equal options, whatever the files
// are called.
func (c *Corpus) Hash() string { return hex.EncodeToString(c.hash[:]) }

// Notes returns remarks for the user, such as files left out.
func (c *Corpus) Notes() []string { return c.notes }

// Bytes returns the size of all files after decompression. For JSONL that is more than their text.
func (c *Corpus) Bytes() int64 {
	var n int64
	for _, s := range c.sources {
		n += s.content.Bytes
	}
	return n
}

// Sources lists the files in reading order.
func (c *Corpus) Sources() []Source {
	list := make([]Source, len(c.sources))
	for i, s := range c.sources {
		list[i] = Source{s.name, s.path, s.format, s.content.Bytes, hex.EncodeToString(s.content.SHA256)}
	}
	return list
}

// Each calls fn with every document in order. text is valid during the call and need not be read to its end. Documents
// without text are left out. Each returns an error if a file has changed since Open, so a caller that gets no error has
// read the content that Hash identifies. It also returns an error of fn.
func (c *Corpus) Each(fn func(name string, text io.Reader) error) error {
	return c.each(func(int) error { return nil }, func(d document) error {
		if d.text == nil {
			var all strings.Builder
			for _, part := range d.parts {
				all.WriteString(part.Text)
			}
			d.text = strings.NewReader(all.String())
		}
		return fn(d.name, d.text)
	})
}

// document is a document of a corpus: a text, or parts of which some are given.
type document struct {
	name  string
	text  io.Reader // nil for parts
	parts []Part
}

// each is Each, but also calls report with the number of bytes read, and stops with report's error.
func (c *Corpus) each(report func(n int) error, fn func(document) error) error {
	for _, s := range c.sources {
		if err := c.eachOf(s, report, fn); err != nil {
			return err
		}
	}
	return nil
}

func (c *Corpus) eachOf(s source, report func(int) error, fn func(document) error) error {
	r, err := s.open()
	if err != nil {
		return err
	}
	defer r.Close()
	sum := &hashReader{r: r, h: sha256.New(), report: report}
	switch s.format {
	case FormatJSONL:
		err = eachLine(sum, s.path, textLines{c.field}, fn)
	case FormatChat:
		err = eachLine(sum, s.path, chatLines{c.chats}, fn)
	default:
		err = fn(document{name: s.path, text: sum})
	}
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, sum); err != nil {
		return err
	}
	if got := sum.h.Sum(nil); string(got) != string(s.content.SHA256) {
		return fmt.Errorf("data: %s changed after it was opened: found %d bytes, SHA-256 %x; want %d bytes, SHA-256 %x",
			s.path, sum.n, got, s.content.Bytes, s.content.SHA256)
	}
	return nil
}

// Close removes the temporary copy of standard input, if there is one.
func (c *Corpus) Close() error {
	var errs []error
	for _, s := range c.sources {
		if s.spool != nil {
			errs = append(errs, s.spool.close())
		}
	}
	return errors.Join(errs...)
}

// hashReader hashes and counts the bytes read through it.
type hashReader struct {
	r      io.Reader
	h      hash.Hash
	n      int64
	report func(n int) error
}

func (r *hashReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.h.Write(p[:n])
	r.n += int64(n)
	if err == nil {
		err = r.report(n)
	}
	return n, err
}
