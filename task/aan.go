package task

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Retrieval is the document retrieval task of the Long Range Arena (arXiv:2011.04006, §2.3). The input is two papers of
// the ACL Anthology Network, letter by letter, each of which is compressed to a vector. The question is whether one
// cites the other. Characters, length and splits follow state-spaces/s4, src/dataloaders/lra.py: 147,086, 18,090 and
// 17,437 pairs of texts of at most 4,000 characters, including the end mark.
//
// Each line of the files is a pair. Quotes in it are plain text, as in the arena's own reader.
var Retrieval = &Task{
	Name: "retrieval", Group: "long range arena",
	About:  "two papers, letter by letter: does one cite the other?",
	Source: "Long Range Arena, arXiv:2011.04006; papers of the ACL Anthology Network, Radev et al. 2013",
	Files: "new_aan_pairs.train.tsv, .eval.tsv and .test.tsv (or the same with .gz), the folder tsv_data: " +
		retrievalOrigin.about(),
	Options: func() any { return &retrievalOptions{MaxLength: 4000} },
	Open: func(ctx context.Context, dir string, options any) (*Set, error) {
		return openRetrieval(ctx, dir, *options.(*retrievalOptions))
	},
}

var retrievalOrigin = origin{"retrieval", "Long Range Arena (lra_release.gz)", arenaURL}

type retrievalOptions struct {
	MaxLength int `json:"max_length" min:"2" max:"65536" help:"positions of a text and its end mark; the rest is cut"`
}

// arenaURL is the page from which the arena's files can be downloaded.
const arenaURL = "https://github.com/google-research/long-range-arena"

// aanFolders lists the folders in which the files are searched.
var aanFolders = []string{"", "tsv_data/", "aan/", "lra_release/tsv_data/", "lra_release/lra_release/tsv_data/"}

// openRetrieval reads the data of Retrieval.
func openRetrieval(ctx context.Context, dir string, o retrievalOptions) (*Set, error) {
	texts := &sharedTexts{index: map[[sha256.Size]byte]int32{}}
	var splits [3]*pairSplit
	for i, name := range []string{"train", "eval", "test"} {
		at, err := retrievalOrigin.find(dir, layouts("new_aan_pairs."+name+".tsv", aanFolders...)...)
		if err != nil {
			return nil, err
		}
		s := &pairSplit{texts: texts, limit: o.MaxLength}
		if err := retrievalOrigin.read(at, func(from io.Reader) error { return s.read(ctx, from) }); err != nil {
			return nil, err
		}
		splits[i] = s
	}
	var counts characterCounts
	for i, times := range splits[0].occurrences() {
		counts.add(texts.list.at(i), times)
	}
	codes := counts.characters(1)
	for _, s := range splits {
		s.codes = codes
	}
	return &Set{
		Vocab: codes.size(), Outputs: 2, Pairs: true, MaxLength: o.MaxLength,
		Train: splits[0], Valid: splits[1], Test: splits[2],
	}, nil
}

// sharedTexts stores each text once, because a paper is in many pairs.
type sharedTexts struct {
	list  textList
	index map[[sha256.Size]byte]int32
}

func (s *sharedTexts) add(text []byte) int32 {
	key := sha256.Sum256(text)
	at, ok := s.index[key]
	if !ok {
		at = int32(len(s.list.ends))
		s.index[key] = at
		s.list.add(text)
	}
	return at
}

// pairSplit is a Split of pairs of texts. Each pair has a class.
type pairSplit struct {
	texts  *sharedTexts
	pairs  [][2]int32
	labels []int32
	codes  *characters
	limit  int // maximum number of positions per text
}

func (s *pairSplit) Len() int { return len(s.labels) }

func (s *pairSplit) Example(i int, ex *Example) {
	ex.Reset()
	ex.Tokens = s.codes.encode(ex.Tokens, s.texts.list.at(int(s.pairs[i][0])), s.limit)
	ex.Second = s.codes.encode(ex.Second, s.texts.list.at(int(s.pairs[i][1])), s.limit)
	ex.Targets = append(ex.Targets, s.labels[i])
}

// occurrences returns, for each text, the number of pairs that contain it.
func (s *pairSplit) occurrences() []int {
	times := make([]int, len(s.texts.list.ends))
	for _, p := range s.pairs {
		times[p[0]]++
		times[p[1]]++
	}
	return times
}

// aanColumns lists the columns of a line, which are separated by tabs.
var aanColumns = [...]string{"label", "id1", "id2", "text1", "text2"}

// read adds the pairs of a file. It reads line by line and keeps only the characters that an example can use. Errors
// contain the line number.
func (s *pairSplit) read(ctx context.Context, from io.Reader) error {
	r := bufio.NewReaderSize(from, 1<<16)
	var fields [len(aanColumns)][]byte
	for line := 1; ; line++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := readFields(r, &fields, 4*s.limit) // a character has at most four bytes
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", line, err)
		}
		end := err != nil
		if end && n == 1 && len(fields[0]) == 0 {
			break
		}
		if err := s.addPair(n, &fields); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if end {
			break
		}
	}
	if len(s.labels) == 0 {
		return errors.New("the file is empty, want lines of label, id1, id2, text1 and text2 with tabs between")
	}
	return nil
}

func (s *pairSplit) addPair(n int, fields *[len(aanColumns)][]byte) error {
	if n != len(aanColumns) {
		return fmt.Errorf("found %d columns, want the %d of label, id1, id2, text1 and text2 with tabs between",
			n, len(aanColumns))
	}
	label, err := strconv.ParseFloat(string(fields[0]), 64)
	if err != nil || (label != 0 && label != 1) {
		return fmt.Errorf("label: found %.40q, want 0 or 1", fields[0])
	}
	var pair [2]int32
	for i := range pair {
		text := fields[3+i]
		if len(text) == 0 {
			return fmt.Errorf("%s: is empty", aanColumns[3+i])
		}
		pair[i] = s.texts.add(cutText(text, s.limit-1, false))
	}
	s.pairs = append(s.pairs, pair)
	s.labels = append(s.labels, int32(label))
	return nil
}

// readFields reads a line into fields, at most limit bytes of each, and returns the number of fields of the line. It
// returns io.EOF with the last line if that does not end in a newline.
func readFields(r *bufio.Reader, fields *[len(aanColumns)][]byte, limit int) (int, error) {
	for i := range fields {
		fields[i] = fields[i][:0]
	}
	column := 0
	for {
		piece, err := r.ReadSlice('\n') // a long line is read in pieces
		whole := err == nil
		if whole {
			piece = bytes.TrimSuffix(piece[:len(piece)-1], []byte{'\r'})
		}
		for {
			field, rest, tab := bytes.Cut(piece, []byte{'\t'})
			if column < len(fields) {
				room := max(limit-len(fields[column]), 0)
				fields[column] = append(fields[column], field[:min(len(field), room)]...)
			}
			if !tab {
				break
			}
			column++
			piece = rest
		}
		if whole || !errors.Is(err, bufio.ErrBufferFull) {
			return column + 1, err
		}
	}
}
