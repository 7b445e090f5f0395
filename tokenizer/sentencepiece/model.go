package sentencepiece

import (
	"errors"
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/words"
	"math"
	"strconv"
)

// Model is the part of a SentencePiece model (sentencepiece_model.proto) that affects ids.
type Model struct {
	Pieces      []Piece
	Unigram     bool
	Fallback    bool // bytes for unknown characters
	Charsmap    []byte
	DummyPrefix bool // insert a space before the text
	Squeeze     bool // remove_extra_whitespaces
	Escape      bool // write spaces as ▁
}

// Piece is a token.
type Piece struct {
	Text  string
	Score float32
	Kind  Kind
}

// Kind is the purpose of a piece. GGUF files use the same numbers.
type Kind int32

const (
	Normal  Kind = 1
	Unknown Kind = 2
	Control Kind = 3 // represents no text
	User    Kind = 4 // found in the text before all others
	Unused  Kind = 5
	Byte    Kind = 6
)

// Field numbers of the protocol buffer.
const (
	spFieldPiece, spFieldTrainer, spFieldNormalizer  = 1, 2, 3
	spFieldText, spFieldScore, spFieldKind           = 1, 2, 3
	spFieldModelType, spFieldSuffix, spFieldFallback = 3, 24, 35
	spFieldCharsmap, spFieldDummyPrefix              = 2, 3
	spFieldSqueeze, spFieldEscape                    = 4, 5
	spTypeUnigram, spTypeBPE                         = 1, 2
)

// Read parses a tokenizer.model.
func Read(data []byte) (*Model, error) {
	m := &Model{Unigram: true, DummyPrefix: true, Squeeze: true, Escape: true} // defaults of absent fields
	modelType, suffix := uint64(spTypeUnigram), false
	err := protoFields(data, func(f protoField) error {
		switch f.number {
		case spFieldPiece:
			p := Piece{Kind: Normal}
			if len(m.Pieces) == bpe.MaxIDs {
				return fmt.Errorf("more than %d pieces", bpe.MaxIDs)
			}
			err := protoFields(f.bytes, func(f protoField) error {
				switch f.number {
				case spFieldText:
					p.Text = string(f.bytes)
				case spFieldScore:
					p.Score = f.float()
				case spFieldKind:
					p.Kind = Kind(f.value)
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
			flags := map[int]*bool{
				spFieldDummyPrefix: &m.DummyPrefix, spFieldSqueeze: &m.Squeeze, spFieldEscape: &m.Escape,
			}
			return protoFields(f.bytes, func(f protoField) error {
				if flag := flags[f.number]; flag != nil {
					*flag = f.value != 0
				} else if f.number == spFieldCharsmap {
					m.Charsmap = f.bytes
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

// Marshal returns the model in the form that Read parses.
func (m *Model) Marshal() []byte {
	var out []byte
	for _, p := range m.Pieces {
		piece := appendProtoBytes(nil, spFieldText, []byte(p.Text))
		piece = appendProtoFloat(piece, spFieldScore, p.Score)
		out = appendProtoBytes(out, spFieldPiece, appendProtoInt(piece, spFieldKind, uint64(p.Kind)))
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

// check returns an error if the pieces are invalid.
func (m *Model) check() error {
	if len(m.Pieces) == 0 {
		return errors.New("it has no pieces")
	}
	seen := make(map[string]int, len(m.Pieces))
	unknown := -1
	for id, p := range m.Pieces {
		what := "piece " + strconv.Itoa(id)
		switch {
		case p.Text == "":
			return fmt.Errorf("%s is empty", what)
		case len(p.Text) > words.MaxPiece:
			return fmt.Errorf("%s has %d bytes, want at most %d", what, len(p.Text), words.MaxPiece)
		case math.IsNaN(float64(p.Score)) || math.Abs(float64(p.Score)) > 1e30:
			return fmt.Errorf("%s %.60q has the score %v", what, p.Text, p.Score)
		case p.Kind < Normal || p.Kind > Byte:
			return fmt.Errorf("%s %.60q has the type %d, want 1 to 6", what, p.Text, p.Kind)
		case p.Kind == Unknown && unknown >= 0:
			return fmt.Errorf("pieces %d and %d are both unknown", unknown, id)
		}
		if p.Kind == Unknown {
			unknown = id
		}
		if p.Kind == Byte {
			if _, ok := words.ByteOfToken(p.Text); !ok {
				return fmt.Errorf("%s %.60q has the type of a byte, want a text such as <0x0A>", what, p.Text)
			}
		}
		if old, ok := seen[p.Text]; ok {
			return fmt.Errorf("pieces %d and %d are both %.60q", old, id, p.Text)
		}
		seen[p.Text] = id
	}
	return nil
}
