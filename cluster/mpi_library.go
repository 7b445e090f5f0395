//go:build mpi && linux

package cluster

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// HasMPI reports whether this program can exchange by MPI: it is built with -tags mpi.
const HasMPI = true

// library holds the functions and handles of an MPI library, as C programs use them. Functions have the names of the
// standard, and handles have the values of the library.
type library struct {
	initCall, rankCall, sizeCall, isendCall, irecvCall, testCall, finalizeCall, abortCall uintptr

	world, bytes, ignore uintptr // MPI_COMM_WORLD, MPI_BYTE, MPI_STATUS_IGNORE

	flag int32 // result of test
}

// Handles from mpi.h of the ABI that MPICH, Intel MPI, MVAPICH and Cray MPICH share (https://www.mpich.org/abi/).
const (
	mpichWorld  = 0x44000000
	mpichByte   = 0x4c00010d
	mpichIgnore = 1
)

// funneled is MPI_THREAD_FUNNELED: one thread makes all calls.
const funneled = 1

// mpiTag is the tag of all messages.
const mpiTag = 77

// libraries lists the file names of Open MPI 4 and 5, and of the MPICH ABI. Debian and Cray have names of their own.
var libraries = map[string][]string{
	OpenMPI: {"libmpi.so.40", "libmpi.so"},
	MPICH:   {"libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12", "libmpi_gnu.so.12", "libmpi.so"},
}

// StartMPI starts MPI in a process of a launch and greets the leader. MPI must give the rank and the number of
// processes that the launcher gives. file is the MPI library, or "" for the launcher's.
func StartMPI(l Launch, file string, g Greeting) (*MPI, error) {
	return newMPI(func() (mpiCalls, int, int, error) {
		lib, name, err := openLibrary(file, l.MPI)
		if err != nil {
			return nil, 0, 0, err
		}
		rank, size, err := lib.start()
		if err == nil && (rank != l.Rank || size != l.Size) {
			err = fmt.Errorf("%s: found process %d of %d, want %d of %d as %s says: it is not the launcher's "+
				"library, which --mpi names", name, rank, size, l.Rank, l.Size, l.By)
		}
		return lib, rank, size, err
	}, g)
}

// openLibrary loads an MPI library and finds out which handles it uses.
func openLibrary(file, kind string) (lib *library, name string, err error) {
	names := libraries[kind]
	if file != "" {
		names = []string{file}
	}
	var handle uintptr
	var missing []error
	for _, name = range names {
		// The parts of Open MPI that are loaded later look up symbols of this one.
		if handle, err = purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL); err == nil {
			break
		}
		missing = append(missing, err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("found no library of MPI, want that of the launcher: --mpi FILE: %w",
			errors.Join(missing...))
	}
	lib = &library{}
	for _, call := range []struct {
		symbol string
		into   *uintptr
	}{{"MPI_Init_thread", &lib.initCall}, {"MPI_Comm_rank", &lib.rankCall}, {"MPI_Comm_size", &lib.sizeCall},
		{"MPI_Isend", &lib.isendCall}, {"MPI_Irecv", &lib.irecvCall}, {"MPI_Test", &lib.testCall},
		{"MPI_Finalize", &lib.finalizeCall}, {"MPI_Abort", &lib.abortCall}} {
		if *call.into, err = purego.Dlsym(handle, call.symbol); err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
	}
	if lib.world, err = purego.Dlsym(handle, "ompi_mpi_comm_world"); err == nil { // a variable
		lib.bytes, err = purego.Dlsym(handle, "ompi_mpi_byte")
		return lib, name, errors.Join(err, atOnce(handle))
	}
	what, err := version(handle)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	lib.world, lib.bytes, lib.ignore = mpichWorld, mpichByte, mpichIgnore // integers
	for _, known := range []string{"MPICH", "Intel(R) MPI", "MVAPICH"} {
		if strings.Contains(what, known) && !strings.Contains(name, "mpi_abi") {
			return lib, name, nil
		}
	}
	return nil, "", fmt.Errorf("%s: found %.60q, want Open MPI 4 or 5, or the MPICH ABI", name, what)
}

