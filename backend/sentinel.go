package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"cellproxy/backend/cluster"
)

// switchMaster is where sentinels say that there is another master.
const switchMaster = "+switch-master"

// minDoubtPause is the least time between two looks for reasons of doubt.
const minDoubtPause = 250 * time.Millisecond

var (
	errNoMasterName = errors.New("redis+sentinel:// needs the master's name: redis+sentinel://host:port,host:port/name")
	errDemoted      = errors.New("the server is no master")
	errSwitched     = errors.New("another server has become the master")
)

// readOnly begins the reply of a replica to a write.
var readOnly = []byte("-READONLY")

// sentinels know which server is the master.
type sentinels struct {
	backend *Backend
	name    string // of the master
	addrs   []string
	clients []*redis.SentinelClient
	last    atomic.Pointer[string] // where a master was found
	doubt   chan struct{}          // somebody has reason to think that it is there no more
}

// sentinelURL is redis+sentinel://user:password@host:port,host:port/name/db taken
// apart, or rediss+sentinel://.
type sentinelURL struct {
	addrs          []string
	name           string
	user, password string                   // for the sentinels
	master         func(addr string) string // the master's URL
}

// parseSentinelURL reports false for other URLs.
func parseSentinelURL(text string) (s sentinelURL, ok bool, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	plain, ok := strings.CutSuffix(scheme, "+sentinel")
	if !ok {
		return s, false, nil
	}
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return s, true, err
	}
	at := strings.LastIndexByte(rest, '@') + 1
	user := rest[:at]
	hosts, path, _ := strings.Cut(rest[at:], "/")
	name, db, _ := strings.Cut(path, "/")
	if s.name, err = url.PathUnescape(name); err != nil || name == "" {
		return s, true, errNoMasterName
	}
	for _, host := range strings.Split(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "26379")
		}
		s.addrs = append(s.addrs, host)
	}
	s.user, s.password = values.Get("sentinel_user"), values.Get("sentinel_password")
	values.Del("sentinel_user")
	values.Del("sentinel_password")
	s.master = func(addr string) string {
		return plain + "://" + user + addr + "/" + db + "?" + values.Encode()
	}
	return s, true, nil
}

// silence is done once, as go-redis has one logger for all.
var silence = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })

// newSentinels asks as b connects.
func newSentinels(b *Backend, u sentinelURL) *sentinels {
	silence()
	s := &sentinels{backend: b, name: u.name, addrs: u.addrs, doubt: make(chan struct{}, 1)}
	for _, addr := range u.addrs {
		s.clients = append(s.clients, redis.NewSentinelClient(&redis.Options{
			Addr: addr, Username: u.user, Password: u.password, Dialer: b.dial, Protocol: 2, DisableIdentity: true,
			DialTimeout: b.config.DialTimeout, ReadTimeout: b.config.DialTimeout, WriteTimeout: b.config.DialTimeout,
			DialerRetries: 1, MaxRetries: -1, PoolSize: 2, ContextTimeoutEnabled: true,
		}))
	}
	return s
}

// ask asks all sentinels at once. What they answer comes as it comes, each address
// once, and then the end.
func (s *sentinels) ask(ctx context.Context) <-chan string {
	answers := make(chan string, len(s.clients))
	var seen sync.Map
	var asked sync.WaitGroup
	for _, client := range s.clients {
		asked.Go(func() {
			addr, err := client.GetMasterAddrByName(ctx, s.name).Result()
			if err != nil || len(addr) != 2 {
				return
			}
			hostPort := net.JoinHostPort(addr[0], addr[1])
			if _, known := seen.LoadOrStore(hostPort, true); !known {
				answers <- hostPort
			}
		})
	}
	go func() { // ends when ctx does
		asked.Wait()
		close(answers)
	}()
	return answers
}

