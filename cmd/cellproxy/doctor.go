package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cellproxy/backend"
	"cellproxy/backend/doctor"
)

var (
	errNoUpstream = errors.New("--upstream is missing: the Redis to examine")
	errUnfit      = errors.New("cellproxy can't serve from this upstream as it is: see FAIL")
)

// doctorConfig is what the flags of doctor say.
type doctorConfig struct {
	upstream        string
	dialTimeout     time.Duration
	upstreamTimeout time.Duration
	keyPrefix       string
	samples         int
}

func newDoctor() *cobra.Command {
	var config doctorConfig
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine an upstream, and say what to put right",
		Long: `Doctor connects to an upstream as serve would, and prints a line for each thing
it looks at: ok, ? (the upstream does not tell), warn (works, until something
happens) or FAIL (does not work), and what to do about it. It writes one key, and
deletes it. It exits with 0 if nothing fails, else with 1.`,
		Example: `  cellproxy doctor --upstream redis://127.0.0.1:6379
  cellproxy doctor --upstream rediss://user:password@redis.example:6379/2 --key-prefix app:`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := environment(cmd.Flags()); err != nil {
				return err
			}
			if err := config.validate(); err != nil {
				return usageError{err}
			}
			return examine(cmd.Context(), config, cmd.OutOrStdout())
		},
	}
	config.addFlags(cmd.Flags())
	return cmd
}

func (c *doctorConfig) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&c.upstream, "upstream", "", "the Redis to examine: redis://, rediss:// or unix:// URL, redis+cluster://host:port,host:port, or redis+sentinel://host:port,host:port/name")
	flags.DurationVar(&c.dialTimeout, "dial-timeout", backend.DefaultDialTimeout, "how long connecting may take")
	flags.DurationVar(&c.upstreamTimeout, "upstream-timeout", backend.DefaultTimeout, "what serve is given: latency is judged by it")
	flags.StringVar(&c.keyPrefix, "key-prefix", doctor.DefaultKeyPrefix, "how the key begins that is written and deleted: the user must be permitted to")
	flags.IntVar(&c.samples, "samples", doctor.DefaultSamples, "how many round trips to measure latency by")
}

func (c *doctorConfig) validate() error {
	if c.upstream == "" {
		return errNoUpstream
	}
	for name, n := range map[string]int64{
		"dial-timeout": int64(c.dialTimeout), "upstream-timeout": int64(c.upstreamTimeout), "samples": int64(c.samples),
	} {
		if n <= 0 {
			return fmt.Errorf("invalid --%s: %w", name, errNotPositive)
		}
	}
	return nil
}

// examine prints the findings, and is an error if one of them is a failure.
func examine(ctx context.Context, config doctorConfig, out io.Writer) error {
	upstream, err := backend.New(backend.Config{
		URL: config.upstream, DialTimeout: config.dialTimeout, Timeout: config.upstreamTimeout, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return usageError{err}
	}
	defer upstream.Close()
	worst := doctor.Examine(ctx, doctor.Config{
		Backend: upstream, Timeout: config.upstreamTimeout, KeyPrefix: config.keyPrefix, Samples: config.samples,
	}, func(f doctor.Finding) { fmt.Fprintln(out, f) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if worst == doctor.Failure {
		return errUnfit
	}
	return nil
}
