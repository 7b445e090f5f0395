package text

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// Base is the model that a run starts from, taking its weights, shape and tokenizer. A checkpoint of the run contains
// all of them, so the run can be resumed even if the model no longer exists.
type Base struct {
	Name    string `json:"name"`           // as given by the user: a path, or the name of a published model
	Path    string `json:"path"`           // folder or file of the model
	Weights string `json:"weights"`        // fingerprint of the weights
	Card    []Said `json:"card,omitempty"` // lines of the model's own card

	shape model.Config
	tok   tokenizer.Tokenizer // nil if the model has none
}

// Said is one line of a model's card.
type Said struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// StartFrom makes a run start from the model at path, which the user calls name: with its weights, its shape and, if it
// has one, its tokenizer. It sets a learning rate that suits a trained model. It returns an error if the weights are
// not in floating point.
func (c *Config) StartFrom(name, path string) error {
	b, err := openBase(name, path)
	if err != nil {
		return err
	}
	c.Model, c.Tokenizer = b.shape, ""
	b.rates(&c.Optim, c.LoRA.Rank > 0)
	return c.take(b)
}

// openBase describes the model at path.
func openBase(name, path string) (*Base, error) {
	m, at, err := release.DescribeFloat(path)
	if err != nil {
		return nil, fmt.Errorf("init: %w", err)
	}
	if at, err = filepath.Abs(at); err != nil {
		return nil, err
	}
	b := &Base{Name: name, Path: at, shape: m.Config}
	b.tok, err = release.LoadTokenizer(b.texts(), &b.shape)
	var none *release.NoTokenizerError
	if err != nil && !errors.As(err, &none) {
		return nil, fmt.Errorf("init: %w", err)
	}
	b.Card = readCard(b.dir())
	return b, nil
}

// texts returns the path of the tokenizer: the model's folder, or its GGUF file.
func (b *Base) texts() string {
	if release.IsGGUF(b.Path) {
		return b.Path
	}
	return b.dir()
}

// dir returns the folder that holds the model.
func (b *Base) dir() string {
	if info, err := os.Stat(b.Path); err == nil && !info.IsDir() {
		return filepath.Dir(b.Path)
	}
	return b.Path
}

// rates sets the learning rate to a tenth of what models of that width are usually trained with, which is from 4e-3 for
// 128 channels to 2e-4 for 2048: higher rates soon undo what a model has learnt. An adapter gets ten times that, as it
// starts with no change and its rank limits what it can undo.
func (b *Base) rates(o *train.Optim, adapter bool) {
	const perChannel, more = 0.05, 10
	o.LR, o.SSMLR = perChannel/float64(b.shape.DModel), 0
	if adapter {
		o.LR *= more
	}
}

// take checks the settings of a run against its base, and fills in those that were left open. All settings of the
// model's shape must equal the base's; dropout may differ.
func (c *Config) take(b *Base) error {
	var p config.Problems
	want := b.shape
	want.EmbedDropout, want.AttnDropout, want.ResidDropout =
		c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout
	if samePlan(&c.Model, &want) { // the same layers, written differently
		c.Model.Layers, c.Model.NLayer = want.Layers, want.NLayer
		c.Model.Mixer, c.Model.AttnIdx = want.Mixer, want.AttnIdx
	}
	for _, line := range config.Diff(&want, &c.Model) {
		p = append(p, fmt.Sprintf("model.%s: the shape is that of %s, which --init names", line, brief.Line(b.Name)))
	}
	c.Model = want
	p.Add(c.takeTokenizer(b))
	p.Add(c.LoRA.fitsBase(b))
	if err := p.Err(); err != nil {
		return err
	}
	c.Init, c.Base = b.Name, *b
	return nil
}

// samePlan reports whether two shapes have the same layers.
func samePlan(a, b *model.Config) bool {
	x, err1 := a.Plan()
	y, err2 := b.Plan()
	return err1 == nil && err2 == nil && slices.Equal(x, y)
}

