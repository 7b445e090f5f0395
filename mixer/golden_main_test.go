package mixer

import (
	"os"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

func TestMain(m *testing.M) { os.Exit(golden.Main(m, "mixer", os.Stdout)) }
