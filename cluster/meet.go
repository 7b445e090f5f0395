package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Meeting is what members need to join a leader: its addresses and the key. A leader writes it to a folder that its
// members share.
type Meeting struct {
	Addresses []string `json:"addresses"`
	Key       string   `json:"key"`
	Given     bool     `json:"-"` // the user gave the key: if it is wrong, it stays wrong
}

// meetingFile returns the path of the file for a launch in a folder.
func meetingFile(dir, job string) string {
	job = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, job)
	return filepath.Join(dir, strings.TrimSuffix(".meet-"+job, "-"))
}

// Invite writes the file by which members find a leader. Only the owner can read it. remove removes the file, and the
// folder if it is then empty.
func Invite(dir, job string, m Meeting) (remove func() error, err error) {
	path := meetingFile(dir, job)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	// The file gets its mode before it gets its content.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	} else if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return nil, err
	}
	remove = func() error {
		err := os.Remove(path)
		_ = os.Remove(dir) // unless it has other files
		return err
	}
	return remove, os.WriteFile(path, asJSON(m), 0o600)
}

// Find reads where the leader of a launch is, and its key.
func Find(dir, job string) (m Meeting, err error) {
	err = disk.ReadJSON(meetingFile(dir, job), &m)
	if err == nil && (len(m.Addresses) == 0 || len(m.Key) < leastKey) {
		err = fmt.Errorf("%s: found %d addresses and a key of %d characters, want one and %d", meetingFile(dir, job),
			len(m.Addresses), len(m.Key), leastKey)
	}
	return m, err
}

// Addresses returns the addresses by which others may reach a listener, beginning with the name of the machine.
func Addresses(l net.Addr) []string {
	_, port, err := net.SplitHostPort(l.String())
	if err != nil {
		return nil
	}
	var hosts []string
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	nets, _ := net.InterfaceAddrs() // without them, the name is left
	for _, a := range nets {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
			hosts = append(hosts, ip.IP.String())
		}
	}
	for i, h := range hosts {
		hosts[i] = net.JoinHostPort(h, port)
	}
	return slices.Compact(hosts)
}

// Patiently tries to join a leader until it succeeds or wait is over, as the leader may start later or again. It calls
// where before every try to find the leader. It stops at once if the user gave the key and the key is wrong.
func Patiently(ctx context.Context, wait time.Duration, where func() (Meeting, error), g Greeting) (*TCP, error) {
	late := time.Now().Add(wait)
	for {
		m, err := where()
		if err == nil {
			var t *TCP
			if t, err = Dial(ctx, m.Addresses, m.Key, g); err == nil {
				return t, nil
			}
		}
		final := errors.Is(err, ErrKey) && m.Given
		if ctx.Err() != nil || final || time.Now().After(late) {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("found no leader: %w", err)
			}
			return nil, errors.Join(ctx.Err(), err)
		}
		select {
		case <-time.After(min(time.Second, wait/10+time.Millisecond)):
		case <-ctx.Done():
		}
	}
}
