//go:build !(mpi && linux)

package cluster

import "errors"

// HasMPI reports whether this program can exchange by MPI.
const HasMPI = false

// StartMPI returns an error, as this program is built without MPI.
func StartMPI(Launch, string, Greeting) (*MPI, error) {
	return nil, errors.New("found hippo without MPI, want hippo-mpi: on Linux, go build -tags mpi -o hippo-mpi " +
		"./cmd/hippo")
}
