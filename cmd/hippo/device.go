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

// deviceHelp is the help of --device.
const deviceHelp = "where to compute: cpu, gpu for the best graphics card, gpu:1 for that with the number 1 of hippo " +
	"bench devices, auto for what a measurement finds faster"

// deviceFlag is --device of a command that computes with a model.
func deviceFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "device", onCPU, deviceHelp)
	completeFlag(cmd, "device",
		cobra.FixedCompletions([]string{onCPU, "gpu", "gpu:1", auto}, cobra.ShellCompDirectiveNoFileComp))
}

// onCPU is the device that needs nothing.
const onCPU = "cpu"

// device opens what --device names: nil for the processor. failed is asked when the command ends.
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
			kind = "" // none
		}
		number = n
	}
	if kind != "gpu" {
		return nil, fmt.Errorf("device: found %q, want cpu, gpu, or gpu: with a number of hippo bench devices", name)
	}
	return openDevice(number)
}

// auto has what is faster chosen.
const auto = "auto"

// deviceOrAuto is device where name may be auto: the best card, if there is one.
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

// onDevice is the option of loading a model that --device asks for.
func onDevice(name string) (hippo.LoadOption, error) {
	b, err := deviceOrAuto(name)
	if name == auto {
		return hippo.OnFaster(b, noteDevice), err
	}
	return hippo.On(b), err
}

// noteDevice tells what was chosen. A device that is not used may have failed.
func noteDevice(told string) {
	if note("device: " + told); strings.Contains(told, model.OnProcessor) {
		failed = nil
	}
}

// failing is a backend whose device may fail.
type failing interface {
	engine.Backend
	Err() error
	Room() int64 // bytes of memory that are left
}

// failed are the backends in use.
var failed []failing

// deviceError is the failure of a device, which explains err and all else that went wrong, or err.
func deviceError(err error) error {
	for _, b := range failed {
		if cause := b.Err(); cause != nil && !errors.Is(err, cause) {
			return cause
		}
	}
	return err
}

// statusError ends the program with the status of another that has told its errors.
type statusError int

func (s statusError) Error() string { return "status " + strconv.Itoa(int(s)) }

// exitStatus is the status in err, if it has one.
func exitStatus(err error) (status int, ok bool) {
	var s statusError
	ok = errors.As(err, &s)
	return int(s), ok
}

// printDevices is hippo bench devices.
func printDevices(cmd *cobra.Command) error {
	list, lines := devices()
	return show(cmd, list, func(out io.Writer) error {
		_, err := io.WriteString(out, strings.Join(lines, "\n")+"\n")
		return err
	})
}
