//go:build unix

package plugin_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"memopt/plugin"
	gohost "memopt/plugin/host"
	"memopt/plugin/internal/echo"
	"memopt/plugin/pb"
)

// The test binary is also the service, and the trainer that is killed: by its role in the environment.
func TestMain(m *testing.M) {
	switch os.Getenv("MEMOPT_TEST_ROLE") {
	case "service":
		os.Exit(echo.Run(os.Args[1:], os.Stdout, os.Stderr))
	case "trainer":
		trainer(os.Args[1])
	default:
		os.Exit(m.Run())
	}
}

// Under the race detector a process sleeps a second before it exits.
const quickExit = "GORACE=atexit_sleep_ms=0"

// service is one running service under a host made of these tests.
type service struct {
	cmd    *exec.Cmd
	line   string
	folder string
	client tls.Certificate
	stderr *lines
	stdin  io.Closer
}

// lines collects what a process writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func privateFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "memopt-test-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

func clientPEM(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := plugin.WriteClientCert(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// command is the service with a host's environment; extra entries win.
func command(folder, certificate string, extra ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, "serve")
	cmd.Env = append(os.Environ(),
		"MEMOPT_TEST_ROLE=service",
		quickExit,
		plugin.Handshake.MagicCookieKey+"="+plugin.Handshake.MagicCookieValue,
		"PLUGIN_PROTOCOL_VERSIONS=2",
		"PLUGIN_CLIENT_CERT="+certificate,
		"PLUGIN_UNIX_SOCKET_DIR="+folder)
	cmd.Env = append(cmd.Env, extra...)
	return cmd
}

func start(t *testing.T, extra ...string) *service {
	t.Helper()
	pair := clientPEM(t)
	s := &service{folder: privateFolder(t), stderr: &lines{}}
	var err error
	if s.client, err = tls.X509KeyPair([]byte(pair), []byte(pair)); err != nil {
		t.Fatal(err)
	}
	s.cmd = command(s.folder, pair, extra...)
	s.cmd.Stderr = s.stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	if s.line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("no handshake line: %v\n%s", err, s.stderr)
	}
	return s
}

func (s *service) fields() []string { return strings.Split(strings.TrimSuffix(s.line, "\n"), "|") }

func (s *service) certificate(t *testing.T) *x509.Certificate {
	t.Helper()
	der, err := base64.RawStdEncoding.DecodeString(s.fields()[5])
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// dial connects as the host would, with what change makes of its TLS settings.
func (s *service) dial(t *testing.T, change func(*tls.Config)) pb.MemOptClient {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(s.certificate(t))
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{s.client}, ServerName: "localhost"}
	if change != nil {
		change(config)
	}
	return s.dialWith(t, credentials.NewTLS(config))
}

func (s *service) dialWith(t *testing.T, c credentials.TransportCredentials) pb.MemOptClient {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+s.fields()[3], grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewMemOptClient(conn)
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestHandshakeLine(t *testing.T) {
	for name, extra := range map[string][]string{
		"plain":                 nil,
		"under another plugin":  {"PLUGIN_MULTIPLEX_GRPC=true", "PLUGIN_UNIX_SOCKET_GROUP=0"},
		"host of a later time":  {"PLUGIN_PROTOCOL_VERSIONS=1,2,3,4"},
		"host with other words": {"PLUGIN_PROTOCOL_VERSIONS=9"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, extra...)
			f := s.fields()
			if len(f) != 6 || strings.Join([]string{f[0], f[1], f[2], f[4]}, " ") != "1 3 unix grpc" {
				t.Fatalf("handshake line %q", s.line)
			}
			if filepath.Dir(f[3]) != s.folder {
				t.Errorf("socket %s is not in %s", f[3], s.folder)
			}
			if key := s.certificate(t).PublicKey.(*ecdsa.PublicKey); key.Curve != elliptic.P256() {
				t.Errorf("field 6 has curve %s", key.Curve.Params().Name)
			}
			info, err := s.dial(t, nil).Info(soon(t), &pb.InfoRequest{})
			if err != nil || info.Pid != int64(s.cmd.Process.Pid) || info.Protocol != 3 || info.Version != "0.0.0-test" {
				t.Errorf("info %v, %v", info, err)
			}
		})
	}
}

func TestRefusesToStart(t *testing.T) {
	good := clientPEM(t)
	private := privateFolder(t)
	open := privateFolder(t)
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(private, "link")
	if err := os.Symlink(open, link); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(private, strings.Repeat("x", 90))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, folder, certificate, extra, want string
	}{
		{"by hand", private, good, plugin.Handshake.MagicCookieKey + "=", "not by hand"},
		{"no certificate", private, "", "", "no PLUGIN_CLIENT_CERT"},
		{"no real certificate", private, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "", "no certificate in PEM"},
		{"open folder", open, good, "", "must be -rwx------ (0700)"},
		{"no folder", filepath.Join(private, "none"), good, "", "no such file"},
		{"link", link, good, "", "not a folder"},
		{"relative", ".", good, "", "not an absolute path"},
		{"long", long, good, "", "leaves room for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := command(c.folder, c.certificate, c.extra)
			var out, text bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &text
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 || out.Len() != 0 {
				t.Errorf("%v, standard output %q", err, &out)
			}
			if !strings.HasPrefix(text.String(), "memopt serve: ") || !strings.Contains(text.String(), c.want) {
				t.Errorf("standard error %q, want %q", &text, c.want)
			}
		})
	}
}