// atOnce makes Open MPI send a packet over TCP without asking the receiver first, unless the user has set the size from
// which it asks. The request and its answer would wait behind the packets of both directions, which halves the rate.
// Packets need no request, as receives are always posted. The function sets C's environment variables, as Open MPI does
// not see those of Go.
func atOnce(handle uintptr) error {
	setenv, err := purego.Dlsym(handle, "setenv")
	if err == nil {
		name, value := []byte("OMPI_MCA_btl_tcp_eager_limit\x00"), fmt.Appendf(nil, "%d\x00", 2*packetSize)
		purego.SyscallN(setenv, uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&value[0])), 0)
	}
	return err
}

// version returns the version text of a library.
func version(handle uintptr) (string, error) {
	ask, err := purego.Dlsym(handle, "MPI_Get_library_version")
	if err != nil {
		return "", err
	}
	text := make([]byte, 8192) // the largest MPI_MAX_LIBRARY_VERSION_STRING
	n := new(int32)
	r, _, _ := purego.SyscallN(ask, uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(n)))
	return string(text[:max(0, min(int(*n), len(text)))]), failed("MPI_Get_library_version", r)
}

// failed returns the error of a call, or nil if its result is 0.
func failed(call string, result uintptr) error {
	if code := int32(result); code != 0 {
		return fmt.Errorf("%s: error %d", call, code)
	}
	return nil
}

// start starts MPI for calls of this thread, and returns the rank and the number of processes.
func (l *library) start() (rank, size int, err error) {
	n := new([3]int32)
	r, _, _ := purego.SyscallN(l.initCall, 0, 0, funneled, uintptr(unsafe.Pointer(&n[0])))
	if err := failed("MPI_Init_thread", r); err != nil {
		return 0, 0, err
	}
	r, _, _ = purego.SyscallN(l.rankCall, l.world, uintptr(unsafe.Pointer(&n[1])))
	if err := failed("MPI_Comm_rank", r); err != nil {
		return 0, 0, err
	}
	r, _, _ = purego.SyscallN(l.sizeCall, l.world, uintptr(unsafe.Pointer(&n[2])))
	if err := failed("MPI_Comm_size", r); err != nil {
		return 0, 0, err
	}
	if n[0] < funneled {
		return 0, 0, fmt.Errorf("MPI_Init_thread: found level %d of threads, want %d: one thread makes all calls", n[0],
			funneled)
	}
	return int(n[1]), int(n[2]), nil
}

func (l *library) isend(b []byte, to int) (*mpiRequest, error) {
	return l.post("MPI_Isend", l.isendCall, b, to)
}

func (l *library) irecv(b []byte, from int) (*mpiRequest, error) {
	return l.post("MPI_Irecv", l.irecvCall, b, from)
}

// kept is the library's data for a request.
type kept struct {
	handle uint64 // large enough for every library
	pin    runtime.Pinner
}

// post calls MPI_Isend or MPI_Irecv: (buffer, count, type, rank, tag, communicator, request).
func (l *library) post(name string, call uintptr, b []byte, rank int) (*mpiRequest, error) {
	k := &kept{}
	k.pin.Pin(&b[0])
	code, _, _ := purego.SyscallN(call, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), l.bytes, uintptr(rank), mpiTag,
		l.world, uintptr(unsafe.Pointer(&k.handle)))
	return &mpiRequest{b, k}, failed(name, code)
}

func (l *library) test(r *mpiRequest) (bool, error) {
	k := r.kept.(*kept)
	code, _, _ := purego.SyscallN(l.testCall, uintptr(unsafe.Pointer(&k.handle)), uintptr(unsafe.Pointer(&l.flag)),
		l.ignore)
	if l.flag == 0 {
		return false, failed("MPI_Test", code)
	}
	k.pin.Unpin()
	return true, failed("MPI_Test", code)
}

func (l *library) finalize() error {
	code, _, _ := purego.SyscallN(l.finalizeCall)
	return failed("MPI_Finalize", code)
}

func (l *library) abort(status int) { purego.SyscallN(l.abortCall, l.world, uintptr(status)) }
