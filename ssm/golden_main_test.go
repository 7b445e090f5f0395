package ssm

import (
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

func TestMain(m *testing.M) { golden.Main(m, "ssm") }
