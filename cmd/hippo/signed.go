package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/session"
)

// ownSigner returns a signer with the key of the user.
func ownSigner() (*session.Signer, error) {
	path, err := session.DefaultKey()
	return session.NewSigner(path), err
}

// trustFlag is the flag --trust: keys whose signatures are accepted, besides the user's own.
type trustFlag []string

func (f *trustFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar((*[]string)(f), "trust", nil,
		"keys whose signatures are accepted, besides your own, as hippo session signer prints them")
}

// keys returns the trusted keys, the user's own first.
func (f trustFlag) keys() (session.Trust, error) {
	trust, err := session.ParseTrust(f)
	if err != nil {
		return nil, err
	}
	own, err := ownSigner()
	if err != nil {
		return nil, err
	}
	key, err := own.Public()
	return append(session.Trust{key}, trust...), err
}

// check returns an error unless a key is trusted. The error names the flag that makes it trusted.
func (f trustFlag) check(by session.PublicKey) error {
	keys, err := f.keys()
	if err == nil {
		err = keys.Check(by)
	}
	if errors.Is(err, session.ErrUntrusted) {
		return fmt.Errorf("%w; --trust %s accepts it", err, by)
	}
	return err
}

func newSessionImport() *cobra.Command {
	var trust trustFlag
	cmd := sessionCommand("import FILE NAME", "Copy a file to a session", 2,
		func(_ *cobra.Command, f session.Folder, key []byte, args []string) error {
			return f.Import(args[1], args[0], key, trust.check)
		})
	cmd.Long = `Copy a file to a session, after checking all of it. If it is signed by another key than your own,
--trust has to name that key. A file that is not signed is taken as your own.`
	trust.register(cmd)
	return cmd
}

// verified is the result of hippo session verify.
type verified struct {
	session.Info
	Hash    string `json:"hash"`
	Signer  string `json:"signer"` // "" if the session is not signed
	Trusted bool   `json:"trusted"`
}

func newSessionVerify() *cobra.Command {
	var trust trustFlag
	cmd := sessionCommand("verify FILE", "Check a file of a session, and say who signed it", 1,
		func(cmd *cobra.Command, _ session.Folder, key []byte, args []string) error {
			keys, err := trust.keys()
			if err != nil {
				return err
			}
			x, err := session.Check(args[0], key)
			if err != nil {
				return err
			}
			v := verified{Info: x.Info, Hash: x.Hash, Trusted: keys.Check(x.Signer) == nil}
			if x.Signer != (session.PublicKey{}) {
				v.Signer = x.Signer.String()
			}
			err = show(cmd, v, func(out io.Writer) error { return printVerified(out, v, x.Signer == keys[0]) })
			if err != nil {
				return err
			}
			return trust.check(x.Signer)
		})
	cmd.Long = `Check the file of a session: every bit, its content hash and its signature. docs/state-format.md
describes them. The exit status is 1 unless your own key or one of --trust has signed the file.`
	trust.register(cmd)
	jsonFlag(cmd, oneObject)
	return cmd
}

func printVerified(out io.Writer, v verified, own bool) error {
	t := status.NewTable(out)
	t.Row("hash", "%s", v.Hash)
	switch {
	case own:
		t.Row("signed", "by %s, your own key", v.Signer)
	case v.Trusted:
		t.Row("signed", "by %s, which you trust", v.Signer)
	case v.Signer != "":
		t.Row("signed", "by %s, a key that you do not trust", v.Signer)
	default:
		t.Row("signed", "by nobody")
	}
	t.Row("text", "%d tokens, %d of them written, sha256 %s", v.Position, v.Drawn, v.Text)
	t.Row("model", "%s, %s, tokenizer %s", v.Identity.Model, v.Identity.Precision, v.Identity.Tokenizer)
	return t.Flush()
}

func newSessionSigner() *cobra.Command {
	return &cobra.Command{
		Use:   "signer",
		Short: "Print the public key of what you sign",
		Long: `Print the public key with which others check what you sign: sessions that you export, and those and
receipts of your servers. The private key is in the file that ` + session.KeyVariable + ` names, by default
hippo/signing.key in your folder of data. The first use creates it.`,
		Example: "  hippo session signer",
		Args:    wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			own, err := ownSigner()
			if err != nil {
				return err
			}
			key, err := own.Public()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), key)
			return err
		},
	}
}
