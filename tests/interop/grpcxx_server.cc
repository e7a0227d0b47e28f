// A stock grpc++ server of boxtest.v1.TestService with the callback API, over TLS:
//
//     box-grpcxx-server CERT KEY
//
// Prints "ready tls=PORT" when it serves on 127.0.0.1. boxbench --rpc measures it beside ours.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include <grpcpp/grpcpp.h>

#include "testing.grpc.pb.h"

namespace test = boxtest::v1;

namespace {

class OutputWriter : public grpc::ServerWriteReactor<test::StreamingOutputCallResponse> {
public:
    explicit OutputWriter(const test::StreamingOutputCallRequest *request) : request_(*request)
    {
        next();
    }
    void OnWriteDone(bool ok) override
    {
        if (ok)
            next();
        else
            Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

private:
    void next()
    {
        if (sent_ == request_.response_parameters_size()) {
            Finish(grpc::Status::OK);
            return;
        }
        size_t size = static_cast<size_t>(request_.response_parameters(sent_++).size());
        if (response_.payload().body().size() != size)
            response_.mutable_payload()->set_body(std::string(size, '\0'));
        StartWrite(&response_);
    }

    test::StreamingOutputCallRequest request_;
    test::StreamingOutputCallResponse response_;
    int sent_ = 0;
};

class Service final : public test::TestService::CallbackService {
    grpc::ServerUnaryReactor *Nothing(grpc::CallbackServerContext *context, const test::Empty *,
                                      test::Empty *) override
    {
        auto *reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        return reactor;
    }
    grpc::ServerWriteReactor<test::StreamingOutputCallResponse> *
    StreamingOutputCall(grpc::CallbackServerContext *,
                        const test::StreamingOutputCallRequest *request) override
    {
        return new OutputWriter(request);
    }
};

std::string read_file(const char *path)
{
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fputs("box-grpcxx-server CERT KEY\n", stderr);
        return 2;
    }
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs.push_back({read_file(argv[2]), read_file(argv[1])});
    Service service;
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port);
    builder.RegisterService(&service);
    auto server = builder.BuildAndStart();
    if (!server)
        return 1;
    std::printf("ready tls=%d\n", port);
    std::fflush(stdout);
    server->Wait();
}
