package grpcinterop

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/testdata"

	"sallyport/e2e"
)

// TestCallsOfOneConnectionAreSpread: a client keeps one connection for all of its calls, so that balancing connections,
// as a TCP load balancer does, would leave every call of it to one server.
func TestCallsOfOneConnectionAreSpread(t *testing.T) {
	const calls = 300
	servers := []*server{serve(t, "192.0.2.1:0"), serve(t, "192.0.2.2:0"), serve(t, "192.0.2.3:0")}
	s := start(t, servers...)
	client, connections := dial(t, s)
	for i := range calls {
		if _, err := client.UnaryCall(t.Context(), new(grpc_testing.SimpleRequest)); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	for _, server := range servers {
		if got := server.calls.Load(); got != calls/3 {
			t.Errorf("server %s got %d of %d calls, want a third", server.address, got, calls)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("the client made %d connections: this shows nothing", n)
	}
}

// TestStreamsOfOneConnectionAreSpread: streams that stay open are calls, too.
func TestStreamsOfOneConnectionAreSpread(t *testing.T) {
	servers := []*server{serve(t, "192.0.2.1:0"), serve(t, "192.0.2.2:0"), serve(t, "192.0.2.3:0")}
	s := start(t, servers...)
	client, _ := dial(t, s)
	for range 30 {
		stream, err := client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ask := &grpc_testing.StreamingOutputCallRequest{ResponseParameters: []*grpc_testing.ResponseParameters{{Size: 10}}}
		if err := stream.Send(ask); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	for _, server := range servers {
		if got := server.calls.Load(); got != 10 {
			t.Errorf("server %s got %d of 30 streams, want a third", server.address, got)
		}
	}
}

// TestDeadlineReachesTheServer: a call that takes too long ends with its deadline, for the client and for the server.
func TestDeadlineReachesTheServer(t *testing.T) {
	endpoint := serve(t, "192.0.2.1:0")
	endpoint.sleeps = true
	s := start(t, endpoint)
	client, _ := dial(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := client.UnaryCall(ctx, new(grpc_testing.SimpleRequest))
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the client sees %v, want DeadlineExceeded", err)
	}
	select {
	case left := <-endpoint.left:
		if left <= 0 || left > 500*time.Millisecond {
			t.Errorf("the server had %v for the call, want some, and at most 500ms", left)
		}
	case <-time.After(20 * time.Second):
		t.Error("the call still runs at the server 20 s later")
	}
}

// TestCancelReachesTheServer: a client that gives up stops the work at the server.
func TestCancelReachesTheServer(t *testing.T) {
	endpoint := serve(t, "192.0.2.1:0")
	endpoint.sleeps = true
	s := start(t, endpoint)
	client, _ := dial(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := client.UnaryCall(ctx, new(grpc_testing.SimpleRequest))
		failed <- err
	}()
	e2e.Eventually(t, "the call has arrived", func() error {
		if endpoint.calls.Load() == 0 {
			return fmt.Errorf("the server has seen no call")
		}
		return nil
	})
	cancel()
	if err := <-failed; status.Code(err) != codes.Canceled {
		t.Errorf("the client sees %v, want Canceled", err)
	}
	select {
	case <-endpoint.left:
	case <-time.After(20 * time.Second):
		t.Error("the call still runs at the server 20 s later")
	}
}

// TestProxyFailsCallsAsGRPC: where the proxy itself answers, a client sees a status of gRPC and not one of HTTP.
func TestProxyFailsCallsAsGRPC(t *testing.T) {
	gone := serve(t, "192.0.2.1:0")
	gone.stop()
	for name, test := range map[string]struct {
		servers []*server
		want    string
	}{
		"no endpoint":        {nil, "503 no_endpoints"},
		"none that connects": {[]*server{gone}, "502 connect_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := dial(t, start(t, test.servers...))
			_, err := client.UnaryCall(t.Context(), new(grpc_testing.SimpleRequest))
			if s, _ := status.FromError(err); s.Code() != codes.Unavailable || s.Message() != test.want {
				t.Errorf("a call fails with %v, want Unavailable with message %q", err, test.want)
			}
			stream, err := client.FullDuplexCall(t.Context())
			if err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) != codes.Unavailable {
				t.Errorf("a stream fails with %v, want Unavailable", err)
			}
		})
	}
}

// A server is gRPC's test service, counting.
type server struct {
	grpc_testing.TestServiceServer
	address string
	calls   atomic.Int64
	sleeps  bool               // UnaryCall takes until the client leaves
	left    chan time.Duration // what a sleeping call had left of its deadline when it began, once it has ended
	stop    func()
}

func (s *server) UnaryCall(ctx context.Context, r *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	s.calls.Add(1)
	if s.sleeps {
		deadline, _ := ctx.Deadline()
		left := time.Until(deadline)
		<-ctx.Done()
		s.left <- left
		return nil, ctx.Err()
	}
	return new(grpc_testing.SimpleResponse), nil
}

func (s *server) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	s.calls.Add(1)
	return s.TestServiceServer.FullDuplexCall(stream)
}

func serve(t *testing.T, address string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	s := &server{TestServiceServer: interop.NewTestServer(), address: listener.Addr().String(), left: make(chan time.Duration, 10), stop: g.Stop}
	grpc_testing.RegisterTestServiceServer(g, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Serve(listener)
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
	return s
}

// start runs the product in front of the servers.
func start(t *testing.T, servers ...*server) *e2e.Process {
	t.Helper()
	var addresses []string
	for _, server := range servers {
		addresses = append(addresses, server.address)
	}
	return e2e.Start(t, e2e.Folder(t, map[string]string{
		"certificate.yaml": certificate(t), "clear.yaml": site(clear, "GRPC", addresses...),
	}))
}

// dial makes a client and counts its connections.
func dial(t *testing.T, s *e2e.Process) (grpc_testing.TestServiceClient, *atomic.Int64) {
	t.Helper()
	trust, err := credentials.NewClientTLSFromFile(testdata.Path("ca.pem"), clear)
	if err != nil {
		t.Fatal(err)
	}
	connections := new(atomic.Int64)
	connection, err := grpc.NewClient("passthrough:///"+s.HTTPS, grpc.WithTransportCredentials(trust), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			connections.Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return grpc_testing.NewTestServiceClient(connection), connections
}
