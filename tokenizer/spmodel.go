package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// spModel is the content of a SentencePiece model (sentencepiece_model.proto), as far as it changes ids.
type spModel struct {
	Pieces      []spPiece
	Unigram     bool
	Fallback    bool // bytes for unknown characters
	Charsmap    []byte
	DummyPrefix bool // a space before the text
	Squeeze     bool // remove_extra_whitespaces
	Escape      bool // ▁ for spaces
}

// spPiece is a token.
type spPiece struct {
	text  string
	score float32
	kind  spKind
}

// spKind is what a piece is for. GGUF files use the same numbers.
type spKind int32

const (
	spNormal  spKind = 1
	spUnknown spKind = 2
	spControl spKind = 3 // stands for no text
	spUser    spKind = 4 // found in the text before anything else
	spUnused  spKind = 5
	spByte    spKind = 6
)

// The numbers of the fields.
const (
	spFieldPiece, spFieldTrainer, spFieldNormalizer  = 1, 2, 3
	spFieldText, spFieldScore, spFieldKind           = 1, 2, 3
	spFieldModelType, spFieldSuffix, spFieldFallback = 3, 24, 35
	spFieldCharsmap, spFieldDummyPrefix              = 2, 3
	spFieldSqueeze, spFieldEscape                    = 4, 5
	spTypeUnigram, spTypeBPE                         = 1, 2
)

// readSPModel reads a tokenizer.model.
func readSPModel(data []byte) (*spModel, error) {
	m := &spModel{Unigram: true, DummyPrefix: true, Squeeze: true, Escape: true} // what absent fields are
	modelType, suffix := uint64(spTypeUnigram), false
	err := protoFields(data, func(f protoField) error {
		switch f.number {
		case spFieldPiece:
			p := spPiece{kind: spNormal}
			if len(m.Pieces) == maxIDs {
				return fmt.Errorf("more than %d pieces", maxIDs)
			}
			err := protoFields(f.bytes, func(f protoField) error {
				switch f.number {
				case spFieldText:
					p.text = string(f.bytes)
				case spFieldScore:
					p.score = f.float()
				case spFieldKind:
					p.kind = spKind(f.value)
				}
				return nil
			})
			m.Pieces = append(m.Pieces, p)
			return err
		case spFieldTrainer:
			return protoFields(f.bytes, func(f protoField) error {
				switch f.number {
				case spFieldModelType:
					modelType = f.value
				case spFieldSuffix:
					suffix = f.value != 0
				case spFieldFallback:
					m.Fallback = f.value != 0
				}
				return nil
			})
		case spFieldNormalizer:
			return protoFields(f.bytes, func(f protoField) error {
				switch f.number {
				case spFieldCharsmap:
					m.Charsmap = f.bytes
				case spFieldDummyPrefix:
					m.DummyPrefix = f.value != 0
				case spFieldSqueeze:
					m.Squeeze = f.value != 0
				case spFieldEscape:
					m.Escape = f.value != 0
				}
				return nil
			})
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case modelType != spTypeUnigram && modelType != spTypeBPE:
		return nil, fmt.Errorf("model_type is %d, want 1 (unigram) or 2 (bpe)", modelType)
	case suffix:
		return nil, errors.New("treat_whitespace_as_suffix is not supported")
	}
	m.Unigram = modelType == spTypeUnigram
	return m, nil
}

// marshal writes what readSPModel reads.
func (m *spModel) marshal() []byte {
	var out []byte
	for _, p := range m.Pieces {
		piece := appendProtoBytes(nil, spFieldText, []byte(p.text))
		piece = appendProtoFloat(piece, spFieldScore, p.score)
		out = appendProtoBytes(out, spFieldPiece, appendProtoInt(piece, spFieldKind, uint64(p.kind)))
	}
	flag := func(dst []byte, number int, value bool) []byte {
		n := uint64(0)
		if value {
			n = 1
		}
		return appendProtoInt(dst, number, n)
	}
	modelType := uint64(spTypeBPE)
	if m.Unigram {
		modelType = spTypeUnigram
	}
	out = appendProtoBytes(out, spFieldTrainer, flag(appendProtoInt(nil, spFieldModelType, modelType),
		spFieldFallback, m.Fallback))
	normalizer := appendProtoBytes(nil, spFieldCharsmap, m.Charsmap)
	normalizer = flag(normalizer, spFieldDummyPrefix, m.DummyPrefix)
	normalizer = flag(normalizer, spFieldSqueeze, m.Squeeze)
	return appendProtoBytes(out, spFieldNormalizer, flag(normalizer, spFieldEscape, m.Escape))
}

// check refuses pieces that cannot be used.
func (m *spModel) check() error {
	if len(m.Pieces) == 0 {
		return errors.New("it has no pieces")
	}
	seen := make(map[string]int, len(m.Pieces))
	unknown := -1
	for id, p := range m.Pieces {
		what := "piece " + strconv.Itoa(id)
		switch {
		case p.text == "":
			return fmt.Errorf("%s is empty", what)
		case len(p.text) > maxPiece:
			return fmt.Errorf("%s has %d bytes, want at most %d", what, len(p.text), maxPiece)
		case math.IsNaN(float64(p.score)) || math.Abs(float64(p.score)) > 1e30:
			return fmt.Errorf("%s %.60q has the score %v", what, p.text, p.score)
		case p.kind < spNormal || p.kind > spByte:
			return fmt.Errorf("%s %.60q has the type %d, want 1 to 6", what, p.text, p.kind)
		case p.kind == spUnknown && unknown >= 0:
			return fmt.Errorf("pieces %d and %d are both unknown", unknown, id)
		}
		if p.kind == spUnknown {
			unknown = id
		}
		if p.kind == spByte {
			if _, ok := byteOfToken(p.text); !ok {
				return fmt.Errorf("%s %.60q has the type of a byte, want a text such as <0x0A>", what, p.text)
			}
		}
		if old, ok := seen[p.text]; ok {
			return fmt.Errorf("pieces %d and %d are both %.60q", old, id, p.text)
		}
		seen[p.text] = id
	}
	return nil
}
