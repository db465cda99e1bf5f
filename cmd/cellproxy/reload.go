package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

var errNoPidFile = errors.New("--pid-file is missing: the file that serve was given")

// newReload is SIGHUP by pid file, for those who would rather not look up the
// process.
func newReload() *cobra.Command {
	var pidFile string
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have a running cellproxy read its files again",
		Long: `Reload has the cellproxy that was started with the same --pid-file read its files
again, as SIGHUP does: the settings and the users. Whether it could, it says in
its log.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := environment(cmd.Flags()); err != nil {
				return err
			}
			if pidFile == "" {
				return usageError{errNoPidFile}
			}
			return hangUp(pidFile)
		},
	}
	cmd.Flags().StringVar(&pidFile, "pid-file", "", "file that serve has written its process id to")
	return cmd
}

// hangUp sends SIGHUP to the process whose id is in a file.
func hangUp(pidFile string) error {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return fmt.Errorf("cannot read --pid-file: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return fmt.Errorf("no process id in %s", pidFile)
	}
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		return fmt.Errorf("cannot signal process %d: %w", pid, err)
	}
	return nil
}
