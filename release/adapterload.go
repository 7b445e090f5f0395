package release

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
)

// ErrBase reports that an adapter was made for another base model.
var ErrBase = errors.New("the adapter was made for another model")

// FileFingerprint returns the model.Model.WeightsFingerprint of the model at a path. It does not depend on the
// precision of loading.
func FileFingerprint(path string) (sum string, err error) {
	_, _, err = withModel(path, func(m *model.Model, w model.Weights) error {
		sum, err = w.Fingerprint(m)
		return err
	})
	return sum, err
}

// Attach attaches the adapter to m, which has the weights of the model at a path in any precision. weights is the
// FileFingerprint of that model, or "" if not known yet. If the adapter names other weights as its base, the error is
// ErrBase. If changes are of unknown matrices or other shapes, or have non-finite values, the error lists all of them.
// After an error m is unchanged.
func (a *Adapter) Attach(m *model.Model, path, weights string) error {
	_, _, err := withModel(path, func(like *model.Model, w model.Weights) (err error) {
		if a.Weights != "" && weights == "" {
			if weights, err = w.Fingerprint(like); err != nil {
				return err
			}
		}
		if a.Weights != "" && weights != a.Weights {
			return fmt.Errorf("%s: %w: found the weights %s in %s, want %s, those of %s", a.Dir, ErrBase, weights,
				brief.Line(path), brief.Line(a.Weights), brief.Line(a.Name))
		}
		if a.arch != "" {
			w, forms, err := a.ggufWeights(like, path)
			if err != nil {
				return err
			}
			f, err := checkpoint.OpenGGUF(a.Dir)
			if err != nil {
				return err
			}
			defer f.Close()
			return a.attach(m, f, w, forms)
		}
		return checkpoint.ReadDir(a.Dir, func() error {
			f, err := checkpoint.OpenSafetensors(filepath.Join(a.Dir, AdapterWeightsFile))
			if err != nil {
				return err
			}
			defer f.Close()
			return a.attach(m, f, w, nil)
		}, AdapterConfigFile, AdapterWeightsFile)
	})
	return err
}

// attach attaches the adapter in the open file f to m. forms are the forms of the weights in a GGUF file.
func (a *Adapter) attach(m *model.Model, f *checkpoint.File, w model.Weights, forms ggufForms) error {
	l := adapterLoad{config: &a.config, modules: map[string]*lowRankTensors{}}
	l.collect(f, forms)
	shapes, values := map[string]model.ChangeShape{}, map[string]lowRankValues{}
	for _, p := range m.Products() {
		if parts := l.partsOf(p, w); len(parts) > 0 {
			shapes[p.Name], values[p.Name] = l.join(p, parts)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.modules)) {
		if !l.modules[name].used {
			l.problems.Addf(name, "found no such matrix among the products of the model")
		}
	}
	if len(l.problems) == 0 && len(shapes) == 0 {
		l.problems.Addf("tensors", "found no changes, want some")
	}
	if len(l.problems) > 0 {
		return brief.Error(fmt.Errorf("%s does not fit the model: %w", f.Path(), l.problems.Err()))
	}
	adapter, err := m.AdaptEach(shapes)
	if err != nil {
		return err
	}
	for _, c := range adapter.Changes {
		v := values[c.Name]
		c.A.SetData(v.a)
		c.B.SetData(v.b)
	}
	return nil
}

// adapterLoad converts the tensors of an adapter to changes of a model's matrices.
type adapterLoad struct {
	config   *adapterConfig
	modules  map[string]*lowRankTensors
	problems config.Problems
}

// lowRankTensors holds the two tensors of a module.
type lowRankTensors struct {
	a, b *checkpoint.Tensor
	used bool // by a matrix of the model
}

// lowRankValues holds the values of a change: A (r, k), B (n, r).
type lowRankValues struct{ a, b []float32 }

// lowRankName matches a tensor name of PEFT, which may include the name of the adapter.
var lowRankName = regexp.MustCompile(`^(.+)\.lora_([AB])(?:\.\w+)?\.weight$`)

// collect groups the tensors of a file by module, and converts those of a GGUF file to the form of published models.
func (l *adapterLoad) collect(f *checkpoint.File, forms ggufForms) {
	isGGUF, names := f.Format() == checkpoint.FormatGGUF, lowRankName
	if isGGUF {
		names = ggufLowRankName
	}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		parts := names.FindStringSubmatch(name)
		if parts == nil {
			l.problems.Addf(name, "want changes of linear layers alone, such as %sLAYER.lora_A.weight", peftPrefix)
			continue
		}
		module := strings.TrimPrefix(parts[1], peftPrefix)
		t := l.modules[module]
		if t == nil {
			t = &lowRankTensors{}
			l.modules[module] = t
		}
		if isGGUF {
			columns, rows, err := forms.of(parts[1] + ".weight").lowRank()
			if parts[2] == "b" {
				columns = rows
			}
			y, failed := columns.parameter(x)
			l.problems.Add(errors.Join(err, failed))
			x = y
		}
		if strings.EqualFold(parts[2], "a") {
			t.a = x
		} else {
			t.b = x
		}
		if !isGGUF && (len(x.Shape) != 2 || !slices.Contains(floats, x.DType)) || len(x.Shape) < 2 {
			l.problems.Addf(name, "found %s of shape %v, want a matrix of one of %v", x.DType, x.Shape, floats)
		}
	}
	for _, module := range slices.Sorted(maps.Keys(l.modules)) {
		t := l.modules[module]
		if t.a == nil || t.b == nil {
			l.problems.Addf(module, "found one of lora_A and lora_B, want both")
		}
	}
	if len(l.problems) > 0 {
		clear(l.modules)
	}
}

