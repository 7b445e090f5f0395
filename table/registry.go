package table

// formats lists the formats: one line each.
var formats = []*Format{
	CSV,
	TSV,
	JSONL,
	NPY,
	NPZ,
	Parquet,
	WAV,
	FLAC,
	TS,
	FASTA,
	FASTQ,
	Image,
}
