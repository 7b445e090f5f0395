package task

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// fastaBases maps the letters of sequences to A, C, G, T, or to N if a letter stands for several bases. Other bytes are
// mapped to 0. The U of RNA is T.
var fastaBases = func() (to [256]byte) {
	for _, b := range []byte("ACGT") {
		to[b] = b
	}
	to['U'] = 'T'
	for _, b := range []byte("NRYKMSWBDHVX-") {
		to[b] = 'N'
	}
	for b := byte('A'); b <= 'Z'; b++ {
		to[b|0x20] = to[b]
	}
	return to
}()

// readFASTA reads the sequences of a FASTA file: lines of letters, each sequence after a line with its name that begins
// with >. It returns an error for letters before the first name, bytes that are not the letter of a base, a name
// without a sequence, and a file without sequences.
func readFASTA(r io.Reader) ([][]byte, error) {
	var all [][]byte
	in := bufio.NewReader(r)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		last := err == io.EOF
		text = bytes.TrimSpace(text)
		switch {
		case len(text) > 0 && text[0] == '>':
			if len(all) > 0 && len(all[len(all)-1]) == 0 {
				return nil, fmt.Errorf("line %d: found the next name, want the sequence of the name before", line)
			}
			all = append(all, nil)
		case len(text) > 0:
			if len(all) == 0 {
				return nil, fmt.Errorf("line %d: found %.20q, want a line such as >name first", line, text)
			}
			for i, b := range text {
				if text[i] = fastaBases[b]; text[i] == 0 {
					return nil, fmt.Errorf("line %d, letter %d: found %q, want a base", line, i+1, b)
				}
			}
			all[len(all)-1] = append(all[len(all)-1], text...)
		}
		if last {
			break
		}
	}
	if len(all) == 0 {
		return nil, errors.New("found no sequence")
	}
	if len(all[len(all)-1]) == 0 {
		return nil, errors.New("found no sequence after the last name")
	}
	return all, nil
}