func TestStrangersAreRejected(t *testing.T) {
	s := start(t)
	otherPEM := clientPEM(t)
	other, err := tls.X509KeyPair([]byte(otherPEM), []byte(otherPEM))
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]pb.MemOptClient{
		"plain text":            s.dialWith(t, insecure.NewCredentials()),
		"no certificate":        s.dial(t, func(c *tls.Config) { c.Certificates = nil }),
		"another's certificate": s.dial(t, func(c *tls.Config) { c.Certificates = []tls.Certificate{other} }),
		"TLS 1.2":               s.dial(t, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
		"another service":       s.dial(t, func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }),
	} {
		if _, err := client.Info(soon(t), &pb.InfoRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.dial(t, nil).Info(soon(t), &pb.InfoRequest{}); err != nil {
		t.Error("the host itself:", err)
	}
}

// bare is the service for a host that sets the environment itself.
func bare(extra ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, "serve")
	cmd.Env = append([]string{"MEMOPT_TEST_ROLE=service", quickExit}, extra...)
	return cmd
}

func TestStockGoHost(t *testing.T) {
	for _, given := range []bool{true, false} {
		t.Run(fmt.Sprintf("folder given %v", given), func(t *testing.T) {
			runtimeDir := privateFolder(t)
			extra := []string{"XDG_RUNTIME_DIR=" + runtimeDir}
			if given {
				extra = append(extra, "PLUGIN_UNIX_SOCKET_DIR="+runtimeDir)
			}
			host, memopt, err := gohost.Connect(bare(extra...), true)
			defer host.Kill()
			if err != nil {
				t.Fatal(err)
			}
			reply, err := memopt.Plan(soon(t), &pb.Question{
				Model: "/models/m.onnx", Settings: map[string]string{"dims": `{"batch": 8, "seq": 16}`, "budget": "60%", "level": "1"},
				Environment: map[string]string{"MEMOPT_BUDGET": "1GB"},
			})
			if err != nil {
				t.Fatal(err)
			}
			var plan struct {
				Format  string
				Request plugin.Question
				Result  struct{ Peak int64 }
			}
			if err := json.Unmarshal([]byte(reply.Json), &plan); err != nil {
				t.Fatal(err)
			}
			r := plan.Request
			if plan.Format != "memopt.plan/1" || plan.Result.Peak != 256 || r.Settings["budget"] != "60%" || r.Settings["level"] != "1" || r.Environment["MEMOPT_BUDGET"] != "1GB" {
				t.Errorf("plan %s", reply.Json)
			}
			if reply.Text != "echo of m.onnx: peak 256\n" || len(reply.Warnings) != 1 {
				t.Errorf("reply %v", reply)
			}
			host.Kill()
			left, err := os.ReadDir(runtimeDir)
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestStockGoHostWithoutMTLS(t *testing.T) {
	host, _, err := gohost.Connect(bare(), false)
	defer host.Kill()
	if err == nil {
		t.Fatal("served in plain text")
	}
}

// A trainer without variables is told from a host that sends none: the service's own
// stand in for the latter alone.
func TestEmptyEnvironment(t *testing.T) {
	s := start(t)
	for sent, want := range map[bool]string{true: `"Environment":{}`, false: `"Environment":null`} {
		out, err := s.dial(t, nil).Plan(soon(t), &pb.Question{Model: "m.onnx", EnvironmentSent: sent})
		if err != nil || !strings.Contains(out.GetJson(), want) {
			t.Errorf("sent %v: %v, %s, want %s", sent, err, out.GetJson(), want)
		}
	}
}

func TestErrors(t *testing.T) {
	s := start(t)
	memopt := s.dial(t, nil)
	for _, c := range []struct {
		model string
		code  codes.Code
		want  string
	}{
		{"", codes.InvalidArgument, "no model given"},
		{"cannot.onnx", codes.FailedPrecondition, `no plan fits 1 GiB: the floor is 1.5 GiB, held by node "loss"`},
		{"bad.onnx", codes.InvalidArgument, "bad.onnx: not a model: wire type 7 at byte 0"},
		{"long.onnx", codes.InvalidArgument, "more bytes)"},
		{"other.onnx", codes.Unknown, `disk \xff full`},
		{"panic.onnx", codes.Internal, "a bug in memopt: /memopt.v1.MemOpt/Plan: panic: broken invariant"},
		{"good.onnx", codes.OK, ""},
	} {
		_, err := memopt.Plan(soon(t), &pb.Question{Model: c.model})
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.want) {
			t.Errorf("%s: %v", c.model, err)
		}
	}
	if !strings.Contains(s.stderr.String(), "broken invariant") {
		t.Errorf("the panic is not in the log: %s", s.stderr)
	}
}

// A host that leaves ends the work: the front's context is the call's.
func TestDeadlineReachesTheFront(t *testing.T) {
	memopt := start(t).dial(t, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := memopt.Plan(ctx, &pb.Question{Model: "slow.onnx"}); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	if _, err := memopt.Plan(soon(t), &pb.Question{Model: "good.onnx"}); err != nil {
		t.Error(err)
	}
}

// go-plugin's pipes hold 64 KiB and block when nobody reads its stdio service, as here.
func TestPrintsDoNotBlock(t *testing.T) {
	s := start(t)
	if _, err := s.dial(t, nil).Plan(soon(t), &pb.Question{Model: "print.onnx"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"standard output 4999\n", "standard error 4999\n"} {
		for end := time.Now().Add(5 * time.Second); !strings.Contains(s.stderr.String(), want); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%q has not arrived", want)
			}
		}
	}
}

func TestTerminateRemovesTheSocket(t *testing.T) {
	s := start(t)
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d", code)
	}
	if left, err := os.ReadDir(s.folder); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestInterruptIsForTheTrainer(t *testing.T) {
	s := start(t)
	s.cmd.Process.Signal(os.Interrupt)
	if _, err := s.dial(t, nil).Info(soon(t), &pb.InfoRequest{}); err != nil {
		t.Error(err)
	}
}

func TestClosedInputEndsIt(t *testing.T) {
	s := start(t, parentPID())
	s.stdin.Close()
	waitGone(t, s.cmd.Process.Pid, s.folder)
}

func TestHostDeadBeforeTheFirstLook(t *testing.T) {
	past := exec.Command("true")
	if err := past.Run(); err != nil {
		t.Fatal(err)
	}
	folder := privateFolder(t)
	cmd := command(folder, clientPEM(t), "MEMOPT_PARENT_PID="+strconv.Itoa(past.Process.Pid))
	out, err := cmd.StdoutPipe() // nobody reads it, as after the host's death
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	waitGone(t, cmd.Process.Pid, folder)
}

func parentPID() string { return "MEMOPT_PARENT_PID=" + strconv.Itoa(os.Getpid()) }

// trainer starts a service, says where it is, gives it the work named, and lives until it is killed.
func trainer(work string) {
	os.Unsetenv("MEMOPT_TEST_ROLE") // go-plugin lets our environment win over the command's
	folder := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	cmd := bare("PLUGIN_UNIX_SOCKET_DIR="+folder, parentPID())
	_, memopt, err := gohost.Connect(cmd, true)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if work != "idle" {
		go memopt.Plan(context.Background(), &pb.Question{Model: work})
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Println(cmd.Process.Pid)
	select {}
}

func TestGoneWithItsTrainer(t *testing.T) {
	for _, work := range []string{"idle", "busy.onnx", "slow.onnx"} {
		t.Run(work, func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			folder := privateFolder(t)
			cmd := exec.Command(self, work)
			cmd.Env = append(os.Environ(), "MEMOPT_TEST_ROLE=trainer", "PLUGIN_UNIX_SOCKET_DIR="+folder)
			// The service takes this pipe for its own and we hold it, as a forked worker of the trainer would.
			if _, err := cmd.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			if !running(pid) {
				t.Fatal("the service is not there")
			}
			cmd.Process.Kill()
			waitGone(t, pid, folder)
			cmd.Wait()
		})
	}
}

// waitGone gives the process and its folder a second.
func waitGone(t *testing.T, pid int, folder string) {
	t.Helper()
	begin := time.Now()
	for {
		_, err := os.Stat(folder)
		if !running(pid) && os.IsNotExist(err) {
			t.Logf("gone after %v", time.Since(begin).Round(time.Millisecond))
			return
		}
		if time.Since(begin) > time.Second {
			t.Fatalf("after a second: running %v, folder %v", running(pid), err)
		}
		time.Sleep(time.Millisecond)
	}
}

// running tells a process from none and from one that only waits to be reaped.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if _, none := os.Stat("/proc/self/stat"); none != nil {
			return syscall.Kill(pid, 0) == nil
		}
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

// TestRequestOfAnotherRelease: what a host of another release says in fields of its own is not left
// out in silence.
func TestRequestOfAnotherRelease(t *testing.T) {
	host, memopt, err := gohost.Connect(bare("XDG_RUNTIME_DIR="+privateFolder(t)), true)
	defer host.Kill()
	if err != nil {
		t.Fatal(err)
	}
	request := &pb.Question{Model: "m.onnx"}
	request.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 18, protowire.BytesType), "8GB"))
	_, err = memopt.Plan(soon(t), request)
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "from one release") {
		t.Errorf("error %v", err)
	}
}
