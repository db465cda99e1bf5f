package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"cellproxy/proxy"
	"cellproxy/proxy/admin"
)

// topTimeout is how long the admin listener may take to answer.
const topTimeout = 5 * time.Second

func newTop() *cobra.Command {
	var addr string
	var every time.Duration
	var count int
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what a running cellproxy does",
		Long: `Top shows what the status page of a running cellproxy does: traffic, limiters and
the keys they are called with most, over and over until it is interrupted.`,
		Example: `  cellproxy top --admin 127.0.0.1:6381`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every <= 0 {
				return usageError{fmt.Errorf("invalid --every: %w", errNotPositive)}
			}
			return top(cmd.Context(), cmd.OutOrStdout(), addr, every, count)
		},
	}
	cmd.Flags().StringVar(&addr, "admin", "127.0.0.1:6381", "host:port that serve was given as --admin")
	cmd.Flags().DurationVar(&every, "every", time.Second, "how often to look")
	cmd.Flags().IntVar(&count, "count", 0, "how often to show before it ends, 0 for no end")
	return cmd
}

// top shows what a cellproxy does until ctx ends, or count times.
func top(ctx context.Context, w io.Writer, addr string, every time.Duration, count int) error {
	before, err := fetchStatus(ctx, addr)
	for shown := 0; err == nil && (count <= 0 || shown < count); shown++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		var now *admin.Status
		if now, err = fetchStatus(ctx, addr); err == nil {
			_, err = io.WriteString(w, topScreen(before, now))
			before = now
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// fetchStatus asks a cellproxy what it does.
func fetchStatus(ctx context.Context, addr string) (*admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, topTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/status.json", nil)
	if err != nil {
		return nil, usageError{fmt.Errorf("invalid --admin: %w", err)}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("cannot ask cellproxy: %w", err)
	}
	defer response.Body.Close()
	status := new(admin.Status)
	if err := json.NewDecoder(response.Body).Decode(status); err != nil {
		return nil, fmt.Errorf("%s is no admin listener of cellproxy: %w", addr, err)
	}
	return status, nil
}

// topScreen clears the terminal and shows a moment, with the rates since before.
func topScreen(before, now *admin.Status) string {
	var b strings.Builder
	took := max(now.Seconds-before.Seconds, 1e-3)
	up := "up"
	if !now.Upstream.Up {
		up = "down"
	}
	fmt.Fprintf(&b, "\x1b[H\x1b[2Jcellproxy %s   upstream %s, policy %s   clients %d   under way %d\n\n", now.Version, up, now.Upstream.Policy,
		now.Clients.Shared+now.Clients.Private+now.Clients.Wires, now.Upstream.InFlight)
	table := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "command\trequests/s\tadmitted/s\tlimited/s\tfailed/s\t\n")
	for i, l := range now.Clients.Limiters {
		var was proxy.LimiterStats
		if i < len(before.Clients.Limiters) { // or another version has taken over
			was = before.Clients.Limiters[i]
		}
		rate := func(now, before uint64) float64 { return (float64(now) - float64(before)) / took }
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t\n", l.Name, rate(l.Requests, was.Requests),
			rate(l.Admitted, was.Admitted), rate(l.Limited, was.Limited), rate(l.Failed, was.Failed))
	}
	fmt.Fprintf(table, "others\t%.0f\t\t\t\t\n", (float64(now.Clients.Others)-float64(before.Clients.Others))/took)
	table.Flush()
	for _, list := range []struct {
		title string
		keys  []admin.Key
	}{{"hottest keys", now.Hottest}, {"most limited keys", now.MostLimited}} {
		fmt.Fprintf(&b, "\n%s: calls, limited\n", list.title)
		for _, k := range list.keys {
			fmt.Fprintf(&b, "%8.0f %8.0f  %q\n", k.Calls, k.Limited, k.Key)
		}
	}
	return b.String()
}
