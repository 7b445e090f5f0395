package text

import (
	"fmt"
	"os"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// LoRA is the settings of an adapter (arXiv:2106.09685), which is trained in place of the model that Init names: to
// each of some matrices W (n, k) it adds Alpha/Rank·B A, B (n, rank), A (rank, k). The model itself stays as it is, has
// no gradients and moments, and is not saved with the run.
type LoRA struct {
	Rank   int      `json:"rank" min:"0" help:"train and save an adapter of this rank; 0: train the model"`
	Alpha  float64  `json:"alpha" help:"the changes are scaled by alpha/rank; 0: twice the rank"`
	Target []string `json:"target" help:"matrices to change, by names, patterns or last parts of names; empty: all"`
	// Dropout is that before A: see nn.LowRank.
	Dropout float64 `json:"dropout" help:"dropout probability of the adapter's inputs in training"`
	// Base rounds the weights of the model in memory. Results are those of float32 with the rounded weights.
	Base string `json:"base" enum:"float32,bf16,int8,int4" help:"precision of the frozen weights of the model"`
}

// settle sets what settings of earlier versions lack.
func (l *LoRA) settle() {
	if l.Base == "" {
		l.Base = engine.Float32.String()
	}
}

// alpha is Alpha, or what stands for it.
func (l *LoRA) alpha() float64 {
	if l.Alpha == 0 {
		return float64(2 * l.Rank)
	}
	return l.Alpha
}

// precision is that of the weights of the model; float32 where there is no adapter.
func (l *LoRA) precision() engine.Precision {
	if l.Rank == 0 {
		return engine.Float32
	}
	p, _ := engine.ParsePrecision(l.Base) // validate has told of an error
	return p
}

// bases are the precisions that the weights of a model may have under an adapter.
var bases = []string{engine.Float32.String(), engine.BF16.String(), engine.Int8.String(),
	engine.Int4.String()}

// validate adds the problems of the settings.
func (l *LoRA) validate(c *Config, p *config.Problems) {
	p.OneOf("lora.base", l.Base, bases)
	switch {
	case l.Rank < 0:
		p.Addf("lora.rank", "found %d, want 0 or more", l.Rank)
	case l.Rank == 0 && (l.Alpha != 0 || l.Dropout != 0 || len(l.Target) > 0 || l.Base != bases[0]):
		p.Addf("lora.rank", "found 0 together with other settings of an adapter, want its rank, such as 16")
	case l.Rank == 0:
		return
	case c.Init == "":
		p.Addf("lora.rank", "found %d without init, want the model that the adapter is for (--init)", l.Rank)
	}
	if !(l.Alpha >= 0 && l.Alpha <= 1e6) {
		p.Addf("lora.alpha", "found %g, want a number from 0 to 1e6", l.Alpha)
	}
	if !(l.Dropout >= 0 && l.Dropout < 1) {
		p.Addf("lora.dropout", "found %g, want a number from 0 up, less than 1", l.Dropout)
	}
	if len(c.Freeze) > 0 && l.Rank > 0 {
		p.Addf("freeze", "found %q together with lora.rank, want one of them: an adapter freezes all of the model",
			c.Freeze)
	}
}

// fitsBase returns an error for a model that can be trained but not be used with an adapter afterwards.
func (l *LoRA) fitsBase(b *Base) error {
	if l.Rank == 0 || release.IsGGUF(b.Path) {
		return nil
	}
	if info, err := os.Stat(b.Path); err == nil && !info.IsDir() {
		return fmt.Errorf("init: found the file %s, want a folder or a .gguf file: "+
			"the adapter will be used together with it (hippo convert makes a folder)", b.Path)
	}
	return nil
}

// shape is that of the adapter.
func (l *LoRA) shape() model.AdapterShape {
	return model.AdapterShape{Rank: l.Rank, Alpha: l.alpha(), Targets: l.Target}
}

// start gives a model an adapter that changes nothing yet, where one is to be trained.
func (l *LoRA) begin(m *model.Model, seed uint64) error {
	if l.Rank == 0 {
		return nil
	}
	if _, err := l.adapt(m); err != nil {
		return err
	}
	m.Adapter().Init(seed)
	return nil
}

// adapt freezes a model but for its adapter, which it gets unless it has one, and counts their parameters.
func (l *LoRA) adapt(m *model.Model) (n train.ParamCount, err error) {
	if m.Adapter() == nil {
		if _, err := m.Adapt(l.shape()); err != nil {
			var p config.Problems
			p.AddUnder("lora.", err)
			return n, p.Err()
		}
	}
	m.TrainAdapter()
	m.Adapter().SetDropout(l.Dropout)
	m.Params("", func(_ string, p *nn.Param) {
		n.All += p.Len()
		n.Values += model.FrozenBytes(p, l.precision())
	})
	n.Trained = m.Adapter().NumParams()
	n.All += n.Trained
	n.Values += 4 * n.Trained
	return n, nil
}

// pack rounds the weights of a model in memory, where the settings say so.
func (l *LoRA) pack(m *model.Model) error {
	if p := l.precision(); p != engine.Float32 {
		return m.PackFrozen(p)
	}
	return nil
}

// modules are the names that the files of the base have for the matrices of the model, where an adapter is trained.
func (c *Config) modules(m *model.Model) (map[string]string, error) {
	if c.LoRA.Rank == 0 {
		return nil, nil
	}
	return release.ModuleNames(m, c.Base.Path)
}

// saveAdapter writes the adapter, and which model it is for.
func (tr *Work) saveAdapter(dir string) error {
	b, l := &tr.Config.Base, &tr.Config.LoRA
	name := b.Name
	if disk.Exists(name) {
		name = b.Path
	}
	a := release.Adapter{Name: name, Path: b.Path, Weights: b.Weights, Rank: l.Rank, Alpha: l.alpha(),
		Dropout: l.Dropout}
	return release.SaveAdapter(dir, tr.Model, a, tr.modules)
}

// loadBest reads the model of the best checkpoint, which shares the weights of the base where it is an adapter.
func (tr *Work) loadBest(dir string) (*model.Model, error) {
	if tr.Config.LoRA.Rank == 0 {
		best, _, err := release.LoadDir(dir)
		if err == nil {
			best.Use(tr.Model.Backend())
		}
		return best, err
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	best, err := tr.Model.Beside()
	if err != nil {
		return nil, err
	}
	err = tr.Config.Base.attach(best, dir)
	best.Place()
	return best, err
}

// attach gives a model with the weights of the base the adapter in a folder.
func (b *Base) attach(m *model.Model, dir string) error {
	a, err := release.ReadAdapter(dir)
	if err != nil {
		return err
	}
	return a.Attach(m, b.Path, b.Weights)
}

// loadLast gives a model the weights of the last checkpoint, in dir: of an adapter those of its base, too.
func (c *Config) loadLast(m *model.Model, dir string) error {
	if c.LoRA.Rank == 0 {
		return m.LoadSaved(dir)
	}
	if err := c.Base.fill(m, c.Base.Weights, &c.LoRA); err != nil {
		return err
	}
	return c.Base.attach(m, dir)
}

// runTokenizer is the tokenizer of the run in folder Out, which is to be resumed: of an adapter that of its base, which
// must still be where it was.
func (c *Config) runTokenizer() (tokenizer.Tokenizer, error) {
	if c.LoRA.Rank == 0 {
		return RunTokenizer(c.Out)
	}
	b, err := openBase(c.Base.Name, c.Base.Path)
	if err != nil {
		return nil, fmt.Errorf("%w; the run trains an adapter of that model and cannot be resumed without it", err)
	}
	if b.tok == nil {
		err = c.takeTokenizer(b)
	}
	return b.tok, err
}
