package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

// joinVariable is the environment variable of the join key, for commands without --key. It is also the variable of
// hippo join --key.
const joinVariable = "HIPPO_JOIN_KEY"

// machines holds the flags of a run on several machines.
type machines struct {
	listen, key, meet string
	members           int
	wait              time.Duration
	wire, library     string
	bits              string
}

// The values of --wire.
const (
	anyWire = "auto"
	byTCP   = "tcp"
	byMPI   = "mpi"
)

// The values of --bits.
const (
	sameBits = "same"
	anyBits  = "any"
)

// waitDefault is the default time that machines wait for each other.
const waitDefault = 2 * time.Minute

func (m *machines) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.listen, "listen", "", "address at which other machines join, by hippo join; such as :7700")
	f.StringVar(&m.bits, "bits", sameBits, "same: refuse machines that round differently; any: take them, for weights "+
		"that agree up to rounding")
	m.registerLaunch(cmd)
}

// registerLaunch registers the flags for processes of a launch.
func (m *machines) registerLaunch(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.key, "key", "", "join key; empty: "+joinVariable+", or a random one")
	f.StringVar(&m.meet, "meet", "", "HOST:PORT of the first process; empty: what the launcher says, or a file")
	f.IntVar(&m.members, "members", 0, "number of processes, if the launcher's variables do not say it")
	f.DurationVar(&m.wait, "wait", waitDefault, "how long machines wait for each other, and for a leader that is gone")
	f.StringVar(&m.wire, "wire", anyWire, "what processes of a launcher exchange by: tcp; mpi, with hippo-mpi; "+
		"auto: mpi where there is both")
	f.StringVar(&m.library, "mpi", "", "file of the MPI library; empty: that of the launcher")
}

// launched returns the launch that this process belongs to, according to its launcher. By is "" if there is no
// launcher.
func (m *machines) launched() (cluster.Launch, error) {
	l, err := cluster.Launched(os.Getenv, m.members)
	if err != nil {
		return l, err
	}
	if l.By == "" && (m.meet != "" || m.members > 0) {
		return l, errors.New("found --meet or --members, and no launcher's variable: set RANK, or use --listen and " +
			"hippo join")
	}
	if m.meet != "" {
		if _, _, err := net.SplitHostPort(m.meet); err != nil {
			return l, fmt.Errorf("meet: %w", err)
		}
		l.Meet = m.meet
	}
	switch {
	case l.By != "" && m.listen != "" && l.Size > 1:
		return l, fmt.Errorf("found --listen under a launcher (%s), want one of them", l.By)
	case m.bits != sameBits && m.bits != anyBits:
		return l, fmt.Errorf("bits: found %q, want %s or %s", m.bits, sameBits, anyBits)
	case m.wire != anyWire && m.wire != byTCP && m.wire != byMPI:
		return l, fmt.Errorf("wire: found %q, want %s, %s or %s", m.wire, anyWire, byTCP, byMPI)
	case m.wire == byMPI && l.MPI == "":
		return l, fmt.Errorf("wire: found %s, and no launcher of MPI, want mpirun or srun --mpi", m.wire)
	case m.wire == anyWire:
		m.wire = byTCP
		if cluster.HasMPI && l.MPI != "" {
			m.wire = byMPI
		}
	}
	return l, nil
}

// abort ends the other MPI processes, which would wait for this one forever. main calls it last.
var abort = func(int) {}

// startMPI starts the wire of an MPI process and sets abort.
func (m *machines) startMPI(l cluster.Launch, g cluster.Greeting) (*cluster.MPI, error) {
	wire, err := cluster.StartMPI(l, m.library, g)
	if err == nil {
		abort = wire.Abort
	}
	return wire, err
}

// joinKey returns the key that the user gives, or "".
func (m *machines) joinKey() string { return cmp.Or(m.key, os.Getenv(joinVariable)) }

// meetingFolder returns the folder in which the processes of a launch find each other without a key.
func meetingFolder(c *text.Config) string { return cmp.Or(c.Out, "runs") }

// open starts the wire of a leader. tcp is nil with MPI.
func (m *machines) open(l cluster.Launch, own cluster.Greeting) (wire cluster.Wire, tcp *cluster.TCP, err error) {
	if m.wire == byMPI {
		wire, err = m.startMPI(l, own)
		return wire, nil, err
	}
	key, address := m.joinKey(), m.listen
	if _, port, err := net.SplitHostPort(l.Meet); err == nil && key != "" && address == "" {
		address = ":" + port
	}
	tcp, err = cluster.Listen(cmp.Or(address, ":0"), cmp.Or(key, cluster.NewKey()))
	return tcp, tcp, err
}