// takeTokenizer is take for the tokenizer: it takes that of the base or, if it has none, the configured one if it fits
// the model.
func (c *Config) takeTokenizer(b *Base) error {
	switch {
	case b.tok == nil && (c.Tokenizer == "" || c.Tokenizer == "chars"):
		return fmt.Errorf("tokenizer: found none with %s, whose model has %d tokens; "+
			"want that which it was trained with", b.Name, b.shape.VocabSize)
	case b.tok == nil:
		tok, err := release.ParseTokenizer(c.Tokenizer)
		if err == nil {
			err = release.CheckTokenizer(tok, b.Path, &b.shape)
		}
		if err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
		b.tok = tok
		return nil
	case c.Tokenizer != "" && !sameTokenizer(c.Tokenizer, b.tok):
		return fmt.Errorf("tokenizer: found %s together with --init %s, whose tokenizer is another: %s of %d tokens; "+
			"want it left out", c.Tokenizer, b.Name, b.tok.Kind(), b.tok.VocabSize())
	}
	switch c.Tokenizer = b.tok.Kind(); c.Tokenizer {
	case "bytes", "chars", "dna", "gpt2":
	default:
		c.Tokenizer = b.texts()
	}
	return nil
}

// sameTokenizer reports whether the setting spec names tok. For chars only the kind is compared, as the setting does
// not contain the alphabet.
func sameTokenizer(spec string, tok tokenizer.Tokenizer) bool {
	if spec == "chars" {
		return tok.Kind() == spec
	}
	named, err := release.ParseTokenizer(spec)
	return err == nil && named.Fingerprint() == tok.Fingerprint()
}

// begun returns an error if the settings name a base that has not been read.
func (c *Config) begun() error {
	if c.Init != "" && c.Base.tok == nil {
		return fmt.Errorf("init: found %q, whose shape the settings do not have; want settings of LoadNew or StartFrom",
			c.Init)
	}
	return nil
}

// fill loads the weights of the base into m or, if an adapter is trained, the weights in the adapter's base precision.
// want is the expected fingerprint, or "".
func (b *Base) fill(m *model.Model, want string, l *LoRA) (err error) {
	switch p := l.precision(); p {
	case engine.Float32:
		if err = release.LoadFloat(m, b.Path); err == nil {
			b.Weights = m.WeightsFingerprint()
		}
	default:
		if err = release.LoadFrozen(m, b.Path, p); err == nil {
			b.Weights, err = release.FileFingerprint(b.Path)
		}
	}
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	if want != "" && want != b.Weights {
		return fmt.Errorf("init_weights: found weights %s in %s, want %s: the model has changed", b.Weights,
			b.Path, want)
	}
	return nil
}

// cardKeys lists the keys of a card that describe a model's origin, in a run's card or the front matter of a README.md.
var cardKeys = []string{
	beganWith, "validation loss", "training", "data", "license", "license_name", "base_model", "datasets",
}

// beganWith is the key in a run's card for its base.
const beganWith = "began with"

// readCard returns the lines of a model's card: MODEL.md of a run, or README.md of a published model. The card lies
// beside the weights or, for a checkpoint of a run, in the run's folder. A card that cannot be read is ignored.
func readCard(dir string) []Said {
	cards := []string{filepath.Join(dir, CardFile), filepath.Join(dir, "README.md")}
	if base := filepath.Base(dir); base == model.BestDir || base == model.LastDir {
		cards = append([]string{filepath.Join(filepath.Dir(dir), CardFile)}, cards...)
	}
	for _, path := range cards {
		text, err := disk.ReadText(path, disk.MaxText)
		if said := parseCard(string(text)); err == nil && len(said) > 0 {
			return said
		}
	}
	return nil
}

// parseCard reads the lines "| key | text |" of a run's card, or "key: text" and lists "- item" in the front matter of
// a README.md, which is between two lines of dashes.
func parseCard(text string) (said []Said) {
	lines := bufio.NewScanner(strings.NewReader(text))
	head := -1 // lines of dashes seen minus 1, in a text that starts with one
	add := func(key, value string) {
		if value = strings.Trim(value, ` "'`); value != "" && slices.Contains(cardKeys, key) {
			said = append(said, Said{key, brief.Line(value)})
		}
	}
	list := "" // the key of the list items that follow
	for n := 0; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		cells := strings.SplitN(strings.Trim(line, "|"), "|", 2)
		switch key, value, field := strings.Cut(line, ":"); {
		case line == "---" && (n == 0 || head == 0):
			head++
		case head == 0 && strings.HasPrefix(line, "- "):
			add(list, line[2:])
		case head == 0 && field:
			list = key
			add(key, value)
		case strings.HasPrefix(line, "|") && len(cells) == 2:
			add(strings.TrimSpace(cells[0]), cells[1])
		}
	}
	return said
}
