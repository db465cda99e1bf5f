package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "cellproxy",
		Short: "Rate limiting for any Redis, over the Redis protocol",
		Long: `cellproxy stands between Redis clients and a Redis or Valkey that loads no
modules. It answers CL.THROTTLE and other rate limiters with atomic scripts in
that Redis and passes every other command through.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newServe(), newReload(), newDoctor(), newBench(), newTop(), newVersion())
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return root
}

// noArgs is for commands that take flags only.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown argument %q for %q", args[0], cmd.CommandPath())}
	}
	return nil
}

// environment sets the flags that were not given from CELLPROXY_* variables:
// CELLPROXY_DIAL_TIMEOUT for --dial-timeout.
func environment(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := variable(f.Name)
		value, ok := os.LookupEnv(name)
		if !ok || f.Changed || f.Name == "help" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, usageError{fmt.Errorf("invalid %s: %w", name, err)})
		}
	})
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// variable is the environment variable of a flag.
func variable(flag string) string {
	return "CELLPROXY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// errNotPositive is for durations and sizes that must be more than nothing.
var errNotPositive = errors.New("must be more than 0")
