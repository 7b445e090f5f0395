package data

// Check returns the errors that Open would return for specs that name no file, one for each such spec, without reading
// any file. It skips standard input.
func Check(specs []string, opt SourceOptions) []error {
	var errs []error
	for _, spec := range specs {
		if spec == "-" {
			continue
		}
		if _, err := findSources(spec, opt); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
