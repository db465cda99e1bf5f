//go:build !linux

package poll

import "errors"

// Loop does not exist here.
type Loop struct{}

// New returns errors.ErrUnsupported.
func New() (*Loop, error) { return nil, errors.ErrUnsupported }

// Add returns errors.ErrUnsupported.
func (*Loop) Add(int, Handler) error { return errors.ErrUnsupported }

// Remove does nothing.
func (*Loop) Remove(int, Handler) {}

// Later does nothing.
func (*Loop) Later(func()) {}

// Yield does nothing.
func (*Loop) Yield() {}

// Scratch returns nil.
func (*Loop) Scratch() []byte { return nil }

// Close does nothing.
func (*Loop) Close() {}
