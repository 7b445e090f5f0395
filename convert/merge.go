package convert

import (
	"context"
	"fmt"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/status"
)

// Merge writes a model with the changes of its adapter in its weights, W + alpha/r·B·A, to the folder out. It returns a
// line that reports the result.
func Merge(ctx context.Context, m *hippo.Model, out string) (string, error) {
	if same, err := samePlace(m.Dir(), out); err != nil || same {
		return "", fmt.Errorf("%s: want another folder than that of the model", out)
	}
	from, changes := m.AdapterDir(), len(m.Net().Adapter().Changes)
	if err := m.Merge(); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := writeChanged(out, m, m.Net().Save); err != nil {
		return "", err
	}
	size, err := weightsSize(out)
	return fmt.Sprintf("merged %d changes of %s into %s: %s, %s", changes, from, m.Dir(), out,
		status.Bytes(size)), err
}
