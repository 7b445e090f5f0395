package table

// formats lists the formats: one line each.
var formats = []*Format{
	CSV,
	TSV,
	JSONL,
	NPY,
	NPZ,
	WAV,
	TS,
	FASTA,
	FASTQ,
	Image,
}