// gather waits for the other processes of a launch. With TCP and without a key they find the leader by a file in
// folder, which remove deletes.
func (m *machines) gather(ctx context.Context, l cluster.Launch, folder string, team *cluster.Team,
	tcp *cluster.TCP) (others []cluster.Greeting, remove func() error, err error) {
	remove = func() error { return nil }
	if tcp != nil && m.joinKey() == "" {
		at := cluster.Meeting{Addresses: cluster.Addresses(tcp.Address()), Key: tcp.Key()}
		if remove, err = cluster.Invite(folder, l.Job, at); err != nil {
			return nil, func() error { return nil }, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, m.wait)
	defer cancel()
	if others, err = team.Gather(limited, l.Size-1); err != nil {
		err = fmt.Errorf("waiting for the processes of %s: %w", l.By, err)
	}
	return others, remove, err
}

// enoughParts returns an error unless there is a part of the work for each process of a launch.
func enoughParts(l cluster.Launch, c *text.Config) error {
	if parts, setting := c.Train.Parts(); l.Size > parts {
		return fmt.Errorf("%s: found %d for %d processes (%s), want at least as many", setting, parts, l.Size, l.By)
	}
	return nil
}

// lead starts the leader of a run and, under a launcher, waits for all other processes. said holds the settings as
// every machine reads them. end tells the others how the run ended. c.Team stays nil if no machine can join.
func (m *machines) lead(ctx context.Context, l cluster.Launch, c *text.Config,
	said text.Config) (end func(error) error, err error) {
	end = func(err error) error { return err }
	if m.listen == "" && l.Size < 2 {
		return end, nil
	}
	if err := enoughParts(l, c); err != nil {
		return end, err
	}
	if m.listen != "" && c.Train.CarryState {
		return end, errors.New("train.carry_state: found true with --listen, want a launcher that starts all " +
			"machines: the states stay with them, and are lost with each that leaves")
	}
	if err := c.Shareable(); err != nil {
		return end, err
	}
	own, err := text.Greeting(nil, 0, c.Device)
	if err != nil {
		return end, err
	}
	wire, tcp, err := m.open(l, own)
	if err != nil {
		return end, err
	}
	if c.AnyBits, said.AnyBits = m.bits == anyBits, m.bits == anyBits; c.AnyBits {
		fmt.Fprintln(os.Stderr, "bits any: machines may round differently; the weights agree with those of other runs "+
			"up to rounding, not to the bit")
	}
	check := said.Admits(own)
	team := cluster.NewLeader(wire, own.Name, cluster.Host{Check: check}, time.Now)
	end = func(err error) error {
		why := cluster.Finished
		switch {
		case errors.Is(err, errInterrupted), errors.Is(err, errRequeue):
			why = cluster.Interrupted
		case err != nil:
			why = fmt.Sprintf("the leader, %s, has ended the run: %v", own.Name, err)
		}
		return errors.Join(err, team.End(why))
	}
	if m.listen != "" {
		at := tcp.Address().String()
		all := cluster.Addresses(tcp.Address())
		if host, _, err := net.SplitHostPort(m.listen); err == nil && host == "" && len(all) > 0 {
			at = all[0]
		}
		fmt.Fprintf(os.Stderr, "others join by: hippo join %s --key %s\n", at, tcp.Key())
		c.Team = team
		return end, nil
	}
	others, remove, err := m.gather(ctx, l, meetingFolder(c), team, tcp)
	told := end
	end = func(err error) error { return errors.Join(told(err), remove()) }
	if err != nil {
		return end, end(err)
	}
	level := "their own devices and features"
	if !c.AnyBits {
		if level, err = text.SharedLevel(others); err != nil {
			return end, end(err)
		}
	}
	names := []string{text.Named(own)}
	for _, g := range others {
		if err := check(g); err != nil {
			return end, end(fmt.Errorf("%s (process %d): %w", g.Name, g.Rank, err))
		}
		names = append(names, text.Named(g))
	}
	if level = "; all compute at " + level; own.Device != "" && !c.AnyBits {
		level = ""
	}
	if tcp == nil {
		level += ", exchange by MPI"
	}
	fmt.Fprintf(os.Stderr, "%d machines: %s%s\n", l.Size, strings.Join(names, ", "), level)
	c.Team = team
	return end, nil
}

// joining is a function that joins the leader of a run.
type joining func(context.Context, cluster.Greeting) (cluster.Wire, error)

// follow takes part in a leader's run until the run ends. It computes on the engine on; nil stands for the processor's.
// said holds the settings of a process of a launch. It is nil for hippo join.
func (m *machines) follow(cmd *cobra.Command, join joining, said *text.Config, rank int, on engine.Backend) error {
	ctx := cmd.Context()
	g, err := text.Greeting(said, rank, on)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // sent for broken connections
	p := status.New(os.Stderr, 10*time.Second)
	defer p.Close()
	working := ctx
	if said != nil { // a launcher signals all its processes, and ends the others when one has exited
		var cancel context.CancelFunc
		working, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, func() {
			p.Printf("%v: waiting %s for the leader to end the run\n", context.Cause(ctx), m.wait)
			time.AfterFunc(m.wait, cancel)
		})()
	}
	for waited := false; ; waited = true {
		wire, err := join(ctx, g)
		if err != nil && waited && ctx.Err() == nil {
			return fmt.Errorf("waiting for the leader: %w", err)
		}
		if err == nil {
			err = text.Follow(working, wire, on, following(p, g.Name))
		}
		var ended *cluster.EndedError
		interrupted := errors.As(err, &ended) && ended.Why == cluster.Interrupted
		switch {
		case err != nil && ctx.Err() != nil:
			return stopped(ctx, true)
		case interrupted && said != nil: // the launcher starts all processes again
			return errRequeue
		case m.wire != byMPI && errors.Is(err, cluster.ErrLeaderGone), interrupted:
			if interrupted {
				err = errors.New("the leader was interrupted")
			}
			p.Printf("%v; waiting %s for it\n", err, m.wait)
			g.Settings = "" // a run that continues has the leader's settings
		default:
			return err
		}
	}
}

