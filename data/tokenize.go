package data

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// TokenOptions are the options of Tokenize. The zero value is the usual choice.
type TokenOptions struct {
	CacheDir    string // folder of token files: "" means DefaultCacheDir, CacheNone keeps tokens in memory
	CacheLimit  int64  // size limit of the folder; 0 means half of the space that is free on its disk or used by it
	NoEndOfText bool   // put nothing between documents even if the tokenizer has an end-of-text id
	// Progress, if not nil, is called at intervals while text is encoded, with the bytes of files read and their total.
	Progress func(done, total int64)
}

// Tokenize encodes a corpus: each document separately, with the encoder's end-of-text id between documents. The result
// is a token file in the cache folder, which is found again by the hash of the corpus, the fingerprint of the encoder
// and the options. The file is written atomically, and as a stream, so that the corpus may be larger than memory. A
// cached file that is damaged, of another version or of other data is never used: it is rebuilt, and a note says why.
//
// The folder stays within its limit: the least recently used token files that no process has open are evicted, and a
// note says so. If the tokens of a text do not fit, Tokenize returns an error before the disk is full.
//
// If there is no default cache folder, or it is not writable, tokens are kept in memory and a note says so. A folder
// that was named must be writable.
//
// Errors are those of Corpus.Each and of the encoder, with the name of the document, ids outside the vocabulary, and
// ctx.Err().
func Tokenize(ctx context.Context, c *Corpus, enc Encoder, opt TokenOptions) (t *Tokens, notes []string, err error) {
	b := &builder{ctx: ctx, corpus: c, enc: enc, opt: opt}
	defer func() {
		if t != nil {
			t.store.named = c.namedHash()
		}
	}()
	dir, cacheErr := cacheDir(opt.CacheDir)
	if dir != "" {
		path := filepath.Join(dir, b.fileName())
		s, err := b.find(path)
		if err == nil {
			return s.all(), nil, nil
		}
		if cacheErr = makeWritable(dir); cacheErr == nil {
			if !errors.Is(err, fs.ErrNotExist) {
				notes = append(notes, fmt.Sprintf("token cache: %v; made anew", err))
			}
			s, more, err := b.make(path)
			notes = append(notes, more...)
			if err != nil {
				return nil, notes, err
			}
			return s.all(), notes, nil
		}
	}
	if cacheErr != nil {
		if opt.CacheDir != "" {
			return nil, nil, fmt.Errorf("data: token cache: %w", cacheErr)
		}
		notes = append(notes, fmt.Sprintf("no token cache: %v; tokens are kept in memory", cacheErr))
	}
	w, err := b.fill(nil)
	if err != nil {
		return nil, notes, err
	}
	return newStore(w.header, w.mem).all(), notes, nil
}

// makeWritable creates the folder dir, checks that files can be created in it, and removes the files that killed
// processes left there.
func makeWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	f, err := disk.Temp(dir, "probe")
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // otherwise another process has removed it
	}
	return sweepCache(dir)
}

// builder holds the arguments and progress of a call of Tokenize.
type builder struct {
	ctx    context.Context
	corpus *Corpus
	enc    Encoder
	opt    TokenOptions
	done   int64 // bytes of files read so far
}

// share returns the fraction of the text that has been read.
func (b *builder) share() float64 { return float64(b.done) / float64(max(1, b.corpus.Bytes())) }

// about returns the content of the token file's KEY.json.
func (b *builder) about() aboutTokens {
	a := aboutTokens{Source: b.corpus.Name()}
	if kind, ok := b.enc.(interface{ Kind() string }); ok {
		a.Tokenizer = kind.Kind()
	}
	return a
}

// header returns the expected header of the token file, with counts of zero.
func (b *builder) header() *header {
	h := &header{
		vocab:     int64(b.enc.VocabSize()),
		endOfText: -1,
		content:   b.corpus.hash,
		tokenizer: sha256.Sum256([]byte(b.enc.Fingerprint())),
	}
	if id, ok := b.enc.EndOfText(); ok && !b.opt.NoEndOfText {
		h.endOfText = int64(id)
	}
	h.given = b.corpus.hasChats()
	return h
}