// connect connects to the master. A sentinel may not have heard yet that another
// has become it, so the server must say so itself. When no sentinel is there the
// master is thought to be where it was.
func (s *sentinels) connect(ctx context.Context, id Identity) (conn net.Conn, w welcome, err error) {
	asking, cancel := context.WithTimeout(ctx, s.backend.config.DialTimeout/2)
	defer cancel()
	for addr := range s.ask(asking) {
		if conn, w, err = s.connectTo(ctx, addr, id); err == nil || isReplyError(err) {
			return conn, w, err
		}
	}
	if err != nil {
		return nil, w, err
	}
	if last := s.last.Load(); last != nil {
		return s.connectTo(ctx, *last, id)
	}
	return nil, w, fmt.Errorf("no sentinel knows the master %s", s.name)
}

func (s *sentinels) connectTo(ctx context.Context, addr string, id Identity) (conn net.Conn, w welcome, err error) {
	if conn, w, err = s.backend.connectTo(ctx, addr, id); err != nil {
		return nil, w, err
	}
	if err := checkMaster(ctx, conn); err != nil {
		conn.Close()
		return nil, w, fmt.Errorf("%s: %w", addr, err)
	}
	if last := s.last.Swap(&addr); last != nil && *last != addr {
		s.suspect() // there are connections to the last one
	}
	return conn, w, nil
}

// checkMaster is an error if the server says that it is no master. It may refuse
// to say.
func checkMaster(ctx context.Context, conn net.Conn) error {
	deadline, _ := ctx.Deadline()
	reply, err := newCallConn(conn).call(cluster.AppendCommand(nil, "ROLE"), deadline)
	if err != nil {
		return err
	}
	if reply[0] == '*' && !bytes.Contains(reply, []byte("\r\nmaster\r\n")) {
		return errDemoted
	}
	return conn.SetDeadline(time.Time{})
}

// follow looks for the master when there is a reason to, until the backend is
// closed. That a sentinel says so is one; what it said while nobody listened is
// asked for every now and then.
func (s *sentinels) follow() {
	for _, client := range s.clients {
		s.backend.tasks.Go(func() { s.listen(client) })
	}
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.backend.ctx.Done():
			return
		case <-ticker.C:
			if !s.disagree() {
				continue
			}
		case <-s.doubt:
		}
		s.look()
		select {
		case <-s.backend.ctx.Done():
			return
		case <-time.After(minDoubtPause):
		}
	}
}

// listen hears what a sentinel says.
func (s *sentinels) listen(client *redis.SentinelClient) {
	subscription := client.Subscribe(s.backend.ctx, switchMaster)
	defer subscription.Close()
	messages := subscription.Channel()
	for {
		select {
		case <-s.backend.ctx.Done():
			return
		case message, ok := <-messages:
			if !ok {
				return
			}
			if name, _, _ := strings.Cut(message.Payload, " "); name == s.name {
				s.suspect()
			}
		}
	}
}

// suspect has follow look soon. It does not wait.
func (s *sentinels) suspect() {
	select {
	case s.doubt <- struct{}{}:
	default:
	}
}

// disagree reports whether a sentinel takes another server for the master.
func (s *sentinels) disagree() bool {
	last := s.last.Load()
	if last == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(s.backend.ctx, s.backend.config.DialTimeout)
	defer cancel()
	for addr := range s.ask(ctx) {
		if addr != *last {
			return true
		}
	}
	return false
}

// look finds the master and gives up the connections to any other server.
func (s *sentinels) look() {
	ctx, cancel := context.WithTimeout(s.backend.ctx, s.backend.config.DialTimeout)
	defer cancel()
	conn, _, err := s.connect(ctx, s.backend.Default())
	if err != nil {
		s.backend.failed(err)
		return
	}
	defer conn.Close()
	s.backend.failOthers(conn.RemoteAddr().String())
}

// failOthers gives up the links to other servers than that at addr.
func (b *Backend) failOthers(addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.watched {
		if l.conn.RemoteAddr().String() != addr {
			l.fail(errSwitched)
		}
	}
}

func (s *sentinels) close() {
	for _, client := range s.clients {
		client.Close()
	}
}

// quiet keeps go-redis from writing to the standard error: what is to be told is
// in the log.
type quiet struct{}

// Printf implements the interface of go-redis's logger.
func (quiet) Printf(context.Context, string, ...any) {}
