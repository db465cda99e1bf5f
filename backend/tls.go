package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/redis/go-redis/v9"
)

var errNotTLS = errors.New("options of TLS need rediss://")

// tlsFiles are what the URL of an upstream says about TLS. They are read again
// for every connection, so certificates may be renewed meanwhile.
type tlsFiles struct {
	ca         string // certificates to trust instead of the system's, in PEM
	cert, key  string // to show the upstream, in PEM
	serverName string // in the upstream's certificate, instead of the host
}

// parseOptions is redis.ParseURL for URLs that may have tls_ca, tls_cert, tls_key
// and tls_server_name in the query.
func parseOptions(text string) (*redis.Options, tlsFiles, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, tlsFiles{}, err
	}
	query := u.Query()
	var files tlsFiles
	for name, value := range map[string]*string{
		"tls_ca": &files.ca, "tls_cert": &files.cert, "tls_key": &files.key, "tls_server_name": &files.serverName,
	} {
		*value = query.Get(name)
		query.Del(name)
	}
	if u.RawQuery != "" {
		u.RawQuery = query.Encode()
	}
	options, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, files, err
	}
	if options.TLSConfig == nil && files != (tlsFiles{}) {
		return nil, files, errNotTLS
	}
	_, err = files.config(options.TLSConfig, options.Addr)
	return options, files, err
}

// config returns what base becomes with the files and for an address.
func (f tlsFiles) config(base *tls.Config, addr string) (*tls.Config, error) {
	if base == nil {
		return nil, nil
	}
	config := base.Clone()
	if config.ServerName = f.serverName; f.serverName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("cannot read tls_ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("no certificate in tls_ca %s", f.ca)
		}
	}
	if f.cert != "" || f.key != "" {
		certificate, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("invalid tls_cert or tls_key: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// newDialer connects as the options say, with TLS if they say so.
func newDialer(options *redis.Options, files tlsFiles) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := *options
	plain.TLSConfig = nil
	dial := redis.NewDialer(&plain)
	if options.TLSConfig == nil {
		return dial
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, options.DialTimeout)
		defer cancel()
		config, err := files.config(options.TLSConfig, addr)
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return tlsConn{secure}, nil
	}
}

// tlsConn ends without telling the upstream, which may take no more bytes: nobody
// who closes a connection is to wait for that.
type tlsConn struct{ *tls.Conn }

// Close implements net.Conn.
func (c tlsConn) Close() error { return c.NetConn().Close() }