// fileName returns the name of the token file, a hash of everything that its content depends on.
func (b *builder) fileName() string {
	h := b.header()
	_, decoder := b.enc.(Decoder) // determines whether there is a table of token lengths
	key := sha256.Sum256(fmt.Appendf(nil, "hippo token file %d %x %x %d %d %t",
		tokenVersion, h.content, h.tokenizer, h.vocab, h.endOfText, decoder))
	return hex.EncodeToString(key[:16]) + tokenSuffix
}

// find opens the token file at path if it exists and is valid. It verifies the checksum unless, by the index, this was
// done before and the file has not changed since.
func (b *builder) find(path string) (*store, error) {
	x := openIndex(filepath.Dir(path))
	key, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	before, err := statFile(key)
	if err != nil {
		return nil, err
	}
	verified := x.Verified[key] == before
	s, err := openTokenFile(path, b.header(), verified)
	if err == nil && !verified && x.recordable(key, before) {
		x.Verified[key], x.dirty = before, true
		_ = x.save() // if this fails, the next start verifies again; the file itself is fine
	}
	if err == nil {
		_ = b.about().touch(path) // if the folder is not writable nothing is evicted either
	}
	return s, err
}

// make encodes the corpus into the token file at path and opens it.
func (b *builder) make(path string) (s *store, notes []string, err error) {
	quota, err := newCacheQuota(filepath.Dir(path), b.corpus.Name(), b.opt.CacheLimit, b.share)
	if err != nil {
		return nil, nil, &cacheError{b.corpus.Name(), err}
	}
	var filling error
	err = disk.Replace(path, func(f *os.File) error {
		filling = b.fillFile(f, quota)
		return filling
	})
	notes = quota.notes()
	if err != nil && filling == nil {
		err = &cacheError{b.corpus.Name(), err}
	}
	if err != nil {
		return nil, notes, err
	}
	if s, err = openTokenFile(path, b.header(), false); err != nil {
		return nil, notes, fmt.Errorf("data: token file just made: %w", err)
	}
	if err := b.about().touch(path); err != nil {
		notes = append(notes, fmt.Sprintf("token cache: %v", err))
	}
	return s, notes, nil
}

// fillFile writes the token file to f.
func (b *builder) fillFile(f *os.File, quota *cacheQuota) error {
	out := bufio.NewWriterSize(&quotaWriter{f, quota}, 1<<20)
	if _, err := out.Write(make([]byte, headerSize)); err != nil {
		return err
	}
	w, err := b.fill(out)
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if _, err := f.WriteAt(w.header.marshal(), 0); err != nil {
		return &cacheError{b.corpus.Name(), err}
	}
	return nil
}

// fill encodes the whole corpus to out, or to memory if out is nil.
func (b *builder) fill(out io.Writer) (*tokenWriter, error) {
	w, err := newTokenWriter(b.header(), out)
	if err != nil {
		return nil, err
	}
	if dec, ok := b.enc.(Decoder); ok {
		w.lengths = make([]uint32, w.header.vocab)
		var text []byte
		for id := range w.lengths {
			text = dec.Decode(text[:0], []int32{int32(id)})
			w.lengths[id] = uint32(len(text))
		}
	}
	b.done = 0
	report := func(n int) error {
		b.done += int64(n)
		if b.opt.Progress != nil {
			b.opt.Progress(b.done, b.corpus.Bytes())
		}
		return b.ctx.Err()
	}
	err = b.corpus.each(report, func(d document) error {
		if err := w.beginDocument(); err != nil {
			return fmt.Errorf("data: %w", err)
		}
		if d.text != nil {
			w.isGiven = false
			return b.encode(w, d.name, d.text)
		}
		for _, part := range d.parts {
			w.isGiven = part.Given
			if part.Text == "" {
				continue
			}
			if err := b.encode(w, d.name, strings.NewReader(part.Text)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, w.finish()
}

// encode writes the tokens of a text. name is the name of its document.
func (b *builder) encode(w *tokenWriter, name string, text io.Reader) error {
	r := &countReader{r: text}
	err := encodeDocument(b.enc, r, w.write)
	w.header.textBytes += r.n
	var full *cacheError
	switch {
	case errors.As(err, &full):
		return full // writing failed
	case r.err != nil:
		return r.err // reading failed: the message names the file
	case err != nil:
		return fmt.Errorf("data: encode %s: %w", name, err)
	}
	return nil
}

// countReader counts bytes and keeps the error that ended reading, except io.EOF.
type countReader struct {
	r   io.Reader
	n   int64
	err error
}

func (r *countReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n += int64(n)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
