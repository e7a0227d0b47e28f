// Go's stock gRPC against boxd.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "box/v1"
)

func main() {
	tls, err := credentials.NewClientTLSFromFile(os.Getenv("BOX_CA"), "")
	if err != nil {
		log.Fatal(err)
	}
	token, err := os.ReadFile(os.Getenv("BOX_TOKEN_FILE"))
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.Dial(os.Getenv("BOX_ENDPOINT"), grpc.WithTransportCredentials(tls))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	known := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token)))

	control := pb.NewControlServiceClient(conn)
	health, err := control.Health(known, &pb.HealthRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(map[bool]string{true: "available", false: "not available"}[health.Available])
	command := &pb.Command{Argv: []string{"sh", "-c", "echo $((6*7))"}}
	answer, err := pb.NewExecServiceClient(conn).Exec(known, &pb.ExecRequest{Command: command})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(answer.StdoutData))
	_, err = control.Health(ctx, &pb.HealthRequest{})
	fmt.Println(uint32(status.Code(err)))
}
