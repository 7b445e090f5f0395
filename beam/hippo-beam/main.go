// Command hippo-beam runs hippo's models over many files as a pipeline of Apache Beam:
//
//	hippo-beam -do score -model runs/tiny -input 'texts/*.jsonl' -output scores.jsonl
//	hippo-beam -do predict -model runs/machine -input 'days/*.csv' -output rows.jsonl
//
// It runs on this machine, on Prism, unless -runner names another. Flags of the runners are Beam's:
//
//	-runner flink -endpoint HOST:8099 -environment_type LOOPBACK
//	-runner spark -endpoint HOST:8099
//	-runner dataflow -project P -region R -staging_location gs://B/staging -temp_location gs://B/tmp
//
// Paths may be those of Google Cloud Storage (gs://). The folder of the model must be on every worker.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/fileio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	hippobeam "github.com/hippo-ssm/hippo/beam"
)

func main() {
	do := flag.String("do", "score", "score: answer lines, as hippo score does; predict: predict files of rows")
	models := flag.String("model", "", "models, as hippo score takes them; for predict a folder of hippo fit")
	precision := flag.String("precision", "stored", "of the weights: stored, float32, bf16, int8 or int4")
	together := flag.Int("together", 16, "lines that a worker's thread answers at a time")
	input := flag.String("input", "", "files of lines, or of rows; may have *")
	output := flag.String("output", "", "file of the results")
	flag.Parse()
	beam.Init() // does not return in a worker
	if err := run(*do, *models, *precision, *together, *input, *output); err != nil {
		fmt.Fprintln(os.Stderr, "hippo-beam:", err)
		os.Exit(1)
	}
}

func run(do, models, precision string, together int, input, output string) error {
	if models == "" || input == "" || output == "" {
		return fmt.Errorf("found -model %q, -input %q and -output %q, want all three", models, input, output)
	}
	p, s := beam.NewPipelineWithRoot()
	switch do {
	case "score":
		textio.Write(s, output, hippobeam.Score(s, textio.Read(s, input), hippobeam.ScoreOptions{
			Models: strings.Split(models, ","), Precision: precision, Together: together}))
	case "predict":
		files := fileio.ReadMatches(s, fileio.MatchFiles(s, input), fileio.ReadUncompressed())
		textio.Write(s, output, hippobeam.Predict(s, files, models))
	default:
		return fmt.Errorf("do: found %q, want score or predict", do)
	}
	return beamx.Run(context.Background(), p)
}
