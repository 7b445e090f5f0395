//go:build !(mpi && linux)

package cluster

import "errors"

// HasMPI says whether this program can exchange by MPI.
const HasMPI = false

// StartMPI is an error in a program that is built without MPI.
func StartMPI(Launch, string, Greeting) (*MPI, error) {
	return nil, errors.New("found hippo without MPI, want hippo-mpi: on Linux, go build -tags mpi -o hippo-mpi " +
		"./cmd/hippo")
}
