package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/fit"
)

// autoForm is the form that the name of the file to write says.
const autoForm = "auto"

// form is the form that was asked for, or that of the file to write.
func (o *predictOptions) form(out io.Writer) (string, error) {
	form := o.As
	if form == autoForm {
		switch strings.ToLower(filepath.Ext(o.Out)) {
		case ".parquet", ".pq", ".parq":
			form = fit.AsParquet
		case ".jsonl", ".ndjson":
			form = fit.AsJSONL
		default:
			form = fit.AsCSV
		}
	}
	if form != fit.AsParquet {
		return form, nil
	}
	if o.Stream {
		return "", errors.New("stream: found --as parquet, which is written many rows at a time; want --as csv or " +
			"jsonl")
	}
	if f, ok := out.(*os.File); ok && o.Out == "" && isTerminal(f) {
		return "", errors.New("as: found parquet and a terminal, want --out FILE, or a pipe")
	}
	return form, nil
}
