// Measures MPI in C, for bench/mpi/run, with two processes: peer allreduce BYTES ROUNDS, peer swap BYTES ROUNDS.
// Process 0 prints the milliseconds of the fastest round: of MPI_Allreduce of floats, or of sending BYTES to the other
// process while receiving as many, with MPI_Isend, MPI_Irecv and MPI_Test.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int later(const void *a, const void *b) {
	double d = *(const double *)a - *(const double *)b;
	return (d > 0) - (d < 0);
}

int main(int argc, char **argv) {
	if (argc != 4) return 2;
	int rank, bytes = atoi(argv[2]), rounds = atoi(argv[3]);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	float *mine = calloc(bytes, 1), *theirs = calloc(bytes, 1);
	double *ms = calloc(rounds, sizeof *ms);
	for (int i = -3; i < rounds; i++) {
		double start = MPI_Wtime();
		if (!strcmp(argv[1], "allreduce")) {
			MPI_Allreduce(mine, theirs, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		} else {
			MPI_Request r[2];
			MPI_Irecv(theirs, bytes, MPI_BYTE, 1 - rank, 77, MPI_COMM_WORLD, &r[0]);
			MPI_Isend(mine, bytes, MPI_BYTE, 1 - rank, 77, MPI_COMM_WORLD, &r[1]);
			for (int k = 0; k < 2; k++)
				for (int done = 0; !done;) MPI_Test(&r[k], &done, MPI_STATUS_IGNORE);
		}
		if (i >= 0) ms[i] = 1e3 * (MPI_Wtime() - start);
	}
	qsort(ms, rounds, sizeof *ms, later);
	if (rank == 0) printf("%.4f\n", ms[0]);
	MPI_Finalize();
}
