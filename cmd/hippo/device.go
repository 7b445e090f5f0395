package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
)

// deviceHelp is the help text of --device.
const deviceHelp = "where to compute: cpu, gpu for the best graphics card, gpu:1 for that with the number 1 of hippo " +
	"bench devices, auto for what a measurement finds faster"

// deviceFlag adds the flag --device to a command that computes with a model.
func deviceFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "device", onCPU, deviceHelp)
	completeFlag(cmd, "device",
		cobra.FixedCompletions([]string{onCPU, "gpu", "gpu:1", auto}, cobra.ShellCompDirectiveNoFileComp))
}

// onCPU is the value of --device for the processor.
const onCPU = "cpu"

// device opens the device that --device names. It returns nil for the processor. It adds the backend to failed, whose
// errors are read when the command ends.
func device(name string) (engine.Backend, error) {
	if isCPU(name) {
		return nil, nil
	}
	b, err := openNamed(name)
	if err != nil {
		return nil, err
	}
	failed = append(failed, b)
	return b, nil
}

// isCPU reports whether --device names the processor.
func isCPU(name string) bool { return name == onCPU || name == "" }

// openNamed opens the graphics card that --device names.
func openNamed(name string) (failing, error) {
	number := -1
	kind, which, chosen := strings.Cut(name, ":")
	if chosen {
		n, err := strconv.Atoi(which)
		if err != nil || n < 0 {
			kind = "" // invalid
		}
		number = n
	}
	if kind != "gpu" {
		return nil, fmt.Errorf("device: found %q, want cpu, gpu, or gpu: with a number of hippo bench devices", name)
	}
	return openDevice(number)
}

// auto is the value of --device that chooses the faster of the processor and the best card.
const auto = "auto"

// deviceOrAuto is like device, but name may also be auto. It then opens the best card, and returns nil if there is
// none.
func deviceOrAuto(name string) (engine.Backend, error) {
	if name != auto {
		return device(name)
	}
	b, err := device("gpu")
	if _, other := exitStatus(err); err != nil && !other {
		noteDevice(fmt.Sprintf("%s: %v", model.OnProcessor, err))
		return nil, nil
	}
	return b, err
}

// onDevice returns the option that loads a model as --device says.
func onDevice(name string) (hippo.LoadOption, error) {
	b, err := deviceOrAuto(name)
	if name == auto {
		return hippo.OnFaster(b, noteDevice), err
	}
	return hippo.On(b), err
}

// noteDevice prints which device was chosen. If that is the processor, failures of other devices no longer matter.
func noteDevice(told string) {
	if note("device: " + told); strings.Contains(told, model.OnProcessor) {
		failed = nil
	}
}

// failing is a backend whose device may fail.
type failing interface {
	engine.Backend
	Err() error
	Room() int64 // free memory in bytes
}

// failed holds the backends in use, which may have failed.
var failed []failing

// deviceError returns the failure of a device in place of err if there is one, as it is the cause of err. Otherwise it
// returns err.
func deviceError(err error) error {
	for _, b := range failed {
		if cause := b.Err(); cause != nil && !errors.Is(err, cause) {
			return cause
		}
	}
	return err
}

// statusError reports that another program, which has printed its own errors, ended with this status. It ends this
// program with the same status.
type statusError int

func (s statusError) Error() string { return "status " + strconv.Itoa(int(s)) }

// exitStatus returns the status of the statusError in err, if there is one.
func exitStatus(err error) (status int, ok bool) {
	var s statusError
	ok = errors.As(err, &s)
	return int(s), ok
}

// printDevices runs hippo bench devices.
func printDevices(cmd *cobra.Command) error {
	list, lines := devices()
	return show(cmd, list, func(out io.Writer) error {
		_, err := io.WriteString(out, strings.Join(lines, "\n")+"\n")
		return err
	})
}