// following returns events that print the progress of a machine that follows a leader.
func following(p *status.Printer, name string) train.Events {
	return train.Events{
		Note: noteTo(p),
		Start: func(s train.Start) {
			p.Printf("%s takes part: %s parameters, from step %d\n", name, status.Count(s.Params), s.Resumed+1)
		},
		Step: printing(p).Step,
	}
}

// at returns a function that joins a leader over TCP. where returns its addresses and key.
func (m *machines) at(where func() (cluster.Meeting, error)) joining {
	return func(ctx context.Context, g cluster.Greeting) (cluster.Wire, error) {
		wire, err := cluster.Patiently(ctx, m.wait, where, g)
		if err != nil {
			return nil, err
		}
		return wire, nil
	}
}

// joins returns a function that joins the leader of a launch.
func (m *machines) joins(l cluster.Launch, folder string) joining {
	if m.wire == byMPI {
		return func(_ context.Context, g cluster.Greeting) (cluster.Wire, error) { return m.startMPI(l, g) }
	}
	key := m.joinKey()
	return m.at(func() (cluster.Meeting, error) {
		if key == "" {
			return cluster.Find(folder, l.Job)
		}
		if l.Meet == "" {
			return cluster.Meeting{}, fmt.Errorf("found %s=%d, a key and no meeting place, want --meet HOST:PORT or "+
				"MASTER_ADDR", l.By, l.Rank)
		}
		return cluster.Meeting{Addresses: []string{l.Meet}, Key: key, Given: true}, nil
	})
}

func newJoin() *cobra.Command {
	m, name := machines{}, ""
	cmd := &cobra.Command{
		Use:   "join HOST:PORT",
		Short: "Take part in a training run of another machine",
		Long: `Take part in a training run that another machine has started by hippo train --listen. That machine prints
the address and the key. This one needs neither data nor settings: it gets the weights, the moments of the optimizer and
the tokens of its shards, and computes shards of each update until the run ends. The weights are those of one machine
alone, bit for bit; so it computes on a device of the same kind as the other. Ctrl-C leaves after the update or, of
islands, the round; a second one leaves at once. If the other machine is gone, this one waits for it, for --wait.`,
		Example: `  hippo join n1:7700 --key 7rk2-m9fx
  hippo join n1:7700 --key 7rk2-m9fx --device gpu:1
  HIPPO_JOIN_KEY=7rk2-m9fx hippo join n1:7700 --wait 1h`,
		Args: wantArgs(1, 1),
	}
	cmd.Flags().StringVar(&m.key, "key", "", "join key that the other machine has printed")
	cmd.Flags().DurationVar(&m.wait, "wait", waitDefault, "how long to wait for the other machine")
	cmd.Flags().StringVar(&name, "device", onCPU, "where to compute: cpu, gpu, or gpu:1 of hippo bench devices")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, _, err := net.SplitHostPort(args[0]); err != nil {
			return fmt.Errorf("found the address %s, want HOST:PORT: %w", config.Quote(args[0]), err)
		}
		if m.key == "" {
			return errors.New("key: found none, want the one that hippo train --listen has printed")
		}
		on, err := device(name)
		if err != nil {
			return err
		}
		at := cluster.Meeting{Addresses: []string{args[0]}, Key: m.key, Given: true}
		return m.follow(cmd, m.at(func() (cluster.Meeting, error) { return at, nil }), nil, 0, on)
	}
	return cmd
}

// stopped returns the error of a run that a signal has ended. For SIGUSR1, and for SIGTERM on several machines, it is
// errRequeue, which asks a batch system to start the run again.
func stopped(ctx context.Context, several bool) error {
	var s signalError
	if errors.As(context.Cause(ctx), &s) && (s.Signal == userSignal || several && s.Signal == syscall.SIGTERM) {
		return errRequeue
	}
	return errInterrupted
}
