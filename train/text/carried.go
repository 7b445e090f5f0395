package text

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// carriedFile is the name of the file in the last checkpoint that holds the states of a run with carry_state.
const carriedFile = "state.safetensors"

// newStates returns initial states for n sequences.
func newStates(m *model.Model, n int) []*model.State {
	states := make([]*model.State, n)
	for k := range states {
		states[k] = m.NewState()
	}
	return states
}

// carriedTensors returns the tensors of states for a file. For example, "3.layers.0.diag" belongs to sequence 3.
func carriedTensors(states []*model.State) (all []checkpoint.Tensor) {
	for k, s := range states {
		s.Tensors(func(name string, x *tensor.Tensor) {
			v := make([]float32, x.Len())
			x.CopyTo(v)
			all = append(all, checkpoint.NewTensor(carriedName(k, name), x.Shape(), v))
		})
	}
	return all
}

func carriedName(sequence int, name string) string { return strconv.Itoa(sequence) + "." + name }

// readCarried reads the states of n sequences from a file. In a file of an earlier version each tensor, such as
// "layers.0.diag", holds the states of all sequences along its first axis, and all are at the given position.
func readCarried(path string, m *model.Model, n, position int) ([]*model.State, error) {
	f, err := checkpoint.OpenSafetensors(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return carriedOf(f, path, m, n, position)
}

// carriedOf reads the states of n sequences from an open file. path is for messages.
func carriedOf(f *checkpoint.File, path string, m *model.Model, n, position int) (_ []*model.State, err error) {
	one := m.NewState()
	if one.Size() > f.Size()/n { // check before allocating memory for all
		return nil, fmt.Errorf("%s: found %d bytes, want more for states of %d bytes of %d sequences", path, f.Size(),
			one.Size(), n)
	}
	states := newStates(m, n)
	for k, s := range states {
		s.Position = position
		one.Tensors(func(name string, _ *tensor.Tensor) {
			_, own := f.Tensor(carriedName(k, name))
			_, all := f.Tensor(name)
			if !own && !all && name != model.PositionName && err == nil {
				err = fmt.Errorf("%s: missing %s", path, carriedName(k, name))
			}
		})
	}
	if err != nil {
		return nil, err
	}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		v, err := x.Float32()
		if err == nil {
			err = restoreCarried(states, name, x.Shape, v)
		}
		if err != nil {
			return nil, brief.Error(fmt.Errorf("%s: %w", path, err))
		}
	}
	for _, s := range states {
		s.Keep(s.Position) // no state can remember more
	}
	return states, nil
}

// restoreCarried restores a tensor of a file into the states.
func restoreCarried(states []*model.State, name string, shape []int, v []float32) error {
	number, own, _ := strings.Cut(name, ".")
	if k, err := strconv.Atoi(number); err == nil {
		if k < 0 || k >= len(states) {
			return fmt.Errorf("found %q, want states of %d sequences", name, len(states))
		}
		return states[k].Restore(own, shape, v)
	}
	n := len(states)
	if len(shape) == 0 || shape[0] != n {
		return fmt.Errorf("found %q of shape %v, want one of %d sequences", name, shape, n)
	}
	shape = append([]int{1}, shape[1:]...)
	for k, s := range states {
		if err := s.Restore(name, shape, v[k*len(v)/n:(k+1)*len(v)/n]); err != nil {
			return err
		}
	}
	return nil
}

// Carries reports whether states are carried over.
func (tr *Work) Carries() bool { return tr.Config.Train.CarryState }

// Begins reports whether the sequences of this update begin with new states.
func (tr *Work) Begins() bool { return tr.begins }

// mostCarried is the most bytes of states in a message.
const mostCarried = 1 << 24

// States returns the states of a shard in the format of a checkpoint's file, split into messages. Each message begins
// with the total number of bytes.
func (tr *Work) States(s train.Shard) (all [][]byte) {
	var file bytes.Buffer
	if err := checkpoint.WriteSafetensors(&file, carriedTensors(tr.carried[s.First:s.End]), nil); err != nil {
		panic(err) // writing to memory cannot fail
	}
	size := binary.LittleEndian.AppendUint64(nil, uint64(file.Len()))
	for file.Len() > 0 {
		all = append(all, append(slices.Clone(size), file.Next(mostCarried)...))
	}
	return all
}

// SetStates takes a message of States. whole reports whether the states are complete.
func (tr *Work) SetStates(s train.Shard, part []byte) (whole bool, err error) {
	if tr.coming == nil {
		tr.coming = map[int][]byte{}
	}
	size, at := uint64(0), uint64(len(tr.coming[s.Index]))
	if len(part) >= 8 {
		size, part = binary.LittleEndian.Uint64(part), part[8:]
	}
	if n := uint64(len(part)); n == 0 || n > size || at > size-n {
		delete(tr.coming, s.Index)
		return false, fmt.Errorf("states of shard %d: found %d bytes after %d of %d, want more, but no more than all",
			s.Index, n, at, size)
	}
	tr.coming[s.Index] = append(tr.coming[s.Index], part...)
	if uint64(len(tr.coming[s.Index])) < size {
		return false, nil
	}
	f, err := checkpoint.ParseSafetensors(tr.coming[s.Index])
	delete(tr.coming, s.Index)
	if err != nil {
		return false, err
	}
	states, err := carriedOf(f, fmt.Sprintf("states of shard %d", s.Index), tr.Model, s.End-s.First, 0)
	if err == nil {
		tr.setCarried(s, states)
	}
	return err == nil, err
}

// setCarried replaces the states of the sequences of a shard.
func (tr *Work) setCarried(s train.Shard, states []*model.State) {
	if tr.carried == nil {
		tr.carried = make([]*model.State, tr.Config.Train.sequences())
	}
	copy(tr.carried[s.First:s.End], states)
}