// lowRankPart is a change of some rows of a matrix, by all or some of the rows of a module's B.
type lowRankPart struct {
	module     string
	at, rows   int // in the matrix
	first, all int // in B
	*lowRankTensors
}

// partsOf returns the changes of a matrix: the change with the matrix's own name, or the changes of the tensors in the
// model's file that form the matrix.
func (l *adapterLoad) partsOf(p model.Product, w model.Weights) (parts []lowRankPart) {
	own := strings.TrimSuffix(p.Name, ".weight")
	if t := l.modules[own]; t != nil {
		t.used = true
		return []lowRankPart{{own, 0, p.N, 0, p.N, t}}
	}
	sources, shares := sourcesOf(w, p.Name), 0
	for _, s := range sources {
		shares += max(1, s.Share)
	}
	at := 0
	for _, s := range sources {
		rows := p.N / shares * max(1, s.Share)
		module := strings.TrimSuffix(w.Keys[s.Name], ".weight")
		if t := l.modules[module]; t != nil && (s.Stack == 0 || len(t.a.Shape) == 3) {
			t.used = true
			part := lowRankPart{module, at, rows, s.Part * rows, max(1, s.Of) * rows, t}
			if s.Stack > 0 {
				part = part.of(s.Stack)
			}
			parts = append(parts, part)
		}
		at += rows
	}
	return parts
}

// of returns the change of a matrix among n that are stacked in one tensor.
func (part lowRankPart) of(n int) lowRankPart {
	part.all /= n
	matrix := part.first / part.all
	part.first %= part.all
	cut := func(x *checkpoint.Tensor) *checkpoint.Tensor {
		if len(x.Shape) != 3 || x.Shape[0] != n { // reported when the tensor is read
			return x
		}
		size := x.Shape[1] * x.Shape[2]
		y := x.Part(matrix*size, size)
		y.Name, y.Shape = x.Name, x.Shape[1:]
		return &y
	}
	part.lowRankTensors = &lowRankTensors{cut(part.a), cut(part.b), true}
	return part
}

// join joins the changes of a matrix's parts to one change, whose rank is the sum of theirs. Each part has its own rows
// of A and columns of B. Its scale is multiplied into B.
func (l *adapterLoad) join(p model.Product, parts []lowRankPart) (s model.ChangeShape, v lowRankValues) {
	scales := make([]float64, len(parts))
	before := len(l.problems)
	for i, part := range parts {
		rank := part.a.Shape[0]
		if rank < 1 || part.a.Shape[1] != p.K {
			l.problems.Addf(part.module+".lora_A", "found shape %v, want [r %d]", part.a.Shape, p.K)
		}
		if want := []int{part.all, rank}; !slices.Equal(part.b.Shape, want) {
			l.problems.Addf(part.module+".lora_B", "found shape %v, want %v", part.b.Shape, want)
		}
		if c := l.config; len(c.RankPattern) == 0 && rank != c.R {
			l.problems.Addf(part.module, "found rank %d, want r of %s, %d", rank, AdapterConfigFile, c.R)
		}
		var err error
		if scales[i], err = l.config.scale(part.module, rank); err != nil {
			l.problems.Add(err)
		}
		s.Rank += rank
	}
	if len(l.problems) > before {
		return s, v
	}
	if s.Scale = 1; len(parts) == 1 {
		s.Scale, scales[0] = scales[0], 1
	}
	v = lowRankValues{make([]float32, 0, s.Rank*p.K), make([]float32, p.N*s.Rank)}
	for i, part := range parts {
		rank, from := part.a.Shape[0], len(v.a)/p.K
		a, b := l.read(part.a), l.read(part.b)
		if a == nil || b == nil {
			return s, v
		}
		v.a = append(v.a, a...)
		for j := range part.rows {
			for r, x := range b[(part.first+j)*rank:][:rank] {
				v.b[(part.at+j)*s.Rank+from+r] = float32(float64(x) * scales[i])
			}
		}
	}
	return s, v
}

// read reads a tensor, whose values must be finite. After a problem it returns nil.
func (l *adapterLoad) read(x *checkpoint.Tensor) []float32 {
	values := make([]float32, x.Elements())
	if err := model.ReadFinite(x, values); err != nil {
		l.problems.Addf(x.Name, "%v", err)
		return nil
	}
	return values
}
