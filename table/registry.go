package table

// formats lists all formats, one per line.
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
