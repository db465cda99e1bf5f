// Package certs issues certificates for tests of TLS.
//
//	authority := certs.New(t)
//	server := authority.Issue(t, "server")
//	redis-server --tls-cert-file server.Cert --tls-key-file server.Key --tls-ca-cert-file authority.File
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates, and is trusted by whoever is given its File.
type Authority struct {
	File string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair are the files of a certificate and its key, in PEM.
type Pair struct{ Cert, Key string }

// New makes an authority whose files are gone when the test ends.
func New(t testing.TB) *Authority {
	t.Helper()
	a := new(Authority)
	template := newTemplate(t, "authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	a.key = newKey(t)
	a.cert = template
	a.cert = a.sign(t, template, a.key)
	a.File = filepath.Join(t.TempDir(), "ca.pem")
	write(t, a.File, "CERTIFICATE", a.cert.Raw)
	return a
}

// Issue makes a certificate for servers on loopback and for clients, by its name.
func (a *Authority) Issue(t testing.TB, name string) Pair {
	t.Helper()
	template := newTemplate(t, name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = []string{"localhost", name}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	key := newKey(t)
	cert := a.sign(t, template, key)
	bytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pair := Pair{Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+".key")}
	write(t, pair.Cert, "CERTIFICATE", cert.Raw)
	write(t, pair.Key, "PRIVATE KEY", bytes)
	return pair
}

// Client is the configuration of a client that trusts the authority, and shows
// the certificates.
func (a *Authority) Client(t testing.TB, shown ...Pair) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	config.RootCAs.AddCert(a.cert)
	for _, pair := range shown {
		certificate, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = append(config.Certificates, certificate)
	}
	return config
}

func (a *Authority) sign(t testing.TB, template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	bytes, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func newTemplate(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(20, 0, 0), // some servers have their clocks set
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func write(t testing.TB, path, kind string, bytes []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
		t.Fatal(err)
	}
}
