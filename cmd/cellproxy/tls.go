package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

var (
	errNoCertificate = errors.New("--listen tls:// needs --tls-cert and --tls-key")
	errNoTLSListen   = errors.New("--tls-cert, --tls-key and --tls-client-ca are for --listen tls://")
)

// tlsVersions are the values of --tls-min-version.
var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// validateTLS checks what there is for clients with TLS, if there are to be any.
func (c *serveConfig) validateTLS(secure bool) error {
	switch {
	case secure && (c.tlsCert == "" || c.tlsKey == ""):
		return errNoCertificate
	case !secure && (c.tlsCert != "" || c.tlsKey != "" || c.tlsClientCA != ""):
		return errNoTLSListen
	}
	return nil
}

// tls reads the files of certificates, if there are any. Nobody who comes back
// is spared what they say: what they said before is not honoured.
func (c *serveConfig) tls() (*tls.Config, error) {
	if c.tlsCert == "" {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(c.tlsCert, c.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("invalid --tls-cert or --tls-key: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tlsVersions[c.tlsMinVersion]}
	if c.tlsClientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(c.tlsClientCA)
	if err != nil {
		return nil, fmt.Errorf("cannot read --tls-client-ca: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("invalid --tls-client-ca: no certificate in %s", c.tlsClientCA)
	}
	return config, nil
}
