//go:build !race

package proxytest

// buildFlags build cellproxy the way the test itself was built.
var buildFlags []string
