package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cellproxy/backend/load"
	"cellproxy/commands"
)

// benchConfig is what the flags of bench say.
type benchConfig struct {
	addr           string
	user, password string
	load.Load
}

func newBench() *cobra.Command {
	var config benchConfig
	cmd := &cobra.Command{
		Use:   "bench [flags] [command [argument ...]]",
		Short: "Put a load on cellproxy or Redis, and measure it",
		Long: `Bench sends a command over and over, from many clients, and prints how many there
were per second, how many were limited, and how long they took. In the arguments
` + load.Random + ` becomes a random number below --keys. Without arguments, limiter
commands, GET, SET and PING have usual ones, with keys that go by themselves;
without a command it is CL.THROTTLE. What goes before the command is a flag of
bench. It exits with 0 if every request was answered, and with no error.

Limiter commands need a cellproxy, or redis-cell. To compare with a plain Redis,
give --evalsha: they are then sent as what cellproxy makes of them.`,
		Example: `  cellproxy bench
  cellproxy bench -c 256 -P 16 --duration 10s TB.ACQUIRE
  cellproxy bench --addr 127.0.0.1:6379 --evalsha
  cellproxy bench -n 1000000 --keys 1000 CL.THROTTLE user:` + load.Random + ` 15 30 60`,
		RunE: func(cmd *cobra.Command, words []string) error {
			if err := environment(cmd.Flags()); err != nil {
				return err
			}
			if err := config.complete(cmd.Flags(), words); err != nil {
				return usageError{err}
			}
			return bench(cmd.Context(), config.Load, cmd.OutOrStdout(), os.Stderr)
		},
	}
	config.addFlags(cmd.Flags())
	cmd.Flags().SetInterspersed(false) // the command may have arguments that begin with -
	return cmd
}

func (c *benchConfig) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&c.addr, "addr", defaultListen, "whom to load: host:port, unix:/path/to.sock, or a redis://, rediss:// or unix:// URL")
	flags.StringVar(&c.user, "user", "", "user to authenticate as")
	flags.StringVar(&c.password, "password", "", "password; better set by CELLPROXY_PASSWORD")
	flags.IntVarP(&c.Clients, "clients", "c", 50, "how many clients send at once")
	flags.IntVarP(&c.Pipeline, "pipeline", "P", 1, "how many commands each has under way")
	flags.Int64VarP(&c.Requests, "requests", "n", 100_000, "how many requests to send")
	flags.DurationVar(&c.Duration, "duration", 0, "how long to send, instead of --requests")
	flags.IntVar(&c.Keys, "keys", 100_000, "how many keys there are")
	flags.BoolVar(&c.EvalSHA, "evalsha", false, "send limiter commands as the EVALSHA that cellproxy makes of them")
	flags.DurationVar(&c.Timeout, "timeout", 10*time.Second, "how long connecting, and each pipeline, may take")
}

// complete checks the flags and fills in what they leave open.
func (c *benchConfig) complete(flags *pflag.FlagSet, words []string) (err error) {
	if flags.Changed("duration") && flags.Changed("requests") {
		return errors.New("--duration and --requests are not for the same time")
	}
	for name, n := range map[string]int64{
		"clients": int64(c.Clients), "pipeline": int64(c.Pipeline), "keys": int64(c.Keys), "requests": c.Requests, "timeout": int64(c.Timeout),
	} {
		if n <= 0 {
			return fmt.Errorf("invalid --%s: %w", name, errNotPositive)
		}
	}
	if flags.Changed("duration") {
		if c.Duration <= 0 {
			return fmt.Errorf("invalid --duration: %w", errNotPositive)
		}
		c.Requests = 0
	}
	if len(words) == 0 {
		words = []string{"CL.THROTTLE"}
	}
	if c.Command, err = load.Complete(words); err != nil {
		return err
	}
	c.URL = c.url()
	return c.Check()
}

// url is the address as a URL, with user and password.
func (c *benchConfig) url() string {
	text := c.addr
	switch {
	case strings.Contains(text, "://"):
	case strings.HasPrefix(text, "unix:"):
		text = "unix://" + strings.TrimPrefix(text, "unix:")
	default:
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if err == nil && (c.user != "" || c.password != "") {
		u.User = url.UserPassword(c.user, c.password)
		return u.String()
	}
	return text
}

// bench puts on the load and prints the report. Requests that failed are an
// error.
func bench(ctx context.Context, l load.Load, out io.Writer, terminal *os.File) error {
	bar := newBar(l, terminal)
	report, err := load.Run(ctx, l, bar.show)
	bar.clear()
	if err != nil && report.Requests == 0 {
		return err
	}
	fmt.Fprint(out, report)
	if err != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	return failures(report)
}

// failures is an error if requests failed.
func failures(report load.Report) error {
	failed := report.Failed()
	if failed == 0 {
		return nil
	}
	for text := range report.Errors {
		if strings.HasPrefix(text, "ERR unknown command") && commands.Lookup([]byte(report.Command[0])) != nil {
			return fmt.Errorf("%d requests failed: a Redis without a cellproxy needs --evalsha", failed)
		}
	}
	return fmt.Errorf("%d requests failed", failed)
}
