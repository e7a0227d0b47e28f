// Go's stock gRPC (Debian's grpc-go) as a client of the matrix: client TARGET CA SCRIPT.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"time"

	"github.com/golang/protobuf/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "boxtest"
)

const initialKey, trailingKey = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"

// As script.proto has them; bytes are base64 in JSON for Go as for protobuf.
type scriptCall struct {
	Case, Service, Method, Initial, Cancel string
	Requests                               [][]byte
	Trailing                               []byte
	TimeoutMs                              int
	Compress                               bool
}

type outcome struct {
	Case     string `json:"case"`
	Code     uint32 `json:"code"`
	Message  string `json:"message"`
	Sizes    []int  `json:"sizes"`
	Initial  string `json:"initial"`
	Trailing []byte `json:"trailing"`
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func decode(data []byte, request proto.Message) {
	must(proto.Unmarshal(data, request))
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// A call under way: what it reports, and what ends it.
type running struct {
	*scriptCall
	*outcome
	cancel            context.CancelFunc
	headers, trailers metadata.MD
}

func (r *running) saw(size int) { r.Sizes = append(r.Sizes, size) }

func (r *running) unary(ctx context.Context, conn *grpc.ClientConn) error {
	options := []grpc.CallOption{grpc.Header(&r.headers), grpc.Trailer(&r.trailers)}
	if r.Compress {
		options = append(options, grpc.UseCompressor(gzip.Name))
	}
	stub := pb.NewTestServiceClient(conn)
	var err error
	switch r.Service + "." + r.Method {
	case "TestService.EmptyCall":
		_, err = stub.EmptyCall(ctx, &pb.Empty{}, options...)
	case "TestService.UnimplementedCall":
		_, err = stub.UnimplementedCall(ctx, &pb.Empty{}, options...)
	case "UnimplementedService.UnimplementedCall":
		_, err = pb.NewUnimplementedServiceClient(conn).UnimplementedCall(ctx, &pb.Empty{}, options...)
	case "TestService.UnaryCall":
		var request pb.SimpleRequest
		decode(r.Requests[0], &request)
		var answer *pb.SimpleResponse
		if answer, err = stub.UnaryCall(ctx, &request, options...); err == nil {
			r.saw(len(answer.GetPayload().GetBody()))
		}
		return err
	default:
		log.Fatal("unknown method ", r.Method)
	}
	if err == nil {
		r.saw(0)
	}
	return err
}

func (r *running) input(ctx context.Context, conn *grpc.ClientConn) error {
	call, err := pb.NewTestServiceClient(conn).StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	if r.Cancel == "begin" {
		r.cancel()
	}
	for _, data := range r.Requests {
		var request pb.StreamingInputCallRequest
		decode(data, &request)
		if err := call.Send(&request); err != nil {
			break // CloseAndRecv tells why
		}
	}
	answer, err := call.CloseAndRecv()
	if err == nil {
		r.saw(int(answer.AggregatedPayloadSize))
	}
	return err
}

// Both kinds of call with a stream of answers.
type answers interface {
	grpc.ClientStream
	Recv() (*pb.StreamingOutputCallResponse, error)
}

func (r *running) receive(call answers) error {
	answer, err := call.Recv()
	r.headers, _ = call.Header()
	r.trailers = call.Trailer()
	if err == nil {
		r.saw(len(answer.GetPayload().GetBody()))
	}
	return err
}

func (r *running) rest(call answers) error {
	for {
		if err := r.receive(call); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (r *running) output(ctx context.Context, conn *grpc.ClientConn) error {
	var request pb.StreamingOutputCallRequest
	decode(r.Requests[0], &request)
	call, err := pb.NewTestServiceClient(conn).StreamingOutputCall(ctx, &request)
	if err != nil {
		return err
	}
	return r.rest(call)
}

func (r *running) duplex(ctx context.Context, conn *grpc.ClientConn) error {
	call, err := pb.NewTestServiceClient(conn).FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	for _, data := range r.Requests {
		var request pb.StreamingOutputCallRequest
		decode(data, &request)
		if err := call.Send(&request); err != nil && err != io.EOF {
			return err
		}
		if err := r.receive(call); err != nil {
			return err
		}
	}
	if r.Cancel == "response" {
		r.cancel()
	} else if err := call.CloseSend(); err != nil {
		return err
	}
	return r.rest(call)
}

func run(conn *grpc.ClientConn, spec *scriptCall) *outcome {
	ctx, cancel := context.WithCancel(context.Background())
	if spec.TimeoutMs > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(spec.TimeoutMs)*time.Millisecond)
	}
	defer cancel()
	if spec.Initial != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, initialKey, spec.Initial)
	}
	if len(spec.Trailing) > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, trailingKey, string(spec.Trailing))
	}
	r := &running{scriptCall: spec, outcome: &outcome{Case: spec.Case, Sizes: []int{}}, cancel: cancel}
	kinds := map[string]func(context.Context, *grpc.ClientConn) error{
		"StreamingInputCall": r.input, "StreamingOutputCall": r.output, "FullDuplexCall": r.duplex}
	call, ok := kinds[spec.Method]
	if !ok {
		call = r.unary
	}
	result := status.Convert(call(ctx, conn))
	r.Code, r.Message = uint32(result.Code()), result.Message()
	r.outcome.Initial, r.outcome.Trailing = first(r.headers, initialKey), []byte(first(r.trailers, trailingKey))
	return r.outcome
}

func main() {
	tls, err := credentials.NewClientTLSFromFile(os.Args[2], "")
	must(err)
	conn, err := grpc.Dial(os.Args[1], grpc.WithTransportCredentials(tls))
	must(err)
	data, err := os.ReadFile(os.Args[3])
	must(err)
	var script struct{ Calls []scriptCall }
	must(json.Unmarshal(data, &script))
	for i := range script.Calls {
		must(json.NewEncoder(os.Stdout).Encode(run(conn, &script.Calls[i])))
	}
	must(conn.Close())
}
